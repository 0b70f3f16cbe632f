"""Reads models of Hugging Face transformers: MarianMT, the format of all OPUS-MT models there, M2M100 and NLLB-200."""

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from translate.config.languages import UNKNOWN
from translate.config.load import load_config
from translate.config.section import MOST
from translate.data.tables import offline_if_unreachable
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.counterparts import NAMES, Format, from_settings, known_settings
from translate.errors import InputError, import_extra
from translate.exchange.foreign import ForeignModel, PretrainedParts, Vocabulary, read_mapping, require, warn_of_lost
from translate.exchange.huggingface import NO_LAYERDROP, SHAPE, check_transformers, model_class
from translate.exchange.language_tokenizers import load_tokenizer
from translate.exchange.m2m100 import describe_m2m100
from translate.exchange.marian_mt import describe_marian_mt
from translate.exchange.weights import OUTPUT_BIAS
from translate.files import require_file, require_name
from translate.model.device import check_loading

_MODELS: dict[Any, tuple[Format, Callable[[Path, Any, Any], PretrainedParts]]] = {  # by `model_type`
    "marian": ("marian_mt", describe_marian_mt),
    "m2m_100": ("m2m_100", describe_m2m100),
}
_PATTERNS = ("*.json", "*.spm", "sentencepiece.bpe.model", "*.safetensors", "pytorch_model*.bin")
_PATIENCE = {False: 0, True: 1, "never": 1000}  # by `early_stopping`
_KEPT = ("num_beams", "no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "m??_length", "m??_new_tokens")
_NO_SEARCH = ("_*", "use_*", "output_*", "return_*", "transformers_version", "bos_token_id")  # change no translation
_NO_TRAINING = ("*vocab_size", "max_position_embeddings", "init_std", "*_token_id", "is_decoder")
_MOST_POSITIONS = 20_000  # MarianMT computes its table number by number, in a minute or two


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
        with offline_if_unreachable():
            return Path(hub.snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0]
        problem = f"no such folder, nor could it be downloaded from the Hub ({reason})"
        hint = "check the network and the name, or download its files elsewhere and import their folder"
        raise InputError(f"{name}: {problem}; {hint}") from error


def read_pretrained(folder: Path) -> ForeignModel:
    """Read a MarianMT, M2M100 or NLLB-200 model, as `save_pretrained` or our export writes it.

    Raises:
        InputError: The package is not installed, the folder is damaged or incomplete, or its model or tokenizer has
            something that a run cannot hold.
    """
    place = folder / "config.json"
    settings = read_mapping(place) if place.is_file() else {"model_type": "marian"}  # the error names its files
    model_type = settings.get("model_type")
    if model_type not in _MODELS:
        raise InputError(
            f"{place}: model_type = {model_type!r}; MarianMT models ('marian'), such as those of OPUS-MT, M2M100"
            " and NLLB-200 ('m2m_100'), and Marian's own files can be imported"
        )
    of, describe = _MODELS[model_type]
    spms = folder / "source.spm", folder / "target.spm"
    if of == "m2m_100":
        spms = (spms[0] if spms[0].is_file() else folder / "sentencepiece.bpe.model",) * 2
    needed = ["config.json", *(["vocab.json"] if of == "marian_mt" else []), *dict.fromkeys(spm.name for spm in spms)]
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise InputError(
            f"{folder}: {', '.join(missing)} is missing; {NAMES[of]} models have {', '.join(needed)} and weights"
        )
    files = sorted(file for pattern in _PATTERNS for file in folder.glob(pattern))
    model, choices = _load_model(folder, settings, files, of)
    tokenizer, config, generation = load_tokenizer(folder), model.config, model.generation_config
    described = describe(folder, model, tokenizer)
    weights = dict(model.eval().state_dict())
    for name in ("shared", "encoder.embed_positions", "decoder.embed_positions"):  # another name of embeddings; sines
        weights.pop(f"model.{name}.weight", None)
    bias = OUTPUT_BIAS["marian_mt"]
    weights[bias] = weights[bias][0] if bias in weights else torch.zeros(len(described.target.subwords))
    has_tag = described.data.get("language_tags") in ("target", "both")
    if has_tag:  # the forced first token names the language
        forced = {row: code for code, row in described.tags.items()}.get(generation.forced_bos_token_id)
        described.data["target_language"] = forced or UNKNOWN
        if forced is not None:
            generation.forced_bos_token_id = None
    limits = {f"max_{side}_tokens": config.max_position_embeddings - 1 for side in ("source", "target")}
    shape = {ours: getattr(config, theirs) for theirs, ours in SHAPE.items()}
    place = folder / "generation_config.json"
    return ForeignModel(
        sections={
            "data": limits | described.data,
            "model": {**shape, **choices, "tie_embeddings": described.tying},
            "decoding": search_settings(place, generation, config, described.target, languages=has_tag),
        },
        weight_names="marian_mt",
        weights=weights,
        source=described.source,
        target=described.target,
        sentencepiece=spms,
        files=files,
        reader={"transformers": import_extra("transformers").__version__},
        check=functools.partial(check_transformers, model, tokenizer, "imported"),
    )


def _load_model(
    folder: Path, settings: dict[str, Any], files: Sequence[Path], of: Format
) -> tuple[Any, dict[str, str]]:
    """Load a model after checking that a run can represent it and that it fits into memory.

    Args:
        settings: The content of `config.json`.

    Returns:
        The model of transformers, and its choices as ours, except for tying.
    """
    transformers, place = import_extra("transformers"), folder / "config.json"
    for index in folder.glob("*.index.json"):  # the files that share the weights
        places = read_mapping(index).get("weight_map")
        for name in places.values() if isinstance(places, dict) else ():
            require_name(name, place=str(index))
    if settings.get("activation_function") == "silu":
        settings["activation_function"] = "swish"  # the same by another name
    same = {f"decoder_{key}": (settings.get(f"encoder_{key}"),) for key in ("attention_heads", "ffn_dim")}
    depths = {f"num_{side}_layers": settings.get(f"{side}_layers", 12) for side in ("encoder", "decoder")}
    load_config({"model": depths}, place=str(place))  # checks bounds; transformers would build for hours
    require(str(place), settings, known_settings(of) | same)
    if (num_positions := settings.get("max_position_embeddings", 1)) > _MOST_POSITIONS:
        raise InputError(f"{place}: max_position_embeddings = {num_positions} (at most {_MOST_POSITIONS})")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for file in files:
        require_file(file)
        check_loading(file, file.stat().st_size)
    model, loading = model_class(of).from_pretrained(
        folder, local_files_only=True, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True
    )
    damage = [
        f"{kind} keys: {', '.join(sorted(loading[f'{kind}_keys'])[:5])}"
        for kind in ("missing", "unexpected")
        if loading[f"{kind}_keys"]
    ]
    for name, shape, expected in sorted(loading["mismatched_keys"])[:5]:
        damage.append(f"{name} has the shape {tuple(shape)}, not {tuple(expected)}")
    if damage:
        raise InputError(f"{folder}: the weights do not match the model in config.json: {'; '.join(damage)}")
    config, defaults = model.config, type(model.config)().to_dict()
    own = {key: getattr(config, key) for key in defaults.keys() - transformers.PretrainedConfig().to_dict().keys()}
    warn_of_lost(
        place, own, defaults=defaults | NO_LAYERDROP, kept=(*SHAPE, *known_settings(of), *_NO_TRAINING, *_NO_SEARCH)
    )
    return model, from_settings({"activation_function": defaults["activation_function"], **settings}, of)


def search_settings(
    place: Path, generation: Any, config: Any, target: Vocabulary, *, languages: bool = False
) -> dict[str, Any]:
    """A `GenerationConfig` as our section `decoding`; a warning names the settings that ours does not have.

    Args:
        languages: Each target begins with its language's tag, which `generate` counts in lengths and we do not.
    """
    given = {key: value for key, value in generation.to_dict().items() if value is not None}
    defaults: dict[str, Any] = getattr(type(generation), "_get_default_generation_params", dict)()
    beam_size, penalty, repetition = (
        given.get(key, 1) for key in ("num_beams", "length_penalty", "repetition_penalty")
    )
    symbols = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    conditions = {
        "length_penalty": penalty >= 0,
        # Their greedy search changes logits; with languages also the logit of the end symbol, which begins targets.
        "repetition_penalty": repetition >= 1 and beam_size > 1 and not languages,
        "early_stopping": given.setdefault("early_stopping", False) in _PATIENCE,
        "forced_eos_token_id": given.get("forced_eos_token_id") == config.eos_token_id,
        **{key: given.get(key) == getattr(config, key) for key in symbols},
    }
    kept = [key for key, is_ours in conditions.items() if is_ours]
    warn_of_lost(place, given, defaults=defaults, kept=[*_KEPT, *_NO_SEARCH, *kept])
    # Theirs counts the start symbol, and the end symbol if it is forced there. Ours is at most 10,000.
    most = given.get("max_new_tokens") or given.get("max_length", MOST) - 1
    most = min(most, config.max_position_embeddings - 1, 10_000)
    never = {PAD_ID, BOS_ID, *target.only_ours}
    ids = {row: token for token, row in enumerate(target.rows) if token not in never}
    forbidden = [sequence for sequence in given.get("bad_words_ids", ()) if sequence != [config.eos_token_id]]
    forbidden += [[token] for token in given.get("suppress_tokens", ())]
    settings = {
        "beam_size": beam_size,
        "patience": _PATIENCE.get(given["early_stopping"], 0),
        "length_penalty_kind": "average",
        "length_penalty": max(0.0, penalty),
        "no_repeat_ngram": given.get("no_repeat_ngram_size", 0),
        "repetition_penalty": float(repetition) if "repetition_penalty" in kept else 1.0,
        "forbidden_ids": [[ids[row] for row in sequence] for sequence in forbidden if ids.keys() >= {*sequence}],
        "max_length_factor": 0.0,
        "max_length_constant": most - ("forced_eos_token_id" in given) - languages,
        "min_length_constant": max(0, max(given.get("min_length", 0) - 1, given.get("min_new_tokens", 0)) - languages),
    }
    is_plain = not any(settings[key] for key in ("no_repeat_ngram", "forbidden_ids", "min_length_constant"))
    if is_plain and penalty == settings["repetition_penalty"] == 1:
        settings["patience"] = settings["patience"] or 2  # the same translations in practice, and CTranslate2 has it
    return settings
