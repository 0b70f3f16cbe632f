"""A training that was stopped or died anywhere, and is continued, ends as one that was never stopped."""

import itertools
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import in_order, state_of, write_reversed_digits
from trainings import Digits, happening, progress_of, records_of, run_training, stop_training

from translate.data.epochs import Epoch, TrainingBatches
from translate.errors import InputError, RunError
from translate.runs.checkpoint import read_tensors, write_checkpoint
from translate.runs.directory import RunDirectory
from translate.runs.run import open_run
from translate.runs.summary import summarize_run
from translate.runs.verify import verify_run
from translate.training import StoppedBySignal, trainer, validation
from translate.training.averaging import write_average

pytestmark = pytest.mark.usefixtures("no_shape_checks")

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def listens_to_hangups() -> Iterator[None]:
    """Give SIGHUP its own meaning, which it has lost if the tests run under `nohup`, and undo what a test sets."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


STEP, VALIDATION = "in_step", "in_validation"
UNCHANGING = ("training.learning_rate=1e-9", "training.validate_every=2", "training.patience=2")  # nothing gets better


@pytest.mark.parametrize(
    "overrides, stops, steps",
    [
        ((), [(STEP, step) for step in (1, 3, 4, 7, 8, 10, 14)], [4, 5, 8, 10, 12, *[14] * 3]),
        (("training.max_epochs=2", "training.optimizer=muon"), [(STEP, 3), (STEP, 6)], [4, 5, *[6] * 3]),
        (("training.max_epochs=2", "training.validate_every=3"), [(STEP, 1), (STEP, 4)], [3, 5, *[6] * 3]),
        (UNCHANGING, [(STEP, 6), (VALIDATION, 6)], [2, 4, 5, *[6] * 3]),
    ],
    ids=["after each kind of step", "at the end of the last epoch", "validated there", "when patience runs out"],
)
def test_stopped_and_continued_is_never_stopped(
    stateful: Digits, tmp_path: Path, overrides: tuple[str, ...], stops: list[tuple[str, int]], steps: list[int]
) -> None:
    config, run = stateful(*overrides), tmp_path / "stopped"
    run_training(config, tmp_path / "straight")
    for where, number in stops:
        torch.manual_seed(99)  # whatever happened in between
        moment: dict[str, Any] = {where: number}
        stop = stop_training(config, run, **moment)
        assert (stop.step, stop.exit_code) == (number, 130)
        progress = progress_of(run)
        assert progress["step"] == number
        assert progress["validated_step"] != number, "a stop does not wait for a validation"
    for _ in range(2):  # the second time it is at its end
        said = run_training(config, run, resume=True)
        assert state_of(run) == state_of(tmp_path / "straight")
    limit = "patience" if overrides == UNCHANGING else "max_epochs" if overrides else "max_steps"
    assert in_order(said[-1], "Training has already ended", f"training.{limit}=N")
    assert not any("BLEU" in line for line in said)
    assert ("Stopped early: 2 validations" in (run / "log.txt").read_text()) == (overrides == UNCHANGING)
    assert overrides != UNCHANGING or state_of(run).best_step == "2"
    assert [record["step"] for record in state_of(run).metrics] == steps


@pytest.mark.parametrize("error", [StoppedBySignal, RunError])
def test_every_step_is_saved_where_it_waits_for_an_epoch(
    stateful: Digits, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """A signal ends the wait, and so does an epoch that cannot be planned."""
    plan, run, is_reached = TrainingBatches.epoch, tmp_path / "run", threading.Event()

    def plan_third(self: TrainingBatches, number: int, *, check: Callable[[], None], **options: Any) -> Epoch:
        if number == 2:
            assert is_reached.wait(timeout=60)
            if error is RunError:
                raise RunError("the disk is full")
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGTERM)
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                check()
                time.sleep(0.01)
        return plan(self, number, check=check, **options)

    with monkeypatch.context() as patch, happening(in_step=6, what=is_reached.set):  # the last of the second epoch
        patch.setattr(TrainingBatches, "epoch", plan_third)
        with pytest.raises(error):
            run_training(stateful("training.save_every=100"), run)
    assert progress_of(run)["step"] == 6
    run_training(stateful(), run, resume=True)
    assert state_of(run) == state_of(straight)


def test_a_training_on_augmented_text_goes_on_as_if_never_stopped(stateful: Digits, tmp_path: Path) -> None:
    config = stateful("data.train.0.augment={upper_case: 0.3, typos: 0.5}")
    for path in tmp_path.glob("*.[io]*"):  # digits have no capitals
        path.write_text(path.read_text().translate(str.maketrans("0123456789", "abcdefghij")))
    messages = run_training(config, tmp_path / "straight")
    assert sum(" pairs changed by data.train's augment" in message for message in messages) == 5  # each epoch
    for number in (2, 9):
        stop_training(config, tmp_path / "stopped", in_step=number)
    run_training(config, tmp_path / "stopped", resume=True)
    assert state_of(tmp_path / "stopped") == state_of(tmp_path / "straight")
    with pytest.raises(InputError, match="data.train is not what this run was trained on"):
        other = stateful("data.train.0.augment={upper_case: 0.3, typos: 0.4}")
        run_training(other, tmp_path / "stopped", resume=True)


def test_dying_between_checkpoints_computes_the_same_again(stateful: Digits, tmp_path: Path, straight: Path) -> None:
    config, run = stateful(), tmp_path / "died"
    for where, number in (("step", 2), ("step", 6), ("validation", 8), ("validation", 14)):
        torch.manual_seed(99)
        moment: dict[str, Any] = {f"in_{where}": number}
        stop_training(config, run, **moment, what=KeyboardInterrupt)
    assert summarize_run(run).state == "can be resumed" and summarize_run(run).step == 12
    run_training(config, run, resume=True)
    assert summarize_run(run).state == "finished" and summarize_run(run).step == 14
    assert state_of(run) == state_of(straight)


def test_each_state_is_saved_once_so_the_previous_checkpoint_is_older(
    stateful: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second step is saved, and every fourth of them is validated, as is the last."""
    saved: list[int] = []

    def save_and_note(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        steps = [int(read_tensors(file).metadata["step"]) for file in files if file.exists()]
        assert steps == sorted(set(steps)), "the previous checkpoint is no older than the last one"
        saved.append(steps[-1])

    original = trainer.save_last
    run = RunDirectory(tmp_path / "run")
    files = (run.previous, run.checkpoint("last"))
    monkeypatch.setattr(trainer, "save_last", save_and_note)
    run_training(stateful("training.save_every=2"), run.path)
    assert saved == [2, 4, 6, 8, 10, 12, 14]


def test_a_stopped_validation_comes_first_when_the_run_goes_on(
    stateful: Digits, tmp_path: Path, straight: Path
) -> None:
    config, run = stateful(), tmp_path / "stopped"
    for number, sent, code in ((4, signal.SIGTERM, 143), (12, signal.SIGHUP, 129), (14, signal.SIGINT, 130)):
        stop = stop_training(config, run, in_validation=number, what=sent)
        assert (stop.step, stop.exit_code) == (number, code)
        progress = progress_of(run)
        assert progress["step"] == number and progress["validated_step"] != number
        assert number not in [record["step"] for record in records_of(run, "validation")]
    run_training(config, run, resume=True)
    assert state_of(run) == state_of(straight)


def test_a_validation_by_several_threads_is_left_at_once(
    stateful: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, straight: Path
) -> None:
    original = validation.evaluate
    rounds = itertools.count()

    def endless(*args: Any, **kwargs: Any) -> Any:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        for _ in rounds:
            original(*args, **kwargs)

    config = stateful("decoding.workers=2")
    threads = threading.active_count()
    with monkeypatch.context() as patch, pytest.raises(StoppedBySignal) as stop:
        patch.setattr(validation, "evaluate", endless)
        run_training(config, tmp_path / "run")
    assert (stop.value.step, stop.value.exit_code) == (4, 143)
    assert next(rounds) > 0 and threading.active_count() == threads, "no worker is left behind"
    run_training(config, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == state_of(straight)


def test_handlers_are_only_there_while_it_trains(digits: Digits, tmp_path: Path) -> None:
    def look() -> None:
        during.extend(signal.getsignal(number) for number in STOPPING)

    during: list[Any] = []
    before = [signal.getsignal(number) for number in STOPPING]
    with happening(in_step=1, what=look):
        run_training(digits("training.max_steps=1"), tmp_path / "run")
    assert not set(during) & set(before)
    stop_training(digits(), tmp_path / "stopped", in_step=1)
    assert [signal.getsignal(number) for number in STOPPING] == before


def test_a_hangup_that_nohup_ignores_stays_ignored(digits: Digits, tmp_path: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with happening(in_step=1, what=signal.SIGHUP):
        run_training(digits("training.max_steps=2"), tmp_path / "run")
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert progress_of(tmp_path / "run")["step"] == 2


def test_trains_in_another_thread(digits: Digits, tmp_path: Path) -> None:
    config = digits("training.max_steps=2")
    thread = threading.Thread(target=run_training, args=(config, tmp_path / "run"))
    thread.start()
    thread.join()
    assert progress_of(tmp_path / "run")["step"] == 2


def test_a_run_that_goes_further_is_one_that_was_never_shorter(
    stateful: Digits, tmp_path: Path, straight: Path
) -> None:
    """At step 8 both validate; at step 9 one had ended, with a log entry of half a window that is taken back."""
    run_training(stateful("training.max_steps=8"), tmp_path / "run")
    assert [record["step"] for record in state_of(tmp_path / "run").metrics] == [4, 5, 8, 8, 8]
    run_training(stateful(), tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == state_of(straight)


@pytest.mark.parametrize(
    "overrides",
    [
        ("data.validation=null", "training.max_epochs=1"),
        ("decoding.beam_size=1", "decoding.max_length_constant=10", "training.max_steps=4"),
    ],
    ids=["nothing to evaluate on", "validated with the search of decoding"],
)
def test_a_run_that_ends_without_an_evaluation_has_ended(
    digits: Digits, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    """An average that was made of it afterwards stays."""
    run = RunDirectory(tmp_path / "run")
    config = digits("training.validate_every=2", "training.keep_last=2", *overrides)
    run_training(config, run.path)
    assert summarize_run(run.path).state == "finished" and not records_of(run.path, "evaluation")
    write_average(run, [f"step-{step}" for step in run.kept_steps()], open_run(run.path).load_model().model)
    average = run.checkpoint("best").read_bytes()
    assert "Training has already ended" in run_training(config, run.path, resume=True)[-1]
    assert run.checkpoint("best").read_bytes() == average
    run.metrics.write_text("")  # killed between the last checkpoint and the last line of the log
    is_line_missing = progress_of(run.path)["window"].get("steps")
    assert summarize_run(run.path).state == ("can be resumed" if is_line_missing else "finished")


def test_another_environment_is_reported(stateful: Digits, finished: Path) -> None:
    tensors, metadata, _ = read_tensors(RunDirectory(finished).checkpoint("last"))
    progress = json.loads(metadata["progress"])
    torch_version = progress["environment"]["torch"]
    progress["environment"]["torch"] = "2.0.0"
    write_checkpoint(RunDirectory(finished), "last", tensors, {**metadata, "progress": json.dumps(progress)})
    said = run_training(stateful("training.max_steps=15"), finished, resume=True)
    (line,) = [line for line in said if "Continued in another environment" in line]
    assert f"torch {torch_version} (it was 2.0.0)" in line and "dropout" in line
    assert progress_of(finished)["environment"]["torch"] == torch_version


def test_other_threads_draw_other_masks_and_say_so(digits: Digits, tmp_path: Path) -> None:
    """A step of one batch is split for two threads, and each part has its own masks; without dropout it is the same."""
    losses: dict[tuple[float, int], float] = {}
    for dropout, threads in itertools.product((0.0, 0.2), (1, 2)):
        run, settings = tmp_path / f"{dropout}-{threads}", ("training.batch_tokens=1100", f"model.dropout={dropout}")
        run_training(digits(*settings, "training.threads=1", "training.max_steps=1"), run)
        more = ("training.max_steps=2", "training.log_every=2", f"training.threads={threads}")
        said = run_training(digits(*settings, *more), run, resume=True)
        assert any(in_order(line, "CPU threads 2 (it was 1)", "dropout") for line in said) == (threads == 2)
        losses[dropout, threads] = records_of(run, "train")[-1]["loss"]
    assert losses[0.0, 1] == pytest.approx(losses[0.0, 2], rel=1e-6)
    assert losses[0.2, 1] != pytest.approx(losses[0.2, 2], rel=1e-4)


@pytest.mark.parametrize("schedule, is_warned", [("cosine", True), ("inverse_sqrt", False)])
def test_more_steps_may_change_the_learning_rates(
    digits: Digits, tmp_path: Path, schedule: str, is_warned: bool
) -> None:
    settings = (f"training.schedule={schedule}", "training.warmup_steps=0")
    run_training(digits(*settings, "training.max_steps=2"), tmp_path / "run")
    said = run_training(digits(*settings, "training.max_steps=4"), tmp_path / "run", resume=True)
    assert any("the learning rate of step 2 was 0.0e+00" in line for line in said) == is_warned


NOT_COMPARED = "new scores are not compared with the old one"


def test_what_decides_no_score_leaves_the_best(stateful: Digits, finished: Path) -> None:
    before, changed = progress_of(finished), ("data.validation.weight=1.0", "decoding.beam_size=3", "decoding.n_best=2")
    said = run_training(stateful(*changed, "training.max_steps=15"), finished, resume=True)
    assert not [line for line in said if NOT_COMPARED in line]
    assert progress_of(finished)["best_score"] >= before["best_score"]


def test_scores_of_other_validations_are_not_compared(
    stateful: Digits, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The weights of the old best stay until the next validation, which is the best whatever its score."""
    best, config = RunDirectory(tmp_path / "run").checkpoint("best"), stateful("training.patience=2")
    run_training(stateful("training.max_steps=4", "training.patience=2"), tmp_path / "run")
    write_reversed_digits(tmp_path, "validation", num_pairs=19, draw=random.Random(3))
    old = best.read_bytes()
    stop_training(config, tmp_path / "run", in_step=6)
    assert any(NOT_COMPARED in message and "step 4" in message for message in caplog.messages)
    assert best.read_bytes() == old and not verify_run(tmp_path / "run").unsound
    run_training(config, tmp_path / "run", resume=True)
    scores = {record["step"]: record["BLEU"] for record in records_of(tmp_path / "run", "validation")}
    progress = progress_of(tmp_path / "run")
    assert progress["best_score"] == max(score for step, score in scores.items() if step > 4)
    assert progress["best_step"] > 4 and best.read_bytes() != old
