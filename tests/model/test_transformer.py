"""The model's contracts (padding changes nothing, no peeking), its parameters by hand, its dropout and its lengths."""

import math
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from translate.config.schema import ModelConfig
from translate.model import Transformer, log_probabilities
from translate.model.attention import MultiHeadAttention
from translate.model.dropout import Dropout
from translate.model.masks import padding_visible
from translate.training.loss import label_smoothed_loss

PAD = 3
VOCAB = 23
Build = Callable[..., Transformer]
KINDS, NORMS, ACTIVATIONS, TYINGS, INITIALIZATIONS = (
    get_args(ModelConfig.model_fields[key].annotation)
    for key in ("positions", "norm", "activation", "tie_embeddings", "initialization")
)


def some_ids(length: int) -> list[int]:
    return torch.randint(PAD + 1, VOCAB, (length,)).tolist()


def padded(rows: list[list[int]]) -> Tensor:
    width = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


# --- contract: padding changes nothing


def gradients(model: Transformer, source: Tensor, target: Tensor, expected: Tensor) -> tuple[Tensor, int, list[Tensor]]:
    is_real = expected != PAD
    hidden = model.decoder(target, model.encoder(source))[is_real]
    loss = label_smoothed_loss(hidden, model.output.weight, expected[is_real], smoothing=0.1)
    return loss.loss.detach(), loss.tokens, list(torch.autograd.grad(loss.loss, list(model.parameters())))


def check_padding_changes_nothing(model: Transformer) -> None:
    """Three pairs in one batch against each by itself: vectors, logits, loss, gradients."""
    sources = [some_ids(length) for length in (2, 11, 5)]
    targets = [some_ids(length) for length in (7, 3, 13)]
    inputs, expected = [[1, *target[:-1]] for target in targets], targets
    batched = model.encoder(padded(sources))
    hidden = model.decoder(padded(inputs), batched)
    for row, (source, target) in enumerate(zip(sources, inputs, strict=True)):
        alone = model.encoder(torch.tensor([source]))
        torch.testing.assert_close(batched.hidden[row, : len(source)], alone.hidden[0], rtol=0, atol=1e-10)
        hidden_alone = model.decoder(torch.tensor([target]), alone)
        torch.testing.assert_close(hidden[row, : len(target)], hidden_alone[0], rtol=0, atol=1e-10)

    # The loss is computed in fp32: its rounding is all that remains.
    loss, tokens, together = gradients(model, padded(sources), padded(inputs), padded(expected))
    apart = [
        gradients(model, *(torch.tensor([row]) for row in rows)) for rows in zip(sources, inputs, expected, strict=True)
    ]
    assert tokens == sum(one[1] for one in apart) == 23
    torch.testing.assert_close(loss, sum(one[0] for one in apart), rtol=1e-5, atol=0)
    for parameter, *parts in zip(together, *(one[2] for one in apart), strict=True):
        torch.testing.assert_close(parameter, sum(parts), rtol=0, atol=1e-5)


CONFIGS = [(positions, norm, "relu") for positions in KINDS for norm in NORMS]
CONFIGS += [("rotary", "pre", activation) for activation in ACTIVATIONS] + [("relative", "post", "swiglu")]
IN_T5 = {"norm_kind": "rms", "bias": False, "head_dim": 8, "tie_embeddings": "inputs"}


