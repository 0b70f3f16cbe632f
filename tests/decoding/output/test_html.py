"""Translations as HTML: by hand, as an XML reader finds them."""

from xml.etree import ElementTree

from translate.decoding import Translation


def made(**fields: object) -> Translation:
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
        tokens=["▁a", "▁<do", "g>"],
        source_tokens=["▁Der", "▁Hund"],
    )
    return translation._replace(**fields)


def read(translation: Translation) -> ElementTree.Element:
    """What is not escaped is an error, since the HTML is XML too."""
    return ElementTree.fromstring(translation._repr_html_().replace("&nbsp;", ""))


def words_of(html: ElementTree.Element) -> list[str]:
    """The texts of each word: the source word that it aligns to, itself, its probability."""
    return [" ".join(span.itertext()) for span in html.iter("span")]


def test_words_with_their_probabilities_and_source_words() -> None:
    html = read(made(alignment="0-1 1-0", alternatives=(made(text="A&B", score=-2.5),)))
    assert "".join(html.itertext()).startswith("Der Hund → a <dog>score -1.250, log-probability -1.500 nats")
    # e^0, and e^((-3 - 1) / 2)
    assert words_of(html) == ["Hund a 1.00", "Der <dog> 0.14"]
    bars = [bar.get("style", "") for span in html.iter("span") for bar in span.iter("div")]
    assert ["width:100%" in bars[0], "currentColor" in bars[0]] == [True, True]
    assert ["width:14%" in bars[1], "currentColor" in bars[1]] == [True, False]
    assert [each.text for each in html.iter("li")] == ["A&B (-2.500)"]


def test_without_alignment_or_probabilities() -> None:
    assert words_of(read(made())) == ["a 1.00", "<dog> 0.14"]
    assert words_of(read(made(alignment="1-0"))) == ["Hund a 1.00", "<dog> 0.14"]
    assert words_of(read(made(token_log_probs=()))) == []
    empty = read(made(text="", ids=[], tokens=[], token_log_probs=[], source_truncated=True))
    assert "source truncated" in "".join(empty.itertext()) and words_of(empty) == []


def test_the_pieces_of_a_line_that_was_split() -> None:
    """The alignment counts the words of the whole line, and here are those of its pieces."""
    html = read(made(alignment="0-0 3-3", pieces=(made(), made())))
    assert words_of(html) == ["a 1.00", "<dog> 0.14"] * 2 and "split" in "".join(html.itertext())


def test_characters_that_html_forbids() -> None:
    html = read(made(text="\x01", tokens=["▁\x01犬", "▁b"], token_log_probs=[0.0, 0.0]))
    assert words_of(html) == ["\N{REPLACEMENT CHARACTER}犬 1.00", "b 1.00"]
