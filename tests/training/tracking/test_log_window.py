"""Numbers of a log window: totals that do not depend on when they are read, the record, the line and the speed."""

import math
from collections.abc import Iterator

import pytest
import torch

from translate.config.schema import Config, TrainingConfig
from translate.runs.progress import Progress
from translate.training.step import StepResult
from translate.training.tracking import log_window
from translate.training.tracking.log_window import LogWindow, describe_perplexity, describe_step

RATES = ("target_tokens_per_second", "waiting")  # of the steps of this process
# Numbers of very different sizes, so that a sum in another order or precision is another number.
NATS = [1.1e6, 3.3e-4, 7.7e5, 1.3e-6, 123.456]


def results() -> list[StepResult]:
    found = []
    for number, loss in enumerate(NATS, start=1):
        loss, nll = torch.tensor([loss, loss / 3], dtype=torch.float64).unbind()
        found.append(StepResult(loss=loss, nll=nll, tokens=7 * number, gradient_norm=torch.tensor(1 / number)))
    return found


def test_the_numbers_by_hand() -> None:
    by_hand = 0.0
    for value in NATS:
        by_hand += value
    window = LogWindow(Config(), Progress("data"))
    for result in results():
        window.add(result)
    norm = sum(float(torch.tensor(1 / number)) for number in range(1, 6)) / 5
    nll = pytest.approx(by_hand / 105 / 3)
    numbers = {"loss": by_hand / 105, "nll": nll, "perplexity": math.exp(700.0), "gradient_norm": norm}
    assert numbers.items() <= window.numbers().items()
    window.add(results()[0]._replace(nll=torch.tensor(math.nan, dtype=torch.float64)))
    assert math.isnan(window.numbers()["perplexity"])


@pytest.mark.parametrize("field", StepResult._fields)
def test_each_field_of_a_step_is_in_a_record(field: str) -> None:
    result, windows = StepResult(torch.tensor(6.0), torch.tensor(5.0), 2, torch.tensor(1.0)), []
    for step in (result, result._replace(**{field: getattr(result, field) + 1})):
        windows.append(LogWindow(Config(), Progress("data")))
        windows[-1].add(step)
    first, second = ({**window.numbers(), **dict.fromkeys(RATES)} for window in windows)
    assert first != second


@pytest.mark.parametrize("num_before", [0, 2, 5])
def test_a_window_that_a_checkpoint_interrupts_has_the_same_numbers(
    num_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each number that is logged survives: a total that a checkpoint lost would differ here."""
    clock = Clock(monkeypatch)
    straight, interrupted = (LogWindow(Config(), Progress("data")) for _ in range(2))
    for number, result in enumerate(results()):
        if number == num_before:
            saved = Progress.from_json(Progress("data", window=interrupted.read()).to_json())
            interrupted = LogWindow(Config(), saved)
        straight.add(result)
        interrupted.add(result)
        clock.seconds += 2.5
    assert straight.read()["seconds"] == 12.5
    assert interrupted.read() == straight.read()
    ours, expected = ({**each.numbers(), **dict.fromkeys(RATES)} for each in (interrupted, straight))
    assert ours == expected


class Clock:
    """Shows what it is set to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        monkeypatch.setattr(log_window.time, "perf_counter", lambda: self.seconds)


def train(window: LogWindow, progress: Progress, clock: Clock, *, steps: int, computing: float, waiting: float) -> None:
    """Steps of 50 target tokens."""

    def coming() -> Iterator[int]:
        for step in range(steps):
            clock.seconds += waiting
            yield step

    for _ in window.timed(coming()):
        clock.seconds += computing
        progress.step += 1
        window.add(results()[0]._replace(tokens=50))


def test_speed_and_waiting_are_of_the_steps_since_the_last_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, progress = Clock(monkeypatch), Progress("data")
    window = LogWindow(Config(), progress)
    train(window, progress, clock, steps=4, computing=9.0, waiting=1.0)
    assert [window.numbers()[name] for name in RATES] == [200 / 40, 0.1]
    window.restart()
    train(window, progress, clock, steps=2, computing=1.0, waiting=3.0)
    clock.seconds += 500.0
    window.end_validation(500.0)
    assert [window.numbers()[name] for name in RATES] == [100 / 8, 0.75]


def test_the_time_left_counts_steps_and_validations(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, progress = Clock(monkeypatch), Progress("data")
    corpus = {"kind": "text", "source": "v.de", "target": "v.en"}
    steps = {"max_steps": 35, "validate_every": 10}
    window = LogWindow(Config.model_validate({"data": {"validation": corpus}, "training": steps}), progress)
    train(window, progress, clock, steps=10, computing=1.9, waiting=0.1)
    # 25 steps of 2 s; nobody knows yet how long a validation takes.
    assert window.time_left() == ", 50 s and 3 validations left"
    without = LogWindow(Config(training=TrainingConfig(max_steps=35, validate_every=10)), progress)
    assert "validation" not in without.time_left()
    clock.seconds += 40.0
    window.end_validation(40.0)
    # After steps 20, 30 and 35: 50 s and 3 · 40 s.
    assert window.time_left() == ", 3 min left"
    early = LogWindow(Config(training=TrainingConfig(max_steps=30, patience=3)), progress)
    assert early.time_left().startswith(", ≤ "), "early stopping makes it a bound"
    train(window, progress, clock, steps=25, computing=1.9, waiting=0.1)
    assert window.time_left() == "", "nothing is left"


@pytest.mark.parametrize(
    "max_steps, max_epochs, left",
    [
        (1000, None, 990),
        (1000, 3, 26),  # 2 steps of this epoch, and two epochs of 12
        (15, 3, 5),
    ],
)
def test_steps_left_end_with_whatever_comes_first(max_steps: int, max_epochs: int | None, left: int) -> None:
    progress = Progress("data", step=10, epoch=0, step_in_epoch=10)
    window = LogWindow(Config(training=TrainingConfig(max_steps=max_steps, max_epochs=max_epochs)), progress)
    window.steps_per_epoch = 12
    assert window.steps_left == left


@pytest.mark.parametrize(
    "number, text",
    [(99.994, "99.99"), (99.996, "100"), (999_999.4, "999,999"), (1_234_567.0, "1e+06"), (math.exp(700), "1e+304")],
)
def test_a_perplexity_in_at_most_seven_characters(number: float, text: str) -> None:
    assert describe_perplexity(number) == text


def test_the_longest_line_of_a_step_has_80_columns() -> None:
    record = {"step": 1_000_000, "nll": 1.2345, "perplexity": 3.43, "learning_rate": 2.5e-7}
    quality, speed = describe_step(record | {"target_tokens_per_second": 123_456.7})
    assert len(f"{quality}{speed}, ≤ 9.9 days left") == 80
