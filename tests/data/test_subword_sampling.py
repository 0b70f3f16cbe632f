"""Subword sampling: segmentations are a pure function of the seed, distributed as SentencePiece's."""

import math
import tracemalloc
from collections import Counter

import pytest
import sentencepiece

from translate.config.schema import TokenizerConfig
from translate.data.extension import add_pieces
from translate.data.subword_sampling import SubwordSampler
from translate.data.tokenizer import Tokenizer, train_tokenizer


def settings(**changes: object) -> TokenizerConfig:
    return TokenizerConfig.model_validate({"vocab_size": 331, **changes})


def sample(tokenizer: Tokenizer, lines: list[str], *, amount: float, seed: int) -> list[list[int]]:
    return SubwordSampler(tokenizer.model_bytes).sample(lines, amount=amount, seed=seed)


def test_samples_depend_on_the_arguments_alone(tokenizer: Tokenizer, german: list[str], english: list[str]) -> None:
    def draw(seed: int) -> list[list[int]]:
        return sample(tokenizer, german, amount=0.3, seed=seed)

    first = draw(7)
    assert draw(11) != first
    # Disturb every generator that there is: this thread's, the global seed, other threads', other draws.
    sentencepiece.set_random_generator_seed(13)
    other = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    other.encode(english * 17, enable_sampling=True, alpha=0.5, nbest_size=-1)
    other.encode(english * 17, enable_sampling=True, alpha=0.5, nbest_size=-1, num_threads=3)
    sample(tokenizer, english, amount=0.1, seed=7)
    tokenizer.encode_lines(english, num_threads=2)
    assert draw(7) == first
    assert [tokenizer.decode(ids) for ids in first] == german
    assert first != tokenizer.encode_lines(german, num_threads=1)


@pytest.mark.parametrize("options", [{}, {"byte_fallback": False, "character_coverage": 0.98}])
def test_without_randomness_the_draw_is_the_usual_segmentation(options: dict[str, object], german: list[str]) -> None:
    lines = [*german, "Ein 🦄🦄 läuft  weg", "", "中文 ab"]
    bpe = train_tokenizer(german, settings(**{"type": "bpe", **options}))
    unigram = train_tokenizer(german, settings(**{"type": "unigram", **options, "vocab_size": 67 if options else 331}))
    assert sample(bpe, lines, amount=1e-12, seed=1) == bpe.encode_lines(lines, num_threads=1)
    assert sample(unigram, lines, amount=1e5, seed=1) == unigram.encode_lines(lines, num_threads=1)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sentences_without_spaces_are_not_remembered(kind: str, german: list[str]) -> None:
    """The lattices of 200 lines with 60 characters would take 3 MB, and the ids of merged words 200 kB."""
    sampler = SubwordSampler(train_tokenizer(german, settings(type=kind)).model_bytes)
    lines = [f"{number:03}" * 20 for number in range(201)]
    sampler.sample(lines[:1], amount=0.1, seed=1)
    tracemalloc.start()
    try:
        sampler.sample(lines[1:], amount=0.1, seed=1)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 50_000


def test_draws_are_distributed_as_sentencepiece_draws(tokenizer: Tokenizer) -> None:
    # The independent program is SentencePiece's own sampler, which cannot be seeded across processes.
    num_draws, amount = 5003, 0.3
    lines = ["Männer"] * num_draws
    own = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    expected = Counter(map(tuple, own.encode(lines, enable_sampling=True, alpha=amount, nbest_size=-1)))
    found = Counter(map(tuple, sample(tokenizer, lines, amount=amount, seed=3)))
    assert len(expected) > 5
    for ids in expected | found:
        # Five standard deviations of the difference of two counts.
        assert abs(expected[ids] - found[ids]) <= 5 * math.sqrt(expected[ids] + found[ids] + 1), tokenizer.pieces(ids)


def test_what_was_added_to_a_vocabulary_is_never_split(tokenizer: Tokenizer, german: list[str]) -> None:
    grown = add_pieces(tokenizer, ["▁<bt>", "<med>", "<med>x"], ())
    tag, piece, longer = (grown.vocab_size - 3 + number for number in range(3))
    lines = [f"<bt> {line} <med> z<med>xyz" for line in german[:100]]
    for usual, ids in zip(map(grown.encode, lines), sample(grown, lines, amount=0.5, seed=1), strict=True):
        assert ids != usual and grown.decode(ids) == grown.decode(usual)
        assert ids[0] == tag and [each for each in ids if each >= tag] == [tag, piece, longer]
    # Text without them is drawn as before.
    assert sample(grown, german, amount=0.5, seed=1) == sample(tokenizer, german, amount=0.5, seed=1)
