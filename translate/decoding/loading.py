"""Loads a translator from a run directory: weights in their precision, other runs, and the engine that searches."""

import functools
import importlib.util
import logging
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple

import torch

from translate.config.decoding import DecodingConfig
from translate.config.languages import UNKNOWN
from translate.config.load import override_decoding
from translate.decoding.counterparts import find_lacking
from translate.decoding.engines.ctranslate2 import CTranslate2Engine, check_ctranslate2, missing_settings
from translate.decoding.engines.ctranslate2_conversion import convert_model, find_conversion
from translate.decoding.engines.engine import Engine, SearchJob
from translate.decoding.engines.own import OwnEngine
from translate.decoding.translator import Translator
from translate.errors import InputError, RunError
from translate.memory import limit_kernel_caches
from translate.model import Transformer
from translate.model.device import choose_device, explain_out_of_memory
from translate.model.precision import choose_precision
from translate.model.transformer import product_weights
from translate.runs.directory import Checkpoint
from translate.runs.run import LoadedModel, SavedRun, open_run
from translate.runs.weights import widen

logger = logging.getLogger(__name__)

MANY_LINES = 500  # sentences searched together; with fewer, our own search finishes before a conversion would
FEW_LINES = 20  # since loading; with fewer, our own search finishes before a converted model is loaded and checked


class LoadedTranslator(NamedTuple):
    """A translator, and the model that it was made from."""

    translator: Translator
    model: LoadedModel


def load_translator(
    run: SavedRun | str | PathLike[str],
    *,
    checkpoint: Checkpoint = "best",
    options: Mapping[str, object] | None = None,
    ensemble: Sequence[SavedRun | str | PathLike[str]] = (),
    reverse: SavedRun | str | PathLike[str] | None = None,
    forbidden: Sequence[str] = (),
    token_scores: bool = True,
    to: str | None = None,
    from_: str | None = None,
) -> LoadedTranslator:
    """Load a run, ready to translate with the engine of `decoding.engine`.

    Args:
        options: Values of `DecodingConfig` that replace the run's; None keeps the run's value.
        ensemble: Other runs whose probabilities are averaged with this run's.
        reverse: A run for the opposite direction; the beam is ranked by its log-probability of the source too. A run
            that translates both ways can be its own reverse model.
        forbidden: Words and phrases that no translation contains in the subwords that the tokenizer makes of them.
        token_scores: Whether translations need the log-probabilities of their tokens, which cost CTranslate2 time.
            Without them, scores of greedy search are NaN.
        to, from_: The languages of texts that name none.

    Raises:
        InputError: A path is not a run that has the checkpoint, a setting is invalid, tokenizers or languages do not
            fit, or the engine is not installed or does not support the settings.
        RunError: A run is damaged, or cannot be converted for the engine.
    """
    for name, value in {"ensemble": ensemble, "forbidden": forbidden}.items():
        if isinstance(value, str | PathLike):
            raise InputError(f"{name} = {str(value)!r}: should be a list, such as [{str(value)!r}]")
    run = open_run(run)
    asked_for = {"ensemble": ensemble, "reverse": reverse, "forbidden": forbidden}
    config = override_decoding(run.config, options or {})
    given, lacking = config.decoding, find_lacking(config.model, "ctranslate2")
    chosen = resolve_auto(given, others=[*(name for name, value in asked_for.items() if value), *lacking])
    options = {**(options or {}), "engine": chosen.engine, "precision": chosen.precision}
    others: dict[str, Any] = {"ensemble": ensemble, "forbidden": forbidden}
    is_int8 = chosen.precision == "int8"
    own, loaded = load_own_translator(run, checkpoint=checkpoint, options=options, beside_int8=is_int8, **others)
    own = own.toward(to=to, from_=from_)
    engine = own.engine

    def convert() -> CTranslate2Engine:
        assert isinstance(own.engine, OwnEngine)
        folder = convert_model(loaded, checkpoint=checkpoint)
        faster = CTranslate2Engine(own.engine, own.tokenizers, folder, own.config, has_token_scores=token_scores)
        logger.info(f"Searching with CTranslate2 in {own.config.precision}")
        return faster

    if given.engine == "ctranslate2" or given.precision == "int8":
        engine = convert()
    elif chosen.engine == "ctranslate2":
        is_converted = find_conversion(loaded, checkpoint=checkpoint).is_dir
        engine = AutomaticEngine(own.engine, is_converted, convert)
    back, reverse = None, None if reverse is None else open_run(reverse)
    if reverse is not None and reverse.path.resolve() == run.path.resolve():
        back = own.with_options(long="truncate")
    elif reverse is not None:
        same = own.config.model_dump(include={"precision", "device", "batch_tokens"})
        back = load_own_translator(reverse, checkpoint=checkpoint, options={**same, "long": "truncate"}).translator
    return LoadedTranslator(own.replace(engine=engine, reverse=back), loaded)


