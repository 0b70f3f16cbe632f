"""Suggestions for misspelt names and parts of names."""

import pytest

from translate.nearest import nearest

OPTIONS = ["--beam-size", "--batch-tokens", "--length-penalty", "--no-repeat-ngram", "--precision"]


@pytest.mark.parametrize(
    "name, found",
    [
        ("--beam", ["--beam-size"]),  # a part of the name
        ("--beam_size", ["--beam-size"]),
        ("--Beam-Sise", ["--beam-size"]),  # a slip
        ("--presicion", ["--precision"]),
        ("--xyzzy", []),
        ("--", []),
        ("", []),
    ],
)
def test_names(name: str, found: list[str]) -> None:
    assert nearest(name, OPTIONS) == found
