"""The plain text of a segment, and where its markup stands."""

import html

import pytest

from translate.documents.segments import Item, Segment, Syntax, lay_out


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
    assert text_of(Item("text", "11 {a} 12 {b} 113")) == "11 13 12 14 113"


def test_names_without_anything_between_are_one() -> None:
    layout = lay_out(
        Segment(0, [Item("text", "a {x}%s "), Item("name", "`y`"), Item("name", "`z`"), Item("text", " b")])
    )
    assert layout.text == "a 11 12 b" and layout.written == [("{x}%s", True), ("`y``z`", True)]


def test_white_space_and_its_line_breaks() -> None:
    layout = lay_out(Segment(0, [Item("text", " \n Ein  Hund\n  läuft\tweg. ")]))
    assert layout.text == "Ein Hund läuft weg."
    assert [item.raw for item in (*layout.before, *layout.after)] == [" \n ", " "]
    assert layout.breaks == [(8, "\n  ")] and not layout.markup


def test_text_is_decoded_and_invisible_characters_left_out() -> None:
    segment = Segment(0, [Item("text", "Gro&szlig;&shy;vater&nbsp;&amp; ich")], Syntax(html.unescape))
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
    pair, mark = layout.markup
    assert (layout.text, pair.start, pair.end, pair.close) == ("Ein Hund da", 4, 8, "</b>")
    assert (mark.start, mark.parent, mark.depth, pair.depth) == (8, pair, 1, 0)
    assert layout.written == [("<b>", False), ("</b>", False), ("<x>", False)]


def test_a_pair_around_a_name_is_that_name() -> None:
    link = [Item("open", "[", "a"), Item("name", "`f()`"), Item("close", "](u)", "a")]
    layout = lay_out(Segment(0, [Item("text", "Rufe "), *link, Item("text", " auf")]))
    assert layout.text == "Rufe 11 auf" and layout.written == [("[`f()`](u)", True)]


def test_a_pair_without_text_is_a_mark() -> None:
    anchor = [Item("open", "<a id=x>", "a"), Item("text", " "), Item("close", "</a>", "a")]
    layout = lay_out(Segment(0, [Item("text", "Ein"), *anchor, Item("text", "Hund")]))
    assert layout.text == "Ein Hund" and layout.written == [("<a id=x> </a>", False)]


def test_tags_without_their_partners_are_marks() -> None:
    layout = lay_out(Segment(0, [Item("text", "Ein Hund"), Item("close", "</b>", "b"), Item("text", " da")]))
    assert [(each.kind, each.raw, each.start) for each in layout.markup] == [("mark", "</b>", 8)]
    layout = lay_out(
        Segment(0, [Item("open", "<i>", "i"), Item("text", "Ein "), Item("open", "<b>", "b"), Item("text", "Hund")])
    )
    assert [item.raw for item in layout.before] == ["<i>"] and layout.text == "Ein Hund"
    assert layout.written == [("<b>", False), ("<i>", False)]
    assert [(each.kind, each.raw, each.start) for each in layout.markup] == [("mark", "<b>", 4)]


def test_tags_that_cross() -> None:
    items = [Item("open", "<b>", "b"), Item("text", "a "), Item("open", "<i>", "i"), Item("text", "b")]
    items += [Item("close", "</b>", "b"), Item("text", " c"), Item("close", "</i>", "i"), Item("text", " d")]
    pair, mark, end = lay_out(Segment(0, items)).markup
    assert (pair.kind, pair.raw, pair.close) == ("pair", "<b>", "</b>")
    assert (mark.kind, mark.raw, mark.parent) == ("mark", "<i>", pair)
    assert (end.kind, end.raw, end.parent) == ("mark", "</i>", None)


def test_pairs_that_are_too_deep_are_marks() -> None:
    items = [Item("open", "<b>", "b")] * 30 + [Item("text", "a")] + [Item("close", "</b>", "b")] * 30
    layout = lay_out(Segment(0, items))
    assert [each.kind for each in layout.markup] == ["pair"] * 20 + ["mark"] * 10 and len(layout.after) == 10


def test_what_is_written_may_differ_from_what_was_read() -> None:
    items = [Item("open", "[", "Link"), Item("text", "Text"), Item("close", "]", "Link", "][Text]")]
    assert lay_out(Segment(0, items)).written == [("[", False), ("][Text]", False)]
