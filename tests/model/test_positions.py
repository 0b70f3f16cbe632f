"""Positions against the formulas: Python's math and complex numbers, and exact integer arithmetic for T5's buckets."""

import cmath
import itertools
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import pytest
import torch
from pydantic import ValidationError

from translate.config.schema import ModelConfig
from translate.model import Transformer
from translate.model.attention import MultiHeadAttention
from translate.model.positions import (
    LearnedPositions,
    Positions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    build_positions,
    distance_buckets,
    rotate,
    sinusoidal_table,
)


def test_the_sinusoidal_table_is_the_papers_formula() -> None:
    table = sinusoidal_table(5003, 22)
    assert table.shape == (5003, 22)
    for position, dimension in itertools.product((0, 1, 2, 97, 255, 256, 5000), range(22)):
        angle = position / 10000 ** ((dimension - dimension % 2) / 22)
        expected = math.cos(angle) if dimension % 2 else math.sin(angle)
        # Half a unit in the last place of fp32 is 3e-8: exact, not computed from an angle that fp32 had rounded.
        assert table[position, dimension].item() == pytest.approx(expected, rel=0, abs=3.1e-8)


def test_fairseqs_sines_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")
    embedding = transformers.models.m2m_100.modeling_m2m_100.M2M100SinusoidalPositionalEmbedding
    expected = embedding.get_embedding(99, 22)[2:]  # all sines before all cosines
    table = sinusoidal_table(97, 22, formula="fairseq")
    torch.testing.assert_close(torch.cat((table[:, 0::2], table[:, 1::2]), dim=1), expected, rtol=0, atol=1e-5)


def at(start: int, length: int) -> torch.Tensor:
    return torch.arange(start, start + length)


def test_sinusoidal_positions_are_added_and_grow() -> None:
    positions = SinusoidalPositions(d_model=6)
    embedded = torch.randn(2, 7, 6)
    table = sinusoidal_table(2000, 6)
    for start in (0, 11, 253, 1992, 0):  # the table begins with 256 rows
        positions.reserve(start + 7)
        torch.testing.assert_close(positions.embed(embedded, at(start, 7)), embedded + table[start : start + 7])
    assert positions.state_dict() == {}


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_a_table_that_grew_in_inference_mode_serves_training(kind: str) -> None:
    """Validation translates in inference mode; training's next step must be able to save the table for backward."""
    config = ModelConfig(
        d_model=12, num_heads=3, d_ff=5, num_encoder_layers=1, num_decoder_layers=1, positions=kind, dropout=0.0
    )
    model = Transformer(config, source_vocab_size=11, target_vocab_size=11, pad_id=0)
    ids = torch.randint(1, 11, (1, 300))
    with torch.inference_mode():
        expected = model(ids, ids)
    logits = model(ids, ids)
    torch.testing.assert_close(logits, expected)
    logits.sum().backward()


def test_no_thread_undoes_the_growth_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    positions, real, has_begun = SinusoidalPositions(d_model=4), sinusoidal_table, threading.Event()

    def slow_if_short(num_positions: int, *given: Any, **options: Any) -> torch.Tensor:
        has_begun.set()
        time.sleep(0.2 if num_positions < 1000 else 0.0)
        return real(num_positions, *given, **options)

    monkeypatch.setattr("translate.model.positions.sinusoidal_table", slow_if_short)
    with ThreadPoolExecutor() as pool:
        short = pool.submit(positions.reserve, 300)
        has_begun.wait()
        pool.submit(positions.reserve, 700).result()
        short.result()
    assert len(positions.table) >= 700


def test_learned_positions_are_added() -> None:
    positions = LearnedPositions(d_model=5, max_positions=11)
    assert positions.table.shape == (11, 5)
    embedded = torch.randn(2, 3, 5)
    torch.testing.assert_close(positions.embed(embedded, at(0, 3)), embedded + positions.table[:3])
    torch.testing.assert_close(positions.embed(embedded, at(8, 3)), embedded + positions.table[8:])
    positions.embed(embedded, at(8, 3)).sum().backward()
    assert positions.table.grad is not None
    assert positions.table.grad.sum(dim=1).tolist() == [0.0] * 8 + [10.0] * 3


