"""The plain text of a segment, and where its markup stands."""

import html

import pytest

from translate.documents.segments import Item, Segment, lay_out


def text_of(*items: Item) -> str:
    return lay_out(Segment(0, list(items))).text


@pytest.mark.parametrize(
    "placeholder",
    [
        "{name}", "{0}", "{}", "{{ user.name }}", "${total}", "$HOME", "%s", "%d", "%1$s", "%-5.2f", "%(count)d",
        "%d%%", "%1",
        "https://example.org/a?b=1&amp;c=(2", "http://a.de/x-y_z", "www.example.org", "a.b+c@mail.example.org",
    ],
)  # fmt: skip
def test_placeholders_become_numbers(placeholder: str) -> None:
    layout = lay_out(Segment(0, [Item("text", f"Siehe {placeholder}, oder nicht.")]))
    assert layout.text == "Siehe 11, oder nicht."
    assert layout.written == [(placeholder, True)]


@pytest.mark.parametrize(
    "text", ["50 % der Leute", "100%ige Wolle", "Es kostet 5 $.", "a @ b", "5% sind da", "Menge = {"]
)
def test_other_text_is_no_placeholder(text: str) -> None:
    assert text_of(Item("text", text)) == text


def test_a_url_ends_before_punctuation() -> None:
    layout = lay_out(Segment(0, [Item("text", "Mehr auf https://example.org/a. Ende")]))
    assert layout.text == "Mehr auf 11. Ende" and layout.written == [("https://example.org/a", True)]


def test_numbers_are_not_those_of_the_text() -> None:
    assert text_of(Item("text", "11 {a} 12 {b} 113")) == "11 14 12 15 113"


def test_a_number_never_meets_another() -> None:
    """Two numbers side by side would be one, so the second name is a mark; so is a name before or behind a digit."""
    assert text_of(Item("text", "a {x}"), Item("name", "`y`"), Item("text", " b")) == "a 11 b"
    assert text_of(Item("text", "a 5{x} b")) == "a 5 b"
    assert text_of(Item("text", "a {x}5 b")) == "a 5 b"
    layout = lay_out(Segment(0, [Item("text", "a {x}"), Item("open", "<b>", "b"), Item("text", "5")]))
    assert layout.text == "a 5" and [(node.kind, node.start) for node in layout.nodes] == [("mark", 2), ("pair", 2)]


def test_white_space_and_its_line_breaks() -> None:
    layout = lay_out(Segment(0, [Item("text", " \n Ein  Hund\n  läuft\tweg. ")]))
    assert layout.text == "Ein Hund läuft weg."
    assert (layout.before, layout.after) == (" \n ", " ")
    assert [(node.kind, node.raw, node.start) for node in layout.nodes] == [("break", "\n  ", 8)]


def test_text_is_decoded_and_invisible_characters_left_out() -> None:
    segment = Segment(0, [Item("text", "Gro&szlig;&shy;vater&nbsp;&amp; ich")], html.unescape)
    assert lay_out(segment).text == "Großvater & ich"


def test_pairs_and_marks() -> None:
    items = [
        Item("text", "Ein "),
        Item("open", "<b>", "b"),
        Item("text", "Hund"),
        Item("mark", "<x>"),
        Item("close", "</b>", "b"),
    ]
    layout = lay_out(Segment(0, [*items, Item("text", " da")]))
    pair, mark = layout.nodes
    assert (layout.text, pair.start, pair.end, pair.close) == ("Ein Hund da", 4, 8, "</b>")
    assert (mark.start, mark.parent, mark.depth, pair.depth) == (8, pair, 1, 0)
    assert layout.written == [("<b>", False), ("</b>", False), ("<x>", False)]


def test_a_pair_around_a_name_is_that_name() -> None:
    link = [Item("open", "[", "a"), Item("name", "`f()`"), Item("close", "](u)", "a")]
    layout = lay_out(Segment(0, [Item("text", "Rufe "), *link, Item("text", " auf")]))
    assert layout.text == "Rufe 12 auf" and layout.written == [("[`f()`](u)", True)]


def test_a_pair_without_text_is_a_mark() -> None:
    anchor = [Item("open", "<a id=x>", "a"), Item("text", " "), Item("close", "</a>", "a")]
    layout = lay_out(Segment(0, [Item("text", "Ein"), *anchor, Item("text", "Hund")]))
    assert layout.text == "Ein Hund" and layout.written == [("<a id=x> </a>", False)]


def test_tags_without_their_partners() -> None:
    """What was opened before the segment holds from its begin, and what is not closed holds to its end."""
    layout = lay_out(Segment(0, [Item("text", "Ein Hund"), Item("close", "</b>", "b"), Item("text", " da")]))
    assert [(node.raw, node.close, node.start, node.end) for node in layout.nodes] == [("", "</b>", 0, 8)]
    layout = lay_out(Segment(0, [Item("text", "{x}"), Item("close", "</b>", "b"), Item("text", "er")]))
    assert layout.text == "12er" and layout.written == [("{x}</b>", True)]
    layout = lay_out(Segment(0, [Item("text", "Ein "), Item("open", "<b>", "b"), Item("text", "Hund ")]))
    assert [(node.raw, node.close, node.start, node.end) for node in layout.nodes] == [("<b>", "", 4, 8)]


def test_tags_that_cross() -> None:
    items = [
        Item("open", "<b>", "b"),
        Item("text", "a "),
        Item("open", "<i>", "i"),
        Item("text", "b"),
        Item("mark", "<x>"),
    ]
    layout = lay_out(Segment(0, [*items, Item("close", "</b>", "b"), Item("text", " c"), Item("close", "</i>", "i")]))
    assert [raw for raw, _ in layout.written] == ["</i>", "<b>", "</b>", "<i>", "<x>"]
    kinds = {node.raw or node.close: (node.kind, node.parent and node.parent.raw) for node in layout.nodes}
    assert kinds == {"</i>": ("pair", None), "<b>": ("pair", ""), "<i>": ("mark", "<b>"), "<x>": ("mark", "<b>")}
    inside = [Item("open", "<b>", "b"), Item("text", "a"), Item("close", "</u>", "u"), Item("close", "</b>", "b")]
    assert [node.kind for node in lay_out(Segment(0, inside)).nodes] == ["pair", "mark"]


def test_what_is_written_may_differ_from_what_was_read() -> None:
    items = [Item("open", "[", "Link"), Item("text", "Text"), Item("close", "]", "Link", "][Text]")]
    assert lay_out(Segment(0, items)).written == [("[", False), ("][Text]", False)]
