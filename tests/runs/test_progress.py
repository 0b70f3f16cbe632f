"""The progress that a checkpoint holds: what is read from it, and what is refused."""

import json
from typing import Any

import pytest

from translate.errors import RunError
from translate.runs.progress import Progress


@pytest.mark.parametrize(
    "field, value, named",
    [
        ("step", "2", "step = '2': "),
        ("step", -1, "step = -1: "),
        ("best_step", "se\x1bven", r"best_step = 'se\x1bven': "),
        ("window", {"steps": "1"}, "window.steps = '1': "),
        ("window", {"steps": 1, "tokens": 0}, "window.tokens = 0 of 1 steps"),
        ("loss_scale", {"scale": 0.0, "good_steps": 0}, "loss_scale.scale = 0.0: "),
        ("stream", {"segment": 1}, "'places'"),
        ("stream", {"segment": 1, "places": [{"pairs": 3}]}, "0.pairs = 3: "),
        ("surplus", 1, "surplus = 1: "),
    ],
)
def test_values_of_other_types_are_refused_by_name(field: str, value: Any, named: str) -> None:
    values = json.loads(Progress("data", step=2).to_json())
    with pytest.raises(RunError) as caught:
        Progress.from_json(json.dumps({**values, field: value}))
    assert str(caught.value).startswith(named)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", "[" * 10_000, "9" * 5_000, '{"window": []}'])
def test_texts_that_are_not_progress_are_refused(text: str) -> None:
    with pytest.raises(RunError):
        Progress.from_json(text)


def test_the_place_in_a_stream_is_kept() -> None:
    place = {"num_passes": 1, "num_pairs": 20, "state": {"offset": 5}, "num_skipped": 3, "sha256": "ab"}
    progress = Progress("data", stream={"segment": 4, "places": [place]})
    assert Progress.from_json(progress.to_json()) == progress


def test_which_validations_are_kept_by_hand() -> None:
    """The last two and the best two; of equal scores the first is the better one."""
    progress, kept = Progress("data"), []
    for progress.step, score in ((1, 5.0), (2, 7.0), (3, 5.0), (4, 1.0), (5, 6.0), (6, 6.0)):
        progress.keep(score, last=2, best=2)
        kept.append(list(progress.kept))
    assert kept == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [2, 4, 5], [2, 5, 6]]
    again = Progress.from_json(progress.to_json())
    assert again.kept == {2: 7.0, 5: 6.0, 6: 6.0}
    again.kept = dict.fromkeys(again.kept)  # of another validation corpus
    again.step = 7
    again.keep(0.1, last=0, best=2)
    assert again.kept == {2: None, 7: 0.1}
