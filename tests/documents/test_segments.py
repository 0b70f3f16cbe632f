"""The plain text of a segment, and the positions of its markup."""

import html

import pytest

from translate.documents.segments import Item, Segment, Syntax, lay_out, markup_of

TAGS = {
    "<b>": "open", "<i>": "open", "</b>": "close", "</i>": "close", "[": "open", "](u)": "close", "<x>": "point",
    "`f`": "placeholder", "`g`": "placeholder",
}  # fmt: skip


def segment_of(*parts: str) -> Segment:
    """A segment, each part of which is text or one of `TAGS`."""
    items = [Item(TAGS.get(part, "text"), part, part.strip("</>[](u)")) for part in parts]  # type: ignore[arg-type]
    return Segment(0, items)


@pytest.mark.parametrize(
    "placeholder",
    [
        "{name}", "{0}", "{}", "{{ user.name }}", "${total}", "$HOME", "%s", "%d", "%1$s", "%-5.2f", "%(count)d",
        "%d%%", "%1",
        "https://example.org/a?b=1&amp;c=(2", "http://a.de/x-y_z", "www.example.org", "a.b+c@mail.example.org",
    ],
)  # fmt: skip
def test_placeholders_become_numbers(placeholder: str) -> None:
    segment = segment_of(f"Siehe {placeholder}, oder nicht.")
    assert lay_out(segment).text == "Siehe 11, oder nicht."
    assert all(is_placeholder for _, is_placeholder in markup_of(segment))
    assert "".join(raw for raw, _ in markup_of(segment)) == placeholder


@pytest.mark.parametrize(
    "text", ["50 % der Leute", "100%ige Wolle", "Es kostet 5 $.", "a @ b", "5% sind da", "Menge = {"]
)
def test_other_text_is_not_a_placeholder(text: str) -> None:
    assert lay_out(segment_of(text)).text == text


@pytest.mark.parametrize(
    "parts, text, written",
    [
        (["Mehr auf https://example.org/a. Ende"], "Mehr auf 11. Ende", [("https://example.org/a", True)]),
        (["11 {a} 12 {b} 113"], "11 13 12 14 113", [("{a}", True), ("{b}", True)]),  # no number of the text
        (
            ["a {x}%s, ", "`f`", "`g`", " b"],
            "a 11 b",
            [("{x}", True), ("%s", True), ("`f`", True), ("`g`", True)],
        ),  # no word is between them
        (
            ["Rufe ", "[", "`f`", "](u)", " auf"],
            "Rufe 11 auf",
            [("[", False), ("`f`", True), ("](u)", False)],
        ),  # a pair without a word
        (["Ein", "<b>", " ", "</b>", "Hund"], "Ein Hund", [("<b>", False), ("</b>", False)]),
    ],
)
def test_markup_in_order(parts: list[str], text: str, written: list[tuple[str, bool]]) -> None:
    segment = segment_of(*parts)
    assert (lay_out(segment).text, markup_of(segment)) == (text, written)


@pytest.mark.parametrize(
    "parts, markup",
    [
        (["Ein ", "<b>", "Hund", "<x>", "</b>", " da"], [("paired", "<b>", 4, 8, None), ("point", "<x>", 8, 8, "<b>")]),
        (["Ein Hund", "</b>", " da"], [("point", "</b>", 8, 8, None)]),
        (["<i>", "Ein ", "<b>", "Hund"], [("point", "<b>", 4, 4, None)]),  # the first is before the text
        (
            ["<b>", "a ", "<i>", "b", "</b>", " c", "</i>", " d"],  # tags that cross
            [("paired", "<b>", 0, 3, None), ("point", "<i>", 2, 2, "<b>"), ("point", "</i>", 5, 5, None)],
        ),
    ],
)
def test_paired_and_point_markup(parts: list[str], markup: list[tuple[str, str, int, int, str | None]]) -> None:
    found = lay_out(segment_of(*parts)).markup
    assert [(each.kind, each.raw, each.start, each.end, each.parent and each.parent.raw) for each in found] == markup


def test_deeply_nested_tags_are_points() -> None:
    layout = lay_out(segment_of(*["<b>"] * 30, "a", *["</b>"] * 30))
    assert [each.kind for each in layout.markup] == ["paired"] * 20 + ["point"] * 10 and len(layout.after) == 10
    assert [each.depth for each in layout.markup[:20]] == list(range(20))


def test_white_space_and_line_breaks() -> None:
    layout = lay_out(segment_of(" \n Ein  Hund\n  läuft\tweg. "))
    assert layout.text == "Ein Hund läuft weg."
    assert [item.raw for item in (*layout.before, *layout.after)] == [" \n ", " "]
    assert layout.breaks == [(8, "\n  ")] and not layout.markup


def test_text_is_decoded_without_invisible_characters() -> None:
    segment = Segment(0, [Item("text", "Gro&szlig;&shy;vater&nbsp;&amp; ich")], Syntax(html.unescape))
    assert lay_out(segment).text == "Großvater & ich"


def test_a_close_may_be_written_in_another_way() -> None:
    items = [Item("open", "[", "Link"), Item("text", "Text"), Item("close", "]", "Link", "][Text]")]
    assert markup_of(Segment(0, items)) == [("[", False), ("][Text]", False)]
