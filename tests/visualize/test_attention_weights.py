"""The weights in the pictures are the model's own, and follow from the queries and keys that are shown."""

import math
from typing import Any

import pytest
import torch
from harness import MakeTranslator
from torch import Tensor, nn

from translate.data.batching import EncodedPair, collate
from translate.decoding import Translator
from translate.visualize.attention import LayerAttention, capture_attention

SOURCE, TARGET = "Ein Hund läuft über die Straße.", "A dog runs across the street."
KINDS_OF_POSITIONS = ["sinusoidal", "learned", "rotary", "relative"]


def encode(translator: Translator) -> EncodedPair:
    tokenizers = translator.tokenizers
    return EncodedPair(tokenizers.source.encode(SOURCE), tokenizers.target.encode(TARGET))


@pytest.mark.parametrize("positions", KINDS_OF_POSITIONS)
def test_the_part_of_positions_is_what_they_change_in_the_scores(
    make_translator: MakeTranslator, positions: str
) -> None:
    """Queries and keys as they are projected, without positions, give the rest of each score."""
    translator = make_translator(positions=positions)
    projected: dict[tuple[str, int], Tensor] = {}
    for stack, layers in (("encoder", translator.model.encoder.layers), ("decoder", translator.model.decoder.layers)):
        for number, layer in enumerate(layers):
            attention: Any = layer.self_attention
            attention.input_projection.register_forward_hook(
                lambda module, inputs, output, key=(stack, number): projected.update({key: output[0].detach()})
            )
    captured = capture_attention(translator.model, encode(translator))
    assert [(each.kind, each.layer) for each in captured] == [
        ("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1), ("cross", 0), ("cross", 1)
    ]  # fmt: skip
    for each in captured:
        has_part = each.kind != "cross" and positions in ("rotary", "relative")
        assert (each.position_scores is not None) == has_part
        if each.position_scores is not None:
            query, key, _ = (
                part.unflatten(1, (3, 8)).transpose(0, 1) for part in projected[each.kind, each.layer].chunk(3, dim=1)
            )
            content = query @ key.transpose(1, 2) / math.sqrt(8)
            assert each.position_scores.abs().max() > 0.1
            torch.testing.assert_close(content + each.position_scores, scores_of(each, positions), atol=1e-4, rtol=0)


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
