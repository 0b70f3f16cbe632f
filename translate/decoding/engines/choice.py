"""Which engine searches: what `auto` means when a run is loaded, and from how many lines on CTranslate2 pays."""

import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from translate.config.decoding import DecodingConfig
from translate.data.batching import EncodedPair
from translate.data.tokenizer import Tokenizers
from translate.decoding.engines.ctranslate2 import CTranslate2Engine, check_ctranslate2, missing_settings
from translate.decoding.engines.ctranslate2_conversion import convert_run, find_conversion
from translate.decoding.engines.engine import Engine, OnFound, has_words, search_some
from translate.decoding.engines.own import OwnEngine
from translate.decoding.request import OnFinished, SearchInput, ignore_progress
from translate.decoding.score import ForcedDecoding
from translate.decoding.search.loop import OnStep
from translate.errors import InputError, RunError, install_hint
from translate.model.device import choose_device, choose_precision
from translate.runs.directory import Checkpoint

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
    tokenizers: Tokenizers,
    run: Path,
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
    if resolved.engine == "ctranslate2":
        if given.engine == "ctranslate2" or given.precision == "int8":
            folder = convert_run(run, checkpoint=checkpoint)
            return _open(own, tokenizers, folder, resolved, has_token_scores)
        return AutomaticEngine(own, tokenizers, run, resolved, checkpoint=checkpoint, has_token_scores=has_token_scores)
    reasons = [*missing_settings(given), *others]
    reasons += ["decoding.precision = 'bf16'"] if given.precision == "bf16" else []
    is_expected = given.engine == "auto" and own.model.device.type == "cpu"
    if reasons and is_expected and importlib.util.find_spec("ctranslate2"):
        return AutomaticEngine(own, tokenizers, run, resolved, checkpoint=checkpoint, reasons=reasons)
    return own


def _open(
    own: OwnEngine, tokenizers: Tokenizers, folder: Path, config: DecodingConfig, has_token_scores: bool
) -> CTranslate2Engine:
    engine = CTranslate2Engine(own, tokenizers, folder, config, has_token_scores=has_token_scores)
    logger.info(f"Searching with CTranslate2 in {config.precision}")
    return engine


class AutomaticEngine:
    """Searches with CTranslate2 as soon as the conversion of the run pays, and else, or without it, with our own model.

    Args:
        reasons: Why CTranslate2 cannot search; they are logged once, when it would have been faster.
    """

    def __init__(
        self,
        own: OwnEngine,
        tokenizers: Tokenizers,
        run: Path,
        config: DecodingConfig,
        *,
        checkpoint: Checkpoint,
        has_token_scores: bool = True,
        reasons: Sequence[str] = (),
    ) -> None:
        self.own, self.model, self.position_limit = own, own.model, own.position_limit
        self.tokenizers, self.run, self.config, self.checkpoint = tokenizers, run, config, checkpoint
        self.has_token_scores = has_token_scores
        self.reasons = reasons
        self._folder: Path | None = None
        self._engine: CTranslate2Engine | None = None
        self._is_settled = False  # CTranslate2 has been loaded, or given up
        self._is_explained = False

    def check(self, config: DecodingConfig) -> None:
        """See `Engine.check`."""
        self.own.check(config)

    def prepare(self, config: DecodingConfig) -> Literal["translate", "ctranslate2"]:
        """See `Engine.prepare`."""
        return "translate" if self.reasons or self._load(num_lines=MANY_LINES) is None else "ctranslate2"

    def force(
        self, pairs: Sequence[EncodedPair], config: DecodingConfig, *, on_finished: OnFinished = ignore_progress
    ) -> list[ForcedDecoding]:
        """See `Engine.force`."""
        return self.own.force(pairs, config, on_finished=on_finished)

    def search(
        self,
        inputs: Sequence[SearchInput],
        config: DecodingConfig,
        on_found: OnFound,
        on_step: OnStep | None = None,
    ) -> None:
        """See `Engine.search`. Only our own search shows hypotheses as they grow, and knows phrases."""
        is_plain = [not each.phrase_ids for each in inputs]
        num_lines = sum(plain and has_words(each) for plain, each in zip(is_plain, inputs, strict=True))
        if self.reasons:
            self._explain(num_lines)
        engine = None
        if num_lines and on_step is None and not self.reasons and not missing_settings(config):
            engine = self._load(num_lines=num_lines)
        if engine is None:
            self.own.search(inputs, config, on_found, on_step)
            return
        for chosen, wants_plain in ((self.own, False), (engine, True)):
            indices = [index for index, plain in enumerate(is_plain) if plain == wants_plain]
            search_some(chosen, inputs, indices, config, on_found)

    def _load(self, *, num_lines: int) -> CTranslate2Engine | None:
        """CTranslate2, once so many lines pay for its conversion; None: our own model is to search."""
        if self._is_settled:
            return self._engine
        try:
            self._folder = self._folder or find_conversion(self.run, checkpoint=self.checkpoint)
            if num_lines >= MANY_LINES or self._folder.is_dir():
                self._is_settled = True
                folder = convert_run(self.run, checkpoint=self.checkpoint)
                self._engine = _open(self.own, self.tokenizers, folder, self.config, self.has_token_scores)
        except (InputError, RunError) as error:
            self._is_settled = True
            logger.warning(f"Searching without CTranslate2: {error}")
        return self._engine

    def _explain(self, num_lines: int) -> None:
        if num_lines >= MANY_LINES and not self._is_explained:
            logger.info(f"Searching with translate: CTranslate2 cannot search with {', '.join(self.reasons)}")
            self._is_explained = True