@pytest.mark.parametrize(("positions", "norm", "activation"), CONFIGS)
def test_padding_changes_nothing(build: Build, positions: str, norm: str, activation: str) -> None:
    model = build(positions=positions, norm=norm, activation=activation, **IN_T5 if activation == "geglu" else {})
    check_padding_changes_nothing(model)
    # Every weight has a part in what was compared.
    model(padded([some_ids(5)]), padded([some_ids(7)])).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_a_model_that_sees_padding_fails_the_padding_check(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def see_all(ids: Tensor, *, pad_id: int) -> Tensor:
        return torch.ones_like(ids, dtype=torch.bool)[:, None, None, :]

    monkeypatch.setattr("translate.model.masks.padding_visible", see_all)
    with pytest.raises(AssertionError):
        check_padding_changes_nothing(build())


# --- contract: no peeking


def check_no_peeking(model: Transformer) -> None:
    """The gradient of a position's logits to every later target embedding is exactly zero, and to no other one."""
    embedded: list[Tensor] = []
    hook = model.decoder.embedder.register_forward_hook(lambda module, args, output: embedded.append(output.hidden))
    source, target = padded([some_ids(5), some_ids(3)]), padded([some_ids(7), some_ids(7)])
    logits = model(source, target)
    hook.remove()
    for position in range(7):
        direction = torch.randn_like(logits[:, position])
        (gradient,) = torch.autograd.grad(logits[:, position], embedded, direction, retain_graph=True)
        assert (gradient[:, position + 1 :] == 0.0).all(), f"position {position} sees the future"
        assert (gradient[:, : position + 1] != 0.0).any(dim=-1).all(), f"position {position} is blind to its past"


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", KINDS)
def test_no_peeking(build: Build, positions: str, norm: str) -> None:
    check_no_peeking(build(positions=positions, norm=norm))


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (lambda ones: ones.tril(1), "position 0 sees the future"),  # one position too many
        (lambda ones: ones, "position 0 sees the future"),
        (lambda ones: ones.diag().diag(), "position 1 is blind to its past"),
    ],
)
def test_a_wrong_mask_fails_the_check(
    build: Build, monkeypatch: pytest.MonkeyPatch, seen: Callable[[Tensor], Tensor], message: str
) -> None:
    def wrong(ids: Tensor, *, pad_id: int) -> Tensor:
        ones = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool)
        return padding_visible(ids, pad_id=pad_id) & seen(ones)

    monkeypatch.setattr("translate.model.transformer.target_visible", wrong)
    with pytest.raises(AssertionError, match=message):
        check_no_peeking(build())


@pytest.mark.parametrize("positions", KINDS)
@pytest.mark.parametrize("side", ["source", "target"])
def test_the_order_of_words_matters(build: Build, positions: str, side: str) -> None:
    model = build(positions=positions)
    words = [[5, 7, 11, 13, 17]]
    swapped = [[5, 11, 7, 13, 17]]
    source, target = torch.tensor(words), torch.tensor(words)
    other = model(torch.tensor(swapped), target) if side == "source" else model(source, torch.tensor(swapped))
    assert (model(source, target)[:, -1] - other[:, -1]).abs().max() > 1e-3


def test_the_learned_limit_is_said(build: Build) -> None:
    model = build(positions="learned")
    model(padded([some_ids(29)]), padded([some_ids(29)]))
    message = "^a sequence of 31 tokens exceeds the learned positions: model.max_positions = 29$"
    with pytest.raises(ValueError, match=message):
        model(padded([some_ids(31)]), padded([some_ids(2)]))
    with pytest.raises(ValueError, match=message):
        model(padded([some_ids(2)]), padded([some_ids(31)]))
    with pytest.raises(ValueError, match=message):
        model.decoder.start(model.encoder(padded([some_ids(2)])), beam_size=2, max_length=31)


@pytest.mark.parametrize(("scale_embeddings", "factor"), [(True, 7.0), (False, 1.0)])
def test_embeddings_are_scaled_by_the_root_of_the_width(build: Build, scale_embeddings: bool, factor: float) -> None:
    model = build(d_model=49, num_heads=7, positions="relative", scale_embeddings=scale_embeddings)
    for embedder in (model.encoder.embedder, model.decoder.embedder):
        ids = torch.tensor([[5, 7, 11]])
        torch.testing.assert_close(embedder(ids).hidden, factor * embedder.tokens.weight[ids])


def test_all_tied_needs_one_vocabulary() -> None:
    config = ModelConfig(d_model=6, num_heads=3, tie_embeddings="all")
    with pytest.raises(ValueError, match="model.tie_embeddings = 'all' .* source has 11 and the target 13 entries"):
        Transformer(config, source_vocab_size=11, target_vocab_size=13, pad_id=PAD)


