"""What is wrong with a corpus: each inspection finds the fault put in, at its line, and nothing in clean text."""

import random
from pathlib import Path

import numpy as np
import pytest

from translate.config import TokenizerConfig
from translate.data.text import read_lines
from translate.data.tokenizer import Tokenizer, train_tokenizer
from translate.lint.characters import KINDS, find_odd_characters, kinds_of_trouble, lines_by_kind
from translate.lint.duplicates import (
    find_ambiguous,
    find_empty,
    find_equal,
    find_leakage,
    find_repeated,
    hash_pairs,
)
from translate.lint.languages import Languages, find_wrong_languages, learn_languages
from translate.lint.lengths import count_characters, find_unlikely_lengths
from translate.lint.misalignment import ShiftedLines, find_shifted_blocks, find_shifted_lines
from translate.lint.sample import take_sample
from translate.lint.spelling import (
    HISTOGRAM_ENDS,
    examine_spelling,
    examine_vocabulary,
    length_histogram,
)

ROOT = Path(__file__).resolve().parents[2]
MULTI30K = ROOT.parent / "shared" / "multi30k"
Text = tuple[list[str], list[str]]


def read(folder: Path, name: str) -> Text:
    return list(read_lines(folder / f"{name}.de")), list(read_lines(folder / f"{name}.en"))


@pytest.fixture(scope="module")
def embedded() -> Text:
    return read(ROOT / "data", "train")


@pytest.fixture(scope="module")
def some(embedded: Text) -> Text:
    return embedded[0][:3000], embedded[1][:3000]


@pytest.fixture(scope="module")
def tokenizer(some: Text) -> Tokenizer:
    return train_tokenizer([*some[0], *some[1]], TokenizerConfig(vocab_size=2000))


# Repetition


def test_repetition_by_hand() -> None:
    pairs = [
        ("Guten Tag.", "Good day."),  # 0
        ("Hallo!", "Hello!"),
        ("guten  TAG. ", "Good day."),  # 2: the same as 0 but for spaces and case
        ("Guten Tag.", "Hello."),  # 3: the source of 0 with another target
        ("Oslo", "oslo"),  # 4: a copy
        ("", "Nothing"),  # 5
        ("Etwas", " \t"),  # 6
        ("", ""),  # 7
        ("Guten Tag.", "Hello."),  # 8: repeats 3
        ("", "Another"),  # 9: no source is no source twice
        ("", ""),
    ]
    hashes = hash_pairs([source for source, _ in pairs], [target for _, target in pairs])
    assert find_empty(hashes).tolist() == [5, 6, 7, 9, 10]
    assert find_equal(hashes).tolist() == [4]
    assert find_repeated(hashes).tolist() == [2, 8]
    assert find_ambiguous(hashes).tolist() == [3]


def test_source_and_target_do_not_change_places() -> None:
    hashes = hash_pairs(["a", "b"], ["b", "a"])
    assert find_repeated(hashes).tolist() == []


def test_leakage_by_hand() -> None:
    training = hash_pairs(["eins", "zwei", "drei", "zwei"], ["one", "two", "three", "2"])
    held_out = hash_pairs(["vier", "Zwei", "drei ", "eins", "", "zwei"], ["four", "two", "THREE", "1", "", "zwo"])
    leakage = find_leakage(held_out, training)
    assert leakage.pairs.tolist() == [1, 2]
    assert leakage.pairs_in_training.tolist() == [1, 2]
    assert leakage.sources.tolist() == [3, 5]
    assert leakage.sources_in_training.tolist() == [0, 1]


def test_nothing_leaks_from_the_embedded_corpus(embedded: Text) -> None:
    training = hash_pairs(*embedded)
    leakage = find_leakage(hash_pairs(*read(ROOT / "data", "validation")), training)
    assert len(leakage.pairs) == len(leakage.sources) == 0
    assert len(find_repeated(training)) == len(find_equal(training)) == len(find_empty(training)) == 0


# Lengths


def lengths(lines: list[str]) -> np.ndarray:
    return count_characters(lines, count=len(lines))


def test_unlikely_lengths(embedded: Text) -> None:
    sources, targets = list(embedded[0]), list(embedded[1])
    assert find_unlikely_lengths(lengths(sources), lengths(targets)).tolist() == []
    targets[7] = "Yes."  # its source has 72 characters
    targets[11] = f"{targets[11]} {targets[12]} {targets[13]}"
    sources[19] = ""  # empty is another matter
    found = find_unlikely_lengths(lengths(sources), lengths(targets)).tolist()
    assert found == [7, 11], (sources[7], targets[11])


