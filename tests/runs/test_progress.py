"""Counters of a training: sums that do not depend on when they are read; what older checkpoints have."""

import json
import math
from typing import Any

import pytest
import torch

from translate.errors import RunError
from translate.runs.progress import LogWindow, Progress, StepResult

# Numbers of very different sizes, so that a sum in another order or precision is another number.
NATS = [1.1e6, 3.3e-4, 7.7e5, 1.3e-6, 123.456]


def results() -> list[StepResult]:
    found = []
    for number, loss in enumerate(NATS, start=1):
        loss, nll = torch.tensor([loss, loss / 3], dtype=torch.float64).unbind()
        found.append(StepResult(loss, nll, 7 * number, torch.tensor(1 / number)))
    return found


def test_sums_are_the_same_whenever_they_are_read() -> None:
    by_hand = 0.0
    for value in NATS:
        by_hand += value
    windows = [LogWindow(), LogWindow()]
    for number, result in enumerate(results()):
        for window in windows:
            window.add(result)
        if number in (1, 2):
            windows[1] = Progress.from_json(Progress("data", window=windows[1]).to_json()).window
    assert windows[0].means() == windows[1].means() and windows[0] == windows[1]
    assert windows[1].loss == by_hand and windows[1].tokens == 7 * (1 + 2 + 3 + 4 + 5)
    assert windows[1].means()["loss"] == by_hand / 105


def test_adding_a_step_reads_nothing() -> None:
    absent = torch.empty((), device="meta")  # has no number: reading it fails
    window = LogWindow()
    window.add(StepResult(absent, absent, 11, absent))
    assert (window.steps, window.tokens) == (1, 11)
    with pytest.raises((NotImplementedError, RuntimeError)):
        window.means()


def test_a_checkpoint_has_all_of_an_open_window() -> None:
    progress = Progress("data")
    for result in results():
        progress.window.add(result)
    restored = Progress.from_json(progress.to_json())
    assert restored == progress and restored.window.steps == 5
    assert math.isclose(restored.window.gradient_norm, 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5, rel_tol=1e-6)
    assert restored.window.means() == progress.window.means()


def test_a_checkpoint_of_an_older_version_is_read() -> None:
    window = '{"steps": 2, "nats": 7.5, "cross_entropy": 7.0, "tokens": 3, "gradient_norm": 0.5}'
    progress = Progress.from_json(f'{{"data_fingerprint": "x", "step": 2, "window": {window}}}')
    assert progress.window == LogWindow(steps=2, loss=7.5, nll=7.0, tokens=3, gradient_norm=0.5)


@pytest.mark.parametrize(
    "field, value",
    [
        ("data_fingerprint", 5),
        ("data_fingerprint", "\ud800"),
        ("step", "2"),
        ("step", -1),
        ("step", True),
        ("step", 10**400),
        ("epoch", 1.5),
        ("best_step", "seven"),
        ("best_score", "high"),
        ("metrics_bytes", "all"),
        ("metrics_sha256", {}),
        ("window", None),
        ("window", {"steps": "1"}),
        ("window", {"steps": 1, "tokens": 0}),
        ("window", {"loss": "1"}),
        ("window", {"lost": 1}),
        ("loss_scale", {"scale": 0.0, "good_steps": 0}),
        ("loss_scale", {"scale": math.inf, "good_steps": 0}),
        ("environment", {"torch": 2}),
        ("stream", []),
        ("stream", {"segment": 1}),
        ("stream", {"segment": 1, "places": [{"num_pairs": "3"}]}),
        ("stream", {"segment": 1, "places": [{"pairs": 3}]}),
        ("surplus", 1),
    ],
)
def test_values_of_other_types_are_refused(field: str, value: Any) -> None:
    values = json.loads(Progress("data", step=2).to_json())
    with pytest.raises(RunError):
        Progress.from_json(json.dumps({**values, field: value}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", "[" * 10_000, "9" * 5_000, '{"window": []}'])
def test_texts_that_are_no_progress_are_refused(text: str) -> None:
    with pytest.raises(RunError):
        Progress.from_json(text)


def test_the_error_names_the_field_and_its_value() -> None:
    values = json.loads(Progress("data").to_json())
    for changed, message in (
        ({"best_step": "se\x1bven"}, "best_step = 'se\\x1bven': Input should be a valid integer"),
        ({"window": None}, "window = None: Input should be an object"),
        ({"window": {"loss": "1"}}, "window.loss = '1': Input should be a valid number"),
    ):
        with pytest.raises(RunError) as caught:
            Progress.from_json(json.dumps({**values, **changed}))
        assert str(caught.value) == message


def test_the_error_of_another_document() -> None:
    with pytest.raises(RunError, match=r"^progress = \[\]: Input should be an object$"):
        Progress.from_json("[]")


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
