"""Packed sequences: what is packed, that the numbers stay the same, and that flash attention gets what it needs."""

import itertools
from collections.abc import Callable
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import torch.nn.attention.varlen as varlen
from harness import in_order
from torch import Tensor

from translate.data.batching import cut_batches, order_by_length
from translate.model import Transformer
from translate.model.attention import MultiHeadAttention, scaled_dot_product_attention
from translate.model.masks import varlen_mask
from translate.model.varlen import PackedSequences, fill_up, flash_attention, flatten, pack, why_no_flash_attention

PAD = 3
VOCAB = 23
Build = Callable[..., Transformer]
SOURCE_LENGTHS, TARGET_LENGTHS = (2, 11, 5, 1), (7, 3, 13, 1)


def padded(lengths: tuple[int, ...], *, width: int) -> Tensor:
    ids = torch.full((len(lengths), width), PAD)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = torch.randint(PAD + 1, VOCAB, (length,))
    return ids


def sequences(*lengths: int) -> PackedSequences:
    return pack(padded(lengths, width=max(lengths)), pad_id=PAD)


def decode(model: Transformer, source: PackedSequences, target: PackedSequences) -> Tensor:
    hidden: Tensor = model.decoder(target, model.encoder(source))
    return hidden[0]


def test_rows_become_one() -> None:
    packed = pack(torch.tensor([[5, 6, PAD, PAD, PAD], [7, 8, 9, 10, PAD], [11, PAD, PAD, PAD, PAD]]), pad_id=PAD)
    assert packed.ids.tolist() == [[5, 6, 7, 8, 9, 10, 11]]
    assert packed.cu_seqlens.tolist() == [0, 2, 6, 7]
    assert packed.cu_seqlens.dtype == torch.int32  # as the kernels want it
    assert packed.max_seqlen == 4  # a column of padding alone counts for nothing
    assert packed.positions.tolist() == [0, 1, 0, 1, 2, 3, 0]


def test_a_flattened_batch_keeps_its_padding_and_is_filled_up() -> None:
    flat = flatten(ids := padded((2, 5, 3), width=30), pad_id=PAD)
    assert flat.ids.shape == (1, 128) and flat.ids[0, :90].tolist() == ids.flatten().tolist()
    assert flat.ids[0, 90:].tolist() == [PAD] * 38 and flat.positions.tolist()[28:32] == [28, 29, 0, 1]
    row = torch.randn(1, 3, 128, 7)
    rows = flat.pad(row)
    assert rows.shape == (3, 3, 30, 7) and torch.equal(rows[1], row[0, :, 30:60])
    assert torch.equal(flat.unpad(rows)[:, :, :90], row[:, :, :90]) and not flat.unpad(rows)[:, :, 90:].any()


def test_padding_gives_each_sequence_a_row_and_is_undone() -> None:
    packed = sequences(2, 5, 3)
    row = torch.randn(1, 3, 10, 7)
    rows = packed.pad(row)
    assert rows.shape == (3, 3, 5, 7)
    assert torch.equal(rows[1], row[0, :, 2:7])
    assert torch.equal(rows[0, :, :2], row[0, :, :2])
    assert not rows[0, :, 2:].any()
    assert torch.equal(packed.unpad(rows), row)


def test_the_mask_of_padded_rows() -> None:
    padded = varlen_mask(sequences(2, 3), sequences(1, 2), is_causal=False).padded
    assert padded is not None and padded.tolist() == [[[[True, False]]], [[[True, True]]]]
    own = sequences(1, 2)
    padded = varlen_mask(own, own, is_causal=True).padded
    assert padded is not None and padded.tolist() == [
        [[[True, False], [True, False]]],
        [[[True, False], [True, True]]],
    ]


# --- contract: packed = padded