def turned(heads: torch.Tensor, *, start: int) -> torch.Tensor:
    """The paper's equation 34 by Python's complex numbers, one pair at a time."""
    expected = torch.empty_like(heads, dtype=torch.float64)
    batch, num_heads, length, head_dim = heads.shape
    for b in range(batch):
        for h in range(num_heads):
            for p in range(length):
                for pair in range(head_dim // 2):
                    number = complex(heads[b, h, p, 2 * pair].item(), heads[b, h, p, 2 * pair + 1].item())
                    number *= cmath.exp(1j * (start + p) * 10000 ** (-2 * pair / head_dim))
                    expected[b, h, p, 2 * pair], expected[b, h, p, 2 * pair + 1] = number.real, number.imag
    return expected


@pytest.mark.parametrize("start", [0, 3, 251, 4999])
def test_rotary_is_multiplication_of_complex_numbers(start: int) -> None:
    heads = torch.randn(2, 3, 7, 10)
    positions = RotaryPositions(head_dim=10)
    positions.reserve(start + 7)
    torch.testing.assert_close(
        rotate(heads, positions.rotary(at(start, 7))).double(), turned(heads, start=start), rtol=0, atol=1e-6
    )
    rounded = rotate(heads.bfloat16(), positions.bfloat16().rotary(at(start, 7)))
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.double(), turned(heads, start=start), rtol=0, atol=0.04)


def test_rotary_attention_sees_the_distance_alone_and_turns_no_values() -> None:
    """Query and key are both turned: wherever the sentence stands, attention is the same; by hand from the weights."""
    attention = MultiHeadAttention(d_model=30, num_heads=3).double()
    positions = RotaryPositions(head_dim=10).double()
    hidden = torch.randn(2, 7, 30, dtype=torch.float64)
    here = attention(hidden, rotary=positions.rotary(at(0, 7)))
    there = attention(hidden, rotary=positions.rotary(at(101, 7)))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-6)
    assert (attention(hidden) - here).abs().max() > 1e-3

    projected = attention.input_projection(hidden).unflatten(-1, (3, 3, 10)).permute(2, 0, 3, 1, 4)
    query, key, value = projected.detach()
    weights = (turned(query, start=0) @ turned(key, start=0).transpose(-2, -1) / math.sqrt(10)).softmax(dim=-1)
    expected = attention.output_projection((weights @ value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(here, expected, rtol=0, atol=1e-6)


def test_sines_need_pairs() -> None:
    with pytest.raises(ValueError, match=r"^d_model = 7 must be even for sinusoidal positions$"):
        sinusoidal_table(5, 7)
    with pytest.raises(ValueError, match="= 7 must be even"):
        RotaryPositions(head_dim=7)
    with pytest.raises(ValidationError, match="model.d_model / model.num_heads = 7 must be even for rotary"):
        ModelConfig(d_model=21, num_heads=3, positions="rotary")


def bucket_by_hand(distance: int, *, num_buckets: int, max_distance: int, directions: str) -> int:
    """From the paper's words: exact up to half the buckets, then logarithmic up to the distance from which all share.

    In integers, so that no logarithm is rounded: the far bucket is the largest k for which
    log(d / exact) / log(max / exact) · far ≥ k, that is d^far · exact^k ≥ max^k · exact^far.
    """
    first = 0
    if directions == "both":
        num_buckets //= 2
        first = num_buckets if distance > 0 else 0
        away = abs(distance)
    else:
        away = max(-distance, 0)
    exact = num_buckets // 2
    if away < exact:
        return first + away
    far, k = num_buckets - exact, 0
    while k < far - 1 and away**far * exact ** (k + 1) >= max_distance ** (k + 1) * exact**far:
        k += 1
    return first + exact + k


@pytest.mark.parametrize(
    ("directions", "table"),
    [
        # 16 buckets a side: 0 to 7 exact; 8, 12, 16, 23, 32, 46, 64, 91 begin the others (8 · 2^(k/2), rounded up).
        ("both", {0: 0, -1: 1, -7: 7, -8: 8, -11: 8, -12: 9, -15: 9, -16: 10, -22: 10, -23: 11, -31: 11, -32: 12}),
        ("both", {-45: 12, -46: 13, -63: 13, -64: 14, -90: 14, -91: 15, -127: 15, -128: 15, -9999: 15}),
        ("both", {1: 17, 7: 23, 8: 24, 11: 24, 12: 25, 16: 26, 32: 28, 64: 30, 90: 30, 91: 31, 128: 31, 9999: 31}),
        # One side of 32: 0 to 15 exact, then 16 · 8^(k/16), rounded up: 16, 19, 21, 24, …, 113. The future is 0.
        ("past", {0: 0, 1: 0, 50: 0, -1: 1, -15: 15, -16: 16, -18: 16, -19: 17, -20: 17, -21: 18, -23: 18, -24: 19}),
        ("past", {-31: 21, -112: 30, -113: 31, -128: 31, -9999: 31}),
    ],
)
def test_known_buckets_of_32_up_to_128(directions: str, table: dict[int, int]) -> None:
    distance = torch.tensor([list(table)])
    buckets = distance_buckets(distance, num_buckets=32, max_distance=128, directions=directions)
    assert dict(zip(table, buckets[0].tolist(), strict=True)) == table
    assert {d: bucket_by_hand(d, num_buckets=32, max_distance=128, directions=directions) for d in table} == table


@pytest.mark.parametrize("directions", ["both", "past"])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (8, 20), (5, 53), (4, 3)])
def test_every_bucket_is_that_of_exact_arithmetic(directions: str, num_buckets: int, max_distance: int) -> None:
    sizes = {"num_buckets": num_buckets, "max_distance": max_distance, "directions": directions}
    distances = list(range(-2 * max_distance, 2 * max_distance + 1))
    expected = [bucket_by_hand(distance, **sizes) for distance in distances]
    assert distance_buckets(torch.tensor([distances]), **sizes)[0].tolist() == expected
    assert min(expected) >= 0 and max(expected) < num_buckets


