"""Expected rates: worked out by hand from the formulas."""

import math
from typing import Any

import pytest

from translate.config import TrainingConfig
from translate.training.schedule import learning_rate


def rate(step: int, *, d_model: int = 512, **settings: Any) -> float:
    return learning_rate(step, TrainingConfig(**settings), d_model=d_model)


def test_noam_is_the_papers_formula() -> None:
    # d_model^-0.5 · min(step^-0.5, step · 4000^-1.5), d_model 512.
    assert rate(1) == pytest.approx(0.04419417 * 1 / 252982.2128, rel=1e-6)
    assert rate(4000) == pytest.approx(0.04419417 / 63.2455532, rel=1e-6)
    assert rate(16000) == pytest.approx(0.04419417 / 126.4911064, rel=1e-6)
    assert rate(100, learning_rate=2.0) == pytest.approx(2 * rate(100))


def test_noam_is_highest_where_the_warm_up_ends() -> None:
    rates = [rate(step, warmup_steps=50) for step in range(1, 200)]
    assert rates.index(max(rates)) + 1 == 50


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant", "linear", "cosine"])
def test_warm_up_is_linear_and_reaches_the_rate(schedule: str) -> None:
    settings = {"schedule": schedule, "learning_rate": 0.01, "warmup_steps": 10, "max_steps": 110}
    assert rate(1, **settings) == pytest.approx(0.001)
    assert rate(5, **settings) == pytest.approx(0.005)
    assert rate(10, **settings) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("schedule", "middle", "end"),
    [
        ("inverse_sqrt", 0.01 * math.sqrt(10 / 60), 0.01 * math.sqrt(10 / 110)),
        ("constant", 0.01, 0.01),
        ("linear", 0.0055, 0.001),
        ("cosine", 0.0055, 0.001),
    ],
)
def test_after_the_warm_up(schedule: str, middle: float, end: float) -> None:
    settings = {"schedule": schedule, "learning_rate": 0.01, "warmup_steps": 10, "max_steps": 110}
    if schedule in {"linear", "cosine"}:
        settings["final_learning_rate"] = 0.001
    assert rate(60, **settings) == pytest.approx(middle)
    assert rate(110, **settings) == pytest.approx(end)


def test_cosine_a_quarter_of_the_way() -> None:
    # (1 + cos(pi / 4)) / 2 of the rate
    assert rate(35, schedule="cosine", learning_rate=0.01, warmup_steps=10, max_steps=110) == pytest.approx(0.00853553)


def test_no_warm_up() -> None:
    assert rate(1, schedule="linear", learning_rate=0.01, warmup_steps=0, max_steps=100) == pytest.approx(0.0099)
    assert rate(1, schedule="inverse_sqrt", learning_rate=0.01, warmup_steps=0) == pytest.approx(0.01)
