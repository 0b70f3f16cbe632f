"""Forced decoding against the full forward pass of each pair alone, and the attention that is recorded on the way."""

import threading

import pytest
import torch
from harness import Toy

from translate.data.batching import EncodedPair
from translate.data.tokenizer import BOS_ID, EOS_ID
from translate.decoding.score import force_decode
from translate.model.transformer import record_attention


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
        order = [sorted(range(len(row)), key=lambda token, row=row: -row[token]) for row in log_probs]
        ranks = [row.index(token) for row, token in zip(order, [*pair.target, EOS_ID], strict=True)]
        assert forced.token_ranks == ranks
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


def test_a_thread_sees_its_own_calls_alone(toy: Toy, pairs: list[EncodedPair]) -> None:
    with record_attention(toy.model, layer=0) as recorded:
        thread = threading.Thread(target=force_decode, args=(toy.model, pairs[:2]), kwargs={"max_tokens": 1})
        thread.start()
        thread.join()
        assert recorded == []
        force_decode(toy.model, pairs[:2], max_tokens=1)
    assert len(recorded) == 2
