"""The segments of Markdown and their markup."""

import sys

import pytest

from translate.documents.markdown import read_markdown
from translate.documents.segments import lay_out
from translate.errors import InputError


def texts(text: str) -> list[str]:
    segments = list(read_markdown(text))
    assert all(text.startswith(segment.raw, segment.start) for segment in segments)
    return [layout.text for layout in map(lay_out, segments) if layout.text]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("# Über *uns*\n\nAbsatz\nzwei\n", ["Über uns", "Absatz zwei"]),
        ("- a\n  - b\n    c\n- [x] d\n", ["a", "b c", "d"]),
        ("> Ein **Satz\n> mit** Zeilen\n", ["Ein Satz mit Zeilen"]),
        ("| a | b |\n|---|:-:|\n| x \\| y | `c` |\n", ["a", "b", "x | y", "11"]),
        ("Eins  \nzwei\\\ndrei<br>vier\n", ["Eins", "zwei", "drei", "vier"]),
        ("---\ntitle: Nein\n---\nJa\n\n```\nnein\n```\n\n    nein\n", ["Ja"]),
        ("Eins[^1].\n\n[^1]: Zwei\n", ["Eins.", "Zwei"]),
        ("\\*a\\* &amp; b\n", ["*a* & b"]),
        ("> a\n> \\*b\n", ["a *b"]),
        ("<div>Eins <b>zwei</b></div>\n\nDrei <b>vier</b>\n", ["Eins zwei", "Drei vier"]),
        ("> <div>nein</div>\n", []),
        ("Siehe <https://a.b> und <kbd>Strg</kbd>.\n", ["Siehe 11 und 12."]),
        ("~~a~~ ~b~ Ende\n", ["a b Ende"]),
        ("Ü ![Bild *da*](x.png) ß\n", ["Ü Bild da ß"]),
    ],
)
def test_segments(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def written(text: str) -> list[str]:
    (segment,) = read_markdown(text)
    return [raw for raw, _ in lay_out(segment).written]


def test_markup() -> None:
    text = 'Ä *b* __c__ ~~d~~ [e *f*](g "h") `i` ![j](k) <u>l</u>[^1] m\n\n[^1]: n'
    (segment, _) = read_markdown(text)
    assert [raw for raw, _ in lay_out(segment).written] == [
        "*", "*", "__", "__", "~~", "~~", "[", "](g \"h\")", "*", "*", "`i`", "![", "](k)", "<u>", "</u>", "[^1]",
    ]  # fmt: skip


def test_a_link_by_its_text_keeps_its_key() -> None:
    assert written("Ein [Hund] da\n\n[Hund]: u\n") == ["[", "][Hund]"]
    assert written("Ein [Hund][] da\n\n[Hund]: u\n") == ["[", "][Hund]"]
    assert written("Ein [Hund][x] da\n\n[x]: u\n") == ["[", "][x]"]


def test_what_would_be_markup_is_escaped() -> None:
    (segment,) = read_markdown("a\n")
    assert "".join(map(segment.syntax.encode, "*a_b` [c] <d> | e")) == "\\*a\\_b\\` \\[c\\] \\<d> \\| e"
    words = ["-", "1.", "##", ">a", "---", "-a", "1.5"]
    assert list(filter(segment.syntax.unsafe.match, words)) == ["-", "1.", "##", ">a", "---"]


def test_without_its_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyromark", None)
    with pytest.raises(InputError, match="pyromark.*pip install"):
        read_markdown("a")
