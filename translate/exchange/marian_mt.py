"""Reads MarianMT models of Hugging Face transformers, which is the format of all OPUS-MT models there."""

import functools
import itertools
import re
from pathlib import Path
from typing import Any

import torch

from translate.config.load import load_config
from translate.config.section import MOST
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.agreement import TOLERANCE
from translate.decoding.counterparts import from_settings, known_settings
from translate.errors import InputError, import_extra
from translate.exchange.foreign import ForeignModel, Vocabulary, read_mapping, require, warn_of_lost
from translate.exchange.huggingface import SHAPE, check_transformers, load_marian_tokenizer
from translate.files import require_file, require_name
from translate.model.device import check_loading

_FILES = ("config.json", "vocab.json", "source.spm", "target.spm")
_PATTERNS = ("*.json", "*.spm", "*.safetensors", "pytorch_model*.bin")
_PATIENCE = {False: 0, True: 1, "never": 1000}  # by `early_stopping`
_KEPT = ("num_beams", "no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "m??_length", "m??_new_tokens")
_NO_SEARCH = ("_*", "use_*", "output_*", "return_*", "transformers_version", "bos_token_id")  # change no translation
_NO_TRAINING = ("vocab_size", "decoder_vocab_size", "max_position_embeddings", "init_std", "*_token_id", "is_decoder")


def search_settings(place: Path, generation: Any, config: Any, target: Vocabulary) -> dict[str, Any]:
    """A `GenerationConfig` as our section `decoding`; a warning names the settings that ours does not have."""
    given = {key: value for key, value in generation.to_dict().items() if value is not None}
    defaults: dict[str, Any] = getattr(type(generation), "_get_default_generation_params", dict)()
    beam_size, penalty, repetition = (
        given.get(key, 1) for key in ("num_beams", "length_penalty", "repetition_penalty")
    )
    conditions = {
        "length_penalty": penalty >= 0,
        "repetition_penalty": repetition >= 1 and beam_size > 1,  # in greedy search, theirs changes logits
        "early_stopping": given.setdefault("early_stopping", False) in _PATIENCE,
        "forced_eos_token_id": given.get("forced_eos_token_id") == config.eos_token_id,
        **{key: given.get(key) == getattr(config, key) for key in ("pad_token_id", "eos_token_id")},
        "decoder_start_token_id": given.get("decoder_start_token_id") == config.decoder_start_token_id,
    }
    kept = [key for key, is_ours in conditions.items() if is_ours]
    warn_of_lost(place, given, defaults=defaults, kept=[*_KEPT, *_NO_SEARCH, *kept])
    # Theirs counts the start symbol, and the end symbol if it is forced there.
    most = min(given.get("max_new_tokens") or given.get("max_length", MOST) - 1, config.max_position_embeddings - 1)
    ids = {row: token for token, row in enumerate(target.rows) if token not in (PAD_ID, BOS_ID, *target.only_ours)}
    forbidden = [each for each in given.get("bad_words_ids", ()) if each != [config.eos_token_id]]
    forbidden += [[token] for token in given.get("suppress_tokens", ())]
    settings = {
        "beam_size": beam_size,
        "patience": _PATIENCE.get(given["early_stopping"], 0),
        "length_penalty_kind": "average",
        "length_penalty": max(0.0, penalty),
        "no_repeat_ngram": given.get("no_repeat_ngram_size", 0),
        "repetition_penalty": float(repetition) if "repetition_penalty" in kept else 1.0,
        "forbidden_ids": [[ids[row] for row in each] for each in forbidden if ids.keys() >= {*each}],
        "max_length_factor": 0.0,
        "max_length_constant": most - ("forced_eos_token_id" in given),
        "min_length_constant": max(0, given.get("min_length", 0) - 1, given.get("min_new_tokens", 0)),
    }
    is_plain = not any(settings[key] for key in ("no_repeat_ngram", "forbidden_ids", "min_length_constant"))
    if is_plain and penalty == settings["repetition_penalty"] == 1:
        settings["patience"] = settings["patience"] or 2  # the same translations in practice, and CTranslate2 has it
    return settings


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
        check_loading(file, file.stat().st_size)
    model, loading = transformers.MarianMTModel.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True
    )
    tokenizer = load_marian_tokenizer(folder)
    damage = [
        f"{kind} keys: {', '.join(sorted(loading[f'{kind}_keys'])[:5])}"
        for kind in ("missing", "unexpected")
        if loading[f"{kind}_keys"]
    ]
    for name, shape, expected in sorted(loading["mismatched_keys"])[:5]:
        damage.append(f"{name} has the shape {tuple(shape)}, not {tuple(expected)}")
    if damage:
        raise InputError(f"{folder}: the weights do not match the model in config.json: {'; '.join(damage)}")
    _set_positions(folder, model)
    weights = dict(model.eval().state_dict())
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight", "model.shared.weight"):
        weights.pop(name, None)  # sines, and a second name of the embeddings
    embeddings = [model.get_encoder().embed_tokens, model.get_decoder().embed_tokens, model.lm_head]
    source_table, target_table, output_table = (module.weight for module in embeddings)
    tying = "none" if target_table is not output_table else "all" if source_table is target_table else "decoder"
    weights["final_logits_bias"] = weights["final_logits_bias"][0]
    source, target = _read_vocabularies(folder, model, tokenizer)
    config, defaults = model.config, transformers.MarianConfig().to_dict()
    own = {key: getattr(config, key) for key in defaults.keys() - transformers.PretrainedConfig().to_dict().keys()}
    kept = (*SHAPE, *known_settings("marian_mt"), *_NO_TRAINING, *_NO_SEARCH)
    warn_of_lost(folder / "config.json", own, defaults=defaults, kept=kept)
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
            "decoding": search_settings(folder / "generation_config.json", model.generation_config, config, target),
        },
        format="marian_mt",
        weights=weights,
        source=source,
        target=target,
        sentencepiece=(folder / "source.spm", folder / "target.spm"),
        files=files,
        reader={"transformers": transformers.__version__},
        check=functools.partial(check_transformers, model, tokenizer, (source, target), "imported"),
    )


