"""Contract: step-by-step decoding with the cache gives the numbers of the full forward pass.

Expected values come from `model.decoder(history, memory)` of each hypothesis's own history and its sentence's memory,
encoded by itself: no cell, no ancestry and no neighbour has a part in it.
"""

from typing import Any, get_args

import pytest
import torch
from harness import random_model, without_shape_checks
from torch import Tensor

from translate.config.schema import ModelConfig
from translate.model import Memory, Transformer
from translate.model.kv_cache import DecoderCache

PAD, VOCAB = 3, 23
SOURCE_LENGTHS = [5, 2, 7]
KINDS = get_args(ModelConfig.model_fields["positions"].annotation)


def build(**options: Any) -> Transformer:
    small: dict[str, Any] = {
        "d_model": 30, "num_heads": 3, "d_ff": 17, "num_encoder_layers": 1, "num_decoder_layers": 2,
        "max_positions": 43, "relative_buckets": 7, "relative_max_distance": 11,
    }  # fmt: skip
    return random_model(VOCAB, pad_id=PAD, **small | options).double().eval()


def sentence(length: int) -> Tensor:
    return torch.randint(PAD + 1, VOCAB, (length,))


def start(model: Transformer, sources: list[Tensor], *, beam_size: int, max_length: int) -> DecoderCache:
    padded = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PAD)
    return model.decoder.start(model.encoder(padded), beam_size=beam_size, max_length=max_length)


class Walk:
    """Random hypotheses, stepped through a cache; and their histories, kept beside it as plain lists."""

    def __init__(self, model: Transformer, lengths: list[int], *, beam_size: int, max_length: int) -> None:
        self.model, self.beam_size, self.max_length = model, beam_size, max_length
        self.sources = [sentence(length) for length in lengths]
        self.histories: list[list[list[int]]] = [[[] for _ in range(beam_size)] for _ in lengths]
        self.cache = start(model, self.sources, beam_size=beam_size, max_length=max_length)
        self.num_compared = 0

    def step(self, *, dead: tuple[int, ...] = (), wrongly: bool = False) -> None:
        """One token a hypothesis, compared; then each continues a random one of its sentence.

        Args:
            dead: Rows that are not compared.
            wrongly: The cache is given other parents.
        """
        ids = torch.randint(PAD + 1, VOCAB, (len(self.sources), self.beam_size))
        hidden, self.cache = self.model.decoder.step(ids, self.cache)
        for row, histories in enumerate(self.histories):
            for history, token in zip(histories, ids[row].tolist(), strict=True):
                history.append(token)
            if row not in dead:
                torch.testing.assert_close(hidden[row], self._expected(row), rtol=0, atol=1e-10)
                self.num_compared += 1
        parents = torch.randint(self.beam_size, ids.shape)
        self.histories = [
            [list(histories[parent]) for parent in chosen]
            for histories, chosen in zip(self.histories, parents.tolist(), strict=True)
        ]
        self.cache = self.cache.reorder((parents + 1) % self.beam_size if wrongly else parents)

    @without_shape_checks()  # which other tests run with checks
    def _expected(self, row: int) -> Tensor:
        """(beam, d_model): the full forward pass at the last position."""
        memory = self.model.encoder(self.sources[row][None])
        repeated = Memory(*(part.expand(self.beam_size, *part.shape[1:]) for part in memory))
        return self.model.decoder(torch.tensor(self.histories[row]), repeated)[:, -1]

    def insert(self, rows: list[int], lengths: list[int]) -> None:
        """New sentences in these rows."""
        sources = [sentence(length) for length in lengths]
        new = start(self.model, sources, beam_size=self.beam_size, max_length=self.max_length)
        self.cache = self.cache.insert(rows, new)
        for row, source in zip(rows, sources, strict=True):
            self.sources[row] = source
            self.histories[row] = [[] for _ in range(self.beam_size)]

    def select(self, rows: list[int]) -> None:
        self.cache = self.cache.select_rows(rows)
        self.sources = [self.sources[row] for row in rows]
        self.histories = [[list(history) for history in self.histories[row]] for row in rows]

    def extend(self, lengths: list[int]) -> None:
        """More rows, and new sentences in them."""
        rows = range(len(self.sources), len(self.sources) + len(lengths))
        self.sources += [sentence(1) for _ in lengths]
        self.histories += [[] for _ in lengths]
        self.insert(list(rows), lengths)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", KINDS)
@torch.no_grad()
def test_cached_is_uncached(positions: str, norm: str, beam_size: int) -> None:
    walk = Walk(
        build(positions=positions, norm=norm, embedding_norm=norm == "pre"),
        SOURCE_LENGTHS,
        beam_size=beam_size,
        max_length=13,
    )
    for _ in range(11):
        walk.step()
    assert walk.num_compared == 33
    assert walk.cache.lengths.tolist() == [11, 11, 11]
    assert (len(walk.cache.lengths), walk.cache.beam_size) == (3, beam_size)
    for layer in walk.cache.layers:
        # One row for each sentence: neither the source nor the past is repeated for the beam.
        assert layer.memory.key.shape == layer.memory.value.shape == (3, 3, 7, 10)
        assert layer.past.key.shape[:2] == (3, 3)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("positions", KINDS)