def test_few_or_uniform_pairs_have_no_unlikely_lengths() -> None:
    assert find_unlikely_lengths(np.arange(1, 20), np.arange(19, 0, -1)).tolist() == []
    assert find_unlikely_lengths(np.full(100, 7), np.full(100, 7)).tolist() == []
    assert find_unlikely_lengths(np.full(100, 0), np.full(100, 7)).tolist() == []


# Characters


@pytest.mark.parametrize(
    "line, kind",
    [
        ("a\x07b", "control"),
        ("a\x9fb", "control"),
        ("a\udc80b", "control"),  # half of a surrogate pair
        ("one\u2028two", "line_end"),
        ("one\rtwo", "line_end"),
        ("one\x85two", "line_end"),
        ("a \ue000 b", "private_use"),
        ("zero\u200bwidth", "invisible"),
        ("\ufeffmark", "invisible"),
        ("soft\u00adhyphen", "invisible"),
        ("What\ufffd", "replacement"),
        *(
            (text.encode("utf-8").decode("cp1252"), "mojibake")
            for text in ("Straße", "während", "Größe", "„so“", "it’s", "10 €")
        ),
        ("während".encode().decode("latin-1"), "mojibake"),
        ("да".encode().decode("latin-1"), "mojibake"),
        ("Tom &amp; Jerry", "markup"),
        ("it&#39;s", "markup"),
        ("<b>bold</b>", "markup"),
        ("a<br/>b", "markup"),
    ],
)
def test_an_odd_character_is_named(line: str, kind: str) -> None:
    assert kinds_of_trouble(line) == (kind,)
    assert [(each.number, each.kinds) for each in find_odd_characters(["fine", line, "fine"])] == [(1, (kind,))]


@pytest.mark.parametrize(
    "line",
    [
        "Straße, „Spaß“, “quoted”, l’été, São Paulo, MÃE, Ångström, €5, 10 – 20 …",
        "AT&T and R&D; a < b > c; x <3 y",
        "Мир, Ярославль",
        "a tab\tis a space",
        "no\u00a0break, narrow\u202fno-break",
        "👩‍👩‍👧 family, नमस्ते, می‌خواهم, שלום\u200f, e\u0301",  # joiners and directions belong to their scripts
        "中文。日本語",
        "",
    ],
)
def test_what_belongs_into_text_is_not_odd(line: str) -> None:
    assert kinds_of_trouble(line) == ()
    assert find_odd_characters([line]) == []


def test_a_line_with_two_troubles() -> None:
    found = find_odd_characters(["ok", "&lt;\u200b", "\u200b"])
    assert {kind: numbers.tolist() for kind, numbers in lines_by_kind(found).items()} == {
        "invisible": [1, 2],
        "markup": [1],
    }
    assert set(lines_by_kind(found)) <= set(KINDS)


def test_the_embedded_corpus_has_no_odd_character(embedded: Text) -> None:
    assert find_odd_characters(embedded[0]) == find_odd_characters(embedded[1]) == []


# Languages


@pytest.fixture(scope="module")
def languages(some: Text) -> Languages:
    learnt = learn_languages(*some)
    assert learnt is not None
    return learnt


def test_clean_text_is_in_its_languages(some: Text, languages: Languages) -> None:
    assert [side.tolist() for side in find_wrong_languages(*some, languages, is_own=True)] == [[]] * 4
    held_out = read(ROOT / "data", "test")
    assert [side.tolist() for side in find_wrong_languages(*held_out, languages, is_own=False)] == [[]] * 4


def test_lines_on_the_wrong_side(some: Text) -> None:
    sources, targets = list(some[0]), list(some[1])
    draw = random.Random(1)
    chosen = draw.sample(range(3000), 300)
    for line in chosen[:150]:
        sources[line] = some[1][(line + 100) % 3000]
    for line in chosen[150:]:
        targets[line] = some[0][(line + 100) % 3000]
    learnt = learn_languages(sources, targets)
    assert learnt is not None
    found = find_wrong_languages(sources, targets, learnt, is_own=True)
    for positions, put_in in ((found[0], chosen[:150]), (found[1], chosen[150:])):
        assert set(positions.tolist()) <= set(put_in)
        assert len(positions) >= 0.95 * len(put_in)


def test_sides_that_are_swapped_whole(languages: Languages) -> None:
    sources, targets = read(ROOT / "data", "validation")
    found = find_wrong_languages(targets, sources, languages, is_own=False)
    assert len(found.sources_like_targets) >= 0.99 * len(sources)
    assert len(found.targets_like_sources) >= 0.99 * len(sources)