def _set_positions(folder: Path, model: Any) -> None:
    """Replace stored tables of positions, which are sines rounded to the type of the stored weights, by exact sines."""
    for side in ("encoder", "decoder"):
        embedding = model.get_submodule(f"model.{side}.embed_positions")
        table, exact = embedding.weight.detach(), embedding.create_weight()
        types = (torch.bfloat16, torch.float16)
        stored = next((each for each in types if torch.equal(table, table.to(each).float())), torch.float32)
        allowed, difference = max(TOLERANCE, torch.finfo(stored).eps), float((table - exact).abs().max())
        if not difference <= allowed:
            raise InputError(
                f"{folder}: model.{side}.embed_positions.weight is not sinusoidal: it differs from sines by up to"
                f" {difference:.2g}, and {allowed:.2g} is allowed in {str(stored).removeprefix('torch.')}"
            )
        table.copy_(exact)


def _read_vocabularies(folder: Path, model: Any, tokenizer: Any) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of both sides; a joint one is returned twice."""
    config, sides = model.config, {"vocab.json": (tokenizer.encoder, model.get_encoder().embed_tokens)}
    if tokenizer.separate_vocabs:
        sides["target_vocab.json"] = (tokenizer.target_encoder, model.get_decoder().embed_tokens)
    made = []
    for name, (ids, embeddings) in sides.items():
        subwords, num_rows = sorted(ids, key=ids.__getitem__), embeddings.num_embeddings
        for before, subword in itertools.pairwise(subwords):
            if ids[before] == ids[subword]:
                raise InputError(f"{folder}/{name}: {before!r} and {subword!r} have the same id, {ids[subword]}")
        if sorted(ids.values()) != [*range(num_rows)]:
            raise InputError(
                f"{folder}/{name}: has {len(ids)} subwords, but the model has {num_rows} embeddings: ids must be 0 to"
                f" {num_rows - 1}, and they are {ids[subwords[0]]} to {ids[subwords[-1]]}"
            )
        unk, eos = ids.get(tokenizer.unk_token), ids.get(tokenizer.eos_token)
        if unk is None:
            raise InputError(f"{folder}/{name}: the symbol {tokenizer.unk_token} is missing")
        if eos != config.eos_token_id:
            raise InputError(f"{folder}/config.json: eos_token_id = {config.eos_token_id}, and in {name} it is {eos}")
        made.append(Vocabulary(subwords, unk, eos, start=config.decoder_start_token_id, pad=config.pad_token_id))
    return made[0], made[-1]
