"""Loads a translator from a run directory: weights in their precision, and the other runs of an ensemble.

`resolve_auto` says what `auto` means for the engine and the precision; CTranslate2 itself is in `export/engine.py`.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from translate.config.decoding import DecodingConfig
from translate.config.load import override_config
from translate.decoding.translator import Translator
from translate.errors import InputError
from translate.memory import limit_kernel_caches
from translate.model import Transformer
from translate.model.device import choose_device, choose_precision, explain_out_of_memory
from translate.runs.directory import Checkpoint
from translate.runs.loading import LoadedRun, load_run

# Settings of a search that other programs do not have; with the defaults of all of them a search is plain beam search.
_ONLY_OURS = {
    "search", "coverage_penalty", "min_length_factor", "min_length_constant", "diversity_groups", "mbr",
    "no_repeat_ngram", "repetition_penalty",
}  # fmt: skip


class LoadedTranslator(NamedTuple):
    """A translator, and the run that it was loaded from."""

    translator: Translator
    run: LoadedRun


def load_translator(
    run: str | PathLike[str],
    *,
    checkpoint: Checkpoint = "best",
    options: Mapping[str, object] | None = None,
    ensemble: Sequence[str | PathLike[str]] = (),
    reverse: str | PathLike[str] | None = None,
    forbidden: Sequence[str] = (),
) -> LoadedTranslator:
    """Load a run's model, ready to translate with the run's own decoding settings or with given ones.

    It searches with this package, whatever `decoding.engine` is (see `translate.export.load_engine`), and computes in
    fp32 unless the precision is bf16; int8 is CTranslate2's.

    Args:
        options: Values of `DecodingConfig` that replace the run's; None keeps the run's value.
        ensemble: Other runs whose probabilities are averaged with this run's.
        reverse: A run that translates the other way; the beam is ranked by its log-probability of the source too.
        forbidden: Words and phrases that no translation contains.

    Raises:
        InputError: A path is not a run that has the checkpoint, a setting is invalid, or tokenizers or languages do
            not fit.
        RunError: A run is damaged.
    """
    for name, value in {"ensemble": ensemble, "forbidden": forbidden}.items():
        if isinstance(value, str | PathLike):
            raise InputError(f"{name} = {str(value)!r}: should be a list, such as [{str(value)!r}]")
    loaded = load_run(Path(run), checkpoint=checkpoint)
    values = {f"decoding.{key}": value for key, value in (options or {}).items()}
    config = override_config(loaded.config, values).decoding_settings()
    if config.precision == "auto":
        config = config.model_copy(update={"precision": "fp32"})
    others = [_load_other(Path(path), loaded, config, checkpoint=checkpoint) for path in ensemble]
    translator = Translator(
        _prepare(loaded.model, config),
        loaded.tokenizers,
        config,
        ensemble=others,
        reverse=None if reverse is None else _load_reverse(Path(reverse), loaded, config, checkpoint=checkpoint),
        forbidden=forbidden,
        name=f"{run}, {loaded.config.data.source_language} → {loaded.config.data.target_language}",
    )
    return LoadedTranslator(translator, loaded)


def only_ours(config: DecodingConfig) -> list[str]:
    """The settings of a search that other programs do not have, as "decoding.key = value"."""
    lacking = config.model_dump(include=_ONLY_OURS, exclude_defaults=True)
    return [f"decoding.{key} = {value!r}" for key, value in lacking.items()]


def resolve_auto(config: DecodingConfig, *, others: Sequence[str] = ()) -> DecodingConfig:
    """The config with an engine and a precision in the place of auto.

    Args:
        others: What else a search is asked for and only this package has, such as an ensemble.

    Raises:
        InputError: The precision is int8, which only CTranslate2 has, and it cannot search.
    """
    device, engine = choose_device(config.device), config.engine
    if config.precision == "int8":
        lacking = [*only_ours(config), *others]
        if engine == "translate":
            problem = "decoding.engine = 'translate' does not have it"
        elif lacking:
            problem = f"CTranslate2, which computes in int8, cannot search with {', '.join(lacking)}"
        elif not importlib.util.find_spec("ctranslate2"):
            problem = "needs CTranslate2, which is not installed: pip install 'translate[ctranslate2]'"
        else:
            return config.model_copy(update={"engine": "ctranslate2"})
        raise InputError(f"decoding.precision = 'int8': {problem}; or use bf16 or fp32")
    if engine == "auto":
        is_same = device.type == "cpu" and config.precision != "bf16" and not only_ours(config) and not others
        engine = "ctranslate2" if is_same and importlib.util.find_spec("ctranslate2") else "translate"
    precision = config.precision
    if precision == "auto":
        precision = "bf16" if engine == "translate" and choose_precision("auto", device) == "bf16" else "fp32"
    return config.model_copy(update={"engine": engine, "precision": precision})


def _load_other(path: Path, first: LoadedRun, config: DecodingConfig, *, checkpoint: Checkpoint) -> Transformer:
    other = load_run(path, checkpoint=checkpoint)
    for side in ("source", "target"):
        if getattr(other.tokenizers, side).model_bytes != getattr(first.tokenizers, side).model_bytes:
            raise InputError(
                f"{path} has another {side} tokenizer than {first.directory}: models that decode together must have"
                " the same; train both with the tokenizer of one (tokenizer.source_model, tokenizer.target_model)"
            )
    return _prepare(other.model, config)


def _load_reverse(path: Path, first: LoadedRun, config: DecodingConfig, *, checkpoint: Checkpoint) -> Translator:
    speed = {"precision": config.precision, "device": config.device, "batch_tokens": config.batch_tokens}
    reverse, run = load_translator(path, checkpoint=checkpoint, options={**speed, "long": "truncate"})
    data, expected = run.config.data, first.config.data
    if (data.source_language, data.target_language) != (expected.target_language, expected.source_language):
        raise InputError(
            f"{path} translates {data.source_language} to {data.target_language}: the reverse of {first.directory}"
            f" translates {expected.target_language} to {expected.source_language}"
        )
    return reverse


def _prepare(model: Transformer, config: DecodingConfig) -> Transformer:
    """The model on the device and in the precision that the config names."""
    device = choose_device(config.device)
    with explain_out_of_memory(
        f"the loading of a model of {model.num_parameters:,} parameters to {device}",
        hint="Load fewer runs at once (--ensemble, --reverse), or choose another device (decoding.device).",
    ):
        return set_precision(model.to(device), config.precision)


def set_precision(model: Transformer, precision: str) -> Transformer:
    """Give a model the precision that a config names, in place."""
    if precision == "bf16":
        limit_kernel_caches()
        model = model.bfloat16()
    return model
