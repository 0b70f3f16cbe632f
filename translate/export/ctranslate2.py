"""A CTranslate2 model of a trained one, weight by weight, in fp32; how it is quantised is chosen when it is loaded.

Every option of `model` has its exact counterpart there, so nothing is refused: the sines travel as a table of ours,
relative and rotary positions are computed alike, and the check at the end says so with numbers for each exported model.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from translate.config import ModelConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, UNK_ID, Tokenizer, Tokenizers
from translate.errors import InputError
from translate.export.agreement import probe, real_positions, require_agreement
from translate.model import Decoder, Encoder, Transformer, log_probabilities
from translate.model.layers import DecoderLayer, EncoderLayer
from translate.model.positions import (
    LearnedPositions,
    Positions,
    RelativePositions,
    SinusoidalPositions,
    sinusoidal_table,
)

TABLE_POSITIONS = 4096
"""Rows of the table of sines in the file: tokens of the longest source or translation, the special symbol included."""


def import_ctranslate2() -> ModuleType:
    """The package, which is an extra.

    Raises:
        InputError: It is not installed.
    """
    try:
        import ctranslate2
        import ctranslate2.specs
    except ImportError as error:
        raise InputError(
            f"CTranslate2 cannot be imported ({error}): pip install 'translate-nmt[ctranslate2]'"
        ) from error
    module: ModuleType = ctranslate2
    return module


def max_positions(config: ModelConfig) -> int | None:
    """Tokens at most that the exported model takes on either side, the special symbol included; None: no limit."""
    match config.positions:
        case "sinusoidal":
            return TABLE_POSITIONS
        case "learned":
            return config.max_positions
        case "rotary" | "relative":
            return None


def write_ctranslate2(model: Transformer, tokenizers: Tokenizers, directory: Path) -> None:
    """Writes `model.bin`, `config.json` and the vocabularies into a folder, and checks that they give our numbers.

    Raises:
        InputError: The package is not installed.
        RunError: The log-probabilities of what was written are not the model's.
        OSError: The folder cannot be written to.
    """
    spec = build_spec(model, tokenizers)
    spec.validate()
    spec.optimize(quantization="float32")
    spec.save(str(directory))
    check_ctranslate2(directory, model, tokenizers)


def check_ctranslate2(directory: Path, model: Transformer, tokenizers: Tokenizers) -> None:
    """Scores sentences with the written model and with ours.

    Raises:
        RunError: A token's log-probability differs by more than the tolerance.
    """
    translator = import_ctranslate2().Translator(str(directory), compute_type="float32", intra_threads=1)
    probes = probe(model, max_positions=max_positions(model.config))
    scored = translator.score_batch(
        [tokenizers.source.pieces(pair.source) for pair in probes.pairs],
        [tokenizers.target.pieces(pair.target) for pair in probes.pairs],
        max_input_length=0,  # no limit
    )
    target_ids = probes.batch.target_output_ids
    ours = log_probabilities(probes.logits).gather(2, target_ids[:, :, None])[:, :, 0]
    theirs = [torch.tensor(result.log_probs) for result in scored]
    require_agreement(real_positions(ours, target_ids), theirs, what="log-probabilities")


def build_spec(model: Transformer, tokenizers: Tokenizers) -> Any:
    """The model as CTranslate2's `TransformerSpec`.

    Raises:
        InputError: The package is not installed.
    """
    specs = import_ctranslate2().specs
    config = model.config
    activations = {
        "relu": specs.common_spec.Activation.RELU,
        "gelu": specs.common_spec.Activation.GELU,
        "swiglu": specs.common_spec.Activation.SWISH,
    }
    options: dict[str, Any] = {
        "pre_norm": config.norm == "pre",
        "activation": activations[config.activation],
        "ffn_glu": config.activation == "swiglu",
        "relative_attention_bias": config.positions == "relative",
        "rotary_dim": 0 if config.positions == "rotary" else None,  # 0: all dimensions of a head
        "rotary_interleave": True,  # neighbouring dimensions form the pairs
    }
    encoder = specs.transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, config.num_heads, **options)
    decoder = specs.transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, config.num_heads, **options)
    spec = specs.TransformerSpec(encoder, decoder)
    _fill_stack(encoder, model.encoder, embeddings=encoder.embeddings[0])
    _fill_stack(decoder, model.decoder, embeddings=decoder.embeddings)
    decoder.projection.weight = _array(model.output.weight)
    spec.register_source_vocabulary(_vocabulary(tokenizers.source))
    spec.register_target_vocabulary(_vocabulary(tokenizers.target))
    unk, bos, eos = tokenizers.target.pieces([UNK_ID, BOS_ID, EOS_ID])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unk, bos, eos
    spec.config.decoder_start_token = bos
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.norm_epsilon
    return spec


def _vocabulary(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.pieces(range(tokenizer.vocab_size))


def _fill_stack(spec: Any, stack: Encoder | Decoder, *, embeddings: Any) -> None:
    embedder = stack.embedder
    embeddings.weight = _array(embedder.tokens.weight)
    spec.scale_embeddings = embedder.scale
    if isinstance(embedder.positions, SinusoidalPositions):
        d_model = embedder.tokens.embedding_dim
        spec.position_encodings.encodings = _array(sinusoidal_table(TABLE_POSITIONS, d_model))
    elif isinstance(embedder.positions, LearnedPositions):
        spec.position_encodings.encodings = _array(embedder.positions.table)
    if isinstance(stack.final_norm, nn.LayerNorm):
        _fill_norm(spec.layer_norm, stack.final_norm)
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        _fill_self_attention(layer_spec.self_attention, layer, positions=embedder.positions)
        if isinstance(layer, DecoderLayer):
            _fill_cross_attention(layer_spec.attention, layer)
        _fill_feed_forward(layer_spec.ffn, layer)


def _fill_self_attention(spec: Any, layer: EncoderLayer | DecoderLayer, *, positions: Positions) -> None:
    _fill_norm(spec.layer_norm, layer.self_attention_add_and_norm.norm)
    _fill_linear(spec.linear[0], layer.self_attention.input_projection)  # rows: query, key, value there too
    _fill_linear(spec.linear[1], layer.self_attention.output_projection)
    if isinstance(positions, RelativePositions):
        spec.relative_attention_bias = _array(positions.table)
        spec.relative_attention_max_distance = np.int32(positions.max_distance)


def _fill_cross_attention(spec: Any, layer: DecoderLayer) -> None:
    attention = layer.cross_attention
    d_model, projection = attention.d_model, attention.input_projection
    _fill_norm(spec.layer_norm, layer.cross_attention_add_and_norm.norm)
    _fill(spec.linear[0], projection.weight[:d_model], projection.bias[:d_model])  # query
    _fill(spec.linear[1], projection.weight[d_model:], projection.bias[d_model:])  # key, value
    _fill_linear(spec.linear[2], attention.output_projection)


def _fill_feed_forward(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    feed_forward = layer.feed_forward
    _fill_norm(spec.layer_norm, layer.feed_forward_add_and_norm.norm)
    if feed_forward.activation == "swiglu":
        gate_weight, inner_weight = feed_forward.inner.weight.chunk(2)
        gate_bias, inner_bias = feed_forward.inner.bias.chunk(2)
        _fill(spec.linear_0, gate_weight, gate_bias)  # the one with the activation
        _fill(spec.linear_0_noact, inner_weight, inner_bias)
    else:
        _fill_linear(spec.linear_0, feed_forward.inner)
    _fill_linear(spec.linear_1, feed_forward.outer)


def _fill_linear(spec: Any, linear: nn.Linear) -> None:
    _fill(spec, linear.weight, linear.bias)


def _fill(spec: Any, weight: Tensor, bias: Tensor) -> None:
    spec.weight, spec.bias = _array(weight), _array(bias)


def _fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().float().cpu().contiguous().numpy()
