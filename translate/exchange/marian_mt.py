"""Reads and writes MarianMT models of Hugging Face transformers, which is the format of all OPUS-MT models there."""

import functools
import json
import logging
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import yaml

from translate.atomic import write_text
from translate.config.decoding import DecodingConfig
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizers
from translate.decoding.agreement import check_agreement, probe
from translate.decoding.counterparts import find_lacking, from_settings, known_settings
from translate.decoding.engines.ctranslate2 import missing_settings
from translate.errors import InputError, RunError, import_extra
from translate.exchange.foreign import ForeignModel, Vocabulary, read_mapping, require
from translate.model import Transformer, log_probabilities

logger = logging.getLogger(__name__)

TABLE_POSITIONS = 1024
"""Positions of an export: the most tokens of a source or translation, including the special symbol."""
SYMBOLS = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": BOS_ID}
_NORM_EPSILON = 1e-5  # in the code of transformers, not in a setting
_SHAPE = {  # settings of `MarianConfig`, and ours; two for the same one must have the same value
    "d_model": "d_model",
    "encoder_attention_heads": "num_heads",
    "decoder_attention_heads": "num_heads",
    "encoder_ffn_dim": "d_ff",
    "decoder_ffn_dim": "d_ff",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "scale_embedding": "scale_embeddings",
}
_FILES = ("config.json", "vocab.json", "source.spm", "target.spm")
_PATTERNS = ("*.json", "*.spm", "*.safetensors", "pytorch_model*.bin")
_ONLY_THEIRS = (  # settings of `generate` that our search lacks or defines differently
    "do_sample", "num_beam_groups", "diversity_penalty", "repetition_penalty", "encoder_repetition_penalty",
    "encoder_no_repeat_ngram_size", "min_length", "min_new_tokens", "forced_bos_token_id", "begin_suppress_tokens",
)  # fmt: skip


def marian_lacks(config: ModelConfig) -> list[str]:
    """What MarianMT cannot express of a model, as "model.key = value (it has …)"."""
    lacking = find_lacking(config, "marian_mt")
    if config.norm_epsilon != _NORM_EPSILON:
        lacking.append(f"model.norm_epsilon = {config.norm_epsilon!r} (it has {_NORM_EPSILON!r})")
    return lacking


def marian_settings(model: Transformer) -> dict[str, Any]:
    """Sizes and special symbols of our model as the settings of a `MarianConfig`."""
    return {
        "vocab_size": model.encoder.embedder.tokens.num_embeddings,
        "decoder_vocab_size": model.output.out_features,
        "max_position_embeddings": TABLE_POSITIONS,
        **{theirs: getattr(model.config, ours) for theirs, ours in _SHAPE.items()},
        **SYMBOLS,
        "forced_eos_token_id": None,
    }