def load_own_translator(
    run: SavedRun | str | PathLike[str],
    *,
    checkpoint: Checkpoint = "best",
    options: Mapping[str, object] | None = None,
    ensemble: Sequence[SavedRun | str | PathLike[str]] = (),
    forbidden: Sequence[str] = (),
    beside_int8: bool = False,
) -> LoadedTranslator:
    """Load a run whose own model searches and scores, in fp32 unless the precision is bf16, whatever the engine is.

    Args:
        beside_int8: Whether CTranslate2 searches in int8. Then the run is converted first, because memory may not have
            room for our model beside the check. Our model stays in bf16 if all matrices of its layers are stored in it.

    Other Args, Raises: As in `load_translator`.
    """
    run = open_run(run)
    loaded = run.load_model(checkpoint, as_stored=True)
    if beside_int8 and not find_conversion(loaded, checkpoint=checkpoint).is_dir():
        convert_model(loaded, checkpoint=checkpoint, release=True)
        loaded = run.load_model(checkpoint, as_stored=True)
    config = override_decoding(run.config, options or {}).decoding_settings()
    if config.precision == "auto":
        config = config.model_copy(update={"precision": "fp32"})
    is_narrow = beside_int8 and all(weight.dtype == torch.bfloat16 for weight in product_weights(loaded.model))
    own = config.model_copy(update={"precision": "bf16"}) if is_narrow else config
    model, tokenizers = _prepare(loaded.model, own), run.tokenizers
    engine = OwnEngine(
        model,
        tokenizers.target,
        ensemble=[_load_other(open_run(other), run, config, checkpoint=checkpoint) for other in ensemble],
        forbidden=forbidden,
    )
    known: dict[str, Any] = {"languages": run.languages, "multi_sentence_share": run.description.multi_sentence_share}
    return LoadedTranslator(Translator(engine, tokenizers, config, name=str(run), **known), loaded)


def _load_other(other: SavedRun, first: SavedRun, config: DecodingConfig, *, checkpoint: Checkpoint) -> Transformer:
    for side in ("source", "target"):
        if getattr(other.tokenizers, side).model_bytes != getattr(first.tokenizers, side).model_bytes:
            raise InputError(
                f"{other} has a different {side} tokenizer from {first}: models that decode together must have"
                " the same; train both with one tokenizer (tokenizer.source_model, tokenizer.target_model)"
            )
    ours, theirs = first.languages, other.languages
    are_known = UNKNOWN not in {*ours.sources, *ours.targets, *theirs.sources, *theirs.targets}
    missing = any({*ours.targets_of(source)} - {*theirs.targets_of(source)} for source in ours.sources)
    if (are_known and missing) or ours.tags_of(ours.usual) != theirs.tags_of(ours.usual):
        raise InputError(
            f"{other} translates {theirs}, and {first} {ours}: models that decode together must have all directions of"
            " the first, and the same data.language_tags and data.language_tag"
        )
    return _prepare(other.load_model(checkpoint, as_stored=True).model, config)


