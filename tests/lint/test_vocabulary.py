"""Characters without an entry and entries without use, counted by hand."""

import numpy as np
import pytest

from translate.config.load import load_config, override_config
from translate.config.schema import Config, TokenizerConfig
from translate.data.tokenizer import Tokenizers, train_tokenizer
from translate.lint.vocabulary import (
    HISTOGRAM_ENDS,
    VocabularyReport,
    examine_spelling,
    examine_vocabularies,
    measure_lengths,
    spelling_findings,
    vocabulary_findings,
)


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_characters_without_an_entry(byte_fallback: bool) -> None:
    vocab_size = 280 if byte_fallback else 20
    config = TokenizerConfig(vocab_size=vocab_size, byte_fallback=byte_fallback)
    tokenizer = train_tokenizer(["ab cd", "dc ba", "abc d"] * 5, config)
    lines = ["ab", "a☃b", "☃ ☃", "ö"]
    ids = tokenizer.encode_lines(lines, num_threads=1)
    spelling = examine_spelling("target", lines, ids, tokenizer, numbers=np.arange(len(lines)))
    assert (spelling.side, spelling.num_lines, spelling.first_line) == ("target", 3, 2)
    assert list(spelling.characters.items()) == [("☃", 2), ("ö", 1)]
    # ☃ is three bytes, ö two.
    assert spelling.num_byte_tokens == (11 if byte_fallback else 0)
    assert spelling.num_unknown_tokens == (0 if byte_fallback else 4)
    (finding,) = spelling_findings("data.any", [spelling], unit="line", is_given=True)
    assert finding.name == ("characters_in_bytes" if byte_fallback else "unknown_characters")
    assert byte_fallback or "tokenizer.source_model=null" in finding.hint
    assert finding.message.startswith("data.any: 11 of" if byte_fallback else "data.any: 4 of")
    assert "in 3 lines, the first 2, " in finding.message and finding.message.endswith(": ☃ (U+2603) ö (U+00F6)")


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_a_script_that_the_vocabulary_does_not_cover(byte_fallback: bool) -> None:
    lines = ["два пса", "a дом", "кот", "ab cd"]
    tokenizer = train_tokenizer(
        ["ab cd", "dc ba"] * 5, TokenizerConfig(vocab_size=270 if byte_fallback else 12, byte_fallback=byte_fallback)
    )
    ids, numbers = tokenizer.encode_lines(lines, num_threads=1), np.arange(4)
    spelling = examine_spelling("source", lines, ids, tokenizer, numbers=numbers)
    assert spelling.script == "Cyrillic"
    (finding,) = spelling_findings("data.any", [spelling], unit="line")
    assert (finding.name, finding.severity) == ("script_not_covered", "warning" if byte_fallback else "error")
    few = [*lines, "ab", "cd"]  # most lines are spelt
    assert (
        examine_spelling(
            "source", few, tokenizer.encode_lines(few, num_threads=1), tokenizer, numbers=np.arange(6)
        ).script
        is None
    )


def examine(*sides: list[list[int]], lines: tuple[str, ...] = (), share: float = 1.0) -> VocabularyReport:
    tokenizer = train_tokenizer(["ab cd", "dc ba", "abc d"] * 5, TokenizerConfig(vocab_size=265))
    (report,) = examine_vocabularies(Tokenizers(tokenizer, tokenizer, "joint"), sides, [lines, ()], share=share)
    return report


def test_entries_that_are_not_used() -> None:
    assert examine([[*range(4, 265)] * 10], []) == ("joint", 265, 265 - 4 - 256, 0, 0, 10.0, None)
    ids = [[260] * 10, [261] * 9, [262]]  # an entry ten times, one nine times, one once
    assert examine(ids[:1], ids[1:])[2:6] == (5, 2, 4, 1.0)
    # Of a corpus ten times as large, the one that was seen once is expected ten times.
    assert examine(ids, [], share=0.1)[2:6] == (5, 2, 2, 10.0)


def test_subwords_per_word() -> None:
    sides = [[260] * 4, [261] * 3], [[262] * 5]  # 12 subwords of 5 words
    without_spaces = "这是一个没有空格的句子它很长 很长很长很长很长很长很长很长很长很长很长"
    for lines, expected in ((("ab cd ab", "", " dc ba "), 2.4), ((without_spaces,), None), (("",), None)):
        assert examine(*sides, lines=lines).subwords_per_word == expected


def used(**values: object) -> VocabularyReport:
    report = VocabularyReport("joint", 500, 240, num_unused=0, num_rare=12, median_count=5198.0, subwords_per_word=3.04)
    return report._replace(**values)


def configured(**tokenizer: object) -> Config:
    values = {f"tokenizer.{key}": value for key, value in {"vocab_size": 500, **tokenizer}.items()}
    return override_config(load_config("multi30k").config, values)


def test_a_vocabulary_too_small_for_the_text() -> None:
    """The numbers are those of Multi30k's training set with a joint vocabulary of 500."""
    (finding,) = vocabulary_findings([used()], configured())
    assert (finding.severity, finding.name) == ("warning", "vocabulary_small_for_corpus")
    assert "3.0 subwords per word" in finding.message
    assert "half of its 240 entries occur 5,198 times or more" in finding.message
    assert finding.hint == "double tokenizer.vocab_size = 500"


def test_a_vocabulary_too_large_for_the_text_or_of_other_text() -> None:
    (finding,) = vocabulary_findings([used(num_rare=121)], configured())
    assert (finding.severity, finding.name) == ("warning", "vocabulary_large_for_corpus")
    assert "121 of 240 entries of the joint vocabulary occur fewer than 10" in finding.message
    assert finding.hint == "halve tokenizer.vocab_size = 500"
    (finding,) = vocabulary_findings([used(num_rare=121)], configured(source_model="given.model"))
    assert "tokenizer.source_model=null" in finding.hint
    (finding,) = vocabulary_findings([used(num_unused=61)], configured(source_model="given.model"))
    assert (finding.severity, finding.name) == ("warning", "vocabulary_unused")
    assert "61 of 240 entries of the joint vocabulary never occur" in finding.message
    assert "tokenizer.source_model=null" in finding.hint


@pytest.mark.parametrize(
    "values, settings",
    [
        ({"subwords_per_word": 2.5}, {}),
        ({"median_count": 399.0}, {}),  # little text: with more entries each would be rare
        ({"subwords_per_word": None}, {}),
        ({"num_entries": 740, "median_count": 858.0, "subwords_per_word": 2.06}, {}),  # Multi30k with 1,000
        ({}, {"source_model": "given.model"}),
    ],
)
def test_a_small_vocabulary_that_suits(values: dict[str, object], settings: dict[str, object]) -> None:
    assert list(vocabulary_findings([used(**values)], configured(**settings))) == []


def test_histogram() -> None:
    lengths = np.array([0, 1, 5, 6, 500, 501, 9000])
    counts = measure_lengths(lengths, lengths).target_histogram
    assert len(counts) == len(HISTOGRAM_ENDS) + 1
    assert {end: count for end, count in zip((*HISTOGRAM_ENDS, None), counts, strict=True) if count} == {
        0: 1, 5: 2, 10: 1, 500: 1, None: 2,
    }  # fmt: skip
