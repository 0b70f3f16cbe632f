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


@pytest.mark.parametrize(
    ("largest", "allowed"), [(-30.0, "0.0001"), (-300.0, "0.0006"), (1e9, "0.001"), (torch.inf, "0.001")]
)
def test_rounding_grows_with_the_largest_number_up_to_500(largest: float, allowed: str) -> None:
    theirs, less, more = (torch.tensor([0.0, value, largest]) for value in (1.0, 1.0 + 0.9 * float(allowed), 1.01))
    if largest < torch.inf:
        check_agreement(less, theirs, what="logits")
    with pytest.raises(RunError, match=f"differ by up to .*, and at most {allowed} is allowed"):
        check_agreement(more, theirs, what="logits")
    with pytest.raises(RunError, match=f"differ by up to inf, and at most {allowed} is allowed"):
        check_agreement(torch.tensor([0.0, -torch.inf, min(largest, 7.0)]), theirs, what="logits")