def generation_settings(config: DecodingConfig, *, limit: int | None) -> dict[str, Any]:
    """The run's search as the settings of a `GenerationConfig`; a warning names those that it cannot express.

    `generate` divides the log-probability by length^length_penalty, as our kind `average` does. `limit` is the most
    tokens that the model takes, or None.
    """
    lost = missing_settings(config)
    if config.length_penalty_kind == "gnmt" and config.length_penalty and config.beam_size > 1:
        lost.insert(0, "decoding.length_penalty_kind = 'gnmt' (length^length_penalty is the nearest)")
    if lost:
        logger.warning(f"generation_config.json cannot express {', '.join(lost)}, so transformers ranks differently")
    return {
        **SYMBOLS,
        "suppress_tokens": [PAD_ID, BOS_ID],
        "num_beams": config.beam_size,
        "length_penalty": 0.0 if config.length_penalty_kind == "none" else config.length_penalty,
        "max_length": min(TABLE_POSITIONS // 2, limit or TABLE_POSITIONS),
    }


def search_settings(generation: Any, max_positions: int) -> dict[str, Any]:
    """A `GenerationConfig` as our section `decoding`; a warning names the settings that ours does not have."""
    given = generation.to_dict()
    lost = [f"{key} = {given[key]}" for key in _ONLY_THEIRS if given.get(key) not in (None, False, 0, 1, 1.0)]
    penalty = 1.0 if given.get("length_penalty") is None else given["length_penalty"]
    longest = min(given.get("max_length") or max_positions, max_positions)
    if penalty < 0:
        lost.append(f"length_penalty = {penalty}")
    if lost:
        logger.warning(f"generation_config.json: {', '.join(lost)} has no exact counterpart here and is left out")
    return {
        "beam_size": given.get("num_beams") or 1,
        "length_penalty_kind": "average",
        "length_penalty": max(0.0, penalty),
        "no_repeat_ngram": given.get("no_repeat_ngram_size") or 0,
        "max_length_factor": 0.0,
        # Theirs counts the start symbol, and the end symbol if it is forced there.
        "max_length_constant": longest - 1 - (given.get("forced_eos_token_id") is not None),
    }


def write_marian_tokenizer(tokenizers: Tokenizers, config: Config, directory: Path, *, limit: int | None) -> None:
    """Write the run's SentencePiece models as the files of a `MarianTokenizer`: the same subwords with the same ids."""
    symbols = {"unk_token": UNK_ID, "bos_token": BOS_ID, "eos_token": EOS_ID, "pad_token": PAD_ID}
    is_separate = tokenizers.vocabulary == "separate"
    sides = {"vocab.json": tokenizers.source} | ({"target_vocab.json": tokenizers.target} if is_separate else {})
    files: dict[str, dict[str, Any]] = {
        name: {piece: token_id for token_id, piece in enumerate(side.pieces(range(side.vocab_size)))}
        for name, side in sides.items()
    }
    files["tokenizer_config.json"] = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": is_separate,
        "source_lang": config.data.source_language,
        "target_lang": config.data.target_language,
        **dict(zip(symbols, tokenizers.source.pieces([*symbols.values()]), strict=True)),
        **({} if limit is None else {"model_max_length": limit}),
        "clean_up_tokenization_spaces": False,
    }
    for name, content in files.items():
        write_text(directory / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    (directory / "source.spm").write_bytes(tokenizers.source.model_bytes)
    (directory / "target.spm").write_bytes(tokenizers.target.model_bytes)


def load_marian_tokenizer(directory: Path) -> Any:
    """The `MarianTokenizer` of a folder."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # not used here
        return import_extra("transformers").MarianTokenizer.from_pretrained(directory, local_files_only=True)


def download(name: str) -> Path:
    """The folder of a model from the Hub, which is downloaded unless it is in the local cache.

    Raises:
        InputError: There is neither a folder nor a model of this name, or the Hub cannot be reached.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(
            f"{name}: no such folder, and not a name on the Hugging Face Hub, such as Helsinki-NLP/opus-mt-de-en"
        )
    import_extra("transformers")
    hub, patterns = import_extra("huggingface_hub"), [*_PATTERNS, "README.md"]
    try:
        return Path(hub.snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: no such folder, and the Hugging Face Hub does not give it: {error}") from error


def read_marian_mt(folder: Path) -> ForeignModel:
    """Read a folder as `save_pretrained` writes it.

    Raises:
        InputError: The package is not installed, the folder is damaged or incomplete, or its model is not a MarianMT
            model or has something that a run cannot hold.
    """
    if missing := [name for name in _FILES if not (folder / name).is_file()]:
        raise InputError(
            f"{folder}: {', '.join(missing)} is missing; a MarianMT model has {', '.join(_FILES)} and weights"
        )
    transformers = import_extra("transformers")
    settings = read_mapping(folder / "config.json")
    if settings.get("model_type") != "marian":
        raise InputError(
            f"{folder}/config.json: model_type = {settings.get('model_type')!r}; MarianMT models ('marian'), such as"
            " those of OPUS-MT, and Marian's own files can be imported"
        )
    if settings.get("activation_function") == "silu":
        settings["activation_function"] = "swish"  # the same by another name
    same = {f"decoder_{key}": (settings.get(f"encoder_{key}"),) for key in ("attention_heads", "ffn_dim")}
    require(f"{folder}/config.json", settings, known_settings("marian_mt") | same)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        model, loading = transformers.MarianMTModel.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
        tokenizer = load_marian_tokenizer(folder)
    except Exception as error:  # of many libraries
        reason = str(error).strip() or type(error).__name__
        raise InputError(f"{folder}: transformers cannot load it: {reason}") from error
    if damage := [
        f"{kind.replace('_', ' ')}: {', '.join(map(str, sorted(loading[kind])[:5]))}"
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if loading.get(kind)
    ]:
        raise InputError(f"{folder}: the weights are not those of the model of config.json: {'; '.join(damage)}")
    weights = dict(model.eval().state_dict())
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight", "model.shared.weight"):
        weights.pop(name, None)  # sines, and a second name of the embeddings
    embeddings = [model.get_encoder().embed_tokens, model.get_decoder().embed_tokens, model.lm_head]
    source_table, target_table, output_table = (module.weight for module in embeddings)
    tying = "none" if target_table is not output_table else "all" if source_table is target_table else "decoder"
    weights["final_logits_bias"] = weights["final_logits_bias"][0]
    source, target = _read_vocabularies(folder, model, tokenizer)
    config = model.config
    try:
        licence = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])["license"]
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        licence = None
    return ForeignModel(
        sections={
            "data": {
                "source_language": tokenizer.source_lang or "und",
                "target_language": tokenizer.target_lang or "und",
                "max_source_tokens": config.max_position_embeddings - 1,
                "max_target_tokens": config.max_position_embeddings - 1,
            },
            "model": {
                **{ours: getattr(config, theirs) for theirs, ours in _SHAPE.items()},
                **from_settings({"activation_function": "gelu", **settings}, "marian_mt"),  # gelu is the default there
                "tie_embeddings": tying,
            },
            "decoding": search_settings(model.generation_config, config.max_position_embeddings),
        },
        format="marian_mt",
        weights=weights,
        source=source,
        target=target,
        sentencepiece=(folder / "source.spm", folder / "target.spm"),
        files=sorted(file for pattern in _PATTERNS for file in folder.glob(pattern)),
        licence=licence if isinstance(licence, str) else None,
        reader={"transformers": transformers.__version__},
        check=functools.partial(check_transformers, model, tokenizer, (source, target), "imported"),
    )


