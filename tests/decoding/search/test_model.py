"""A Transformer as the search sees it, against full forward passes of each hypothesis by itself."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from translate.config import DecodingConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from translate.decoding.search.loop import NextTokenModel
from translate.decoding.search.model import CachedDecoder
from translate.decoding.shortlist import Shortlist

Toy = Any  # conftest.py's: test modules cannot import each other


def build(toy: Toy, *, beam_size: int, **options: Any) -> CachedDecoder:
    sources = [toy.tokenizers.source.encode(source) for source in toy.sources]
    return CachedDecoder(toy.model, sources, DecodingConfig(), beam_size=beam_size, max_length=7, **options)


def expected(toy: Toy, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """(vocab): log-probabilities of the token after `target`; of padding and the start symbol none."""
    logits = toy.model(torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, *target]]))[0, -1]
    found: Tensor = logits.log_softmax(dim=0)
    return found.index_fill(0, torch.tensor([PAD_ID, BOS_ID]), -torch.inf)


@torch.no_grad()
def test_log_probs_are_those_of_the_forward_pass(toy: Toy) -> None:
    """Of two hypotheses a sentence, that are reordered, while other sentences join and leave."""
    decoder = build(toy, beam_size=2)
    assert isinstance(decoder, NextTokenModel)
    cache = decoder.start([3, 5], torch.arange(2), None)
    _, cache = decoder.step(torch.full((2, 2), BOS_ID), cache)
    tokens, cache = decoder.step(torch.tensor([[4, 5], [6, 7]]), cache)
    for row, targets in ((0, ([4], [5])), (1, ([6], [7]))):
        for slot, target in enumerate(targets):
            full = expected(toy, decoder.source_ids[[3, 5][row]], target)
            torch.testing.assert_close(tokens.log_probs[row, slot], full, rtol=0, atol=1e-4)

    cache = decoder.reorder(cache, torch.tensor([[1, 1], [0, 1]]))
    cache = decoder.start([7, 2], torch.tensor([1, 2]), cache)  # in the row of one that has left, and behind the last
    tokens, cache = decoder.step(torch.tensor([[8, 9], [BOS_ID] * 2, [BOS_ID] * 2]), cache)
    for row, slot, sentence, target in ((0, 0, 3, [5, 8]), (0, 1, 3, [5, 9]), (1, 0, 7, []), (2, 1, 2, [])):
        full = expected(toy, decoder.source_ids[sentence], target)
        torch.testing.assert_close(tokens.log_probs[row, slot], full, rtol=0, atol=1e-4)

    cache = decoder.select_rows(cache, torch.tensor([2]))
    tokens, _ = decoder.step(torch.tensor([[8, 9]]), cache)
    torch.testing.assert_close(tokens.log_probs[0, 1], expected(toy, decoder.source_ids[2], [9]), rtol=0, atol=1e-4)


@pytest.fixture
def shortlist(toy: Toy) -> Shortlist:
    """Of every source token the same two target tokens, beside those that are always allowed."""
    always = torch.zeros(toy.tokenizers.target.vocab_size, dtype=torch.bool)
    always[[1, EOS_ID, 4]] = True
    return Shortlist(always, torch.arange(toy.tokenizers.source.vocab_size * 2).view(-1, 2).int() % 7 + 4)


@torch.no_grad()
def test_a_shortlist_leaves_columns(toy: Toy, shortlist: Shortlist) -> None:
    """Each sentence has its own words, and those that are wanted of it; as sentences join, columns are made anew."""
    wanted = [[20 + sentence] for sentence in range(len(toy.sources))]
    decoder = build(toy, beam_size=1, shortlist=shortlist, also_allowed=wanted)
    cache = decoder.start([3, 5], torch.arange(2), None)
    tokens, cache = decoder.step(torch.full((2, 1), BOS_ID), cache)
    sentences = [3, 5]
    for joined in (None, 7):
        if joined is not None:
            cache = decoder.start([joined], torch.tensor([2]), cache)
            tokens, cache = decoder.step(torch.full((3, 1), BOS_ID), cache)
            sentences.append(joined)
        assert tokens.ids is not None
        for row, sentence in enumerate(sentences):
            is_possible = tokens.log_probs[row, 0] > -torch.inf
            allowed = {*shortlist.candidates(decoder.source_ids[sentence]), 20 + sentence}
            assert set(tokens.ids[is_possible].tolist()) == allowed
            assert float(tokens.log_probs[row, 0].exp().sum()) == pytest.approx(1.0, abs=1e-5)
