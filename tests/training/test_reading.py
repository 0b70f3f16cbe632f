"""Numbers on their way from a device."""

import torch

from translate.training.reading import Reading


def test_numbers_are_those_of_the_moment() -> None:
    numbers = torch.tensor([2.0, float("nan")], dtype=torch.float64)
    reading = Reading(numbers)
    numbers.fill_(5.0)
    first, second = reading.wait()
    assert first == 2.0 and second != second
