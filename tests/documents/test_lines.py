"""What of plain text and of subtitles is a segment."""

import pytest

from translate.documents.lines import read_subtitles, read_text


def test_lines_without_their_marks() -> None:
    text = "  - Eins\n\n\t1. a) Zwei\n> Drei\nVier"
    segments = list(read_text(text, by_line=True))
    assert [segment.raw for segment in segments] == ["Eins\n", "Zwei\n", "Drei\n", "Vier"]
    assert all(text.startswith(segment.raw, segment.start) for segment in segments)


def test_paragraphs_end_at_blank_lines_and_begin_at_list_marks() -> None:
    text = "Eins\n  zwei\n \n- drei\nvier\n- fünf\n\n"
    segments = list(read_text(text, by_line=False))
    assert [segment.raw for segment in segments] == ["Eins\n  zwei\n", "drei\nvier\n", "fünf\n"]
    assert all(text.startswith(segment.raw, segment.start) for segment in segments)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_cues(end: str) -> None:
    lines = [
        "1",
        "00:00:01,000 --> 00:00:02,000 X1:0",
        "Eins",
        "zwei",
        "",
        "kein Text",
        "",
        "00:00:03.000 --> 00:00:04.000",
        "<i>Drei</i>",
    ]
    text = end.join(lines)
    segments = list(read_subtitles(text, has_entities=False))
    assert [segment.raw for segment in segments] == [f"Eins{end}zwei{end}", "<i>Drei</i>"]
    assert [item.kind for item in segments[1].items] == ["open", "text", "close"]
    assert all(text.startswith(segment.raw, segment.start) for segment in segments)


def test_speakers_of_a_dialogue() -> None:
    text = "1\n00:01,0 --> 00:02,0\n- Eins\nzwei\n- <i>Drei</i>\n"
    segments = list(read_subtitles(text, has_entities=False))
    assert [segment.raw for segment in segments] == ["Eins\nzwei\n", "<i>Drei</i>\n"]
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
    assert [item.kind for item in segment.items] == ["open", "text", "mark", "text", "mark", "text"]
    assert segment.syntax.decode("&amp;") == "&" and segment.syntax.encode("<") == "&lt;"
    (in_srt,) = read_subtitles("1\n00:00:01,000 --> 00:00:02,000\nEr &amp;\n", has_entities=False)
    assert in_srt.syntax.decode("&amp;") == "&amp;" and in_srt.syntax.encode("<") == "<"