# By hand, for d_model 6 and d_ff 5. Attention: 4 matrices of 6 · 6 and 4 biases of 6 = 168. Feed-forward:
# 6 · 5 + 5 + 5 · 6 + 6 = 71. Norm: 12. Encoder layer: 168 + 71 + 2 · 12 = 263. Decoder layer: 2 · 168 + 71 + 3 · 12
# = 443. Two and three of them: 526 + 1329 = 1855. An embedding of 11 is 66, of 13 is 78.
@pytest.mark.parametrize(
    ("options", "source_vocab_size", "expected"),
    [
        ({"tie_embeddings": "none"}, 11, 1855 + 66 + 2 * 78),
        ({"tie_embeddings": "decoder"}, 11, 1855 + 66 + 78),
        ({"tie_embeddings": "all"}, 13, 1855 + 78),
        ({"norm": "pre"}, 13, 1855 + 78 + 2 * 12),  # a last norm for each stack
        ({"embedding_norm": True}, 13, 1855 + 78 + 2 * 12),
        ({"positions": "learned", "max_positions": 7}, 13, 1855 + 78 + 2 * 7 * 6),
        ({"positions": "rotary"}, 13, 1855 + 78),
        ({"positions": "relative", "relative_buckets": 8}, 13, 1855 + 78 + 2 * 8 * 3),
        ({"activation": "swiglu"}, 13, 1855 + 78 + 5 * (6 * 5 + 5)),  # a third matrix in each of five layers
        ({"tie_embeddings": "inputs"}, 13, 1855 + 2 * 78),
        ({"norm_kind": "rms"}, 13, 1855 + 78 - 13 * 6),  # 13 norms without a bias
        ({"bias": False}, 13, 1855 + 78 - 13 * 6 - 8 * 4 * 6 - 5 * (5 + 6)),  # 8 attentions
        ({"head_dim": 7}, 13, 1855 + 78 + 8 * (4 * 6 * 15 + 3 * 15)),  # heads of 21 instead of 6 dimensions together
    ],
)
def test_parameters_counted_by_hand(options: dict[str, Any], source_vocab_size: int, expected: int) -> None:
    config = ModelConfig(
        **{"d_model": 6, "num_heads": 3, "d_ff": 5, "num_encoder_layers": 2, "num_decoder_layers": 3} | options
    )
    model = Transformer(config, source_vocab_size=source_vocab_size, target_vocab_size=13, pad_id=PAD)
    assert model.num_parameters == expected


DROPOUTS = ["dropout", "attention_dropout", "activation_dropout"]


@pytest.mark.parametrize("place", DROPOUTS)
def test_each_dropout_acts_by_itself_in_training_and_not_in_evaluation(build: Build, place: str) -> None:
    model = build(**{place: 0.5})
    source, target = padded([some_ids(5), some_ids(7)]), padded([some_ids(7), some_ids(3)])
    first, second = model.train()(source, target), model(source, target)
    assert (first - second).abs().max() > 1e-3
    model.eval()
    assert torch.equal(model(source, target), model(source, target))
    none = build()
    none.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(source, target), none(source, target), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        # By hand: two embedders, and 2 · 2 + 3 · 3 add-and-norms; 2 + 3 · 2 attentions; 2 + 3 feed-forward layers.
        ("dropout", 2 + 13),
        ("attention_dropout", 8),
        ("activation_dropout", 5),
    ],
)
def test_each_dropout_stands_in_its_places(build: Build, place: str, expected: int) -> None:
    model = build(**{place: 0.37})
    rates = [module.p for module in model.modules() if isinstance(module, Dropout)]
    assert len(rates) == 2 + 13 + 8 + 5
    assert sum(rate == 0.37 for rate in rates) == expected
    assert sum(rate == 0.0 for rate in rates) == 28 - expected


def test_the_sum_of_embeddings_and_positions_is_dropped_out(build: Build) -> None:
    model = build(dropout=0.5)
    ids = padded([some_ids(29)])
    for embedder in (model.encoder.embedder, model.decoder.embedder):
        whole, dropped = embedder.eval()(ids).hidden, embedder.train()(ids).hidden
        kept = dropped != 0.0
        assert 0.4 < kept.double().mean() < 0.6
        torch.testing.assert_close(dropped[kept], 2 * whole[kept])