def _read_vocabularies(folder: Path, model: Any, tokenizer: Any) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of both sides; a joint one is returned twice."""
    config, sides = model.config, {"vocab.json": (tokenizer.encoder, model.get_encoder().embed_tokens)}
    if tokenizer.separate_vocabs:
        sides["target_vocab.json"] = (tokenizer.target_encoder, model.get_decoder().embed_tokens)
    made = []
    for name, (ids, embeddings) in sides.items():
        subwords, num_rows = sorted(ids, key=ids.__getitem__), embeddings.num_embeddings
        if sorted(ids.values()) != [*range(num_rows)]:
            raise InputError(
                f"{folder}/{name}: has {len(ids)} subwords, but the model has {num_rows} embeddings: each needs one"
            )
        unk, eos = ids[tokenizer.unk_token], ids.get(tokenizer.eos_token)
        if eos != config.eos_token_id:
            raise InputError(f"{folder}/config.json: eos_token_id = {config.eos_token_id}, and in {name} it is {eos}")
        made.append(Vocabulary(subwords, unk, eos, start=config.decoder_start_token_id, pad=config.pad_token_id))
    return made[0], made[-1]


def check_transformers(
    theirs: Any,
    tokenizer: Any,
    vocabularies: Sequence[Vocabulary],
    made: Literal["exported", "imported"],
    model: Transformer,
    tokenizers: Tokenizers,
) -> None:
    """Compare logits, log-probabilities, and the ids and texts of sentences with those of transformers.

    Raises:
        RunError: A number differs by more than the tolerance, or a text has other tokens.
    """
    probes = probe(model, position_limit=tokenizer.model_max_length)
    source_rows, rows = (torch.tensor(vocabulary.rows) for vocabulary in vocabularies)
    with torch.inference_mode():
        logits = theirs(
            input_ids=source_rows[probes.batch.source_ids].clamp(min=0),  # padding is masked, whatever its id
            attention_mask=(probes.batch.source_ids != PAD_ID).long(),
            decoder_input_ids=rows[probes.batch.target_input_ids].clamp(min=0),
        ).logits
    is_target = probes.batch.target_output_ids != PAD_ID
    both = sorted({*range(len(rows))} - {*vocabularies[1].only_ours})
    for what, function in {"logits": lambda logits: logits, "log-probabilities": log_probabilities}.items():
        ours, expected = (function(each[is_target]) for each in (probes.logits, logits))
        check_agreement(ours[:, both], expected[:, rows[both]], what=what, made=made)
    source_ids = {row: token for token, row in enumerate(source_rows.tolist()) if token != BOS_ID}
    tags = [f"{name} " for name in vocabularies[0].subwords if name.startswith(">>")][:1]
    for pair in probes.pairs:
        texts = [tag + tokenizers.source.decode(pair.source) for tag in ("", *tags)]
        ids = [[source_ids.get(token) for token in tokenizer(text)["input_ids"]] for text in texts]
        text = tokenizer.decode(rows[torch.tensor(pair.target)].tolist(), skip_special_tokens=True)
        same_ids = ids == [[*tokenizers.source.encode(text), EOS_ID] for text in texts]
        if not same_ids or text != tokenizers.target.decode(pair.target).strip():
            raise RunError(
                f"the {made} tokenizer gives other tokens than the original one for {texts[0]!r}, or another text than"
                f" {text!r}; nothing was {made}"
            )