def test_a_third_language(some: Text) -> None:
    foreign = [
        "Un homme assis sur un banc lit son journal dans le parc.",
        "El perro corre por la calle con una pelota en la boca.",
        "Dwóch mężczyzn stoi przed sklepem i rozmawia.",
    ]
    sources, targets = [*some[0], *foreign], [*some[1], *("The dog is hungry.",) * 3]
    learnt = learn_languages(sources, targets)
    assert learnt is not None
    found = find_wrong_languages(sources, targets, learnt, is_own=True)
    # Spanish may also pass for English, beside German.
    assert sorted([*found.sources_like_neither, *found.sources_like_targets]) == [3000, 3001, 3002]
    assert {3000, 3002} <= set(found.sources_like_neither.tolist())
    assert len(found.targets_like_sources) == len(found.targets_like_neither) == 0


def test_one_language_on_both_sides_and_too_few_lines(some: Text) -> None:
    learnt = learn_languages(some[1], some[1][::-1])
    assert learnt is not None
    found = find_wrong_languages(some[1], some[1][::-1], learnt, is_own=True)
    assert [side.tolist() for side in found] == [[]] * 4
    assert learn_languages(some[0][:199], some[1][:199]) is None


# Shifts


def shifted(sources: list[str], targets: list[str], tokenizer: Tokenizer) -> list[ShiftedLines]:
    return find_shifted_lines(
        tokenizer.encode_lines(sources, num_threads=1),
        tokenizer.encode_lines(targets, num_threads=1),
        numbers=np.arange(len(sources)),
        vocab_size=tokenizer.vocab_size,
    )


def test_straight_lines(some: Text, tokenizer: Tokenizer) -> None:
    assert shifted(*some, tokenizer) == []
    assert find_shifted_blocks(lengths(some[0]), lengths(some[1])) == []


@pytest.mark.parametrize("size", [12, 700])
def test_a_shift_in_the_middle(some: Text, tokenizer: Tokenizer, size: int) -> None:
    """A line too many among the targets at 1500, and one too few `size` lines later."""
    sources, targets = some
    targets = [*targets[:1500], "This is new.", *targets[1500 : 1500 + size], *targets[1501 + size :]]
    (run,) = shifted(sources, targets, tokenizer)
    assert run.offset == 1
    assert abs(run.first - 1500) <= 1 and abs(run.last - (1500 + size - 1)) <= 2


@pytest.mark.parametrize("lost", [1, 2])
def test_a_shift_until_the_end(some: Text, tokenizer: Tokenizer, lost: int) -> None:
    sources, targets = some
    targets = [*targets[:1000], *targets[1000 + lost :], *("",) * lost]
    (run,) = shifted(sources, targets, tokenizer)
    assert run.offset == -lost
    assert abs(run.first - (1000 + lost)) <= 3 and run.last == 2999
    (block,) = find_shifted_blocks(lengths(sources), lengths(targets))
    assert block == ShiftedLines(1000, 2999, -lost)


def test_all_lines_shifted(some: Text, tokenizer: Tokenizer) -> None:
    sources, targets = some
    assert shifted(sources, ["Title", *targets[:-1]], tokenizer) == [ShiftedLines(0, 2999, 1)]


def test_lines_that_are_no_translations_at_all(some: Text, tokenizer: Tokenizer) -> None:
    sources, targets = some[0], list(some[1])
    middle = targets[1000:2000]
    random.Random(3).shuffle(middle)
    targets[1000:2000] = middle
    (run,) = shifted(sources, targets, tokenizer)
    assert run == ShiftedLines(1000, 1999, None)


def test_a_shift_in_runs_of_a_sample(embedded: Text, tokenizer: Tokenizer) -> None:
    sources, targets = embedded
    sample = take_sample(sources, [*targets[:5000], *targets[5001:], "End."], max_pairs=4000)
    (run,) = find_shifted_lines(
        tokenizer.encode_lines(sample.sources, num_threads=1),
        tokenizer.encode_lines(sample.targets, num_threads=1),
        numbers=sample.numbers,
        vocab_size=tokenizer.vocab_size,
    )
    # The sample has no line between 3,786 and 4,928; then one is found in which 5,000 lies.
    assert run.offset == -1 and abs(run.first - 5001) <= 1 and run.last >= 11_990


def test_few_lines_are_not_judged(some: Text, tokenizer: Tokenizer) -> None:
    assert shifted(some[0][:499], some[1][1:500], tokenizer) == []