@torch.no_grad()
def test_sentences_come_and_go(positions: str, beam_size: int) -> None:
    """In the middle of the others' decoding, with longer and with shorter sources, in old rows and in new ones."""
    walk = Walk(build(positions=positions), SOURCE_LENGTHS, beam_size=beam_size, max_length=29)
    for _ in range(4):
        walk.step()
    walk.insert([1], [11])  # longer than all before: the memory grows
    assert walk.cache.layers[0].memory.key.shape == (3, 3, 11, 10)
    for _ in range(3):
        walk.step()
    assert walk.cache.lengths.tolist() == [7, 3, 7]
    walk.insert([2, 0], [3, 2])  # shorter than those that they replace
    for _ in range(6):
        walk.step()
    walk.extend([13, 1])
    walk.step()
    walk.step()
    walk.select([3, 0, 4])
    for _ in range(3):
        walk.step()
    assert walk.cache.lengths.tolist() == [5, 11, 5]
    assert max(walk.cache.source_lengths) == 13
    assert walk.num_compared == 3 * 13 + 5 * 2 + 3 * 3


@torch.no_grad()
def test_the_memory_is_read_as_far_as_the_longest_source_now_there() -> None:
    """Once a long sentence has left, its padding costs the others nothing."""
    walk = Walk(build(), [5, 11], beam_size=2, max_length=7)
    seen: list[int] = []
    walk.model.decoder.layers[0].cross_attention.weights_dropout.register_forward_hook(
        lambda module, inputs, weights: seen.append(weights.shape[3])
    )
    walk.step()
    num_before = len(seen)
    assert seen[0] == 11
    walk.insert([1], [3])
    walk.step()
    assert seen[num_before] == 5  # then come those of the new sentence's encoder and of the full passes


@pytest.mark.parametrize("positions", KINDS)
@torch.no_grad()
def test_packing_changes_nothing_and_bounds_the_room(positions: str) -> None:
    model = build(positions=positions, num_decoder_layers=1)
    walk = Walk(model, [5, 2], beam_size=5, max_length=29)
    num_packings = 0
    for _ in range(29):
        before = walk.cache.num_slots
        walk.step()
        num_packings += before > 0 and walk.cache.num_slots != before + 5
    assert num_packings >= 2
    # 145 slots were written; random parents leave few lines of ancestors alive, so most were forgotten.
    assert walk.cache.num_slots < 100
    assert walk.cache.past_bias.shape[3] == walk.cache.slot_positions.shape[1] == walk.cache.layers[0].past.key.shape[2]


@torch.no_grad()
def test_packing_by_hand() -> None:
    """Of the slots that two hypotheses wrote, those that neither sees are forgotten; the others keep their order."""
    model = build(positions="rotary", num_decoder_layers=1)
    cache = start(model, [sentence(2)], beam_size=2, max_length=13)
    ids = torch.tensor([[5, 7]])
    for parents in ([0, 0], [1, 1], [0, 1]):
        _, cache = model.decoder.step(ids, cache)
        cache = cache.reorder(torch.tensor([parents]))
    # Slots 0 to 5 are of positions 0 0 1 1 2 2. Both go on from hypothesis 0 of the first step (0) and 1 of the second
    # (3); after the third each sees its own (4, 5).
    seen = (cache.past_bias[0, 0, :, :6] == 0).tolist()
    assert seen == [[True, False, False, True, True, False], [True, False, False, True, False, True]]
    packed = cache._packed(num_free=8)
    assert packed.num_slots == 4
    assert packed.slot_positions[0, :4].tolist() == [0, 1, 2, 2]
    assert (packed.past_bias[0, 0, :, :4] == 0).tolist() == [[True, True, True, False], [True, True, False, True]]
    assert (packed.past_bias[..., 4:] == -torch.inf).all()
    assert torch.equal(packed.layers[0].past.key[:, :, :4], cache.layers[0].past.key[:, :, [0, 3, 4, 5]])
    assert torch.equal(packed.layers[0].past.value[:, :, :4], cache.layers[0].past.value[:, :, [0, 3, 4, 5]])
    assert packed.layers[0].memory is cache.layers[0].memory


@pytest.mark.parametrize("positions", KINDS)
@torch.no_grad()
def test_a_row_that_was_left_does_no_harm(positions: str) -> None:
    """It counts on, beyond the positions that were reserved and even those that a learned table has."""
    model = build(positions=positions, num_decoder_layers=1, max_positions=13)
    walk = Walk(model, [5, 3], beam_size=2, max_length=13)
    for _ in range(12):
        walk.step()
    for _ in range(2):  # row 0 is never given to another sentence, row 1 twice
        walk.insert([1], [7])
        for _ in range(12):
            walk.step(dead=(0,))
    assert walk.cache.lengths.tolist() == [36, 12]
    assert walk.num_compared == 12 * 2 + 24


@torch.no_grad()
def test_a_wrong_order_fails_the_comparison() -> None:
    walk = Walk(build(), SOURCE_LENGTHS, beam_size=3, max_length=13)
    with pytest.raises(AssertionError, match="not close"):
        for _ in range(3):
            walk.step(wrongly=True)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
@torch.no_grad()
def test_beyond_the_first_table(positions: str) -> None:
    model = build(positions=positions, num_decoder_layers=1)
    source = sentence(7)
    ids = torch.randint(PAD + 1, VOCAB, (1, 263))
    cache = start(model, [source], beam_size=1, max_length=263)
    steps = []
    for position in range(263):
        hidden, cache = model.decoder.step(ids[:, position : position + 1], cache)
        steps.append(hidden)
    expected = model.decoder(ids, model.encoder(source[None]))
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=0, atol=1e-10)