def test_log_probabilities_are_fp32_of_bf16_logits() -> None:
    logits = torch.randn(2, 3, 1009, dtype=torch.bfloat16)
    log_probs = log_probabilities(logits)
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs, logits.double().log_softmax(dim=-1).float(), rtol=0, atol=1e-5)
    torch.testing.assert_close(log_probs.exp().sum(dim=-1), torch.ones(2, 3))
    assert (log_probs - logits.log_softmax(dim=-1).float()).abs().max() > 1e-3  # what bf16 would have lost


# --- weights before training, against Xavier's bounds computed by hand

D_MODEL, D_FF, NUM_TOKENS = 62, 97, 1009


def initialized(method: str, *, tie_embeddings: str = "all", activation: str = "relu") -> Transformer:
    config = ModelConfig(
        d_model=D_MODEL, num_heads=2, d_ff=D_FF, num_encoder_layers=1, num_decoder_layers=1,
        initialization=method, tie_embeddings=tie_embeddings, activation=activation,
    )  # fmt: skip
    return Transformer(config, source_vocab_size=NUM_TOKENS, target_vocab_size=NUM_TOKENS, pad_id=3)


def assert_uniform(weight: Tensor, bound: float) -> None:
    """Thousands of draws from U(-bound, bound): none outside, some within 1 % of each end, mean about 0."""
    assert weight.numel() > 3000
    assert 0.99 * bound < weight.max() <= bound
    assert -bound <= weight.min() < -0.99 * bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def attentions(model: nn.Module) -> list[MultiHeadAttention]:
    found = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert len(found) == 3
    return found


@pytest.mark.parametrize(("method", "parts"), [("paper", 3), ("xavier", 1)])
def test_projections_are_xavier(method: str, parts: int) -> None:
    """The paper's way draws query, key and value, gate and inner each by itself; xavier fused matrices as a whole."""
    model = initialized(method)
    gated = initialized(method, activation="swiglu").encoder.layers[0].feed_forward
    for rows in gated.inner.weight.chunk(min(2, parts)):
        assert_uniform(rows, math.sqrt(6 / (D_MODEL + rows.shape[0])))
    for attention in attentions(model):
        for rows in attention.input_projection.weight.chunk(parts):
            assert_uniform(rows, math.sqrt(6 / (D_MODEL + 3 // parts * D_MODEL)))
        assert_uniform(attention.output_projection.weight, math.sqrt(6 / (D_MODEL + D_MODEL)))
    feed_forward = model.encoder.layers[0].feed_forward
    assert_uniform(feed_forward.inner.weight, math.sqrt(6 / (D_MODEL + D_FF)))
    assert_uniform(feed_forward.outer.weight, math.sqrt(6 / (D_MODEL + D_FF)))


@pytest.mark.parametrize("tie_embeddings", TYINGS)
def test_embeddings_and_output(tie_embeddings: str) -> None:
    """The paper's embeddings are normal, with variance 1 / d_model before scaling; an output of its own is Xavier's."""
    model = initialized("paper", tie_embeddings=tie_embeddings)
    for embedder in (model.encoder.embedder, model.decoder.embedder):
        weight = embedder.tokens.weight
        assert weight.std().item() == pytest.approx(D_MODEL**-0.5, rel=0.02)
        assert weight.mean().item() == pytest.approx(0.0, abs=0.003)
        assert weight.abs().max() > 3.5 * D_MODEL**-0.5  # a tail: not uniform
        assert (weight * embedder.scale).var().item() == pytest.approx(1.0, rel=0.04)
    xavier = initialized("xavier", tie_embeddings=tie_embeddings)
    uniform = [xavier.encoder.embedder.tokens, xavier.decoder.embedder.tokens, xavier.output]
    for matrix in uniform + [model.output] * (tie_embeddings in ("none", "inputs")):
        assert_uniform(matrix.weight, math.sqrt(6 / (NUM_TOKENS + D_MODEL)))


@pytest.mark.parametrize("method", INITIALIZATIONS)
def test_biases_are_zero_and_norms_are_one(method: str) -> None:
    biases = 0
    for module in initialized(method).modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1.0).all() and (module.bias == 0.0).all()
        elif isinstance(module, nn.Linear) and module.bias is not None:
            assert (module.bias == 0.0).all()
            biases += 1
    assert biases == 3 * 2 + 2 * 2  # three attentions and two feed-forward layers, two matrices each