def test_a_line_of_100000_characters(some: Text, tokenizer: Tokenizer) -> None:
    """Its 30,000 by 30,000 tokens would be 900 million cells."""
    sources, targets = list(some[0]), list(some[1])
    sources[5], targets[5] = "Der faule Hund. " * 6250, "The lazy dog. " * 7143
    assert shifted(sources, targets, tokenizer) == []
    learnt = learn_languages(sources, targets)
    assert learnt is not None
    assert [len(side) for side in find_wrong_languages(sources, targets, learnt, is_own=True)] == [0, 0, 0, 0]


# Sample


def test_a_sample_is_runs_of_neighbours() -> None:
    lines = [str(number) for number in range(10_000)]
    sample = take_sample(lines, lines, max_pairs=1500)
    assert sample.sources == sample.targets == [str(number) for number in sample.numbers]
    # Three runs of 500: the first, the last, and one in the middle.
    assert sample.numbers.tolist() == [*range(500), *range(4750, 5250), *range(9500, 10_000)]
    assert not sample.is_whole and sample.num_pairs == 10_000
    assert take_sample(lines[:1500], lines[:1500], max_pairs=1500).is_whole


# Spelling


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_characters_without_an_entry(byte_fallback: bool) -> None:
    vocab_size = 280 if byte_fallback else 20
    config = TokenizerConfig(vocab_size=vocab_size, byte_fallback=byte_fallback)
    tokenizer = train_tokenizer(["ab cd", "dc ba", "abc d"] * 5, config)
    lines = ["ab", "a☃b", "☃ ☃", "ö"]
    spelling = examine_spelling(lines, tokenizer.encode_lines(lines, num_threads=1), tokenizer)
    assert spelling.lines.tolist() == [1, 2, 3]
    assert spelling.characters == (("☃", 2), ("ö", 1))
    # ☃ is three bytes, ö two.
    assert spelling.num_byte_tokens == (11 if byte_fallback else 0)
    assert spelling.num_unknown_tokens == (0 if byte_fallback else 4)


def test_all_is_spelt_of_what_the_vocabulary_was_made_from(some: Text, tokenizer: Tokenizer) -> None:
    spelling = examine_spelling(some[0], tokenizer.encode_lines(some[0], num_threads=1), tokenizer)
    assert (spelling.num_byte_tokens, spelling.num_unknown_tokens, spelling.characters) == (0, 0, ())


def test_entries_that_are_not_used() -> None:
    tokenizer = train_tokenizer(["ab cd", "dc ba", "abc d"] * 5, TokenizerConfig(vocab_size=265))
    use = examine_vocabulary([[*range(4, 265)] * 10], tokenizer=tokenizer, share=1.0)
    assert use == (265 - 4 - 256, 0, 0)
    ids = [[260] * 10, [261] * 9, [262]]  # an entry ten times, one nine times, one once
    assert examine_vocabulary(ids, tokenizer=tokenizer, share=1.0) == (5, 2, 4)
    # Of a corpus ten times as large, the one that was seen once is expected ten times.
    assert examine_vocabulary(ids, tokenizer=tokenizer, share=0.1) == (5, 2, 2)


def test_histogram() -> None:
    counts = length_histogram(np.array([0, 1, 5, 6, 500, 501, 9000]))
    assert len(counts) == len(HISTOGRAM_ENDS) + 1
    assert {end: count for end, count in zip((*HISTOGRAM_ENDS, None), counts, strict=True) if count} == {
        0: 1, 5: 2, 10: 1, 500: 1, None: 2,
    }  # fmt: skip


# Real text


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="Multi30k is not here")
def test_multi30k_is_clean() -> None:
    """Of 29,000 pairs of captions two are suspicious by their lengths, rightly, and none by language or place."""
    sources, targets = read(MULTI30K, "train")
    unlikely = find_unlikely_lengths(lengths(sources), lengths(targets)).tolist()
    assert [sources[line] for line in unlikely] == ["@@", "@@"]
    learnt = learn_languages(sources, targets)
    assert learnt is not None
    assert [len(side) for side in find_wrong_languages(sources, targets, learnt, is_own=True)] == [0, 0, 0, 0]
    sources, targets = sources[:8000], targets[:8000]
    tokenizer = train_tokenizer([*sources, *targets], TokenizerConfig(vocab_size=4000))
    assert shifted(sources, targets, tokenizer) == []
    targets = [*targets[:5000], *targets[5001:5020], "x", *targets[5020:]]  # 19 lines
    (run,) = shifted(sources, targets, tokenizer)
    assert run.offset == -1 and abs(run.first - 5001) <= 1 and abs(run.last - 5019) <= 1
