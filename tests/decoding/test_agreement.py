"""What every export checks, with numbers by hand."""

import pytest
import torch

from translate.decoding.agreement import check_agreement
from translate.errors import RunError

OURS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def test_numbers_within_the_tolerance_agree() -> None:
    check_agreement(OURS, torch.tensor([[1.0, 2.00009], [3.0, 4.0]]), what="logits")


@pytest.mark.parametrize(("value", "difference"), [(4.5, "0.5"), (float("nan"), "nan")])
def test_one_number_that_differs_is_an_error(value: float, difference: str) -> None:
    with pytest.raises(RunError, match=f"its logits differ by up to {difference}, .*0.0001 is allowed"):
        check_agreement(OURS, torch.tensor([[1.0, 2.0], [3.0, value]]), what="logits")
