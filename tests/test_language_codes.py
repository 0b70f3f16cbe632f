"""Codes that mean the same language, in any spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translate.language_codes import find_language, standard_code

NLLB = ["deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant", "arb_Arab", "acm_Arab", "nob_Latn", "pes_Arab", "prs_Arab"]


@pytest.mark.parametrize(
    ("code", "same", "variant"),
    [
        ("de", "deu_Latn", None),
        ("DE", "deu_Latn", None),
        ("de-DE", "deu_Latn", None),
        ("deu-AT", None, "deu_Latn"),
        ("EN-GB", None, "eng_Latn"),
        ("zh", "zho_Hans", None),
        ("zh-TW", "zho_Hant", None),
        ("ar", "arb_Arab", None),
        ("no", "nob_Latn", None),
        ("fa", "pes_Arab", None),
        ("gsw", None, None),  # not German
        ("da", None, None),
        ("und", None, None),
        ("no language!", None, None),
        ("", None, None),
    ],
)
def test_another_spelling_is_found(code: str, same: str | None, variant: str | None) -> None:
    assert find_language(code, NLLB, with_variants=False) == same
    assert find_language(code, NLLB) == (same or variant)


def test_the_same_code_comes_first() -> None:
    assert [find_language(code, ["de", "DE", "de-AT"]) for code in ("DE", "de-AT", "de-CH")] == ["DE", "de-AT", "de"]
    assert find_language("de-CH", ["de-AT"]) is None
    assert find_language("Klingon", ["klingon"]) == "klingon"  # not a code, but case does not count


@given(st.text(max_size=12))
def test_any_text_may_be_asked_for(text: str) -> None:
    assert find_language(standard_code(text), [text]) == text
    find_language(text, NLLB)