@pytest.mark.parametrize("is_flattened", [False, True])
@pytest.mark.parametrize("tie", ["all", "none"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
def test_packed_is_padded(build: Build, positions: str, norm: str, tie: str, is_flattened: bool) -> None:
    model = build(positions=positions, norm=norm, tie_embeddings=tie, max_positions=13)
    source, target = padded(SOURCE_LENGTHS, width=11), padded(TARGET_LENGTHS, width=13)
    real = target != PAD
    reference = model.decoder(target, model.encoder(source))[real]
    if is_flattened:
        packed = decode(model, flatten(source, pad_id=PAD), flatten(target, pad_id=PAD))
        packed = packed[: target.numel()][real.flatten()]
    else:
        packed = decode(model, pack(source, pad_id=PAD), pack(target, pad_id=PAD))
    torch.testing.assert_close(packed, reference, rtol=0, atol=1e-10)
    direction = torch.randn_like(reference)
    parameters = {name: each for name, each in model.named_parameters() if name != "output.weight"}
    wanted = torch.autograd.grad(reference, list(parameters.values()), direction)
    for name, mine, expected in zip(
        parameters, torch.autograd.grad(packed, list(parameters.values()), direction), wanted, strict=True
    ):
        torch.testing.assert_close(mine, expected, rtol=0, atol=1e-9, msg=name)
        assert expected.any()


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_packed_sequences_may_be_longer_than_any_before(build: Build, positions: str) -> None:
    model = build(positions=positions, max_positions=13)
    source, target = padded((300, 2), width=300), padded((4, 301), width=301)
    packed = decode(model, pack(source, pad_id=PAD), pack(target, pad_id=PAD))
    reference = model.decoder(target, model.encoder(source))[target != PAD]
    torch.testing.assert_close(packed, reference, rtol=0, atol=1e-10)


def test_attention_weights_are_dropped_in_packed_rows_too(build: Build) -> None:
    model = build(attention_dropout=0.5)
    source = pack(padded(SOURCE_LENGTHS, width=11), pad_id=PAD)
    first, second = (decode(model, source, source) for _ in range(2))
    assert not torch.allclose(first, second)
    model.eval()
    first, second = (decode(model, source, source) for _ in range(2))
    assert torch.equal(first, second)


def test_a_hook_sees_the_weights_of_packed_rows() -> None:
    attention = MultiHeadAttention(d_model=14, num_heads=2)
    seen: list[Tensor] = []
    attention.weights_dropout.register_forward_hook(lambda module, inputs, output: seen.append(output))
    own = sequences(3, 5)
    attention(torch.randn(1, 8, 14), visible=varlen_mask(own, own, is_causal=True))
    torch.testing.assert_close(seen[0].sum(dim=-1), torch.ones(2, 2, 5))


# --- flash attention: its kernel is for CUDA, so here its place is taken by one that computes each sequence by itself


def each_by_itself(
    query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor, max_q: int, max_k: int,
    *, window_size: tuple[int, int] = (-1, -1),
) -> Tensor:  # fmt: skip
    """With the arguments of PyTorch 2.11 and later."""
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    assert (max_q, max_k) == (128, 128) and max(int(ends.diff().max()) for ends in (cu_seq_q, cu_seq_k)) <= 128
    assert cu_seq_q[-1] == len(query) and cu_seq_k[-1] == len(key) == len(value)
    outputs = []
    for (q, q_end), (k, k_end) in zip(
        itertools.pairwise(cu_seq_q.tolist()), itertools.pairwise(cu_seq_k.tolist()), strict=True
    ):
        visible = None
        if window_size == (-1, 0):
            visible = torch.ones(q_end - q, k_end - k, dtype=torch.bool).tril()
        heads = (each.transpose(0, 1) for each in (query[q:q_end], key[k:k_end], value[k:k_end]))
        outputs.append(scaled_dot_product_attention(*heads, visible=visible).output.transpose(0, 1))
    return torch.cat(outputs)


def as_in_2_10(
    query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor, max_q: int, max_k: int,
    is_causal: bool = False, return_aux: object = None,
) -> Tensor:  # fmt: skip
    window_size = (-1, 0) if is_causal else (-1, -1)
    return each_by_itself(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, window_size=window_size)


@pytest.mark.parametrize("kernel", [each_by_itself, as_in_2_10])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_flash_attention_is_told_what_it_needs(
    build: Build, monkeypatch: pytest.MonkeyPatch, positions: str, kernel: Callable[..., Tensor]
) -> None:
    monkeypatch.setattr(varlen, "varlen_attn", kernel)
    assert why_no_flash_attention(torch.device("cpu"), dtype=torch.float32, num_heads=3, head_dim=8) is None
    model = build(positions=positions, max_positions=13)
    source, target = (pack(padded(lengths, width=13), pad_id=PAD) for lengths in (SOURCE_LENGTHS, TARGET_LENGTHS))
    flash = decode(model, source._replace(is_flash=True), target._replace(is_flash=True))
    torch.testing.assert_close(flash, decode(model, source, target), rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("batch_tokens", [24, 2400])
def test_filling_up_changes_no_real_number(
    build: Build, monkeypatch: pytest.MonkeyPatch, positions: str, batch_tokens: int
) -> None:
    monkeypatch.setattr(varlen, "varlen_attn", each_by_itself)
    model = build(positions=positions, max_positions=13)
    packed = [pack(padded(each, width=13), pad_id=PAD, is_flash=True) for each in (SOURCE_LENGTHS, TARGET_LENGTHS)]
    source, target = (fill_up(each, pad_id=PAD, batch_tokens=batch_tokens) for each in packed)
    assert source.ids.shape[1] > 19 and target.ids.shape[1] > 24
    expected, filled = decode(model, *packed), decode(model, source, target)
    torch.testing.assert_close(filled[:24], expected, rtol=0, atol=1e-10)
    parameters = {name: each for name, each in model.named_parameters() if name != "output.weight"}
    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, list(parameters.values()), direction)
    found = torch.autograd.grad(filled[:24], list(parameters.values()), direction)
    for name, mine, other in zip(parameters, found, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-9, msg=name)


def test_what_fills_a_row_up() -> None:
    source, target = (pack(padded(each, width=13), pad_id=PAD) for each in (SOURCE_LENGTHS, TARGET_LENGTHS))
    filled = fill_up(source, pad_id=PAD, batch_tokens=24)  # a full row is 24 + 1 tokens, rounded up to 32
    assert filled.ids.tolist() == [[*source.ids[0].tolist(), *[PAD] * 5]]
    assert filled.cu_seqlens.tolist() == [0, 2, 13, 18, 19, 24, 24, 24, 24] and filled.cu_seqlens.dtype == torch.int32
    assert filled.positions.tolist() == [*source.positions.tolist(), *[0] * 5]
    longer = fill_up(target, pad_id=PAD, batch_tokens=12)
    assert longer.ids.shape == (1, 32) and longer.cu_seqlens.tolist() == [0, 7, 10, 23, 24, 32, 32, 32, 32]


@pytest.mark.parametrize("batch_tokens", [40, 1250, 4096, 25_000])
def test_few_shapes_with_little_padding(batch_tokens: int) -> None:
    generator = np.random.default_rng(7)
    means = np.exp(generator.normal(2.7, 0.5, 100 * batch_tokens // 16))
    sides = [np.clip(generator.normal(means, means / 7), 1, batch_tokens).astype(np.int64) for _ in range(2)]
    order = order_by_length(*sides, generator=generator)
    borders = cut_batches(np.maximum(*sides)[order], max_tokens=batch_tokens)
    rows, numbers, num_real, num_tokens = set(), set(), 0, 0
    for pairs in np.split(order, borders[1:-1]):
        filled = []
        for lengths in (side[pairs].tolist() for side in sides):
            ends = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)
            ids = torch.zeros(1, int(ends[-1]), dtype=torch.long)
            filled.append(
                fill_up(PackedSequences(ids, ends, ids[0], max(lengths)), pad_id=PAD, batch_tokens=batch_tokens)
            )
            num_real += ids.numel()
        source, target = (each.cu_seqlens.diff() for each in filled)
        assert torch.equal(source > 0, target > 0)
        assert max(int(side[len(pairs) :].max()) for side in (source, target)) <= 128
        assert len(source).bit_count() == 1 and len(source) < 2 * int((source > 0).sum())
        rows.add(tuple(each.ids.shape[1] for each in filled))
        numbers.add(len(source))
        num_tokens += sum(each.ids.numel() for each in filled)
    assert len(borders) > 80 and len(numbers) <= 8
    if batch_tokens > 4000:
        assert len(rows) <= 21 and num_real > 0.97 * num_tokens


def test_torch_takes_the_arguments_and_gives_the_shape() -> None:
    # On the meta device torch's own function runs, without numbers: names and order of its arguments are those it has.
    meta = sequences(3, 5).map(lambda tensor: tensor.to("meta"))
    query, key, value = torch.empty(3, 1, 2, 8, 16, dtype=torch.bfloat16, device="meta").unbind()
    output = flash_attention(query, key, value, mask=varlen_mask(meta, meta, is_causal=True))
    assert output.shape == (1, 2, 8, 16)


def test_where_flash_attention_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device without the kernel, here the CPU; with a kernel that fails; and in a PyTorch without one."""
    options = {"dtype": torch.float32, "num_heads": 3, "head_dim": 8}
    reason = why_no_flash_attention(torch.device("cpu"), **options)
    assert reason is not None and reason.startswith("it fails: ")
    for error in (RuntimeError(""), AttributeError("no such kernel\nor any")):
        monkeypatch.setattr(varlen, "varlen_attn", Mock(side_effect=error, __kwdefaults__={}))
        reason = why_no_flash_attention(torch.device("cpu"), **options)
        assert reason == f"it fails: {'no such kernel' if str(error) else repr(error)}"
    monkeypatch.delattr(varlen, "varlen_attn")  # as in PyTorch 2.9
    reason = why_no_flash_attention(torch.device("cpu"), **options)
    assert reason is not None and in_order(reason, "PyTorch 2.10", torch.__version__)
