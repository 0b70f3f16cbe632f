"""Converts a trained model to CTranslate2, weight by weight; a model in fp32 may be quantised when it is loaded.

Sinusoidal positions are written as a table. Each converted model is checked: its numbers must be equal to ours.
"""

import contextlib
import copy
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from translate.atomic import atomic_folder
from translate.config.schema import NEWER_MODEL_KEYS
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizers
from translate.decoding.agreement import Probes, check_agreement, probe
from translate.decoding.counterparts import TABLE_POSITIONS, position_limit, to_settings
from translate.errors import RunError, import_extra
from translate.fingerprint import fingerprint
from translate.model import Decoder, Encoder, Transformer, log_probabilities
from translate.model.layers import DecoderLayer, EncoderLayer
from translate.model.positions import LearnedPositions, RelativePositions, SinusoidalPositions
from translate.runs.checksums import check_folder, check_inside, write_checksums
from translate.runs.directory import Checkpoint
from translate.runs.run import LoadedModel
from translate.runs.weights import widen

CONVERSION = 1
"""Version of the conversion; raise it when runs that were converted before must be converted again."""


def find_conversion(loaded: LoadedModel, *, checkpoint: Checkpoint) -> Path:
    """The folder for a converted checkpoint, which may not exist yet: RUN/export/ctranslate2-CHECKPOINT-FINGERPRINT.

    The fingerprint covers everything in the model, so a checkpoint is converted once, and again only after
    training has rewritten it.

    Raises:
        RunError: The folder is a link that leaves the run.
    """
    sizes, tokenizers = loaded.config.model, loaded.tokenizers[:2]
    model_config = sizes.model_dump(mode="json", exclude=NEWER_MODEL_KEYS)
    model_config |= sizes.model_dump(include=NEWER_MODEL_KEYS, exclude_defaults=True)  # so conversions are not repeated
    settings = [CONVERSION, TABLE_POSITIONS["ctranslate2"], model_config, loaded.sha256]
    content = fingerprint(settings, *(tokenizer.model_bytes for tokenizer in tokenizers))
    folder = loaded.run.files.export / f"ctranslate2-{checkpoint}-{content[:16]}"
    check_inside(folder, loaded.run.path)
    return folder


def convert_model(loaded: LoadedModel, *, checkpoint: Checkpoint, release: bool = False) -> Path:
    """Convert the model of a checkpoint, and keep the result in the run; a damaged conversion is repeated.

    If two processes convert at the same time, both use the folder of the faster one.

    Args:
        release: As in `write_ctranslate2`, for a model whose weights are as they are stored.

    Returns:
        The folder with the CTranslate2 model.

    Raises:
        InputError: The package is not installed.
        RunError: The run cannot be written to, or the converted model computes different numbers.
    """
    folder = find_conversion(loaded, checkpoint=checkpoint)
    import_extra("ctranslate2")  # it takes time, in which another process may finish, so the folder is checked after it
    try:
        check_folder(folder)
    except RunError:
        shutil.rmtree(folder, ignore_errors=True)
        is_exact = loaded.model.device.type == "cpu" and loaded.model.output.weight.dtype == torch.float32
        if not is_exact and not release:  # The model was moved or rounded after it was loaded, or is stored in bf16.
            loaded, release = loaded.run.load_model(checkpoint, as_stored=True), True
        with contextlib.suppress(FileExistsError), atomic_folder(folder) as temporary:  # another process was quicker
            write_ctranslate2(loaded.model, loaded.tokenizers, temporary, release=release)
            write_checksums(temporary, {file.name: fingerprint(file) for file in temporary.iterdir()})
    return folder


def write_ctranslate2(
    model: Transformer,
    tokenizers: Tokenizers,
    directory: Path,
    *,
    quantization: str | None = None,
    release: bool = False,
) -> None:
    """Write `model.bin`, `config.json` and the vocabularies into a folder, and check that they give our numbers.

    Weights in bf16 are written in bf16. For the check the model is widened to fp32, in place.

    Args:
        quantization: What CTranslate2 rounds the weights to, by its name for it, after the check; None: nothing.
        release: Free the memory of the weights before CTranslate2 loads them; the model cannot be used again.

    Raises:
        InputError: The package is not installed.
        RunError: The written model gives different log-probabilities.
        OSError: The folder cannot be written to.
    """
    spec = _build_spec(model, tokenizers)
    spec.optimize()
    spec.save(str(directory))
    del spec
    check_conversion(directory, widen(model), tokenizers, release=release)
    if quantization is not None:
        spec = _build_spec(copy.deepcopy(model), tokenizers)  # the copy's weights are overwritten
        spec.optimize(quantization=quantization)
        spec.save(str(directory))


def check_conversion(directory: Path, model: Transformer, tokenizers: Tokenizers, *, release: bool = False) -> None:
    """Score sentences with CTranslate2 and our model; raises the errors of `check_scores`."""
    probes = probe(model, position_limit=position_limit(model.config, "ctranslate2"))
    sides = [[side.pieces(pair[number]) for pair in probes.pairs] for number, side in enumerate(tokenizers[:2])]
    if release:
        model.to("meta")
    check_scores(load_in_fp32(directory), probes, sides)


def load_in_fp32(directory: Path) -> Any:
    """Load a model on the CPU as a `ctranslate2.Translator`, to check its numbers."""
    return import_extra("ctranslate2").Translator(os.fsencode(directory), compute_type="float32", intra_threads=1)


