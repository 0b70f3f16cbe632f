"""Which engine searches: what `auto` means when a run is loaded, and from how many lines on CTranslate2 pays."""

import functools
import importlib.util
import logging
from collections.abc import Callable, Sequence
from typing import Literal

from translate.config.decoding import DecodingConfig
from translate.decoding.engines.ctranslate2 import CTranslate2Engine, check_ctranslate2, missing_settings
from translate.decoding.engines.engine import Engine, SearchJob
from translate.errors import InputError, RunError
from translate.model.device import choose_device
from translate.model.precision import choose_precision

logger = logging.getLogger(__name__)

MANY_LINES = 500  # sentences that are searched together; with fewer, our own search is done sooner than a conversion


def resolve_auto(config: DecodingConfig, *, others: Sequence[str] = ()) -> DecodingConfig:
    """The config with an engine and a precision in the place of auto.

    Args:
        others: What else is asked of a search and only our own has, such as an ensemble.

    Raises:
        InputError: The engine, or a precision that only CTranslate2 has, excludes a part of the search.
    """
    device, engine, precision = choose_device(config.device), config.engine, config.precision
    missing = [*missing_settings(config), *others]
    if precision == "int8":
        missing += ["decoding.engine = 'translate'"] if engine == "translate" else []
        if missing:
            raise InputError(
                f"decoding.precision = 'int8': only CTranslate2 has it, which cannot search with {', '.join(missing)};"
                " use bf16 or fp32"
            )
        engine = "ctranslate2"
    elif engine == "ctranslate2":
        check_ctranslate2(config, others)
    elif engine == "auto":
        is_same = device.type == "cpu" and precision != "bf16" and not missing
        engine = "ctranslate2" if is_same and importlib.util.find_spec("ctranslate2") else "translate"
    if precision == "auto":
        precision = "bf16" if engine == "translate" and choose_precision("auto", device) == "bf16" else "fp32"
    return config.model_copy(update={"engine": engine, "precision": precision})


class AutomaticEngine:
    """Searches with CTranslate2 as soon as converting the run pays, and with our own model otherwise.

    Args:
        is_converted: Whether the run has been converted before.
        convert: Converts the run and loads the result.
    """

    def __init__(
        self,
        own: Engine,
        is_converted: Callable[[], bool],
        convert: Callable[[], CTranslate2Engine],
        *,
        has_token_scores: bool,
    ) -> None:
        self.own, self.model, self.position_limit = own, own.model, own.position_limit
        self.has_token_scores = has_token_scores
        self._is_converted, self._convert = functools.cache(is_converted), functools.cache(convert)
        self._has_failed = False

    def check(self, config: DecodingConfig) -> None:
        """See `Engine.check`: our own model searches with what CTranslate2 does not have."""
        self.own.check(config)

    def prepare(self) -> Literal["translate", "ctranslate2"]:
        """See `Engine.prepare`."""
        return self._faster(MANY_LINES).prepare()

    def search(self, job: SearchJob) -> None:
        """See `Engine.search`. Showing hypotheses as they grow is left to our own model."""
        num_lines = sum(each.is_free for each in job.inputs)
        is_ours = job.on_step is not None or num_lines == 0 or missing_settings(job.config)
        (self.own if is_ours else self._faster(num_lines)).search(job)

    def _faster(self, num_lines: int) -> Engine:
        """CTranslate2 if so many lines pay for its conversion, and our own model otherwise."""
        try:
            if not self._has_failed and (num_lines >= MANY_LINES or self._is_converted()):
                return self._convert()
        except (InputError, RunError) as error:
            self._has_failed = True
            logger.warning(f"Searching without CTranslate2: {error}")
        return self.own
