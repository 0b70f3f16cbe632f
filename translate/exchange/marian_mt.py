"""Reads MarianMT models of Hugging Face transformers, which is the format of all OPUS-MT models there."""

import functools
import logging
import re
from pathlib import Path
from typing import Any

import torch

from translate.config.load import load_config
from translate.config.yaml import parse_yaml
from translate.decoding.counterparts import from_settings, known_settings
from translate.errors import InputError, import_extra
from translate.exchange.foreign import ForeignModel, Vocabulary, read_mapping, require
from translate.exchange.huggingface import SHAPE, check_transformers, load_marian_tokenizer
from translate.files import read_input, require_file, require_name
from translate.memory import check_fits_memory

logger = logging.getLogger(__name__)

_FILES = ("config.json", "vocab.json", "source.spm", "target.spm")
_PATTERNS = ("*.json", "*.spm", "*.safetensors", "pytorch_model*.bin")
_ONLY_THEIRS = (  # settings of `generate` that our search does not have or defines differently
    "do_sample", "num_beam_groups", "diversity_penalty", "repetition_penalty", "encoder_repetition_penalty",
    "encoder_no_repeat_ngram_size", "min_length", "min_new_tokens", "forced_bos_token_id", "begin_suppress_tokens",
)  # fmt: skip


def search_settings(generation: Any, max_positions: int) -> dict[str, Any]:
    """A `GenerationConfig` as our section `decoding`; a warning names the settings that ours does not have."""
    given = generation.to_dict()
    lost = [f"{key} = {given[key]}" for key in _ONLY_THEIRS if given.get(key) not in (None, False, 0, 1, 1.0)]
    penalty = 1.0 if given.get("length_penalty") is None else given["length_penalty"]
    longest = min(given.get("max_length") or max_positions, max_positions)
    if penalty < 0:
        lost.append(f"length_penalty = {penalty}")
    if lost:
        logger.warning(f"generation_config.json: {', '.join(lost)} has no exact counterpart here and is ignored")
    return {
        "beam_size": given.get("num_beams") or 1,
        "length_penalty_kind": "average",
        "length_penalty": max(0.0, penalty),
        "no_repeat_ngram": given.get("no_repeat_ngram_size") or 0,
        "max_length_factor": 0.0,
        # Theirs counts the start symbol, and the end symbol if it is forced there.
        "max_length_constant": longest - 1 - (given.get("forced_eos_token_id") is not None),
    }


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
    for index in folder.glob("*.index.json"):  # the files that share the weights
        places = read_mapping(index).get("weight_map")
        for name in places.values() if isinstance(places, dict) else ():
            require_name(name, place=str(index))
    if settings.get("model_type") != "marian":
        raise InputError(
            f"{folder}/config.json: model_type = {settings.get('model_type')!r}; MarianMT models ('marian'), such as"
            " those of OPUS-MT, and Marian's own files can be imported"
        )
    if settings.get("activation_function") == "silu":
        settings["activation_function"] = "swish"  # the same by another name
    same = {f"decoder_{key}": (settings.get(f"encoder_{key}"),) for key in ("attention_heads", "ffn_dim")}
    depths = {f"num_{side}_layers": settings.get(f"{side}_layers", 12) for side in ("encoder", "decoder")}
    load_config({"model": depths}, place=f"{folder}/config.json")  # has bounds; transformers would build for hours
    require(f"{folder}/config.json", settings, known_settings("marian_mt") | same)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    files = sorted(file for pattern in _PATTERNS for file in folder.glob(pattern))
    for file in files:
        require_file(file)
        check_fits_memory(file, file.stat().st_size)
    model, loading = transformers.MarianMTModel.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
    )
    tokenizer = load_marian_tokenizer(folder)
    if damage := [
        f"{kind.replace('_', ' ')}: {', '.join(map(str, sorted(loading[kind])[:5]))}"
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if loading.get(kind)
    ]:
        raise InputError(f"{folder}: the weights do not match the model in config.json: {'; '.join(damage)}")
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
        header = read_input(folder / "README.md").decode().split("---\n")[1]
        licence = parse_yaml(header, path=folder / "README.md", dotted_keys=True)[0]["license"]
    except (InputError, ValueError, LookupError, TypeError):
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
                **{ours: getattr(config, theirs) for theirs, ours in SHAPE.items()},
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
        files=files,
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
        unk, eos = ids.get(tokenizer.unk_token), ids.get(tokenizer.eos_token)
        if unk is None:
            raise InputError(f"{folder}/{name}: the symbol {tokenizer.unk_token} is missing")
        if eos != config.eos_token_id:
            raise InputError(f"{folder}/config.json: eos_token_id = {config.eos_token_id}, and in {name} it is {eos}")
        made.append(Vocabulary(subwords, unk, eos, start=config.decoder_start_token_id, pad=config.pad_token_id))
    return made[0], made[-1]
