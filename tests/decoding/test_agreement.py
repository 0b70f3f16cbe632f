"""What every export checks, with numbers by hand."""

import pytest
import torch
from harness import random_model

from translate.decoding.agreement import check_agreement, probe
from translate.errors import RunError

OURS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
NO_NOISE = torch.zeros(2)


def test_numbers_within_the_tolerance_agree() -> None:
    check_agreement(OURS, torch.tensor([[1.0, 2.00009], [3.0, 4.0]]), noise=NO_NOISE, what="logits")


@pytest.mark.parametrize(("value", "difference"), [(4.5, "0.5"), (float("nan"), "nan"), (float("inf"), "nan")])
@pytest.mark.parametrize("noise", [0.0, 1e-5, float("nan")])
def test_one_number_that_differs_is_an_error(value: float, difference: str, noise: float) -> None:
    theirs = torch.tensor([[1.0, 2.0], [3.0, value]])
    with pytest.raises(RunError, match=f"its logits differ by up to {difference} .*, and at most .* is allowed"):
        check_agreement(OURS, theirs, noise=torch.tensor([noise, noise]), what="logits")


def test_rounding_errors_are_allowed_up_to_a_hundredth() -> None:
    """Four times their median, and eight times the largest."""
    ours, noise = torch.full((5, 3), 10.0), torch.tensor([0.001, 0.01])
    for typical, largest in ((0.0039, 0.079), (0.0041, 0.0041), (0.0, 0.081)):
        theirs = ours + typical
        theirs[3, 1] = 10.0 + largest
        if typical == 0.0039:
            check_agreement(ours, theirs, noise=noise, what="logits")
        else:
            with pytest.raises(RunError, match=r"at most 0\.08 \(0\.004\) is allowed"):
                check_agreement(ours, theirs, noise=noise, what="logits")
    with pytest.raises(RunError, match=r"differ by up to 0\.2 .*at most 0\.1 \(0\.1\) is allowed"):
        check_agreement(ours + 0.2, ours, noise=100 * noise, what="logits")


def test_the_noise_of_a_model_is_small_and_leaves_no_trace() -> None:
    model = random_model(30).eval()
    first, again = (probe(model, position_limit=None) for _ in range(2))
    assert 0 < first.noise[0] < first.noise[1] < 1e-5
    assert first.logits.equal(again.logits) and first.noise.equal(again.noise)