def test_the_bias_of_a_cell_is_the_tables_row_for_its_distance() -> None:
    positions = RelativePositions(num_heads=3, num_buckets=8, max_distance=20, directions="both")
    assert positions.table.shape == (8, 3)
    torch.nn.init.normal_(positions.table)
    bias = positions.bias(at(5, 2), at(0, 7))
    assert bias.shape == (3, 2, 7)
    for query in (5, 6):
        for key in range(7):
            row = bucket_by_hand(key - query, num_buckets=8, max_distance=20, directions="both")
            assert torch.equal(bias[:, query - 5, key], positions.table[row])


def test_one_bias_serves_a_stack_and_the_two_stacks_have_their_own() -> None:
    config = ModelConfig(
        d_model=6, num_heads=3, d_ff=5, num_encoder_layers=2, num_decoder_layers=2, positions="relative"
    )
    model = Transformer(config, source_vocab_size=11, target_vocab_size=11, pad_id=0)
    tables = [name for name, _ in model.named_parameters() if "table" in name]
    assert tables == ["encoder.embedder.positions.table", "decoder.embedder.positions.table"]
    assert model.encoder.embedder.positions.directions == "both"
    assert model.decoder.embedder.positions.directions == "past"

    seen = []
    for layer in model.encoder.layers:
        layer.register_forward_pre_hook(lambda module, args, kwargs: seen.append(kwargs["bias"]), with_kwargs=True)
    model(torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]]))
    assert len(seen) == 2 and seen[0] is seen[1]


# --- steps of decoding: each sentence at its own position


def kind_of_positions(kind: str) -> Positions:
    config = ModelConfig(
        d_model=12, num_heads=3, positions=kind, max_positions=601, relative_buckets=8, relative_max_distance=20
    )
    positions = build_positions(config, directions="past")
    name = "sinusoidal" if kind == "fairseq" else kind
    assert type(positions).__name__.lower() == f"{name}positions"
    for parameter in positions.parameters():
        torch.nn.init.normal_(parameter)
    return positions


KINDS = get_args(ModelConfig.model_fields["positions"].annotation)
AT = torch.tensor([[0], [3], [599], [3], [257]])  # the position of each sentence


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_embeds_as_the_whole_sequence_does(kind: str) -> None:
    positions = kind_of_positions(kind)
    positions.reserve(600)
    embedded = torch.randn(5, 2, 12)
    stepped = positions.embed(embedded, AT)
    for sentence, position in enumerate(AT):
        for slot in range(2):  # both hypotheses of a sentence are at one position
            whole = positions.embed(embedded[sentence, slot][None, None], position)
            torch.testing.assert_close(stepped[sentence, slot], whole[0, 0])
    assert torch.equal(stepped, embedded) == (kind in ("rotary", "relative"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_turns_and_biases_as_the_whole_sequence_does(kind: str) -> None:
    """Keys in any order, as cells are: the last query's row of the whole sequence's bias, cell by cell."""
    positions = kind_of_positions(kind)
    positions.reserve(600)
    keys = torch.tensor([[0, 0, 0], [1, 3, 0], [599, 2, 598], [3, 3, 2], [11, 256, 257]])
    angles, bias = positions.rotary(AT), positions.bias(AT, keys)
    assert (angles is not None, bias is not None) == (kind == "rotary", kind == "relative")
    for sentence, position in enumerate(AT):
        if angles is not None:
            assert angles.shape == (5, 1, 1, 2, 2)
            whole = positions.rotary(at(0, 600))
            assert whole is not None
            torch.testing.assert_close(angles[sentence, 0], whole[0, position])
        if bias is not None:
            assert bias.shape == (5, 3, 1, 3)  # (batch, heads, hypothesis = 1, key)
            row = positions.bias(position, at(0, 600))
            assert row is not None
            torch.testing.assert_close(bias[sentence, :, 0], row[:, 0, keys[sentence]])
