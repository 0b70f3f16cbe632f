"""Reads what all models of Hugging Face transformers have in common: files, weights, settings of model and search."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from translate.config.load import load_config
from translate.config.section import MOST
from translate.data.tables import offline_if_unreachable
from translate.data.tokenizer import BOS_ID, PAD_ID
from translate.decoding.counterparts import NAMES, from_settings, known_settings
from translate.errors import InputError, import_extra
from translate.exchange.foreign import Vocabulary, read_mapping, require, warn_of_lost
from translate.exchange.huggingface import NO_LAYERDROP, SHAPE
from translate.files import require_file, require_name
from translate.model.device import check_loading

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


def read_pretrained(
    folder: Path, model_class: str, of: Literal["marian_mt", "m2m_100"], *, needed: tuple[str, ...]
) -> tuple[Any, dict[str, Any]]:
    """Read a model from a folder as `save_pretrained` writes it.

    Args:
        model_class: The name of the model's class in transformers.
        needed: The files that each model of this kind has.

    Returns:
        The model, and the fields of its `ForeignModel` that all models have in common; `sections` lack the tying.

    Raises:
        InputError: The package is not installed, the folder is damaged or incomplete, or its model has something that
            a run cannot hold.
    """
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise InputError(
            f"{folder}: {', '.join(missing)} is missing; {NAMES[of]} models have {', '.join(needed)} and weights"
        )
    transformers = import_extra("transformers")
    place, settings = folder / "config.json", read_mapping(folder / "config.json")
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
    files = sorted(file for pattern in _PATTERNS for file in folder.glob(pattern))
    for file in files:
        require_file(file)
        check_loading(file, file.stat().st_size)
    model, loading = getattr(transformers, model_class).from_pretrained(
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
    weights = dict(model.eval().state_dict())
    weights.pop("model.shared.weight", None)  # a second name of the embeddings
    limits = {f"max_{side}_tokens": config.max_position_embeddings - 1 for side in ("source", "target")}
    shape = {ours: getattr(config, theirs) for theirs, ours in SHAPE.items()}
    choices = from_settings({"activation_function": defaults["activation_function"], **settings}, of)
    sections = {"data": limits, "model": shape | choices}
    reader = {"transformers": transformers.__version__}
    fields = {"sections": sections, "weights": weights, "files": files, "reader": reader}
    return model, {"weight_names": "marian_mt", **fields}


def take_forced_language(generation: Any, tags: Mapping[str, int]) -> str | None:
    """Remove the language whose tag begins each translation from a `GenerationConfig`, and return it.

    Args:
        tags: The id of each language's tag.
    """
    forced = {row: code for code, row in tags.items()}.get(generation.forced_bos_token_id)
    if forced is not None:
        generation.forced_bos_token_id = None
    return forced


def search_settings(
    place: Path, generation: Any, config: Any, target: Vocabulary, *, languages: bool = False
) -> dict[str, Any]:
    """A `GenerationConfig` as our section `decoding`; a warning names the settings that ours does not have.

    Args:
        languages: Each target begins with its language's tag, which `generate` counts as generated, and we do not.
    """
    given = {key: value for key, value in generation.to_dict().items() if value is not None}
    defaults: dict[str, Any] = getattr(type(generation), "_get_default_generation_params", dict)()
    beam_size, penalty, repetition = (
        given.get(key, 1) for key in ("num_beams", "length_penalty", "repetition_penalty")
    )
    conditions = {
        "length_penalty": penalty >= 0,
        # Their greedy search changes logits; with languages also the logit of the end symbol, which begins targets.
        "repetition_penalty": repetition >= 1 and beam_size > 1 and not languages,
        "early_stopping": given.setdefault("early_stopping", False) in _PATIENCE,
        "forced_eos_token_id": given.get("forced_eos_token_id") == config.eos_token_id,
        **{key: given.get(key) == getattr(config, key) for key in ("pad_token_id", "eos_token_id")},
        "decoder_start_token_id": given.get("decoder_start_token_id") == config.decoder_start_token_id,
    }
    kept = [key for key, is_ours in conditions.items() if is_ours]
    warn_of_lost(place, given, defaults=defaults, kept=[*_KEPT, *_NO_SEARCH, *kept])
    # Theirs counts the start symbol, and the end symbol if it is forced there.
    most = min(given.get("max_new_tokens") or given.get("max_length", MOST) - 1, config.max_position_embeddings - 1)
    most = min(most, 10_000)  # the most that ours takes
    never = {PAD_ID, BOS_ID, *target.only_ours}
    ids = {row: token for token, row in enumerate(target.rows) if token not in never}
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
        "max_length_constant": most - ("forced_eos_token_id" in given) - languages,
        "min_length_constant": max(0, max(given.get("min_length", 0) - 1, given.get("min_new_tokens", 0)) - languages),
    }
    is_plain = not any(settings[key] for key in ("no_repeat_ngram", "forbidden_ids", "min_length_constant"))
    if is_plain and penalty == settings["repetition_penalty"] == 1:
        settings["patience"] = settings["patience"] or 2  # the same translations in practice, and CTranslate2 has it
    return settings
