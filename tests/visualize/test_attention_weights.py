"""The weights in the pictures are the model's: compared with the whole model written by hand in NumPy, fp64."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from translate.data.batching import EncodedPair, collate
from translate.decoding import Translator
from translate.model import Transformer
from translate.visualize.attention import LayerAttention, capture_attention

MakeTranslator = Callable[..., Translator]
Array = NDArray[np.float64]

SOURCE, TARGET = "Ein Hund läuft über die Straße.", "A dog runs across the street."
KINDS_OF_POSITIONS = ["sinusoidal", "learned", "rotary", "relative"]


class ByHand:
    """The Transformer of Vaswani et al. 2017 and its variants, one sentence at a time, without a line of the model's.

    `weights`, `scores` and `content_scores` of each attention are kept by its name and layer.
    """

    def __init__(self, model: Transformer) -> None:
        self.config = model.config
        self.parameters: dict[str, Array] = {
            name: parameter.detach().double().numpy()
            for name, parameter in model.named_parameters(remove_duplicate=False)
        }
        self.weights: dict[tuple[str, int], Array] = {}
        self.scores: dict[tuple[str, int], Array] = {}
        self.content_scores: dict[tuple[str, int], Array] = {}

    def run(self, source_ids: list[int], target_input_ids: list[int]) -> Array:
        memory = self.embed("encoder", source_ids)
        length = len(source_ids)
        for layer in range(self.config.num_encoder_layers):
            name = f"encoder.layers.{layer}"
            everything = np.ones((length, length), dtype=bool)
            memory = self.add_and_norm(
                f"{name}.self_attention_add_and_norm",
                memory,
                lambda x, n=name, k=layer, v=everything: self.attention(f"{n}.self_attention", x, x, v, ("encoder", k)),
            )
            memory = self.add_and_norm(
                f"{name}.feed_forward_add_and_norm", memory, lambda x, n=name: self.feed_forward(f"{n}.feed_forward", x)
            )
        memory = self.final_norm("encoder", memory)
        hidden = self.embed("decoder", target_input_ids)
        past = np.tril(np.ones((len(target_input_ids),) * 2, dtype=bool))
        for layer in range(self.config.num_decoder_layers):
            name = f"decoder.layers.{layer}"
            hidden = self.add_and_norm(
                f"{name}.self_attention_add_and_norm",
                hidden,
                lambda x, n=name, k=layer: self.attention(f"{n}.self_attention", x, x, past, ("decoder", k)),
            )
            seen = np.ones((len(target_input_ids), length), dtype=bool)
            hidden = self.add_and_norm(
                f"{name}.cross_attention_add_and_norm",
                hidden,
                lambda x, n=name, k=layer, v=seen: self.attention(f"{n}.cross_attention", x, memory, v, ("cross", k)),
            )
            hidden = self.add_and_norm(
                f"{name}.feed_forward_add_and_norm", hidden, lambda x, n=name: self.feed_forward(f"{n}.feed_forward", x)
            )
        return self.final_norm("decoder", hidden) @ self.parameters["output.weight"].T

    def embed(self, stack: str, ids: list[int]) -> Array:
        embedded = self.parameters[f"{stack}.embedder.tokens.weight"][ids] * math.sqrt(self.config.d_model)
        if self.config.positions == "learned":
            embedded = embedded + self.parameters[f"{stack}.embedder.positions.table"][: len(ids)]
        if self.config.positions == "sinusoidal":
            for position in range(len(ids)):
                for dimension in range(self.config.d_model):
                    angle = position / 10000 ** ((dimension - dimension % 2) / self.config.d_model)
                    embedded[position, dimension] += math.cos(angle) if dimension % 2 else math.sin(angle)
        return embedded

    def attention(
        self, name: str, x: Array, looked_at: Array, visible: NDArray[np.bool_], key: tuple[str, int]
    ) -> Array:
        heads, width = self.config.num_heads, self.config.d_model
        size = width // heads
        matrix, bias = (
            self.parameters[f"{name}.input_projection.weight"],
            self.parameters[f"{name}.input_projection.bias"],
        )
        query = x @ matrix[:width].T + bias[:width]
        keys = looked_at @ matrix[width : 2 * width].T + bias[width : 2 * width]
        values = looked_at @ matrix[2 * width :].T + bias[2 * width :]
        is_self = key[0] != "cross"
        scores, content, weights, outputs = [], [], [], []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            plain = query[:, part] @ keys[:, part].T / math.sqrt(size)
            score = plain
            if is_self and self.config.positions == "rotary":
                score = self.turned(query[:, part], keys[:, part]) / math.sqrt(size)
            if is_self and self.config.positions == "relative":
                score = plain + self.relative_bias(key[0], head, len(x))
            exponentials = np.where(visible, np.exp(score - score.max(axis=1, keepdims=True)), 0.0)
            weight = exponentials / exponentials.sum(axis=1, keepdims=True)
            scores.append(score)
            content.append(plain)
            weights.append(weight)
            outputs.append(weight @ values[:, part])
        self.scores[key], self.content_scores[key], self.weights[key] = map(np.stack, (scores, content, weights))
        projection = self.parameters[f"{name}.output_projection.weight"]
        return np.concatenate(outputs, axis=1) @ projection.T + self.parameters[f"{name}.output_projection.bias"]

    def turned(self, query: Array, keys: Array) -> Array:
        """Rotary by complex numbers: the real part of q · conj(k) · e^(i θ (m - n)), pair by pair."""
        size = query.shape[1]
        products = np.zeros((len(query), len(keys)))
        for pair in range(size // 2):
            theta = 10000 ** (-2 * pair / size)
            q = query[:, 2 * pair] + 1j * query[:, 2 * pair + 1]
            k = keys[:, 2 * pair] + 1j * keys[:, 2 * pair + 1]
            distance = np.arange(len(query))[:, None] - np.arange(len(keys))[None, :]
            products += (q[:, None] * k.conj()[None, :] * np.exp(1j * theta * distance)).real
        return products

    def relative_bias(self, stack: str, head: int, length: int) -> Array:
        table = self.parameters[f"{stack}.embedder.positions.table"]
        bias = np.zeros((length, length))
        for query in range(length):
            for key in range(length):
                bias[query, key] = table[
                    bucket(key - query, len(table), self.config.relative_max_distance, stack), head
                ]
        return bias

    def add_and_norm(self, name: str, x: Array, sublayer: Callable[[Array], Array]) -> Array:
        if self.config.norm == "pre":
            return x + sublayer(self.norm(f"{name}.norm", x))
        return self.norm(f"{name}.norm", x + sublayer(x))

    def norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + self.config.norm_epsilon)
        return scaled * self.parameters[f"{name}.weight"] + self.parameters[f"{name}.bias"]

    def final_norm(self, stack: str, x: Array) -> Array:
        return self.norm(f"{stack}.final_norm", x) if self.config.norm == "pre" else x

    def feed_forward(self, name: str, x: Array) -> Array:
        inner = x @ self.parameters[f"{name}.inner.weight"].T + self.parameters[f"{name}.inner.bias"]
        return np.maximum(inner, 0) @ self.parameters[f"{name}.outer.weight"].T + self.parameters[f"{name}.outer.bias"]


def bucket(distance: int, count: int, furthest: int, stack: str) -> int:
    """T5's, by its description: near distances one by one, far ones by their logarithm, the last for all beyond."""
    first = 0
    if stack == "encoder":
        count //= 2
        first = count if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(0, -distance)
    exact = count // 2
    if distance < exact:
        return first + distance
    return first + min(
        count - 1, exact + int(math.log(distance / exact) / math.log(furthest / exact) * (count - exact))
    )


