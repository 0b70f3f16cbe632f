"""Characters without an entry and entries without use, counted by hand."""

from pathlib import Path

import pytest

from translate.config.data import TextCorpus
from translate.config.load import load_config, override_config
from translate.config.schema import Config, TokenizerConfig
from translate.data.corpora import ParallelCorpus
from translate.data.tokenizer import Tokenizers, train_tokenizer
from translate.lint.corpora import survey_corpus, take_sample
from translate.lint.findings import Finding
from translate.lint.vocabulary import (
    VocabularyReport,
    examine_vocabularies,
    measure_lengths,
    spelling_findings,
    vocabulary_findings,
)


def spelling(config: Config, *lines: str, learnt: tuple[str, ...]) -> list[Finding]:
    """What is found in sources that are all spelt, and in these targets."""
    tokenizer = train_tokenizer([*learnt] * 5, config.tokenizer)
    corpus = ParallelCorpus("any", ["ab cd"] * len(lines), lines, 1.0)
    survey = survey_corpus("data.any", corpus, TextCorpus(kind="text", source=Path("a"), target=Path("b")))
    sample = take_sample(corpus, max_pairs=100)
    ids = [tokenizer.encode_lines(side, num_threads=1) for side in sample[1:]]
    return list(spelling_findings(config, survey, sample, ids, Tokenizers(tokenizer, tokenizer, "joint")))


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_characters_without_an_entry(byte_fallback: bool) -> None:
    config = configured(vocab_size=280 if byte_fallback else 20, byte_fallback=byte_fallback)
    (finding,) = spelling(config, "ab", "a☃b", "☃ ☃", "ö", learnt=("ab cd", "dc ba", "abc d"))
    assert finding.name == ("characters_in_bytes" if byte_fallback else "unknown_characters")
    # ☃ is three bytes, ö two.
    assert finding.message.startswith("data.any: 11 of" if byte_fallback else "data.any: 4 of")
    assert "in 3 lines, the first 2, " in finding.message and finding.message.endswith(": ☃ (U+2603) ö (U+00F6)")


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_a_script_that_the_vocabulary_does_not_cover(byte_fallback: bool) -> None:
    config = configured(vocab_size=270 if byte_fallback else 12, byte_fallback=byte_fallback)
    lines = ["два пса", "a дом", "кот", "ab cd"]
    (finding,) = spelling(config, *lines, learnt=("ab cd", "dc ba"))
    assert finding.severity == ("warning" if byte_fallback else "error")
    (few,) = spelling(config, *lines, *["ab cd"] * 9, learnt=("ab cd", "dc ba"))  # most lines are spelt
    assert few.severity == "warning"


def examine(*sides: list[list[int]], lines: tuple[str, ...] = (), share: float = 1.0) -> VocabularyReport:
    tokenizer = train_tokenizer(["ab cd", "dc ba", "abc d"] * 5, TokenizerConfig(vocab_size=265))
    (report,) = examine_vocabularies(Tokenizers(tokenizer, tokenizer, "joint"), sides, [lines, ()], share=share)
    return report


def test_entries_that_are_not_used() -> None:
    assert examine([[*range(4, 265)] * 10], []) == ("joint", 265, 265 - 4 - 256, 0, 0, None)
    ids = [[260] * 10, [261] * 9, [262]]  # an entry ten times, one nine times, one once
    assert examine(ids[:1], ids[1:])[2:5] == (5, 2, 4)
    # Of a corpus ten times as large, the one that was seen once is expected ten times.
    assert examine(ids, [], share=0.1)[2:5] == (5, 2, 2)


def test_subwords_per_word() -> None:
    sides = [[260] * 4, [261] * 3], [[262] * 5]  # 12 subwords of 5 words
    without_spaces = "这是一个没有空格的句子它很长 很长很长很长很长很长很长很长很长很长很长"
    for lines, expected in ((("ab cd ab", "", " dc ba "), 2.4), ((without_spaces,), None), (("",), None)):
        assert examine(*sides, lines=lines).subwords_per_word == expected


def used(**values: object) -> VocabularyReport:
    report = VocabularyReport("joint", 500, 240, num_unused=0, num_rare=12, subwords_per_word=3.04)
    return report._replace(**values)


def configured(**tokenizer: object) -> Config:
    values = {f"tokenizer.{key}": value for key, value in {"vocab_size": 500, **tokenizer}.items()}
    return override_config(load_config("multi30k").config, values)


def test_a_vocabulary_too_large_for_the_text_or_of_other_text() -> None:
    (finding,) = vocabulary_findings([used(num_rare=121)], configured())
    assert (finding.severity, finding.name) == ("warning", "vocabulary_large_for_corpus")
    assert "121 of 240 entries of the joint vocabulary occur fewer than 10" in finding.message
    assert finding.hint == "halve tokenizer.vocab_size = 500"
    (finding,) = vocabulary_findings([used(num_rare=121)], configured(source_model="given.model"))
    assert "tokenizer.source_model=null" in finding.hint


@pytest.mark.parametrize("values", [{"num_rare": 120}, {"num_entries": 99, "num_rare": 99}])
def test_a_vocabulary_that_suits(values: dict[str, object]) -> None:
    assert list(vocabulary_findings([used(**values)], configured())) == []


def test_lengths() -> None:
    """Of 200 sentences 198 have at most 5 tokens: 3 · 100 + 5 · 98 + 2 · 60 are 910."""
    ids = [[7] * 3] * 100 + [[7] * 5] * 98 + [[7] * 60] * 2
    assert measure_lengths("source", ids) == ("source", 4.55, 5, 60)
