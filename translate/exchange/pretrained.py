"""Reads models of Hugging Face transformers: MarianMT, as all OPUS-MT models are, M2M100, NLLB-200, mBART-50 and T5."""

import copy
import functools
import re
import zipfile
from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors.torch import load_file
from torch import Tensor

from translate.config.languages import UNKNOWN
from translate.config.load import load_config
from translate.config.section import MOST, NotNegativeInt, PositiveInt
from translate.data.tables import work_offline_if_unreachable
from translate.data.tokenizer import BOS_ID, PAD_ID, is_sentinel
from translate.decoding.counterparts import NAMES, Format, from_settings, known_settings
from translate.errors import InputError, import_extra
from translate.exchange.foreign import (
    ForeignModel,
    PretrainedParts,
    Vocabulary,
    read_mapping,
    reading,
    require,
    warn_of_lost,
)
from translate.exchange.huggingface import NO_LAYERDROP, PATIENCE, SHAPES, check_transformers, model_class
from translate.exchange.language_tokenizers import FILES, load_tokenizer, read_tokenizer_settings
from translate.exchange.m2m100 import describe_m2m100
from translate.exchange.marian_mt import describe_marian_mt
from translate.exchange.t5 import describe_t5
from translate.exchange.weights import OUTPUT_BIAS, RESERVED_POSITIONS, WEIGHT_NAMES
from translate.files import read_input, read_json, require_file, require_name
from translate.model.device import check_loading

