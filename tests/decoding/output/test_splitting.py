"""Long lines in pieces: where they part, decided by hand; and that nothing of any text is lost."""

import time
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from translate.decoding.output.splitting import split_text


def count_words(texts: Sequence[str]) -> list[int]:
    """A token for each word begun, and one more for each five characters of it: long words are several."""
    return [sum(1 + len(word) // 5 for word in text.split()) for text in texts]


@pytest.mark.parametrize(
    "text, max_tokens, pieces",
    [
        ("a b c", 3, ["a b c"]),
        # Each sentence that is not very short is a piece, though two would fit.
        (
            "a b c d e f g hi. A b c d e f g h! Ok. A b c d e f g h? A b",
            20,
            ["a b c d e f g hi. ", "A b c d e f g h! ", "Ok. A b c d e f g h? ", "A b"],
        ),
        # No sentence ends before a small letter, after a number or after one letter.
        (
            "am 3. Mai bei J. Weh usw. und so fort. Ein Hund.",
            11,
            ["am 3. Mai bei J. Weh usw. und so fort. ", "Ein Hund."],
        ),
        # Closing quotes belong to the sentence; wide marks need no space.
        ("„A b c d e f g hi.“ (I j k l m n o p!) Q", 9, ["„A b c d e f g hi.“ ", "(I j k l m n o p!) ", "Q"]),
        (
            "你好" * 20 + "。「" + "你好" * 20 + "。」" + "你好",
            9,
            ["你好" * 20 + "。", "「" + "你好" * 20 + "。」", "你好"],
        ),
        # Within a sentence: at : and ; first, then commas, then spaces; halves of about the same length.
        ("a b c, d; e f g h", 6, ["a b c, d; ", "e f g h"]),
        ("a b, c d, e f, g h", 6, ["a b, c d, ", "e f, g h"]),
        ("a b c d e f g", 6, ["a b c d ", "e f g"]),
        # Within a word at last, but never between a letter and its marks.
        ("x" * 23, 2, ["x" * 9, "x" * 9, "x" * 5]),
        ("e\u0301" * 6, 2, ["e\u0301" * 4, "e\u0301" * 2]),
        ("a" + "👩\u200d👧" * 4, 2, ["a" + "👩\u200d👧" * 2, "👩\u200d👧" * 2]),
        ("👍🏽" * 6, 2, ["👍🏽" * 4, "👍🏽" * 2]),
        ("a\u2028b\xa0c\u3000d", 2, ["a\u2028b\xa0", "c\u3000d"]),
    ],
)
def test_where_lines_part(text: str, max_tokens: int, pieces: list[str]) -> None:
    assert split_text(text, max_tokens=max_tokens, count_tokens=count_words) == pieces
    assert "".join(pieces) == text


def test_a_character_that_is_too_long_by_itself_stays() -> None:
    def count(texts: Sequence[str]) -> list[int]:
        return [3 * len(text) for text in texts]

    assert split_text("abc", max_tokens=2, count_tokens=count) == ["a", "b", "c"]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text(max_size=120), st.integers(1, 12))
def test_nothing_is_lost_and_everything_fits(text: str, max_tokens: int) -> None:
    pieces = split_text(text, max_tokens=max_tokens, count_tokens=count_words)
    assert "".join(pieces) == text
    for piece, size in zip(pieces, count_words(pieces), strict=True):
        assert piece != "" or text == ""
        assert size <= max_tokens or len(piece) == 1
    for before, after in zip(pieces, pieces[1:], strict=False):
        is_mark = unicodedata.category(after[0]).startswith("M")
        assert not is_mark or unicodedata.category(before[-1])[0] in "MZC" or before.isspace()


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["Ein", "Hund", "läuft.", "Ja!", "(3.", "z.B.", "und,", "so:", "你好。", "x" * 70])),
    st.integers(2, 9),
)
def test_words_stay_whole_where_they_fit(words: list[str], max_tokens: int) -> None:
    pieces = split_text(" ".join(words), max_tokens=max_tokens, count_tokens=count_words)
    if max_tokens * 5 > 75:
        assert [word for piece in pieces for word in piece.split()] == words
    assert "".join(pieces) == " ".join(words)


@pytest.mark.parametrize(
    "unit", ["Hund. ", "x", "x ", "e\u0301", "a, ", ".", "! ", "'", "你好。", " ", "\u0301", "\u200d"]
)
def test_a_hundred_thousand_characters_take_no_time(unit: str) -> None:
    """Each of them takes some hundredths of a second; what grew with the square of the length would take minutes."""
    text = unit * (100_000 // len(unit))
    started = time.perf_counter()
    pieces = split_text(text, max_tokens=255, count_tokens=count_words)
    assert "".join(pieces) == text and max(count_words(pieces)) <= 255
    assert time.perf_counter() - started < 10
