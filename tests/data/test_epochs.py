"""Epochs: a pure function of the seed and the number, within the limits."""

import hashlib
from typing import Any

import pytest
from harness import values_of

from translate.config.data import Augmentation, DataConfig
from translate.config.schema import TokenizerConfig
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import BatchSettings, Epoch, TrainingBatches
from translate.data.extension import add_tags
from translate.data.tokenizer import Tokenizers, train_tokenizer


@pytest.fixture(scope="module")
def letters() -> Tokenizers:
    """A vocabulary in which `a b c` is three tokens: each letter with the space before it."""
    tokenizer = train_tokenizer(["a b c"] * 3, TokenizerConfig(vocab_size=11, byte_fallback=False))
    return Tokenizers(tokenizer, tokenizer, "joint")


def words(count: int) -> str:
    return " ".join("abc"[number % 3] for number in range(count))


def corpus(lengths: list[tuple[int, int]], *, name: str = "news", weight: float = 1.0) -> ParallelCorpus:
    return ParallelCorpus(name, [words(s) for s, _ in lengths], [words(t) for _, t in lengths], weight)


def make(corpora: list[ParallelCorpus], tokenizers: Tokenizers, **settings: Any) -> TrainingBatches:
    values = {"limits": DataConfig(), "subword_sampling": None, "batch_tokens": 29, "seed": 1}
    return TrainingBatches(corpora, tokenizers, BatchSettings(**values | settings))


def seen(epoch: Epoch) -> list[int]:
    return sorted(index for batch in epoch for index in batch.indices)


LENGTHS = [(s, t) for s in range(1, 9) for t in (s, s + 1, s + 2)]


def test_an_epoch_is_a_function_of_seed_and_number(letters: Tokenizers) -> None:
    for sampling in (None, 0.3):
        one, two = (make([corpus(LENGTHS, weight=1.5)], letters, subword_sampling=sampling) for _ in range(2))
        two.epoch(5)  # what was asked for before does not matter
        expected, again = one.epoch(3), two.epoch(3)
        assert values_of(again) == values_of(expected)
        assert values_of([again[number] for number in range(2, len(again))]) == values_of(expected)[2:]
        assert values_of(expected) != values_of(one.epoch(4))
        other_seed = make([corpus(LENGTHS, weight=1.5)], letters, subword_sampling=sampling, seed=2)
        assert values_of(expected) != values_of(other_seed.epoch(3))


def test_weights(letters: Tokenizers) -> None:
    pairs = [(2, 2)] * 10
    batches = make([corpus(pairs, weight=2.0), corpus(pairs, weight=0.5), corpus(pairs, weight=1.3)], letters)
    halves = set()
    for number in range(7):
        indices = seen(batches.epoch(number))
        assert indices[:20] == sorted([*range(10), *range(10)])
        half = [index for index in indices if 10 <= index < 20]
        assert len(half) == len(set(half)) == 5
        halves.add(tuple(half))
        assert len([index for index in indices if index >= 20]) == 13
    assert len(halves) > 3
    rare = make([corpus(pairs, weight=0.001)], letters)
    assert len(seen(rare.epoch(0))) == 1  # an epoch is never empty


@pytest.mark.parametrize("sampling", [None, 0.3])
def test_tags_of_any_spelling_stay_whole_in_changed_and_sampled_text(sampling: float | None) -> None:
    """`__de__` would become `__DE__` if the text were changed with its tag."""
    text, augment = ["ab ba ab"] * 40, Augmentation(upper_case=0.5, typos=0.5)
    plain = train_tokenizer([*text, "ABBA", "__de__"], TokenizerConfig(vocab_size=280))
    tokenizers = add_tags(Tokenizers(plain, plain, "joint"), ["__de__", "<bt>"], ["__en__"])
    tagged = ParallelCorpus("", text, text, 1.0, "__de__ <bt>", "__en__", augment=augment)
    other = ParallelCorpus("", text, text, 1.0, augment=augment)
    epoch = make([tagged, other], tokenizers, subword_sampling=sampling, batch_tokens=500).epoch(0)
    assert epoch.num_changed > 40
    tags = [tokenizers.source.tag_id(tag) for tag in ("__de__", "<bt>", "__en__")]
    for batch in epoch:
        rows = zip(batch.indices, batch.source_ids.tolist(), batch.target_output_ids.tolist(), strict=True)
        for index, source, target in rows:
            assert (source[:2] == tags[:2]) == (target[:1] == tags[2:]) == (index < 40)


