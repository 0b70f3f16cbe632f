"""A model for Hugging Face transformers: in the layout of MarianMT where that is exact, else with a modelling file.

Marian's table of positions has the sines in its first half and the cosines in its second; ours has them side by side.
So the dimensions of the residual stream change places, in every weight alike, which changes no result.
"""

import inspect
import json
import logging
import math
import shutil
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, Tokenizers
from translate.decoding.agreement import check_agreement, probe
from translate.decoding.engines.ctranslate2 import missing_settings
from translate.errors import RunError, import_extra
from translate.model import Transformer
from translate.model.layers import DecoderLayer, EncoderLayer

logger = logging.getLogger(__name__)

TABLE_POSITIONS = 1024
"""Rows of Marian's table of positions: the most tokens of a source or translation, with the special symbol."""
_SYMBOLS = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": BOS_ID}


def marian_lacks(config: ModelConfig) -> list[str]:
    """What a MarianMT model cannot express of a model, as "model.key = value (it has …)"; empty if it can be one."""
    needed = {
        "norm": ("post",),
        "positions": ("sinusoidal",),
        "activation": ("relu", "gelu", "swish"),
        "norm_epsilon": (1e-5,),
    }
    return [
        f"model.{key} = {getattr(config, key)!r} (it has {' or '.join(map(repr, values))})"
        for key, values in needed.items()
        if getattr(config, key) not in values
    ]


def max_positions(config: ModelConfig) -> int | None:
    """The most tokens that the exported model takes on either side, with the special symbol; None: no limit."""
    if not marian_lacks(config):
        return TABLE_POSITIONS
    return config.max_positions if config.positions == "learned" else None


def write_huggingface(model: Transformer, tokenizers: Tokenizers, config: Config, directory: Path) -> None:
    """Write model, generation config and tokenizer into a folder, and check that they are equal to ours.

    Raises:
        InputError: The package is not installed.
        RunError: The written model gives other logits, or the written tokenizer other subwords.
        OSError: The folder cannot be written to.
    """
    transformers = import_extra("transformers")
    exported_class = _exported_class(model.config)
    if marian_lacks(model.config):
        settings, weights = modeling_settings(model), modeling_weights(model)
        shutil.copyfile(inspect.getfile(exported_class), directory / "modeling_translate.py")
    else:
        settings, weights = marian_settings(model), marian_weights(model)
    exported = exported_class(exported_class.config_class(**settings))
    missing, unexpected = exported.load_state_dict(weights, strict=False)
    # Marian makes these two by itself: its table of positions, and zeros.
    assert not unexpected and all(name.endswith(("embed_positions.weight", "final_logits_bias")) for name in missing)
    generation = generation_settings(config.decoding)
    generation["max_length"] = min(generation["max_length"], max_positions(model.config) or math.inf)
    exported.generation_config = transformers.GenerationConfig(**generation)
    transformers.utils.logging.disable_progress_bar()
    exported.save_pretrained(directory)
    write_marian_tokenizer(tokenizers, config, directory)
    check_huggingface(directory, model, tokenizers)


def check_huggingface(directory: Path, model: Transformer, tokenizers: Tokenizers) -> None:
    """Run the written model and ours on the same sentences.

    Raises:
        RunError: A logit differs by more than the tolerance, or the tokens of a text differ.
    """
    transformers = import_extra("transformers")
    probes = probe(model, max_positions=max_positions(model.config))
    exported = _exported_class(model.config).from_pretrained(directory, local_files_only=True).eval()
    with torch.inference_mode():
        logits = exported(
            input_ids=probes.batch.source_ids,
            attention_mask=(probes.batch.source_ids != PAD_ID).long(),
            decoder_input_ids=probes.batch.target_input_ids,
        ).logits
    check_agreement(probes.pairs, probes.logits, logits, what="logits")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # not used here
        tokenizer = transformers.MarianTokenizer.from_pretrained(directory, local_files_only=True)
    for pair in probes.pairs:
        text = tokenizers.source.decode(pair.source)
        ours = [*tokenizers.source.encode(text), EOS_ID], tokenizers.target.decode(pair.target).strip()
        theirs = (
            tokenizer(text)["input_ids"],
            tokenizer.decode([BOS_ID, *pair.target, EOS_ID], skip_special_tokens=True),
        )
        if ours != theirs:
            raise RunError(f"the exported tokenizer gives {theirs} for {text!r}, ours {ours}; nothing was exported")


