"""The segments of plain text and of subtitles."""

import pytest

from translate.documents.lines import read_subtitles, read_text


@pytest.mark.parametrize(
    "reader, text, expected",
    [
        # Lines without their list markers.
        ("lines", "  - Eins\n\n\t1. a) Zwei\n> Drei\nVier", ["Eins\n", "Zwei\n", "Drei\n", "Vier"]),
        # Paragraphs end at blank lines and begin at list markers.
        ("paragraphs", "Eins\n  zwei\n \n- drei\nvier\n- fünf\n\n", ["Eins\n  zwei\n", "drei\nvier\n", "fünf\n"]),
        # Cues with and without a number.
        ("cues", "1\n00:00:01,000 --> 00:00:02,000 X1:0\nEins\nzwei\n\nkein Text", ["Eins\nzwei\n"]),
        ("cues", "1\r\n00:01,000 --> 00:02,000\r\nEins\r\nzwei\r\n\r\nnein", ["Eins\r\nzwei\r\n"]),
        ("cues", "00:00:03.000 --> 00:00:04.000\n<i>Drei</i>", ["<i>Drei</i>"]),
        # Each speaker of a dialogue.
        ("cues", "1\n00:01,0 --> 00:02,0\n- Eins\nzwei\n- <i>Drei</i>\n", ["Eins\nzwei\n", "<i>Drei</i>\n"]),
    ],
)
def test_segments(reader: str, text: str, expected: list[str]) -> None:
    if reader == "cues":
        segments = list(read_subtitles(text, has_entities=False))
    else:
        segments = list(read_text(text, by_line=reader == "lines"))
    assert [segment.raw for segment in segments] == expected
    assert all(text.startswith(segment.raw, segment.start) for segment in segments)


def test_webvtt_has_blocks_without_text_and_entities() -> None:
    blocks = [
        "WEBVTT\n00:01.000 --> 00:02.000",
        "NOTE\n00:01.000 --> 00:02.000\nnein",
        "STYLE\na",
        "id\n01.000 --> 00:02.000\nnein",
        "00:01.000 --> 00:02.000\n<v Anna>Er &amp; <00:01.500>sie {\\an8}\n",
    ]
    text = "\n\n".join(blocks)
    (segment,) = read_subtitles(text, has_entities=True)
    assert [item.kind for item in segment.items] == ["open", "text", "point", "text", "point", "text"]
    assert segment.syntax.decode("&amp;") == "&" and segment.syntax.encode("<") == "&lt;"
    (in_srt,) = read_subtitles("1\n00:00:01,000 --> 00:00:02,000\nEr &amp;\n", has_entities=False)
    assert in_srt.syntax.decode("&amp;") == "&amp;" and in_srt.syntax.encode("<") == "<"
