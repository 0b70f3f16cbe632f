"""Codes that mean the same language, in any spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translate.language_codes import find_language, language_name, short_code, standard_code

NLLB = ["deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant", "arb_Arab", "acm_Arab", "nob_Latn", "pes_Arab", "prs_Arab"]
NLLB += ["kor_Hang", "aka_Latn", "twi_Latn", "ace_Arab", "ace_Latn"]


@pytest.mark.parametrize(
    ("code", "found", "wider"),
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
        ("nb", "nob_Latn", None),
        ("fa", "pes_Arab", None),
        ("ko", "kor_Hang", None),
        ("tw", "twi_Latn", None),
        ("ace", "ace_Latn", None),
        ("gsw", None, None),  # not German
        ("da", None, None),
        ("und", None, None),
        ("no language!", None, None),
        ("", None, None),
        ("de" + "-x-long" * 9, None, None),
    ],
)
def test_another_spelling_is_found(code: str, found: str | None, wider: str | None) -> None:
    assert find_language(code, NLLB) == found
    assert find_language(code, NLLB, or_wider=True) == (found or wider)
    assert all(find_language(standard_code(each), NLLB) == each for each in NLLB)


def test_the_same_code_comes_first() -> None:
    known = ["de", "DE", "de-AT"]
    assert [find_language(code, known) for code in ("DE", "de-AT", "DE-at")] == ["DE", "de-AT", "de-AT"]
    assert find_language("de", ["de-CH", "en"]) == "de-CH" and find_language("de-CH", ["de-AT"], or_wider=True) is None
    assert find_language("Klingon", ["klingon"]) == "klingon"  # not a code, but case does not count


def test_a_romanised_text_is_not_in_the_language_as_it_is_usually_written() -> None:
    wanted = {"hi-Latn": None, "zh_Latn": None, "zh-Hant": "zh", "sr": "sr_Latn", "ms-Arab": None, "hi-IN": "hi"}
    known = ["hi", "zh", "sr_Latn", "ms"]
    assert {code: find_language(code, known, or_wider=True) for code in wanted} == wanted


def test_locales_whose_region_says_nothing() -> None:
    """Those of mBART, where XX is no region and AR stands for Arabic, not for Argentina."""
    known = ["ar_AR", "cs_CZ", "de_DE", "en_XX", "pt_XX", "zh_CN"]
    wanted = {"EN-US": "en_XX", "EN-GB": "en_XX", "PT-BR": "pt_XX", "ar-EG": "ar_AR", "DE": "de_DE", "zh-TW": None}
    assert {code: find_language(code, known, or_wider=True) for code in wanted} == wanted
    assert [short_code(code) for code in known] == ["ar", "cs", "de", "en", "pt", "zh"]
    assert [short_code(code) for code in ("de_AT", "pt-BR", "zho_Hans")] == ["de-AT", "pt-BR", "zh-Hans"]
    assert [language_name(code) for code in ("en_XX", "ar_AR")] == ["English", "Arabic"]


@given(st.text(max_size=35))
def test_any_text_may_be_asked_for(text: str) -> None:
    assert find_language(standard_code(text), [text]) == text
    find_language(text, NLLB)
