"""Contract: step-by-step decoding with the cache gives the numbers of the full forward pass."""

from typing import Any

import pytest
import torch
from torch import Tensor

from translate.config import ModelConfig
from translate.model import Memory, Transformer
from translate.model.cache import DecoderCache

PAD, VOCAB = 3, 23
SOURCE_LENGTHS = [5, 2, 7]


def build(**options: Any) -> Transformer:
    small: dict[str, Any] = {
        "d_model": 30, "num_heads": 3, "d_ff": 17, "num_encoder_layers": 2, "num_decoder_layers": 2,
        "max_positions": 13, "relative_buckets": 7, "relative_max_distance": 11,
    }  # fmt: skip
    model = Transformer(ModelConfig(**small | options), source_vocab_size=VOCAB, target_vocab_size=VOCAB, pad_id=PAD)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.double().eval()


def source_ids() -> Tensor:
    ids = torch.randint(PAD + 1, VOCAB, (len(SOURCE_LENGTHS), max(SOURCE_LENGTHS)))
    for row, length in enumerate(SOURCE_LENGTHS):
        ids[row, length:] = PAD
    return ids


def targets(rows: int, length: int = 11) -> Tensor:
    return torch.randint(PAD + 1, VOCAB, (rows, length))


def repeated(memory: Memory, beam_size: int) -> Memory:
    """What the cache never does: each sentence's memory once for each hypothesis, neighbours together."""
    return Memory(memory.hidden.repeat_interleave(beam_size, 0), memory.visible.repeat_interleave(beam_size, 0))


def steps(model: Transformer, ids: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
    """Hidden states of ids, one position at a time."""
    hidden = []
    for position in range(ids.shape[1]):
        one, cache = model.decoder.step(ids[:, position], cache)
        hidden.append(one)
    return torch.stack(hidden, dim=1), cache


def assert_same(model: Transformer, hidden: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(hidden, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(model.output(hidden), model.output(expected), rtol=0, atol=1e-10)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
@torch.no_grad()
def test_cached_is_uncached(positions: str, norm: str, beam_size: int) -> None:
    model = build(positions=positions, norm=norm)
    memory = model.encoder(source_ids())
    ids = targets(3 * beam_size)
    expected = model.decoder(ids, repeated(memory, beam_size))
    hidden, cache = steps(model, ids, model.decoder.start(memory, beam_size=beam_size))
    assert_same(model, hidden, expected)
    assert cache.length == 11
    assert cache.layers[0].past.key.shape == (3 * beam_size, 3, 11, 10)
    assert cache.layers[0].memory.key.shape == (3, 3, 7, 10)  # not repeated for the beam


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
@torch.no_grad()
def test_cached_is_uncached_after_a_selection(positions: str) -> None:
    """Beam search after four steps: hypotheses reordered and repeated, the middle sentence finished."""
    model = build(positions=positions)
    memory = model.encoder(source_ids())
    begun = targets(9, 4)
    _, cache = steps(model, begun, model.decoder.start(memory, beam_size=3))
    hypotheses, sentences = torch.tensor([2, 0, 0, 7, 8, 7]), torch.tensor([0, 2])
    cache = cache.select(hypotheses=hypotheses, sentences=sentences)
    assert cache.length == 4

    rest = targets(6, 7)
    hidden, cache = steps(model, rest, cache)
    kept = Memory(memory.hidden[sentences], memory.visible[sentences])
    expected = model.decoder(torch.cat((begun[hypotheses], rest), dim=1), repeated(kept, 3))
    assert_same(model, hidden, expected[:, 4:])

    # Once more, without a change of sentences: the memory is left as it is.
    again = cache.select(hypotheses=torch.tensor([1, 1, 0, 5, 3, 4]), sentences=None)
    assert again.layers[0].memory.key is cache.layers[0].memory.key
    last = targets(6, 2)
    whole = torch.cat((torch.cat((begun[hypotheses], rest), dim=1)[[1, 1, 0, 5, 3, 4]], last), dim=1)
    hidden, _ = steps(model, last, again)
    assert_same(model, hidden, model.decoder(whole, repeated(kept, 3))[:, 11:])


@torch.no_grad()
def test_a_wrong_selection_fails_the_comparison() -> None:
    model = build()
    memory = model.encoder(source_ids())
    begun, rest = targets(3, 4), targets(3, 2)
    _, cache = steps(model, begun, model.decoder.start(memory, beam_size=1))
    order = torch.tensor([2, 0, 1])
    hidden, _ = steps(model, rest, cache.select(hypotheses=order, sentences=None))  # the sentences are not moved
    moved = Memory(memory.hidden[order], memory.visible[order])
    expected = model.decoder(torch.cat((begun[order], rest), dim=1), moved)[:, 4:]
    with pytest.raises(AssertionError, match="not close"):
        assert_same(model, hidden, expected)


@torch.no_grad()
def test_another_number_of_hypotheses_from_one_step_to_the_next() -> None:
    """One row a sentence at first, three later: what a search does that begins with one hypothesis."""
    model = build()
    memory = model.encoder(source_ids())
    begun, rest = targets(3, 2), targets(9, 3)
    _, cache = steps(model, begun, model.decoder.start(memory, beam_size=1))
    rows = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    hidden, _ = steps(model, rest, cache.select(hypotheses=rows, sentences=None))
    expected = model.decoder(torch.cat((begun[rows], rest), dim=1), repeated(memory, 3))
    assert_same(model, hidden, expected[:, 2:])


@torch.no_grad()
def test_a_step_changes_no_cache() -> None:
    model = build()
    cache = model.decoder.start(model.encoder(source_ids()), beam_size=1)
    ids = targets(3, 1)[:, 0]
    first, longer = model.decoder.step(ids, cache)
    assert cache.length == 0 and longer.length == 1
    assert cache.layers[0].past.key.shape[2] == 0
    assert torch.equal(model.decoder.step(ids, cache)[0], first)


@torch.no_grad()
def test_beyond_the_first_table_and_the_learned_limit() -> None:
    for positions in ("sinusoidal", "rotary", "relative"):
        model = build(positions=positions, num_encoder_layers=1, num_decoder_layers=1)
        memory = model.encoder(source_ids())
        ids = targets(3, 263)
        hidden, _ = steps(model, ids, model.decoder.start(memory, beam_size=1))
        assert_same(model, hidden, model.decoder(ids, memory))
    model = build(positions="learned")
    _, cache = steps(model, targets(3, 13), model.decoder.start(model.encoder(source_ids()), beam_size=1))
    message = "^a sequence of 14 tokens exceeds the learned positions: model.max_positions = 13$"
    with pytest.raises(ValueError, match=message):
        model.decoder.step(targets(3, 1)[:, 0], cache)
