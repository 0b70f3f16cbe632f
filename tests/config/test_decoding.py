"""The section `decoding`: which settings do not agree with each other."""

import pytest

from translate.config.load import override_config
from translate.config.schema import Config
from translate.errors import InputError


def override(**values: object) -> Config:
    return override_config(Config(), {f"decoding.{key}": value for key, value in values.items()})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam_size": 4, "diversity_groups": 3}, "decoding.diversity_groups = 3 must divide decoding.beam_size = 4"),
        ({"n_best": 6}, "decoding.n_best = 6 is more than decoding.beam_size = 5 hypotheses"),
        ({"n_best": 2, "mbr": "chrf"}, "decoding.n_best = 2 must be 1 with decoding.mbr = 'chrf'"),
        ({"n_best": 2, "mbr": "bleu", "search": "sample"}, "decoding.n_best = 2 must be 1 with decoding.mbr = 'bleu'"),
        ({"beem_size": 2}, "unknown key decoding.beem_size"),
        ({"beam size": 2}, "'decoding.beam size' is no name of a setting"),
        ({"beam_size": "5"}, 'decoding.beam_size = "5": should be a whole number'),
        ({"mbr": "ter"}, 'decoding.mbr = "ter"'),
        ({"precision": "fp16"}, 'decoding.precision = "fp16"'),
        ({"device": "cuda:x"}, 'decoding.device = "cuda:x"'),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        override(**values)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "values",
    [
        {"n_best": 6, "search": "sample"},  # as many are drawn
        {"beam_size": 6, "diversity_groups": 3, "n_best": 6},
        {"mbr": "chrf", "search": "sample", "mbr_candidates": 64},
        {"workers": None, "beam_size": 1},
    ],
)
def test_what_can_be(values: dict[str, object]) -> None:
    decoding = override(**values).decoding
    assert {key: getattr(decoding, key) for key in values} == values


def test_the_defaults_are_a_plain_beam_search() -> None:
    decoding = Config().decoding
    assert (decoding.search, decoding.beam_size, decoding.n_best, decoding.length_penalty) == ("beam", 5, 1, 0.6)
    assert (decoding.engine, decoding.precision, decoding.mbr) == ("auto", "auto", "none")