def check_scores(translator: Any, probes: Probes, sides: list[list[list[str]]]) -> None:
    """Score sentences with a `ctranslate2.Translator` in fp32 and compare the scores with our model's.

    Args:
        sides: The subwords of the sources, and of the targets.

    Raises:
        RunError: A token's log-probability differs by more than the tolerance.
    """
    scored = translator.score_batch(*sides, max_input_length=0)  # no limit
    target_ids = probes.batch.target_output_ids
    ours = log_probabilities(probes.logits).gather(2, target_ids[:, :, None])[:, :, 0][target_ids != PAD_ID]
    theirs = torch.tensor([log_prob for result in scored for log_prob in result.log_probs])
    check_agreement(ours[:, None], theirs[:, None], noise=probes.noise, what="log-probabilities")


def _build_spec(model: Transformer, tokenizers: Tokenizers) -> Any:
    specs = import_extra("ctranslate2").specs
    config = model.config
    options = to_settings(config, "ctranslate2")
    options["activation"] = specs.common_spec.Activation[options["activation"]]
    options["head_dim"] = config.head_dim
    encoder = specs.transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, config.num_heads, **options)
    decoder = specs.transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, config.num_heads, **options)
    spec = specs.TransformerSpec(encoder, decoder)
    _fill_stack(encoder, model.encoder, embeddings=encoder.embeddings[0])
    _fill_stack(decoder, model.decoder, embeddings=decoder.embeddings)
    decoder.projection.weight = _array(model.output.weight)
    if model.output.bias is not None:
        decoder.projection.bias = _array(model.output.bias)
    spec.register_source_vocabulary(tokenizers.source.pieces(range(tokenizers.source.vocab_size)))
    spec.register_target_vocabulary(tokenizers.target.pieces(range(tokenizers.target.vocab_size)))
    symbols = tokenizers.target.pieces([UNK_ID, BOS_ID, EOS_ID])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = symbols
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.validate()
    return spec


def _fill_stack(spec: Any, stack: Encoder | Decoder, *, embeddings: Any) -> None:
    embedder, positions = stack.embedder, stack.embedder.positions
    embeddings.weight = _array(embedder.tokens.weight)
    spec.scale_embeddings = embedder.scale
    if isinstance(positions, SinusoidalPositions):
        positions.reserve(TABLE_POSITIONS["ctranslate2"])
        spec.position_encodings.encodings = _array(positions.table[: TABLE_POSITIONS["ctranslate2"]])
    elif isinstance(positions, LearnedPositions):
        spec.position_encodings.encodings = _array(positions.table)
    if not isinstance(embedder.embedding_norm, nn.Identity):
        _fill(spec.layernorm_embedding, embedder.embedding_norm)
    if isinstance(stack.final_norm, nn.LayerNorm | nn.RMSNorm):
        _fill(spec.layer_norm, stack.final_norm)
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        _fill(layer_spec.self_attention.layer_norm, layer.self_attention_add_and_norm.norm)
        _fill(layer_spec.self_attention.linear[0], layer.self_attention.input_projection)
        _fill(layer_spec.self_attention.linear[1], layer.self_attention.output_projection)
        if isinstance(positions, RelativePositions):
            layer_spec.self_attention.relative_attention_bias = _array(positions.table)
            layer_spec.self_attention.relative_attention_max_distance = np.int32(positions.max_distance)
        if isinstance(layer, DecoderLayer):  # CTranslate2 has a separate layer for the query
            width = layer.cross_attention.width
            _fill(layer_spec.attention.layer_norm, layer.cross_attention_add_and_norm.norm)
            _fill(layer_spec.attention.linear[0], layer.cross_attention.input_projection, slice(width))
            _fill(layer_spec.attention.linear[1], layer.cross_attention.input_projection, slice(width, None))
            _fill(layer_spec.attention.linear[2], layer.cross_attention.output_projection)
        inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
        _fill(layer_spec.ffn.layer_norm, layer.feed_forward_add_and_norm.norm)
        if layer.feed_forward.is_gated:  # the first half is the gate, which has the activation
            _fill(layer_spec.ffn.linear_0, inner, slice(outer.in_features))
            _fill(layer_spec.ffn.linear_0_noact, inner, slice(outer.in_features, None))
        else:
            _fill(layer_spec.ffn.linear_0, inner)
        _fill(layer_spec.ffn.linear_1, outer)


def _fill(spec: Any, module: nn.Linear | nn.LayerNorm | nn.RMSNorm, rows: slice = slice(None)) -> None:
    weight, bias = ("weight", "bias") if isinstance(module, nn.Linear) else ("gamma", "beta")
    setattr(spec, weight, _array(module.weight[rows]))
    stored: Tensor | None = getattr(module, "bias", None)  # RMSNorm never has one
    if stored is not None:
        setattr(spec, bias, _array(stored[rows]))
    elif isinstance(module, nn.LayerNorm):  # CTranslate2 requires one
        spec.beta = _array(torch.zeros_like(module.weight))


def _array(tensor: Tensor) -> Tensor | NDArray[np.float32]:
    tensor = tensor.detach().cpu().contiguous()
    return tensor if tensor.dtype == torch.bfloat16 else tensor.float().numpy()  # numpy has no bf16