def _exported_class(config: ModelConfig) -> Any:
    if marian_lacks(config):
        from translate.exchange.modeling_translate import TranslateForConditionalGeneration

        return TranslateForConditionalGeneration
    return import_extra("transformers").MarianMTModel


def marian_settings(model: Transformer) -> dict[str, Any]:
    """The shape of our model as the settings of a `MarianConfig`."""
    config = model.config
    return {
        "vocab_size": model.encoder.embedder.tokens.num_embeddings,
        "decoder_vocab_size": model.output.out_features,
        "max_position_embeddings": TABLE_POSITIONS,
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "scale_embedding": config.scale_embeddings,
        "share_encoder_decoder_embeddings": config.tie_embeddings == "all",
        "tie_word_embeddings": config.tie_embeddings != "none",
        **_SYMBOLS,
        "forced_eos_token_id": None,
    }


def modeling_settings(model: Transformer) -> dict[str, Any]:
    """The shape of our model as the settings of the modelling file's `TranslateConfig`."""
    name = "modeling_translate"
    return {
        **model.config.model_dump(exclude={"initialization"}),
        "source_vocab_size": model.encoder.embedder.tokens.num_embeddings,
        "vocab_size": model.output.out_features,
        "is_encoder_decoder": True,
        "tie_word_embeddings": model.config.tie_embeddings != "none",
        "auto_map": {
            "AutoConfig": f"{name}.TranslateConfig",
            "AutoModelForSeq2SeqLM": f"{name}.TranslateForConditionalGeneration",
        },
        **_SYMBOLS,
    }


def modeling_weights(model: Transformer) -> dict[str, Tensor]:
    """Our weights by the names of the modelling file, where query, key and value have a layer each."""
    weights: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        for ours, theirs in (
            ("embedder.", ""),
            ("positions.table", "positions.weight"),
            ("_add_and_norm.norm", "_norm"),
        ):
            name = name.replace(ours, theirs)
        is_fused = "input_projection" in name
        parts = zip(("query", "key", "value"), tensor.chunk(3), strict=True) if is_fused else [(name, tensor)]
        weights |= {name.replace("input_projection", part): rows.float().cpu() for part, rows in parts}
    return weights


def generation_settings(config: DecodingConfig) -> dict[str, Any]:
    """The run's search as the settings of a `GenerationConfig`; a warning names those that it cannot express.

    `generate` divides the log-probability by length^length_penalty, as our kind `average` does.
    """
    lost = missing_settings(config)
    if config.length_penalty_kind == "gnmt" and config.length_penalty and config.beam_size > 1:
        lost.insert(0, "decoding.length_penalty_kind = 'gnmt' (length^length_penalty is the nearest)")
    if lost:
        logger.warning(
            f"generation_config.json cannot express {', '.join(lost)}: beam search in transformers ranks differently"
        )
    return {
        **_SYMBOLS,
        "suppress_tokens": [PAD_ID, BOS_ID],
        "num_beams": config.beam_size,
        "length_penalty": 0.0 if config.length_penalty_kind == "none" else config.length_penalty,
        "max_length": TABLE_POSITIONS // 2,
    }


class MarianTensor(NamedTuple):
    """One of our weights, or a part of one, that has a name of its own in a MarianMT model."""

    tensor: Tensor  # a view: what is written into it is written into our model
    axis: int | None = None  # the axis of the residual stream, whose dimensions have another order there


