"""Which engine searches: what `auto` means when a run is loaded, and from how many lines on CTranslate2 pays."""

import functools
import importlib.util
import logging
from collections.abc import Callable, Sequence
from typing import Literal

from translate.config.decoding import DecodingConfig
from translate.decoding.engines.ctranslate2 import CTranslate2Engine, check_ctranslate2, missing_settings
from translate.decoding.engines.ctranslate2_conversion import convert_run, find_conversion
from translate.decoding.engines.engine import Engine, SearchJob, has_words
from translate.decoding.engines.own import OwnEngine
from translate.errors import InputError, RunError, install_hint
from translate.model.device import choose_device, choose_precision
from translate.runs.directory import Checkpoint
from translate.runs.loading import LoadedRun

logger = logging.getLogger(__name__)

MANY_LINES = 500  # sentences that are searched together; with fewer, our own search is done sooner than a conversion


def resolve_auto(config: DecodingConfig, *, others: Sequence[str] = ()) -> DecodingConfig:
    """The config with an engine and a precision in the place of auto.

    Args:
        others: What else is asked of a search and only our own has, such as an ensemble.

    Raises:
        InputError: The engine, or a precision that only CTranslate2 has, excludes a part of the search.
    """
    device, is_installed = choose_device(config.device), importlib.util.find_spec("ctranslate2") is not None
    engine, missing = config.engine, [*missing_settings(config), *others]
    if config.precision == "int8":
        if engine == "translate":
            problem = "decoding.engine = 'translate' does not have it"
        elif missing:
            problem = f"CTranslate2, which computes in int8, cannot search with {', '.join(missing)}"
        elif not is_installed:
            problem = f"needs CTranslate2, which is not installed: {install_hint('ctranslate2')}"
        else:
            return config.model_copy(update={"engine": "ctranslate2"})
        raise InputError(f"decoding.precision = 'int8': {problem}; or use bf16 or fp32")
    if engine == "ctranslate2":
        check_ctranslate2(config, others)
    if engine == "auto":
        is_same = device.type == "cpu" and config.precision != "bf16" and not missing
        engine = "ctranslate2" if is_same and is_installed else "translate"
    precision = config.precision
    if precision == "auto":
        precision = "bf16" if engine == "translate" and choose_precision("auto", device) == "bf16" else "fp32"
    return config.model_copy(update={"engine": engine, "precision": precision})


def choose_engine(
    own: OwnEngine,
    run: LoadedRun,
    *,
    given: DecodingConfig,
    resolved: DecodingConfig,
    checkpoint: Checkpoint,
    has_token_scores: bool,
    others: Sequence[str],
) -> Engine:
    """The engine that the settings of a run name; with `auto` one that chooses for each search.

    Args:
        own: The run's own model.
        given: The settings before `resolve_auto`, and `resolved` after it.
        others: As in `resolve_auto`.

    Raises:
        InputError, RunError: CTranslate2 is required, and the run cannot be converted.
    """

    def convert() -> CTranslate2Engine:
        folder = convert_run(run.directory, checkpoint=checkpoint)
        engine = CTranslate2Engine(own, run.tokenizers, folder, resolved, has_token_scores=has_token_scores)
        logger.info(f"Searching with CTranslate2 in {resolved.precision}")
        return engine

    def is_converted() -> bool:
        return find_conversion(run.directory, checkpoint=checkpoint).is_dir()

    if resolved.engine == "ctranslate2":
        if given.engine == "ctranslate2" or given.precision == "int8":
            return convert()
        return AutomaticEngine(own, is_converted, convert, has_token_scores=has_token_scores)
    reasons = [*missing_settings(given), *others]
    reasons += ["decoding.precision = 'bf16'"] if given.precision == "bf16" else []
    is_expected = given.engine == "auto" and own.model.device.type == "cpu"
    if reasons and is_expected and importlib.util.find_spec("ctranslate2"):
        return AutomaticEngine(own, is_converted, convert, reasons=reasons)
    return own


class AutomaticEngine:
    """Searches with CTranslate2 as soon as converting the run pays, and with our own model otherwise.

    Args:
        is_converted: Whether the run has been converted before.
        convert: Converts the run and loads the result.
        reasons: Why CTranslate2 cannot search; they are logged once, when it would have been faster.
    """

    def __init__(
        self,
        own: OwnEngine,
        is_converted: Callable[[], bool],
        convert: Callable[[], CTranslate2Engine],
        *,
        has_token_scores: bool = True,
        reasons: Sequence[str] = (),
    ) -> None:
        self.own, self.model, self.position_limit = own, own.model, own.position_limit
        self.has_token_scores, self.reasons = has_token_scores, reasons
        self._is_converted, self._convert = functools.cache(is_converted), convert
        self._engine: CTranslate2Engine | None = None
        self._is_settled = False  # CTranslate2 has been loaded or given up, or it was said that it cannot search

    def check(self, config: DecodingConfig) -> None:
        """See `Engine.check`: our own model searches with what CTranslate2 does not have."""
        self.own.check(config)

    def prepare(self) -> Literal["translate", "ctranslate2"]:
        """See `Engine.prepare`."""
        return "translate" if self.reasons or self._faster(MANY_LINES) is None else "ctranslate2"

    def search(self, job: SearchJob) -> None:
        """See `Engine.search`. Phrases, and showing hypotheses as they grow, are left to our own model."""
        phrased = [index for index, each in enumerate(job.inputs) if each.phrase_ids]
        others = [index for index, each in enumerate(job.inputs) if not each.phrase_ids]
        num_lines = sum(has_words(job.inputs[index]) for index in others)
        engine = None
        if num_lines and job.on_step is None and (self.reasons or not missing_settings(job.config)):
            engine = self._faster(num_lines)
        if engine is None:
            self.own.search(job)
            return
        if phrased:
            self.own.search(job.part(phrased))
        engine.search(job.part(others))

    def _faster(self, num_lines: int) -> CTranslate2Engine | None:
        """CTranslate2, once so many lines pay for its conversion; None: our own model is to search."""
        if self._is_settled:
            return self._engine
        try:
            if self.reasons:
                self._is_settled = num_lines >= MANY_LINES
                if self._is_settled:
                    logger.info(f"Searching with translate: CTranslate2 cannot search with {', '.join(self.reasons)}")
            elif num_lines >= MANY_LINES or self._is_converted():
                self._engine = self._convert()
                self._is_settled = True
        except (InputError, RunError) as error:
            self._is_settled = True
            logger.warning(f"Searching without CTranslate2: {error}")
        return self._engine
