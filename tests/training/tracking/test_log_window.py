"""Numbers of a log window: totals that do not depend on when they are read, the record and the line."""

import math
from pathlib import Path

import pytest
import torch
from harness import state_of
from trainings import Digits, run_training

from translate.runs.progress import Progress
from translate.training.step import StepResult
from translate.training.tracking.log_window import LogWindow, describe_step

# Numbers of very different sizes, so that a sum in another order or precision is another number.
NATS = [1.1e6, 3.3e-4, 7.7e5, 1.3e-6, 123.456]
STEP = {
    "step": 1_000_000,
    "nll": 1.2345,
    "perplexity": 3.43,
    "learning_rate": 2.5e-7,
    "target_tokens_per_second": 123_456.7,
}


def results() -> list[StepResult]:
    found = []
    for number, loss in enumerate(NATS, start=1):
        loss, nll = torch.tensor([loss, loss / 3], dtype=torch.float64).unbind()
        found.append(StepResult(loss, nll, 7 * number, torch.tensor(1 / number)))
    return found


def test_the_numbers_by_hand() -> None:
    by_hand = 0.0
    for value in NATS:
        by_hand += value
    window = LogWindow()
    for result in results():
        window.add(result)
    norm = sum(float(torch.tensor(1 / number)) for number in range(1, 6)) / 5
    nll = pytest.approx(by_hand / 105 / 3)
    numbers = {"loss": by_hand / 105, "nll": nll, "perplexity": math.exp(700.0), "gradient_norm": norm}
    assert window.numbers() == numbers


@pytest.mark.parametrize("num_before", range(6))
def test_a_window_that_a_checkpoint_interrupts_has_the_same_numbers(num_before: int) -> None:
    """Each number that is logged survives: a total that a checkpoint lost would differ here."""
    straight, interrupted = LogWindow(), LogWindow()
    for number, result in enumerate(results()):
        if number == num_before:
            saved = Progress.from_json(Progress("data", window=interrupted.read()).to_json())
            interrupted = LogWindow(saved.window)
        straight.add(result)
        interrupted.add(result)
    assert interrupted.read() == straight.read() and interrupted.numbers() == straight.numbers()


def test_adding_a_step_reads_nothing() -> None:
    absent = torch.empty((), device="meta")  # has no number: reading it fails
    window = LogWindow()
    window.add(StepResult(absent, absent, 11, absent))
    assert window
    with pytest.raises((NotImplementedError, RuntimeError)):
        window.read()


def test_a_total_that_the_checkpoint_does_not_have_starts_at_zero() -> None:
    assert LogWindow({"steps": 3, "tokens": 7, "unknown": 1}).read()["gradient_norm"] == 0


@pytest.mark.parametrize(
    "perplexity, told",
    [
        (1.0, "1.00"),
        (99.994, "99.99"),
        (99.996, "100"),
        (22026.5, "22,026"),
        (999_999.4, "999,999"),
        (1_234_567.0, "1e+06"),
        (math.exp(700), "1e+304"),
    ],
)
def test_a_perplexity_has_at_most_seven_characters(perplexity: float, told: str) -> None:
    assert describe_step({**STEP, "perplexity": perplexity})[0] == f"Step 1,000,000: loss 1.234, ppl {told}"
    assert len(told) <= 7


def test_the_line_of_a_step_fits_80_columns() -> None:
    quality, speed = describe_step(STEP)
    assert quality + speed == "Step 1,000,000: loss 1.234, ppl 3.43, lr 2.5e-07, 123,457 tok/s"
    assert len(f"{quality}{speed}, ≤ 9.9 days left") == 80
    assert describe_step({**STEP, "learning_rate": 0.0})[1] == ", lr 0, 123,457 tok/s"


def test_loss_and_perplexity_of_a_line_are_without_label_smoothing(digits: Digits, tmp_path: Path) -> None:
    said = run_training(digits("training.max_steps=5", "training.label_smoothing=0.3"), tmp_path / "run")
    (record,) = [record for record in state_of(tmp_path / "run").metrics if record["kind"] == "train"]
    assert record["loss"] != pytest.approx(record["nll"], rel=1e-3)
    assert record["perplexity"] == pytest.approx(math.exp(record["nll"]))
    (line,) = [line for line in said if line.startswith("Step 5: loss")]
    assert line.startswith(f"Step 5: loss {record['nll']:.3f}, ppl {record['perplexity']:.2f}, lr 5.0e-03, ")