def encode(translator: Translator) -> EncodedPair:
    tokenizers = translator.tokenizers
    return EncodedPair(tokenizers.source.encode(SOURCE), tokenizers.target.encode(TARGET))


def ids_of(pair: EncodedPair) -> tuple[list[int], list[int]]:
    batch = collate([pair], [0])
    return batch.source_ids[0].tolist(), batch.target_input_ids[0].tolist()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", KINDS_OF_POSITIONS)
def test_weights_and_scores_are_those_of_a_model_written_by_hand(
    make_translator: MakeTranslator, positions: str, norm: str
) -> None:
    translator = make_translator(positions=positions, norm=norm)
    pair = encode(translator)
    captured = capture_attention(translator.model, pair)
    by_hand = ByHand(translator.model)
    logits = by_hand.run(*ids_of(pair))

    assert [(each.kind, each.layer) for each in captured] == [
        ("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1), ("cross", 0), ("cross", 1)
    ]  # fmt: skip
    for each in captured:
        key = (each.kind, each.layer)
        assert each.weights.shape == by_hand.weights[key].shape
        np.testing.assert_allclose(each.weights.numpy(), by_hand.weights[key], atol=2e-5)
        np.testing.assert_allclose(scores_of(each, positions).numpy(), by_hand.scores[key], atol=2e-4)
        has_part = each.kind != "cross" and positions in ("rotary", "relative")
        assert (each.position_scores is not None) == has_part
        if each.position_scores is not None:
            part = by_hand.scores[key] - by_hand.content_scores[key]
            assert np.abs(part).max() > 0.1
            np.testing.assert_allclose(each.position_scores.numpy(), part, atol=2e-4)

    log_probs = (
        logits
        - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
        - logits.max(1, keepdims=True)
    )
    predicted = [*pair.target, 3]  # </s>
    expected = [log_probs[place, token] for place, token in enumerate(predicted)]
    (forced,) = translator.force([pair])
    np.testing.assert_allclose(forced.token_log_probs, expected, atol=1e-4)


def scores_of(each: LayerAttention, positions: str) -> Tensor:
    """The softmax's input, as the page computes it from queries, keys and the relative bias."""
    products = each.query @ each.key.transpose(1, 2) / math.sqrt(each.query.shape[2])
    has_bias = positions == "relative" and each.position_scores is not None
    return products + each.position_scores if has_bias else products


def softmax_of_visible(each: LayerAttention, scores: Tensor) -> Tensor:
    return scores.masked_fill(~each.visible, -math.inf).softmax(dim=-1)


@pytest.mark.parametrize("positions", KINDS_OF_POSITIONS)
def test_rows_sum_to_one_masked_cells_are_zero_and_queries_times_keys_give_the_weights(
    make_translator: MakeTranslator, positions: str
) -> None:
    translator = make_translator(positions=positions)
    for each in capture_attention(translator.model, encode(translator)):
        torch.testing.assert_close(each.weights.sum(dim=2), torch.ones_like(each.weights[:, :, 0]))
        lower = torch.ones_like(each.visible).tril() if each.kind == "decoder" else torch.ones_like(each.visible)
        assert torch.equal(each.visible, lower)
        assert (each.weights[:, ~each.visible] == 0.0).all() and (each.weights[:, each.visible] > 0.0).all()
        torch.testing.assert_close(softmax_of_visible(each, scores_of(each, positions)), each.weights)


def test_the_weights_are_the_very_numbers_that_another_hook_sees(make_translator: MakeTranslator) -> None:
    translator = make_translator()
    pair = encode(translator)
    seen: list[Tensor] = []
    attention: Any = translator.model.decoder.layers[1].cross_attention
    handle = attention.weights_dropout.register_forward_hook(lambda module, inputs, weights: seen.append(weights))
    captured = capture_attention(translator.model, pair)
    handle.remove()
    (weights,) = seen
    assert torch.equal(captured[-1].weights, weights[0])


def test_whoever_changes_the_weights_is_seen(make_translator: MakeTranslator) -> None:
    """Were the weights computed again beside the model, the change would not be in them."""
    translator = make_translator()
    attention: Any = translator.model.encoder.layers[0].self_attention

    def look_at_the_last(module: nn.Module, inputs: object, weights: Tensor) -> Tensor:
        changed = torch.zeros_like(weights)
        changed[..., -1] = 1.0
        return changed

    handle = attention.weights_dropout.register_forward_hook(look_at_the_last)
    first = capture_attention(translator.model, encode(translator))[0]
    handle.remove()
    assert (first.weights[..., -1] == 1.0).all() and (first.weights[..., :-1] == 0.0).all()


def test_nothing_stays_behind_in_the_model(make_translator: MakeTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = make_translator()
    batch = collate([encode(translator)], [0])
    with torch.inference_mode():
        before = translator.model(batch.source_ids, batch.target_input_ids)
    capture_attention(translator.model, encode(translator))
    monkeypatch.setattr(translator.model.decoder, "forward", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        capture_attention(translator.model, encode(translator))
    monkeypatch.undo()
    modules = list(translator.model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in modules)
    with torch.inference_mode():
        assert torch.equal(translator.model(batch.source_ids, batch.target_input_ids), before)


def test_bf16_is_shown_as_it_is(make_translator: MakeTranslator) -> None:
    translator = make_translator(positions="rotary")
    exact = capture_attention(translator.model, encode(translator))
    translator.model.bfloat16()
    for each, other in zip(capture_attention(translator.model, encode(translator)), exact, strict=True):
        assert each.weights.dtype == torch.float32
        assert 0.0 < float((each.weights - other.weights).abs().max()) < 0.2
        torch.testing.assert_close(each.weights.sum(dim=2), torch.ones_like(each.weights[:, :, 0]), atol=0.02, rtol=0)
