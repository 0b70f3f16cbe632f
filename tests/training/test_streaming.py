"""Training on streamed corpora: stopped and continued it is the training never stopped, and it says what it sees."""

from pathlib import Path

import pytest
from harness import state_of, stream_digits
from trainings import Digits, run_training

from translate.data import tables
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture
def streamed(stateful: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Digits:
    """The task of reversed digits from a stream of three segments a pass, of 90, 90 and 31 pairs."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(tables, "_CHUNK_ROWS", 17)
    stream_digits(tmp_path, segment_pairs=90)
    return stateful


def test_stopped_and_continued_it_is_the_same(streamed: Digits, tmp_path: Path) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    run_training(streamed(), straight)
    for max_steps in (2, 5, 9, 14):  # within a segment, and where one ends
        run_training(streamed(f"training.max_steps={max_steps}"), stopped, resume=True)
    states = [state_of(each) for each in (straight, stopped)]
    assert [state.progress.pop("stream")["segment"] for state in states] == [states[0].progress["epoch"]] * 2
    assert states[0].progress["epoch"] >= 4  # in the second pass
    # Runs that were stopped sooner validated and logged at more steps.
    assert states[0].last == states[1].last
    assert states[0].progress["target_tokens"] == states[1].progress["target_tokens"]


def test_other_data_are_another_training(streamed: Digits, tmp_path: Path) -> None:
    run_training(streamed("training.max_steps=2"), tmp_path / "run")
    with (tmp_path / "train.json").open("a") as file:
        file.write('{"in": "1 2", "out": "2 1"}\n')
    with pytest.raises(InputError, match="data.train is not what this run was trained on"):
        run_training(streamed(), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match=r"other settings.*data.stream_segment_pairs = 80 \(the run has 90\)"):
        run_training(streamed("data.stream_segment_pairs=80"), tmp_path / "run", resume=True)


def test_how_often_a_stream_is_seen_is_not_known(streamed: Digits, tmp_path: Path) -> None:
    both = ("data.train.0.both_directions=true", "data.validation.both_directions=true")
    said = run_training(streamed(*both, "training.max_steps=1"), tmp_path / "run")
    about = [each.partition(": ")[2] for each in said if each.startswith("Each epoch, ")]
    assert about == ["about 45 pairs (50.0% of all), streamed"] * 2
