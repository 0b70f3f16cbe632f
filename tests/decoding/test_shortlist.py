"""Shortlists: their content by hand, one sentence and a batch alike, and what they cover of the embedded corpus."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from translate.config.data import DataConfig, TextCorpus, TokenizerConfig
from translate.config.decoding import DecodingConfig
from translate.config.schema import Config
from translate.data.batching import EncodedPair, collate_sources
from translate.data.lexicon import NULL_ID, Lexicon, learn_lexicon
from translate.data.text import read_lines
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, train_tokenizer
from translate.decoding.shortlist import (
    Shortlist,
    make_shortlist,
    read_shortlist,
    select_shortlist,
)
from translate.errors import InputError, RunError
from translate.runs.checkpoint import add_prefix, write_tensors
from translate.runs.directory import create_run
from translate.runs.loading import get_parameters, load_run

Toy = Any  # conftest.py's: test modules cannot import each other

CORPUS = Path(__file__).resolve().parents[2] / "data"
SPECIALS = [UNK_ID, EOS_ID]

# Source ids 4 to 6, target ids 4 to 10; 10 never occurs.
LEXICON = Lexicon(
    source_ids=np.array([NULL_ID, 4, 4, 4, 5, 5, 5]),
    target_ids=np.array([9, 4, 6, 7, 5, 6, 8]),
    probabilities=np.array([1.0, 0.7, 0.1, 0.2, 0.3, 0.3, 0.4]),
)
SOURCE_COUNTS = np.array([0, 0, 0, 0, 3, 2, 0])
TARGET_COUNTS = np.array([0, 1, 0, 0, 5, 2, 3, 3, 2, 1, 0])


def select(*, num_frequent: int, num_translations: int, joint: bool = False) -> Shortlist:
    return select_shortlist(
        LEXICON,
        source_counts=np.append(SOURCE_COUNTS, [0, 0, 4, 0]) if joint else SOURCE_COUNTS,
        target_counts=TARGET_COUNTS,
        vocabulary="joint" if joint else "separate",
        num_frequent=num_frequent,
        num_translations=num_translations,
    )


def allowed_ids(shortlist: Shortlist, source_ids: list[int]) -> list[int]:
    """The list of one sentence."""
    ids: list[int] = shortlist.allowed(torch.tensor([source_ids], dtype=torch.long))[0].nonzero()[:, 0].tolist()
    return ids


def build_shortlist(
    pairs: list[EncodedPair], *, source_vocab_size: int, target_vocab_size: int, **options: Any
) -> Shortlist:
    source_counts, target_counts = (
        np.bincount([token for ids in side for token in ids], minlength=size)
        for side, size in zip(zip(*pairs, strict=True), (source_vocab_size, target_vocab_size), strict=True)
    )
    lexicon = learn_lexicon(pairs, source_vocab_size=source_vocab_size, target_vocab_size=target_vocab_size)
    return select_shortlist(lexicon, source_counts=source_counts, target_counts=target_counts, **options)


def draw_shortlist() -> Shortlist:
    """For a vocabulary of 31 source and 37 target ids."""
    generator = np.random.default_rng(3)
    pairs = [
        EncodedPair(generator.integers(4, 31, size=5).tolist(), generator.integers(4, 37, size=7).tolist())
        for _ in range(53)
    ]
    return build_shortlist(
        pairs, source_vocab_size=31, target_vocab_size=37, vocabulary="separate", num_frequent=3, num_translations=2
    )


# Content


def test_likeliest_translations() -> None:
    shortlist = select(num_frequent=0, num_translations=2)
    assert allowed_ids(shortlist, [4]) == [*SPECIALS, 4, 7]
    assert allowed_ids(shortlist, [5]) == [*SPECIALS, 5, 8]  # of 5 and 6, which are alike, the first
    assert allowed_ids(shortlist, [5, 4, 5]) == [*SPECIALS, 4, 5, 7, 8]
    assert allowed_ids(shortlist, [6]) == allowed_ids(shortlist, []) == SPECIALS


def test_frequent_ids_take_no_place_among_the_translations() -> None:
    shortlist = select(num_frequent=2, num_translations=2)  # 4, and of 6 and 7 the first
    assert allowed_ids(shortlist, []) == [*SPECIALS, 4, 6]
    assert allowed_ids(shortlist, [4]) == [*SPECIALS, 4, 6, 7]
    assert allowed_ids(shortlist, [5]) == [*SPECIALS, 4, 5, 6, 8]


def test_frequent_ids_are_at_most_those_that_occur() -> None:
    shortlist = select(num_frequent=97, num_translations=0)
    assert allowed_ids(shortlist, [4, 5]) == [*SPECIALS, 4, 5, 6, 7, 8, 9]


def test_a_joint_vocabulary_lets_tokens_be_copied() -> None:
    shortlist = select(num_frequent=0, num_translations=1, joint=True)
    assert allowed_ids(shortlist, [4]) == [*SPECIALS, 4]
    assert allowed_ids(shortlist, [5]) == [*SPECIALS, 5, 8]  # 5 is likely no translation of itself, but a target has it
    assert allowed_ids(shortlist, [10]) == [*SPECIALS, 10]  # nothing is known of it, so it may be a name
    sources = [PAD_ID, UNK_ID, BOS_ID, EOS_ID]
    assert allowed_ids(shortlist, sources) == SPECIALS
    # As a source 10 is now known, and no target ever had it.
    counts = np.append(SOURCE_COUNTS, [0, 0, 4, 2])
    known = select_shortlist(
        LEXICON, source_counts=counts, target_counts=TARGET_COUNTS, vocabulary="joint",
        num_frequent=0, num_translations=1,
    )  # fmt: skip
    assert allowed_ids(known, [10]) == SPECIALS


def test_padding_and_start_are_never_allowed() -> None:
    counts = TARGET_COUNTS.copy()
    counts[[PAD_ID, BOS_ID]] = 1000
    lexicon = Lexicon(np.array([4, 4]), np.array([PAD_ID, BOS_ID]), np.array([0.5, 0.5]))
    shortlist = select_shortlist(
        lexicon, source_counts=SOURCE_COUNTS, target_counts=counts, vocabulary="separate",
        num_frequent=3, num_translations=2,
    )  # fmt: skip
    assert allowed_ids(shortlist, [4, PAD_ID, BOS_ID]) == [*SPECIALS, 4]


def test_built_from_pairs() -> None:
    pairs = [EncodedPair([4], [7]), EncodedPair([5], [8]), EncodedPair([4, 5], [7, 8, 9]), EncodedPair([6], [9, 9])]
    shortlist = build_shortlist(
        pairs, source_vocab_size=7, target_vocab_size=11, vocabulary="separate", num_frequent=1, num_translations=1
    )
    assert [allowed_ids(shortlist, [token]) for token in (4, 5, 6)] == [
        [*SPECIALS, 7, 9], [*SPECIALS, 8, 9], [*SPECIALS, 9]
    ]  # fmt: skip


# Batches


def test_batch_equals_single_sentences() -> None:
    shortlist = draw_shortlist()
    sentences = [[4, 11, 30], [], [7], [30, 29, 4, 4, 17]]
    allowed = shortlist.allowed(collate_sources(sentences))
    assert allowed.shape == (4, 37) and allowed.dtype == torch.bool
    for sentence, row in zip(sentences, allowed, strict=True):
        expected = set(shortlist.always.nonzero()[:, 0].tolist())
        for token in sentence:
            expected |= set(shortlist.translations[token].tolist())
        assert row.nonzero()[:, 0].tolist() == sorted(expected) == allowed_ids(shortlist, sentence)
    assert allowed.sum(dim=1).unique().numel() == 4  # they differ, so that a mixed-up row would be seen
    assert shortlist.allowed(torch.zeros(3, 0, dtype=torch.long)).equal(shortlist.always.expand(3, -1))


def test_a_sentence_alone_decides_its_list() -> None:
    shortlist = draw_shortlist()
    alone = shortlist.allowed(collate_sources([[5, 13]]))
    beside = shortlist.allowed(collate_sources([[6] * 19, [5, 13], [23]]))
    assert beside[1].equal(alone[0])
    assert not beside[0].equal(alone[0])


# Coverage


def share_covered(allowed: Tensor, references: list[list[int]]) -> float:
    """Of the references' tokens, those that their sentence's list has."""
    covered = [allowed[sentence, target] for sentence, target in enumerate(references)]
    return float(torch.cat(covered).double().mean())


def test_covers_the_embedded_corpus() -> None:
    """Nearly all that the references of held-out sentences have is in the lists, and these are a small part of all."""
    german, english = (read_lines(CORPUS / f"train.{language}") for language in ("de", "en"))
    tokenizer = train_tokenizer([*german, *english], TokenizerConfig(vocab_size=3000))

    def encode(lines: list[str]) -> list[list[int]]:
        return tokenizer.encode_lines(lines, num_threads=1)

    pairs = [EncodedPair(source, target) for source, target in zip(encode(german), encode(english), strict=True)]
    shortlist = build_shortlist(
        pairs, source_vocab_size=3000, target_vocab_size=3000, vocabulary="joint", num_frequent=100, num_translations=10
    )
    references = encode(read_lines(CORPUS / "validation.en"))
    allowed = shortlist.allowed(collate_sources(encode(read_lines(CORPUS / "validation.de"))))
    assert share_covered(allowed, references) > 0.999  # measured: 0.99965
    assert float(allowed.sum(dim=1).double().mean()) < 200  # measured: 181 of 3000
    # It is the translations that cover, and those of the right sentence.
    assert share_covered(shortlist.always.expand(len(references), -1), references) < 0.8
    assert share_covered(allowed.roll(1, dims=0), references) < 0.9


# A run's shortlist


@pytest.fixture
def run(toy: Toy, tmp_path: Path) -> Path:
    """A run with two corpora: "Hund Haus" is "dog house" five times, and "läuft" is "runs" three times."""
    corpora = []
    for name, number, source, target in [("one", 5, "Hund Haus", "dog house"), ("two", 3, "läuft", "runs")]:
        paths = [tmp_path / f"{name}.de", tmp_path / f"{name}.en"]
        for path, text in zip(paths, (source, target), strict=True):
            path.write_text(f"{text}\n" * number, encoding="utf-8")
        corpora.append(TextCorpus(kind="text", source=paths[0], target=paths[1]))
    config = Config(
        data=DataConfig(train=tuple(corpora)), model=toy.model.config, decoding=DecodingConfig(device="cpu")
    )
    directory = create_run(tmp_path / "run", config=config, tokenizers=toy.tokenizers, command=["translate", "train"])
    write_tensors(directory.checkpoint("best"), add_prefix(get_parameters(toy.model), "model."), {"step": "3"})
    return directory.path


def test_made_from_all_corpora_and_read_again(toy: Toy, run: Path) -> None:
    assert make_shortlist(run, num_frequent=0, num_translations=20) == 8
    shortlist = read_shortlist(load_run(run, checkpoint="best"))
    source, target = toy.tokenizers.source, toy.tokenizers.target
    for given, allowed, forbidden in [("Hund", "dog house", "runs"), ("läuft", "runs", "dog")]:
        candidates = set(allowed_ids(shortlist, source.encode(given)))
        assert {*target.encode(allowed), EOS_ID} <= candidates
        assert not set(target.encode(forbidden)) <= candidates


def test_numbers_are_those_asked_for(run: Path) -> None:
    make_shortlist(run, num_frequent=2, num_translations=1)
    shortlist = read_shortlist(load_run(run, checkpoint="best"))
    assert int(shortlist.always.sum()) == 2 + 2  # UNK and EOS besides


def test_pairs_that_training_leaves_out_are_left_out(toy: Toy, run: Path) -> None:
    (run.parent / "two.de").write_text("läuft " * 300 + "\nläuft\nläuft\n", encoding="utf-8")
    assert make_shortlist(run, num_frequent=0, num_translations=5) == 7


def test_corpora_that_are_gone(run: Path) -> None:
    (run.parent / "two.en").unlink()
    with pytest.raises(InputError, match=r"^data.train.1: .*two.en: no such file"):
        make_shortlist(run, num_frequent=0, num_translations=5)
    assert not (run / "shortlist.safetensors").exists()


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run directory"):
        make_shortlist(tmp_path / "nowhere", num_frequent=0, num_translations=5)


def test_a_file_that_is_no_shortlist_of_this_run(toy: Toy, run: Path) -> None:
    make_shortlist(run, num_frequent=2, num_translations=1)
    loaded = load_run(run, checkpoint="best")
    shortlist = read_shortlist(loaded)
    assert shortlist.translations.dtype == torch.int32
    write_tensors(run / "shortlist.safetensors", {**shortlist._asdict(), "always": shortlist.always[:-2]}, {})
    size = toy.tokenizers.source.vocab_size
    with pytest.raises(RunError, match=rf"is a shortlist for vocabularies of {size} and {size - 2} subwords, but the"):
        read_shortlist(loaded)
    for other in ({"always": shortlist.always}, {**shortlist._asdict(), "translations": torch.tensor(1)}):
        write_tensors(run / "shortlist.safetensors", other, {})
        with pytest.raises(RunError, match=r"is a shortlist for vocabularies of 0 and "):
            read_shortlist(loaded)
