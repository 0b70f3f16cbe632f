"""Where sentences end, in cases that were judged by hand; nothing is lost, and long texts take little time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import sentence_cases

from translate.decoding.sentences import is_sentence, split_sentences


@pytest.mark.parametrize(("language", "sentences"), sentence_cases())
def test_where_sentences_end(language: str, sentences: list[str]) -> None:
    assert split_sentences("".join(sentences), language) == sentences


def test_codes_of_one_language_and_languages_without_a_list() -> None:
    text = "Am 3. Okt. 2020 kam Fa. Meyer."
    assert [split_sentences(text, code) for code in ("de", "de-AT", "deu_Latn", "und")] == [[text]] * 4
    assert [len(split_sentences(text, code)) for code in ("nl", "x" * 99)] == [2, 2], "3. is no ordinal there"
    text = "Um 3. Vgl. Abb. 5."
    assert split_sentences(text, "en") == ["Um 3. ", "Vgl. Abb. 5."] != split_sentences(text, "de")


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text(st.sampled_from(list("aA1.!?。 \n„“»«(){}<>|")), max_size=60))
def test_sentences_joined_are_the_text(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join(sentences) == text
    assert len(sentences) == 1 or all(any(map(str.isalnum, sentence)) for sentence in sentences)


@pytest.mark.parametrize(
    "unit", ["Hund. ", ". ", ".", "x", "{ ", "<a. ", "a. ", "3. ", "« ! » ", "S. 5. ", "。</a", "[1]. "]
)
def test_a_hundred_thousand_characters_take_little_time(unit: str) -> None:
    """Each takes less than half a second; a search of all of the text before each mark takes seven."""
    started = time.process_time()
    split_sentences(unit * (100_000 // len(unit)), "de")
    assert time.process_time() - started < 3


def test_a_title_is_not_a_sentence() -> None:
    assert [is_sentence(text) for text in ("Ein Hund.", "Was?“", "Ein Titel", "", "好。")] == [
        True,
        True,
        False,
        False,
        True,
    ]