# By `model_type`: the format, and what reads all that is special. Its tokenizers are in `language_tokenizers.py`.
_MODELS: dict[Any, tuple[Format, Callable[[Path, Any, Any], PretrainedParts]]] = {
    "marian": ("marian_mt", describe_marian_mt),
    "m2m_100": ("m2m_100", describe_m2m100),
    "mbart": ("mbart", describe_m2m100),
    "t5": ("t5", describe_t5),  # also Flan-T5 and MADLAD-400
    "mt5": ("t5", describe_t5),
}
# The first of these that exists is read, as transformers does.
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_FILES = (  # the others that are opened, apart from those of the tokenizer's class
    "*config.json", "tokenizer.json", "special_tokens_map.json", "added_tokens.json", "target_vocab.json",
    "chat_template.jinja",
)  # fmt: skip
_KEPT = ("num_beams", "no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "m??_length", "m??_new_tokens")
_NO_SEARCH = ("_*", "use_*", "output_*", "return_*", "transformers_version", "bos_token_id")  # change no translation
_NO_TRAINING = (
    "*vocab_size", "max_position_embeddings", "init_std", "initializer_factor", "*_token_id", "is_decoder",
    "classifier_dropout", "scale_decoder_outputs",
)  # fmt: skip
_DERIVED = {"dense_act_fn", "is_gated_act"}  # from `feed_forward_proj`
_TRAINED_ON = 512  # tokens; T5's positions have no limit
_POSITIONS = {f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
_MOST_POSITIONS = 20_000  # MarianMT computes its table number by number, in a minute or two


class Generation(BaseModel):
    """The settings of `generate`. Those without a field here are kept as they are."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    num_beams: PositiveInt | None = None
    length_penalty: float | None = None
    repetition_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = None
    max_length: PositiveInt | None = None
    max_new_tokens: PositiveInt | None = None
    min_length: NotNegativeInt | None = None
    min_new_tokens: NotNegativeInt | None = None
    no_repeat_ngram_size: NotNegativeInt | None = None
    bad_words_ids: list[list[int]] | None = None
    suppress_tokens: list[int] | None = None
    forced_bos_token_id: int | None = None


def download(name: str) -> Path:
    """The folder of a model from the Hub, which is downloaded unless it is in the local cache.

    Raises:
        InputError: There is neither a folder nor a model of this name, or the Hub cannot be reached.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(
            f"{name}: no such folder, and not OWNER/NAME of a model on the Hugging Face Hub, such as google-t5/t5-small"
        )
    import_extra("transformers")
    hub, files = import_extra("huggingface_hub"), [*_FILES, *chain(*FILES.values()), "README.md"]
    try:
        work_offline_if_unreachable()
        for weights in (["model.safetensors*", "model-*.safetensors"], ["pytorch_model.bin*", "pytorch_model-*.bin"]):
            folder = Path(hub.snapshot_download(name, allow_patterns=files + weights, ignore_patterns=["*/*"]))
            if any((folder / each).is_file() for each in _WEIGHTS[:2]):  # many models have both kinds
                break
        return folder
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0]
        problem = f"no such folder, nor could it be downloaded from the Hub ({reason})"
        hint = "check the network and the name, or download its files elsewhere and import their folder"
        raise InputError(f"{name}: {problem}; {hint}") from error


def read_pretrained(folder: Path) -> ForeignModel:
    """Read a model of a family in `_MODELS`, as `save_pretrained` or our export writes it.

    Raises:
        InputError: The package is not installed, the folder is damaged or incomplete, or its model or tokenizer has
            something that a run cannot hold.
    """
    place = folder / "config.json"
    if not place.is_file():
        raise InputError(f"{folder}: is not the folder of a model, which has a config.json or Marian's decoder.yml")
    settings = _plain(read_mapping(place))
    if str(model_type := settings.get("model_type")) not in _MODELS:
        raise InputError(
            f"{place}: model_type = {model_type!r} cannot be imported; use MarianMT or OPUS-MT ('marian'), M2M100 or"
            " NLLB-200 ('m2m_100'), mBART-50 ('mbart'), T5 or MADLAD-400 ('t5'), mT5 ('mt5'), or Marian's own files"
        )
    of, describe = _MODELS[model_type]
    needed = FILES[str(read_tokenizer_settings(folder).tokenizer_class)]
    if missing := [name for name in needed if not (folder / name).is_file()]:
        is_new = (folder / "tokenizer.json").is_file()
        hint = "; transformers 5 does not save it: copy it from the model that was fine-tuned" if is_new else ""
        problem = f"missing files: {', '.join(missing)}; {NAMES[of]} models have {', '.join(needed)} and weights"
        raise InputError(f"{folder}: {problem}{hint}")
    files = [*(folder / name for name in needed), *(file for name in _FILES for file in folder.glob(name))]
    for file in files:
        if file.name in ("vocab.json", "target_vocab.json", "added_tokens.json"):
            read_json(file, dict[str, Annotated[int, Field(strict=True, ge=0)]])
        else:
            read_input(file)  # refuses a pipe, and what is too large for transformers to read
    if (folder / "adapter_config.json").is_file():
        hint = "merge the adapter into the model, and remove this file"
        raise InputError(f"{folder}: adapter_config.json belongs to an adapter; {hint}")
    generation = folder / "generation_config.json"
    generation = generation if generation.is_file() else place
    search = _plain(read_json(generation, Generation).model_dump())
    if generation == place:  # of an older version, where it has the search too
        known = import_extra("transformers").GenerationConfig().to_dict()
        search = {key: value for key, value in search.items() if key in known}
    settings |= {key: search[key] for key in search.keys() & {"decoder_start_token_id"}}  # of `generate`
    config = _read_config(place, settings, of)
    is_tied = settings.get("tie_word_embeddings") is not False
    model, tokenizer = _load_model(folder, config, is_tied=is_tied), load_tokenizer(folder)
    described = describe(folder, model, tokenizer)
    weights = dict(model.eval().state_dict())
    for name in ("model.shared", "encoder.embed_tokens", "decoder.embed_tokens"):  # other names of embeddings
        weights.pop(f"{name}.weight", None)
    if getattr(config, "scale_decoder_outputs", False):  # of T5 1.0
        weights["decoder.final_layer_norm.weight"] = weights["decoder.final_layer_norm.weight"] * config.d_model**-0.5
    shape = {ours: getattr(config, theirs) for theirs, ours in SHAPES[of].items()}
    shape = dict.fromkeys(("attention_dropout", "activation_dropout"), shape["dropout"]) | shape  # T5 has one rate
    for name in _POSITIONS & weights.keys():
        table = weights.pop(name)
        if "max_positions" in shape:  # the others have sines
            weights[name] = table[RESERVED_POSITIONS:]
    weights[OUTPUT_BIAS] = weights.get(OUTPUT_BIAS, torch.zeros(1, len(described.target.subwords)))[0]
    has_tag = described.data.get("language_tags") in ("target", "both")
    if has_tag:  # the forced first token names the language
        forced = {row: code for code, row in described.tags.items()}.get(search.get("forced_bos_token_id", -1))
        described.data["target_language"] = forced or UNKNOWN
        if forced is not None:
            del search["forced_bos_token_id"]
    limits = {f"max_{side}_tokens": config.max_position_embeddings - 1 for side in ("source", "target")}
    spms = [folder / name for name in needed if name != "vocab.json"]
    return ForeignModel(
        sections={
            "data": limits | described.data,
            "model": {**shape, **from_settings(config.to_dict(), of), "tie_embeddings": described.tying},
            "decoding": search_settings(generation, search, config, described.target, languages=has_tag),
        },
        weight_names=WEIGHT_NAMES[of],
        weights=weights,
        source=described.source,
        target=described.target,
        sentencepiece=(spms[0], spms[-1]),
        files=sorted({*files, *_find_weights(folder)}),
        reader={"transformers": import_extra("transformers").__version__},
        check=functools.partial(check_transformers, model, tokenizer),
    )


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without those that are null, and without a list around the only id of a symbol."""
    lists = {key for key, value in settings.items() if isinstance(value, list) and len(value) == 1}
    alone = {key: settings[key][0] for key in lists if key.endswith("_token_id")}
    return {key: value for key, value in (settings | alone).items() if value is not None}


def _read_config(place: Path, settings: dict[str, Any], of: Format) -> Any:
    """The settings of a model as transformers understands them, which has several names for some; nothing is built.

    What does not describe the model is left out, because it may name other files or programs.

    Raises:
        InputError: A setting has a value that a run cannot represent, or is out of bounds.
    """
    transformers, made = import_extra("transformers"), model_class(settings.get("model_type", "marian")).config_class
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    defaults = made().to_dict()
    own = defaults.keys() - transformers.PretrainedConfig().to_dict().keys() - _DERIVED
    names = (*own, *made.attribute_map, *known_settings(of), *_NO_TRAINING)
    with reading(place):
        kept = {key: settings[key] for key in settings if any(fnmatchcase(key, name) for name in names)}
        config = made(**{"max_position_embeddings": defaults.get("max_position_embeddings", _TRAINED_ON)} | kept)
    if getattr(config, "activation_function", "") == "silu":
        config.activation_function = "swish"  # the same by another name
    found = config.to_dict()
    same = {f"decoder_{key}": (found.get(f"encoder_{key}"),) for key in ("attention_heads", "ffn_dim")}
    same |= {key: (found[key],) for key in _DERIVED & found.keys()}
    require(str(place), found | {key: settings[key] for key in _DERIVED & settings.keys()}, known_settings(of) | same)
    shape = {ours: found[theirs] for theirs, ours in SHAPES[of].items()}
    load_config({"model": shape}, place=str(place))  # checks bounds
    size = max(found["vocab_size"], found.get("decoder_vocab_size") or 0)
    bounds = {"vocab_size": range(4, 2**31), "max_position_embeddings": range(2, _MOST_POSITIONS + 1)}
    bounds |= dict.fromkeys(("pad_token_id", "eos_token_id", "decoder_start_token_id"), range(size))
    for key, bound in bounds.items():
        if not isinstance(value := found.get(key), int) or value not in bound:
            given = "is missing" if value is None else f"= {value!r}"
            hint = f"it must be a whole number from {bound.start} to {bound.stop - 1}"
            raise InputError(f"{place}: {key} {given}; {hint}")
    read = (*SHAPES[of], *known_settings(of), *_NO_TRAINING, *_NO_SEARCH)
    warn_of_lost(place, {key: found[key] for key in own}, defaults=defaults | NO_LAYERDROP, kept=read)
    return config


def _find_weights(folder: Path) -> list[Path]:
    """The index of a folder's weights if there is one, and then the files that contain them.

    Raises:
        InputError: There are none, or the index is damaged.
    """
    first = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if first is None:
        raise InputError(f"{folder}: {' or '.join(_WEIGHTS)} is missing")
    names = read_mapping(first)["weight_map"].values() if first.suffix == ".json" else ()
    return [first, *(folder / require_name(name, place=str(first)) for name in dict.fromkeys(names))]


def _map_weights(folder: Path) -> dict[str, Tensor]:
    """The weights in a folder. They are mapped into memory, so their shapes are known before they are read.

    Raises:
        InputError: There are none, or a file is damaged or unpacks into more than it has.
    """
    weights: dict[str, Tensor] = {}
    for file in (file for file in _find_weights(folder) if file.suffix != ".json"):
        require_file(file)
        check_loading(file, size := file.stat().st_size)
        with reading(file):
            if file.suffix == ".safetensors":
                found = load_file(file)
            else:
                is_archive = zipfile.is_zipfile(file)
                if is_archive and sum(part.file_size for part in zipfile.ZipFile(file).infolist()) > size:
                    raise InputError(f"{file}: unpacks into more than its {size:,} bytes, so torch did not write it")
                found = torch.load(file, map_location="cpu", weights_only=True, mmap=is_archive)
            for name, tensor in found.items():
                if not tensor.is_floating_point() or tensor.nbytes > tensor.untyped_storage().nbytes():
                    raise InputError(f"{file}: {name} is not a dense floating-point tensor")
        weights |= found
    return weights


def _load_model(folder: Path, config: Any, *, is_tied: bool) -> Any:
    """The model of transformers that a checked config describes. The shapes of the stored weights are compared first.

    transformers gets the weights, and opens no file of the folder.

    Args:
        is_tied: Whether the files may leave out the matrix of the output, because it is that of the embeddings.

    Raises:
        InputError: The weights are damaged, or are not those of the config.
    """
    made, small, weights = model_class(config.model_type), copy.deepcopy(config), _map_weights(folder)
    ignored = made._keys_to_ignore_on_load_unexpected or ()
    weights = {name: tensor for name, tensor in weights.items() if not any(re.search(key, name) for key in ignored)}
    if is_marian := config.model_type == "marian":
        small.max_position_embeddings = 1  # its table of positions is computed number by number
    with torch.device("meta"):
        expected = made(small).state_dict(keep_vars=True)
    stored = {id(expected[name]) for name in expected.keys() & weights.keys()}  # a tied weight has several names
    required = expected.keys() - {OUTPUT_BIAS} - (_POSITIONS if is_marian else set())
    untied = set() if is_tied else {"lm_head.weight"}  # T5's class ties them all the same
    missing = sorted({name for name in required if id(expected[name]) not in stored} | (untied - weights.keys()))
    unexpected = sorted(weights.keys() - expected.keys())
    sides = [any(name.removeprefix("model.").startswith(side) for name in weights) for side in ("encoder.", "decoder.")]
    if sides == [True, False]:
        raise InputError(f"{folder}: has only an encoder; import a whole model, whose weights include a decoder")
    damage = [f"missing keys: {', '.join(missing[:5])}"] if missing else []
    damage += [f"unexpected keys: {', '.join(unexpected[:5])}"] if unexpected else []
    for name in sorted(required & weights.keys()):
        if (shape := tuple(weights[name].shape)) != (wanted := tuple(expected[name].shape)):
            damage.append(f"{name} has the shape {shape}, not {wanted}")
    if damage:
        raise InputError(f"{folder}: the weights do not match the model in config.json: {'; '.join(damage[:7])}")
    return made.from_pretrained(None, config=config, state_dict=weights, dtype=torch.float32)


def search_settings(
    place: Path, given: dict[str, Any], config: Any, target: Vocabulary, *, languages: bool = False
) -> dict[str, Any]:
    """The settings of `generate` as our section `decoding`; a warning names those that ours does not have.

    Args:
        languages: Each target begins with its language's tag, which `generate` counts in lengths and we do not.
    """
    generation = import_extra("transformers").GenerationConfig
    defaults: dict[str, Any] = getattr(generation, "_get_default_generation_params", dict)()
    beam_size, penalty, repetition = (
        given.get(key, 1) for key in ("num_beams", "length_penalty", "repetition_penalty")
    )
    symbols = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    conditions = {
        "length_penalty": penalty >= 0,
        # Their greedy search changes logits; with languages also the logit of the end symbol, which begins targets.
        "repetition_penalty": repetition >= 1 and beam_size > 1 and not languages,
        "early_stopping": given.setdefault("early_stopping", False) in PATIENCE,
        "forced_eos_token_id": given.get("forced_eos_token_id") == config.eos_token_id,
        **{key: given.get(key) == getattr(config, key) for key in symbols},
    }
    kept = [key for key, is_ours in conditions.items() if is_ours]
    warn_of_lost(place, given, defaults=defaults, kept=[*_KEPT, *_NO_SEARCH, *kept])
    # Theirs counts the start symbol, and the end symbol if it is forced there. Ours is at most 10,000.
    most = given.get("max_new_tokens") or given.get("max_length", MOST) - 1
    most = min(most, config.max_position_embeddings - 1, 10_000)
    never, names = {PAD_ID, BOS_ID, *target.only_ours}, target.names
    ids = {row: token for token, row in enumerate(target.rows) if token not in never and not is_sentinel(names[token])}
    forbidden = [sequence for sequence in given.get("bad_words_ids", ()) if sequence != [config.eos_token_id]]
    forbidden += [[token] for token in given.get("suppress_tokens", ())]
    settings = {
        "beam_size": beam_size,
        "patience": PATIENCE.get(given["early_stopping"], 0),
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