def _prepare(model: Transformer, config: DecodingConfig) -> Transformer:
    """The model on the device and in the precision that the config names."""
    device = choose_device(config.device)
    with explain_out_of_memory(
        f"loading a model with {model.num_parameters:,} parameters on {device}",
        hint="Load fewer runs at once (--ensemble, --reverse), or choose another device (decoding.device).",
    ):
        return set_precision(model.to(device), config.precision)


def set_precision(model: Transformer, precision: str) -> Transformer:
    """Give a model the precision that a config names, in place; int8, which only CTranslate2 has, is fp32 here."""
    if precision == "bf16":
        limit_kernel_caches()
        return model.bfloat16()
    return widen(model)


def resolve_auto(config: DecodingConfig, *, others: Sequence[str] = ()) -> DecodingConfig:
    """The config with `auto` resolved to an engine and a precision.

    Args:
        others: Other requests that only our own search supports, such as an ensemble.

    Raises:
        InputError: The engine, or a precision that only CTranslate2 has, rules out part of the search.
    """
    device, engine, precision = choose_device(config.device), config.engine, config.precision
    if precision == "int8" and engine == "translate":
        raise InputError("decoding.precision = 'int8': the engine translate does not have it; use bf16 or fp32")
    if precision == "int8" or engine == "ctranslate2":
        check_ctranslate2(config, others)
        engine = "ctranslate2"
    elif engine == "auto":
        is_same = device.type == "cpu" and precision != "bf16" and not (missing_settings(config) or others)
        engine = "ctranslate2" if is_same and importlib.util.find_spec("ctranslate2") else "translate"
    if precision == "auto":  # in bf16 most samples would change with the batch
        is_ours = engine == "translate" and config.search != "sample"
        precision = "bf16" if is_ours and choose_precision("auto", device) == "bf16" else "fp32"
    return config.model_copy(update={"engine": engine, "precision": precision})


class AutomaticEngine:
    """Searches with CTranslate2 as soon as converting the run pays off, and with our own model otherwise.

    Args:
        is_converted: Whether the run has been converted before.
        convert: Converts the run and loads the result.
    """

    def __init__(self, own: Engine, is_converted: Callable[[], bool], convert: Callable[[], CTranslate2Engine]) -> None:
        self.own, self.model, self.position_limit = own, own.model, own.position_limit
        self._is_converted, self._convert = functools.cache(is_converted), convert
        self._chosen: Engine | None = None  # from now on
        self._num_lines = 0

    def check(self, config: DecodingConfig) -> None:
        """See `Engine.check`: our own model searches when CTranslate2 does not support a setting."""
        self.own.check(config)

    def prepare(self, num_lines: int | None = None) -> Literal["translate", "ctranslate2"]:
        """See `Engine.prepare`."""
        self._chosen = self._choose(MANY_LINES if num_lines is None else num_lines)
        return self._chosen.prepare()

    def search(self, job: SearchJob) -> None:
        """See `Engine.search`. Showing hypotheses as they grow is left to our own model."""
        num_lines = sum(given.is_free for given in job.inputs)
        self._num_lines += num_lines
        is_ours = job.on_step is not None or num_lines == 0 or missing_settings(job.config)
        (self.own if is_ours else self._choose(num_lines)).search(job)

    def _choose(self, num_lines: int) -> Engine:
        """CTranslate2 once there are enough lines to pay for its conversion, and our own model until then."""
        is_some = max(num_lines, self._num_lines) >= FEW_LINES
        try:
            if self._chosen is None and (num_lines >= MANY_LINES or (is_some and self._is_converted())):
                self._chosen = self._convert()
        except (InputError, RunError) as error:
            self._chosen = self.own
            logger.warning(f"Searching without CTranslate2: {error}")
        return self._chosen or self.own
