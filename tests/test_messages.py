"""The text of a logged record: labelled by its level, and harmless in a terminal."""

import logging

import pytest

from translate.messages import MessageFormatter, describe_seconds, escaped


def test_escaped_text_keeps_letters_of_any_language_and_no_control_character() -> None:
    kept = "Übergrößen\tزنده\u200cباد 👩\u200d👧 l’été\u202f!\nе\u0301"
    assert escaped(kept) == kept
    assert escaped("\0\r\x7f\x9b\u2028\u2067\ud800") == r"\x00\r\x7f\x9b\u2028\u2067\ud800"


@pytest.mark.parametrize(
    "level, text",
    [
        (logging.INFO, "3 of 4\\x1b[2J\nlines"),
        (logging.WARNING, "Warning: 3 of 4\\x1b[2J\nlines"),
        (logging.ERROR, "Error: 3 of 4\\x1b[2J\nlines"),
    ],
)
def test_a_warning_says_that_it_is_one(level: int, text: str) -> None:
    record = logging.LogRecord("translate.x", level, "", 0, "%d of %d\x1b[2J\nlines", (3, 4), None)
    assert MessageFormatter().format(record) == text


@pytest.mark.parametrize(
    "seconds, text",
    [
        *((59.4, "59 s"), (59.5, "1 min"), (59.6 * 60, "1.0 h"), (9.96 * 3600, "10 h"), (23.96 * 3600, "1.0 days")),
        (100 * 86400.0, "100 days"),
    ],
)
def test_a_time_in_at_most_eight_characters(seconds: float, text: str) -> None:
    assert describe_seconds(seconds) == text