def marian_tensors(model: Transformer) -> dict[str, MarianTensor]:
    """Our weights by Marian's names; a tied weight has several names. Imports use the same table as exports."""
    tensors = {
        "model.encoder.embed_tokens.weight": MarianTensor(model.encoder.embedder.tokens.weight, 1),
        "model.decoder.embed_tokens.weight": MarianTensor(model.decoder.embedder.tokens.weight, 1),
        "lm_head.weight": MarianTensor(model.output.weight, 1),
    }
    if model.config.tie_embeddings == "all":
        tensors["model.shared.weight"] = tensors["lm_head.weight"]
    if model.config.output_bias:
        tensors["final_logits_bias"] = MarianTensor(model.output.bias[None])
    for stack, layers in (("encoder", model.encoder.layers), ("decoder", model.decoder.layers)):
        for number, layer in enumerate(layers):
            assert isinstance(layer, EncoderLayer | DecoderLayer)
            for name, tensor in _layer_tensors(layer).items():
                tensors[f"model.{stack}.layers.{number}.{name}"] = tensor
    return {name: each._replace(tensor=each.tensor.detach()) for name, each in tensors.items()}


def marian_order(d_model: int) -> Tensor:
    """The dimensions of our residual stream in Marian's order: the sines, then the cosines."""
    return torch.arange(d_model).view(-1, 2).t().flatten()


def marian_weights(model: Transformer) -> dict[str, Tensor]:
    """Our weights by Marian's names, sines before cosines."""
    order = marian_order(model.config.d_model).to(model.device)
    return {
        name: (tensor if axis is None else tensor.index_select(axis, order)).float().cpu()
        for name, (tensor, axis) in marian_tensors(model).items()
    }


def _layer_tensors(layer: EncoderLayer | DecoderLayer) -> dict[str, MarianTensor]:
    """The axes of the heads and of the feed-forward layer have the same order in both."""
    inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
    tensors = {
        "fc1.weight": MarianTensor(inner.weight, 1),
        "fc1.bias": MarianTensor(inner.bias),
        "fc2.weight": MarianTensor(outer.weight, 0),
        "fc2.bias": MarianTensor(outer.bias, 0),
        **_norm_tensors("final_layer_norm", layer.feed_forward_add_and_norm.norm),
    }
    attentions = {"self_attn": (layer.self_attention, layer.self_attention_add_and_norm)}
    if isinstance(layer, DecoderLayer):
        attentions["encoder_attn"] = (layer.cross_attention, layer.cross_attention_add_and_norm)
    for name, (attention, add_and_norm) in attentions.items():
        projection, output = attention.input_projection, attention.output_projection
        for part, weight, bias in zip("qkv", projection.weight.chunk(3), projection.bias.chunk(3), strict=True):
            tensors[f"{name}.{part}_proj.weight"] = MarianTensor(weight, 1)
            tensors[f"{name}.{part}_proj.bias"] = MarianTensor(bias)
        tensors[f"{name}.out_proj.weight"] = MarianTensor(output.weight, 0)
        tensors[f"{name}.out_proj.bias"] = MarianTensor(output.bias, 0)
        tensors |= _norm_tensors(f"{name}_layer_norm", add_and_norm.norm)
    return tensors


def _norm_tensors(name: str, norm: nn.LayerNorm) -> dict[str, MarianTensor]:
    return {f"{name}.weight": MarianTensor(norm.weight, 0), f"{name}.bias": MarianTensor(norm.bias, 0)}


def write_marian_tokenizer(tokenizers: Tokenizers, config: Config, directory: Path) -> None:
    """Write the run's SentencePiece models as the files of a `MarianTokenizer`: the same subwords with the same ids."""
    unk, bos, eos, pad = tokenizers.source.pieces([UNK_ID, BOS_ID, EOS_ID, PAD_ID])
    is_separate = tokenizers.vocabulary == "separate"
    files: dict[str, dict[str, Any]] = {
        "vocab.json": _vocabulary(tokenizers.source),
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": is_separate,
            "source_lang": config.data.source_language,
            "target_lang": config.data.target_language,
            "unk_token": unk,
            "bos_token": bos,
            "eos_token": eos,
            "pad_token": pad,
            **({} if (most := max_positions(config.model)) is None else {"model_max_length": most}),
            "clean_up_tokenization_spaces": False,
        },
    }
    if is_separate:
        files["target_vocab.json"] = _vocabulary(tokenizers.target)
    for name, content in files.items():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (directory / name).write_text(text, encoding="utf-8", newline="\n")
    (directory / "source.spm").write_bytes(tokenizers.source.model_bytes)
    (directory / "target.spm").write_bytes(tokenizers.target.model_bytes)


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    return {piece: token_id for token_id, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))}
