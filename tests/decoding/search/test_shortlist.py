"""Shortlists: their content by hand, what they cover of the embedded corpus, and searches with one."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from harness import Toy, flip_a_bit, run_command, write_run

from translate.data.lexicon import NULL_ID, Lexicon
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from translate.decoding.loading import load_translator
from translate.decoding.search.model import CachedDecoder
from translate.decoding.search.shortlist import Shortlist, make_shortlist, read_shortlist, select_shortlist
from translate.errors import InputError, RunError
from translate.runs.checkpoint import write_tensors
from translate.runs.run import open_run

SPECIALS = [UNK_ID, EOS_ID]

# Source ids 4 to 6, target ids 4 to 10; 10 never occurs.
LEXICON = Lexicon(
    source_ids=np.array([NULL_ID, 4, 4, 4, 5, 5, 5]),
    target_ids=np.array([9, 4, 6, 7, 5, 6, 8]),
    probabilities=np.array([1.0, 0.7, 0.1, 0.2, 0.3, 0.3, 0.4]),
)
SOURCE_COUNTS = np.array([0, 0, 0, 0, 3, 2, 0])
TARGET_COUNTS = np.array([0, 1, 0, 0, 5, 2, 3, 3, 2, 1, 0])


def select(num_frequent: int, num_translations: int, *, joint: bool = False, of_10: int = 0) -> Shortlist:
    """The shortlist of `LEXICON`; `of_10` is how often the source has the token 10."""
    return select_shortlist(
        LEXICON,
        source_counts=np.append(SOURCE_COUNTS, [0, 0, 4, of_10]) if joint else SOURCE_COUNTS,
        target_counts=TARGET_COUNTS,
        vocabulary="joint" if joint else "separate",
        num_frequent=num_frequent,
        num_translations=num_translations,
    )


def allowed_ids(shortlist: Shortlist, source_ids: list[int]) -> list[int]:
    ids: list[int] = shortlist.allowed(torch.tensor([source_ids], dtype=torch.long))[0].nonzero()[:, 0].tolist()
    return ids


@pytest.mark.parametrize(
    ("shortlist", "source", "expected"),
    [
        (select(0, 2), [4], [4, 7]),  # the likeliest two
        (select(0, 2), [5], [5, 8]),  # 5 and 6 are equally likely: the first
        (select(0, 2), [5, 4, 5], [4, 5, 7, 8]),
        (select(0, 2), [6], []),
        (select(0, 2), [], []),
        (select(2, 2), [], [4, 6]),  # frequent: 4, and of 6 and 7 the first
        (select(2, 2), [5], [4, 5, 6, 8]),  # frequent tokens take no place among the translations
        (select(97, 0), [4, 5], [4, 5, 6, 7, 8, 9]),  # tokens that never occur are not frequent
        (select(0, 1, joint=True), [5], [5, 8]),  # a joint vocabulary lets tokens be copied
        (select(0, 1, joint=True), [10], [10]),  # nothing is known of it, so it may be a name
        (select(0, 1, joint=True, of_10=2), [10], []),  # sources had it, and targets never did
        (select(0, 1, joint=True), [PAD_ID, UNK_ID, BOS_ID, EOS_ID], []),
    ],
)
def test_tokens_that_a_source_allows(shortlist: Shortlist, source: list[int], expected: list[int]) -> None:
    assert allowed_ids(shortlist, source) == [*SPECIALS, *expected]


def test_padding_and_start_are_never_allowed() -> None:
    counts = TARGET_COUNTS.copy()
    counts[[PAD_ID, BOS_ID]] = 1000
    lexicon = Lexicon(np.array([4, 4]), np.array([PAD_ID, BOS_ID]), np.array([0.5, 0.5]))
    shortlist = select_shortlist(
        lexicon, source_counts=SOURCE_COUNTS, target_counts=counts, vocabulary="separate",
        num_frequent=3, num_translations=2,
    )  # fmt: skip
    assert allowed_ids(shortlist, [4, PAD_ID, BOS_ID]) == [*SPECIALS, 4]


@torch.no_grad()
def test_each_sentence_of_a_search_has_its_own_tokens(toy: Toy) -> None:
    """Also as others join and leave; the tokens that it has share the whole probability."""
    always = torch.zeros(toy.tokenizers.target.vocab_size, dtype=torch.bool)
    always[[*SPECIALS, 4]] = True
    shortlist = Shortlist(always, torch.arange(toy.tokenizers.source.vocab_size * 2).view(-1, 2).int() % 7 + 4)
    sources = [toy.tokenizers.source.encode(source) for source in toy.sources]
    also = [[20 + sentence] for sentence in range(len(sources))]
    decoder = CachedDecoder([toy.model], sources, beam_size=1, max_length=7, shortlist=shortlist, also_allowed=also)
    cache = decoder.start([3, 5], [0, 1], None)
    for sentences in ([3, 5], [3, 5, 7], [3, 7]):
        if sentences == [3, 5, 7]:
            cache = decoder.start([7], [2], cache)
        elif sentences == [3, 7]:
            cache = decoder.select_rows(cache, [0, 2])
        log_probs, cache = decoder.step(torch.full((len(sentences), 1), BOS_ID), cache)
        for row, sentence in enumerate(sentences):
            probabilities = log_probs[row, 0].exp()
            expected = {*allowed_ids(shortlist, sources[sentence]), 20 + sentence}
            assert set(probabilities.nonzero()[:, 0].tolist()) == expected
            assert float(probabilities.sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.fixture
def run(toy: Toy, tmp_path: Path) -> Path:
    """The toy's run with a corpus that has "Hund Haus" five times and "läuft" three times."""
    pairs = [("Hund Haus", "dog house")] * 5 + [("läuft", "runs")] * 3
    corpus = {"kind": "text", "source": str(tmp_path / "train.de"), "target": str(tmp_path / "train.en")}
    for side, name in enumerate(("source", "target")):
        Path(corpus[name]).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    config = toy.config.model_copy(update={"data": type(toy.config.data).model_validate({"train": [corpus]})})
    return write_run(tmp_path / "run", config, toy.tokenizers, toy.model)


