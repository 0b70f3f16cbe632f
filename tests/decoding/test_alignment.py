"""Forced decoding against the full forward pass of each pair alone; links between words by hand, from one table."""

import functools
import threading

import pytest
import torch
from harness import Toy
from torch import Tensor

from translate.data.batching import EncodedPair
from translate.data.tokenizer import BOS_ID, EOS_ID
from translate.decoding.alignment import AlignmentLink, align_words, force_decode, format_pharaoh
from translate.decoding.output.words import group_words
from translate.model.attention import scaled_dot_product_attention
from translate.model.transformer import record_attention

# Two target subwords and the end symbol, four source subwords and the end symbol. Without the end symbol's column the
# rows are 0.2 0.4 0.2 0.2 and 0.375 0 0.125 0.5.
WEIGHTS = torch.tensor(
    [
        [0.1, 0.2, 0.1, 0.1, 0.5],
        [0.3, 0.0, 0.1, 0.4, 0.2],
        [0.0, 0.0, 0.1, 0.0, 0.9],
    ]
)


def align_subwords(weights: Tensor) -> dict[AlignmentLink, float]:
    target, source = ([[place] for place in range(size - 1)] for size in weights.shape)
    return align_words(weights, source_words=source, target_words=target)


def test_subwords() -> None:
    aligned = align_subwords(WEIGHTS)
    assert list(aligned) == [AlignmentLink(source=1, target=0), AlignmentLink(source=3, target=1)]
    assert list(aligned.values()) == pytest.approx([0.4, 0.5])


def test_words() -> None:
    source_words = [word.positions for word in group_words(["▁Hu", "nd", "▁im", "▁Haus"])]
    # Row 0: 0.2 + 0.4, 0.2, 0.2. Row 1: 0.375 + 0, 0.125, 0.5.
    aligned = align_words(WEIGHTS, source_words=source_words, target_words=[[0], [1]])
    assert list(aligned) == [AlignmentLink(0, 0), AlignmentLink(2, 1)]
    assert list(aligned.values()) == pytest.approx([0.6, 0.5])
    # One target word of both subwords: (0.6 + 0.375) / 2, (0.2 + 0.125) / 2, (0.2 + 0.5) / 2.
    assert align_words(WEIGHTS, source_words=source_words, target_words=[[0, 1]]) == {
        AlignmentLink(0, 0): pytest.approx(0.4875)
    }


def test_attention_to_the_end_symbol_alone_gives_no_link() -> None:
    weights = torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    assert align_subwords(weights) == {AlignmentLink(0, 1): 0.5}  # the first of two equals


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_empty_side(shape: tuple[int, int]) -> None:
    assert align_subwords(torch.ones(shape)) == {}
    words = {"target_words": [[0, 1]] if shape[0] == 3 else [], "source_words": [[0, 1]] if shape[1] == 3 else []}
    assert align_words(torch.ones(shape), **words) == {}


def test_pharaoh() -> None:
    found = [AlignmentLink(10, 0), AlignmentLink(2, 3), AlignmentLink(2, 1), AlignmentLink(0, 7)]
    assert format_pharaoh(found) == "0-7 2-1 2-3 10-0"  # by number: as text 10 would come before 2
    assert format_pharaoh([]) == ""
    assert format_pharaoh(align_subwords(WEIGHTS)) == "1-0 3-1"


@pytest.fixture(scope="module")
def pairs(toy: Toy) -> list[EncodedPair]:
    source, target = toy.tokenizers.source, toy.tokenizers.target
    lines = zip(toy.sources[:11], toy.references[:11], strict=True)
    pairs = [EncodedPair(source.encode(line), target.encode(reference)) for line, reference in lines]
    return [*pairs, EncodedPair(source.encode("Hund"), [])]


def test_a_batch_gives_the_numbers_of_each_pair_alone(toy: Toy, pairs: list[EncodedPair]) -> None:
    for pair, forced in zip(pairs, force_decode(toy.model, pairs, max_tokens=97), strict=True):
        with torch.no_grad():
            logits = toy.model(torch.tensor([[*pair.source, EOS_ID]]), torch.tensor([[BOS_ID, *pair.target]]))
        log_probs = logits[0].log_softmax(dim=1).tolist()
        expected = [row[token] for row, token in zip(log_probs, [*pair.target, EOS_ID], strict=True)]
        assert forced.token_log_probs == pytest.approx(expected, abs=1e-4)
        (alone,) = force_decode(toy.model, [pair], max_tokens=1)
        torch.testing.assert_close(forced.attention, alone.attention, rtol=0, atol=1e-5)


def test_attention_is_the_mean_over_the_heads_of_the_layer(toy: Toy, pairs: list[EncodedPair]) -> None:
    """By hand from the queries and keys that the layer makes."""
    pair = pairs[0]
    layer = toy.model.decoder.layers[0].cross_attention
    inputs: list[torch.Tensor] = []
    handle = layer.register_forward_pre_hook(lambda module, args: inputs.extend(args[:2]))
    (forced,) = force_decode(toy.model, [pair], max_tokens=1, attention_layer=0)
    handle.remove()
    with torch.inference_mode():
        query, memory = layer.project_query(inputs[0]), layer.project_key_value(inputs[1])
        weights = (query @ memory.key.transpose(2, 3) / 8**0.5).softmax(dim=3)  # head_dim = 32 / 4
    torch.testing.assert_close(forced.attention, weights[0].mean(dim=0).cpu(), rtol=0, atol=1e-5)


def test_a_thread_sees_its_own_calls_alone(toy: Toy, pairs: list[EncodedPair], monkeypatch: pytest.MonkeyPatch) -> None:
    """And other threads compute as they always do, with the fused kernel, so they get the same bits."""
    used: list[int] = []
    monkeypatch.setattr(
        "translate.model.attention.scaled_dot_product_attention",
        lambda *args, **options: used.append(threading.get_ident()) or scaled_dot_product_attention(*args, **options),
    )
    force = functools.partial(force_decode, toy.model, pairs[:2], max_tokens=1)
    with record_attention(toy.model, layer=0) as recorded:
        thread = threading.Thread(target=lambda: force(attention_layer=None))
        thread.start()
        thread.join()
        assert recorded == used == []
        force()
    assert len(recorded) == 2 and set(used) == {threading.get_ident()}
