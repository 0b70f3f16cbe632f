"""Each kind of odd character is named, and what belongs in text is left alone."""

import pytest

from translate.lint.characters import ODD_KINDS, find_odd_characters, odd_kinds
from translate.lint.findings import KINDS

Text = tuple[list[str], list[str]]


@pytest.mark.parametrize(
    "line, kind",
    [
        ("a\x07b", "control"),
        ("a\x9fb", "control"),
        ("a\udc80b", "control"),  # half of a surrogate pair
        ("one\u2028two", "line_end"),
        ("one\rtwo", "line_end"),
        ("one\x85two", "line_end"),
        ("a \ue000 b", "private_use"),
        ("zero\u200bwidth", "invisible"),
        ("\ufeffmark", "invisible"),
        ("soft\u00adhyphen", "invisible"),
        ("What\ufffd", "replacement"),
        *(
            (text.encode("utf-8").decode("cp1252"), "mojibake")
            for text in ("Straße", "während", "Größe", "„so“", "it’s", "10 €")
        ),
        ("während".encode().decode("latin-1"), "mojibake"),
        ("да".encode().decode("latin-1"), "mojibake"),
        ("Tom &amp; Jerry", "markup"),
        ("it&#39;s", "markup"),
        ("<b>bold</b>", "markup"),
        ("a<br/>b", "markup"),
    ],
)
def test_an_odd_character_is_named(line: str, kind: str) -> None:
    assert odd_kinds(line) == (kind,)
    found = find_odd_characters(["fine", line, "fine"])
    assert {kind: numbers.tolist() for kind, numbers in found.items()} == {kind: [1]}


@pytest.mark.parametrize(
    "line",
    [
        "Straße, „Spaß“, “quoted”, l’été, São Paulo, MÃE, Ångström, €5, 10 – 20 …",
        "AT&T and R&D; a < b > c; x <3 y",
        "Мир, Ярославль",
        "a tab\tis a space",
        "no\u00a0break, narrow\u202fno-break",
        "👩‍👩‍👧 family, नमस्ते, می‌خواهم, שלום\u200f, e\u0301",  # joiners and directions belong to their scripts
        "中文。日本語",
        "",
    ],
)
def test_what_belongs_into_text_is_not_odd(line: str) -> None:
    assert odd_kinds(line) == ()
    assert find_odd_characters([line]) == {}


def test_a_line_with_two_kinds() -> None:
    found = find_odd_characters(["ok", "&lt;\u200b", "\u200b"])
    assert {kind: numbers.tolist() for kind, numbers in found.items()} == {
        "invisible": [1, 2],
        "markup": [1],
    }
    assert set(found) <= set(ODD_KINDS) <= set(KINDS)


def test_the_embedded_corpus_has_no_odd_character(embedded: Text) -> None:
    assert find_odd_characters(embedded[0]) == find_odd_characters(embedded[1]) == {}
