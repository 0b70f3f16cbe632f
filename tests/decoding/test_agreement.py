"""What every export checks, with numbers by hand."""

import pytest
import torch

from translate.config.decoding import DecodingConfig
from translate.data.batching import EncodedPair
from translate.decoding.agreement import check_agreement
from translate.decoding.engines.ctranslate2 import missing_settings
from translate.errors import InputError, RunError, import_extra

PAIRS = [EncodedPair([5], [7]), EncodedPair([5], [7, 8])]  # with the end symbol 2 and 3 target positions


def test_numbers_within_the_tolerance_agree_and_padding_does_not_count() -> None:
    ours = torch.tensor([[1.0, 2.0, 99.0], [3.0, 4.0, 5.0]])
    check_agreement(PAIRS, ours, [torch.tensor([1.0, 2.00009]), torch.tensor([3.0, 4.0, 5.0])], what="logits")


@pytest.mark.parametrize(("value", "difference"), [(5.5, "0.5"), (float("nan"), "nan")])
def test_one_number_that_differs_is_an_error(value: float, difference: str) -> None:
    ours = torch.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]])
    theirs = torch.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, value]])
    with pytest.raises(RunError, match=f"its logits differ by up to {difference}, and 0.0001 is allowed"):
        check_agreement(PAIRS, ours, theirs, what="logits")


def test_settings_that_only_our_search_has() -> None:
    plain = {"search": "beam", "coverage_penalty": 0.0, "diversity_groups": 1, "mbr": "none", "repetition_penalty": 1.0}
    assert DecodingConfig().model_dump(include=set(plain)) == plain
    assert missing_settings(DecodingConfig(beam_size=3, length_penalty=0.2)) == []
    assert missing_settings(DecodingConfig(mbr="chrf", coverage_penalty=0.2)) == [
        "decoding.coverage_penalty = 0.2",
        "decoding.mbr = 'chrf'",
    ]


def test_a_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(
        InputError, match=r"^no_such_package cannot be imported .* install --editable '.*\[no_such_package\]'$"
    ):
        import_extra("no_such_package")
