"""Translations as HTML: by hand, and as an XML reader finds them."""

import re
from xml.etree import ElementTree

import pytest

from translate.decoding import Translation


def made(alignment: str | None = None, **fields: object) -> Translation:
    translation = Translation(
        source="Der Hund",
        text="a <dog>",
        ids=[7, 8, 9],
        log_prob=-1.5,
        score=-1.25,
        truncated=False,
        source_truncated=False,
        token_log_probs=[0.0, -3.0, -1.0, -0.1],
        source_ids=[5, 6],
        alignment=alignment,
        tokens=["▁a", "▁<do", "g>"],
        source_tokens=["▁Der", "▁Hund"],
    )
    return translation._replace(**fields)


def read(translation: Translation) -> ElementTree.Element:
    """The HTML has no element without an end, so it is XML too, and what is not escaped is an error."""
    return ElementTree.fromstring(translation._repr_html_())


def words_of(element: ElementTree.Element) -> list[str]:
    return [text for each in element.iter("text") if (text := each.text or "") and not re.fullmatch(r"\d\.\d\d", text)]


def test_words_probabilities_and_links() -> None:
    html = read(made("0-0 1-1", alternatives=(made(text="A&B", score=-2.5),)))
    assert "".join(html.itertext()).startswith("Der Hund → a <dog>score -1.250, log-probability -1.500 nats")
    assert words_of(html) == ["Der", "Hund", "a", "<dog>"]
    # e^0, and e^((-3 - 1) / 2)
    numbers = [each.text for each in html.iter("text") if re.fullmatch(r"\d\.\d\d", each.text or "")]
    assert numbers == ["1.00", "0.14"]
    # Each link goes from the middle of a source word to that of a target word.
    centre = {each.text: each.get("x") for each in html.iter("text")}
    lines = [(line.get("x1"), line.get("x2")) for line in html.iter("line")]
    assert lines == [(centre["Der"], centre["a"]), (centre["Hund"], centre["<dog>"])]
    doubtful = [rect for rect in html.iter("rect") if rect.get("fill") != "currentColor"]
    assert [float(rect.get("width") or 0) for rect in doubtful] == [
        pytest.approx(5 * 8.5, abs=0.1),
        pytest.approx(5 * 8.5 * 0.1353, abs=0.1),
    ]
    assert [each.text for each in html.iter("li")] == ["A&B (-2.500)"]


def test_without_alignment_or_probabilities() -> None:
    unlinked = read(made())
    assert words_of(unlinked) == ["a", "<dog>"] and list(unlinked.iter("line")) == []
    unknown = read(made("1-0", token_log_probs=()))
    assert words_of(unknown) == ["Der", "Hund", "a", "<dog>"] and list(unknown.iter("rect")) == []
    empty = read(made(text="", ids=[], tokens=[], token_log_probs=[], source_truncated=True))
    assert "source truncated" in "".join(empty.itertext()) and list(empty.iter("svg")) == []


def test_the_pieces_of_a_line_that_was_split() -> None:
    """Links are counted through the whole line, so they are not drawn in the pieces."""
    html = read(made("0-0 3-3", pieces=(made(), made())))
    assert words_of(html) == ["a", "<dog>"] * 2 and "split" in "".join(html.itertext())
    assert list(html.iter("line")) == []


def test_characters_that_html_forbids_and_wide_ones() -> None:
    html = read(made("0-0", text="\x01", tokens=["▁\x01犬犬犬", "▁b"], token_log_probs=[0.0, 0.0]))
    assert words_of(html)[2:] == ["\N{REPLACEMENT CHARACTER}犬犬犬", "b"]
    first, second = (float(each.get("x") or 0) for each in html.iter("text") if each.text == "1.00")
    assert second - first == pytest.approx(7 * 8.5 / 2 + 16 + 32 / 2, abs=1)
