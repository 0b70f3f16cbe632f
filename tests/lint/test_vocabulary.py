"""Characters without an entry and entries without use, counted by hand."""

import numpy as np
import pytest

from translate.config.data import TokenizerConfig
from translate.data.tokenizer import Tokenizer, train_tokenizer
from translate.lint.vocabulary import (
    HISTOGRAM_ENDS,
    SideSpelling,
    examine_spelling,
    examine_vocabulary,
    measure_lengths,
)

Text = tuple[list[str], list[str]]


def spell(side: str, lines: list[str], tokenizer: Tokenizer) -> SideSpelling:
    ids = tokenizer.encode_lines(lines, num_threads=1)
    return examine_spelling(side, lines, ids, tokenizer, numbers=np.arange(len(lines)))


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_characters_without_an_entry(byte_fallback: bool) -> None:
    vocab_size = 280 if byte_fallback else 20
    config = TokenizerConfig(vocab_size=vocab_size, byte_fallback=byte_fallback)
    tokenizer = train_tokenizer(["ab cd", "dc ba", "abc d"] * 5, config)
    lines = ["ab", "a☃b", "☃ ☃", "ö"]
    spelling = spell("target", lines, tokenizer)
    assert (spelling.side, spelling.num_lines, spelling.first_line) == ("target", 3, 2)
    assert list(spelling.characters.items()) == [("☃", 2), ("ö", 1)]
    # ☃ is three bytes, ö two.
    assert spelling.num_byte_tokens == (11 if byte_fallback else 0)
    assert spelling.num_unknown_tokens == (0 if byte_fallback else 4)


def test_all_is_spelt_of_what_the_vocabulary_was_made_from(some: Text, tokenizer: Tokenizer) -> None:
    spelling = spell("source", some[0], tokenizer)
    assert (spelling.num_byte_tokens, spelling.num_unknown_tokens, spelling.characters) == (0, 0, {})
    assert (spelling.num_lines, spelling.first_line) == (0, None)


def test_entries_that_are_not_used() -> None:
    tokenizer = train_tokenizer(["ab cd", "dc ba", "abc d"] * 5, TokenizerConfig(vocab_size=265))
    use = examine_vocabulary("joint", tokenizer, [[[*range(4, 265)] * 10]], share=1.0)
    assert use == ("joint", 265, 265 - 4 - 256, 0, 0)
    ids = [[260] * 10, [261] * 9, [262]]  # an entry ten times, one nine times, one once
    assert examine_vocabulary("source", tokenizer, [ids], share=1.0)[2:] == (5, 2, 4)
    assert examine_vocabulary("source", tokenizer, [ids[:1], ids[1:]], share=1.0)[2:] == (5, 2, 4)
    # Of a corpus ten times as large, the one that was seen once is expected ten times.
    assert examine_vocabulary("source", tokenizer, [ids], share=0.1)[2:] == (5, 2, 2)


def test_histogram() -> None:
    lengths = np.array([0, 1, 5, 6, 500, 501, 9000])
    counts = measure_lengths(lengths, lengths).target_histogram
    assert len(counts) == len(HISTOGRAM_ENDS) + 1
    assert {end: count for end, count in zip((*HISTOGRAM_ENDS, None), counts, strict=True) if count} == {
        0: 1, 5: 2, 10: 1, 500: 1, None: 2,
    }  # fmt: skip