def test_a_run_learns_and_uses_its_shortlist(toy: Toy, run: Path) -> None:
    with pytest.raises(InputError, match=r"shortlist.safetensors: .*translate shortlist"):
        load_translator(run, options={"shortlist": True})
    result = run_command("shortlist", run, "--frequent", "0", "--translations", "1")
    assert result.exit_code == 0 and "8 pairs" in result.stderr, result.stderr
    translator = load_translator(run, options={"shortlist": True, "search": "sample", "temperature": 3.0}).translator
    shortlist = read_shortlist(open_run(run))
    lines = ["Hund", "läuft Haus", ""]
    together = translator.translate(lines)
    for line, translation in zip(lines, together, strict=True):
        assert set(translation.ids) <= set(allowed_ids(shortlist, toy.tokenizers.source.encode(line)))
    free = translator.translate(lines, shortlist=False)
    assert not set(free[0].ids) <= set(allowed_ids(shortlist, toy.tokenizers.source.encode("Hund")))
    beam = load_translator(run, options={"shortlist": True, "beam_size": 3}).translator
    alone = [beam.translate(line) for line in lines]
    assert [each.ids for each in alone] == [each.ids for each in beam.translate(lines)]
    with pytest.raises(InputError, match=r"decoding\.shortlist"):
        load_translator(run).translator.translate(lines, shortlist=True)


def test_a_large_corpus_is_sampled(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.decoding.search.shortlist.MAX_PAIRS", 3)
    assert make_shortlist(run, num_frequent=2, num_translations=1) == 3


def test_a_damaged_shortlist_is_an_error(toy: Toy, run: Path) -> None:
    make_shortlist(run, num_frequent=2, num_translations=1)
    opened, file = open_run(run), run / "shortlist.safetensors"
    shortlist = read_shortlist(opened)
    assert int(shortlist.always.sum()) == 2 + len(SPECIALS)
    write_tensors(file, {**shortlist._asdict(), "always": shortlist.always[:-2]}, {})
    with pytest.raises(RunError, match=r"shortlist.safetensors: .*vocabularies"):
        read_shortlist(opened)
    flip_a_bit(file)
    assert re.search(r"DAMAGED +shortlist\.safetensors", run_command("verify", run).stdout)