def test_padding_is_counted(letters: Tokenizers) -> None:
    # One batch of both pairs. Source 3 + 5 tokens in 2 x 5; target 4 + 6 in 2 x 6; the specials counted.
    padding = make([corpus([(2, 3), (4, 5)])], letters).epoch(0).padding
    assert padding == (4 / 22, 22, 10)
    # And from the shapes of several batches.
    epoch = make([corpus(LENGTHS)], letters).epoch(0)
    shapes = [[len(batch.indices), batch.source_ids.shape[1], batch.target_input_ids.shape[1]] for batch in epoch]
    assert epoch.shapes.tolist() == shapes and len(shapes) > 5
    assert epoch.padding.num_computed == sum(rows * (source + target) for rows, source, target in shapes)


@pytest.mark.parametrize(
    ("lengths", "tokens"), [([(8, 2)], (9, 3)), ([(8, 2)] * 20, (29, 9)), ([(2, 8)] * 20, (9, 29))]
)
def test_the_largest_batch(letters: Tokenizers, lengths: list[tuple[int, int]], tokens: tuple[int, int]) -> None:
    """Batches are full on the longer side, here with 29 tokens, and have the corpus's ratio of source to target."""
    assert make([corpus(lengths)], letters).largest_batch == tokens


def test_text_to_sample_is_read_in_blocks(letters: Tokenizers) -> None:
    class CountedText(list[str]):
        num_reads = 0

        def __getitem__(self, which: Any) -> Any:
            CountedText.num_reads += 1
            return super().__getitem__(which)

    plain = corpus(LENGTHS * 20, weight=2.0)
    counted = plain._replace(sources=CountedText(plain.sources), targets=CountedText(plain.targets))
    expected, batches = (make([each], letters, subword_sampling=0.3) for each in (plain, counted))
    CountedText.num_reads = 0
    assert values_of(batches.epoch(3)) == values_of(expected.epoch(3))
    assert CountedText.num_reads < 100  # of 2 * 2 * 480 lines


def test_the_epochs_of_earlier_versions(letters: Tokenizers) -> None:
    # Checksums of what version 0.1.0 planned: runs of that version continue with the same batches.
    parts = [corpus(LENGTHS * 29, weight=1.7), corpus(LENGTHS * 3, weight=0.3)]
    for sampling, expected in ((None, "2c84bf62798e9a5b"), (0.3, "2b3f85a33f4e521f")):
        digest = hashlib.sha256()
        for batch in make(parts, letters, subword_sampling=sampling, batch_tokens=97).epoch(5):
            digest.update(repr((batch.indices, batch.source_ids.tolist(), batch.target_output_ids.tolist())).encode())
        assert digest.hexdigest()[:16] == expected


def test_filtered_pairs_are_reported_by_corpus_and_never_seen(letters: Tokenizers) -> None:
    """Repetitions count in each corpus by itself; `weight` says how often a corpus is seen."""
    corpora = [corpus([(1, 2), (2, 2), (1, 2)], name="a"), corpus([(1, 2), (3, 2), (0, 1)], name="b")]
    batches = make(corpora, letters, limits=DataConfig(leave_out=("equal", "repeated")))
    found = [line.strip() for report in batches.filter_reports for line in report.lines()]
    left_out = ["1 left out: source and target equal", "1 left out: repeated"]
    lines = ["a: 1 of 3", *left_out, "b: 2 of 3", "1 left out: empty"]
    assert len(found) == len(lines) and all(map(str.startswith, found, lines))
    assert seen(batches.epoch(0)) == [0, 3, 4]


def test_a_source_of_a_tag_alone_is_empty() -> None:
    """Also where the space before the tag is a token of its own, as in some vocabularies of MADLAD-400."""
    config = TokenizerConfig(vocab_size=12, byte_fallback=False, add_pieces=["<2de>"])
    tokenizer = train_tokenizer(["a b c"] * 3, config)
    assert tokenizer.pieces(tokenizer.encode("<2de> a")) == ["▁", "<2de>", "▁a"]
    tagged = ParallelCorpus("news", ["a", "", "b"], ["a", "a", "a"], 1.0, "<2de>")
    [report] = make([tagged], Tokenizers(tokenizer, tokenizer, "joint")).filter_reports
    assert (report.num_kept, report.left_out["empty source"]) == (2, 1)
