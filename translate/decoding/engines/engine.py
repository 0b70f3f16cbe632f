"""What an engine is: it searches for translations as token ids, and forces given ones."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from translate.config.decoding import DecodingConfig
from translate.data.batching import EncodedPair
from translate.decoding.request import OnFinished, SearchInput, ignore_progress
from translate.decoding.score import ForcedDecoding
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.loop import OnStep
from translate.model import Transformer

OnFound = Callable[[int, list[Hypothesis]], object]
"""Is given the index of an input and its hypotheses, the best score first, in the thread that has found them."""


@runtime_checkable  # so that the test run can check that an engine is one
class Engine(Protocol):
    """Finds the hypotheses of inputs. The settings come with each call, so translators with other settings share it."""

    model: Transformer  # the weights that are searched with
    position_limit: int | None  # most tokens on either side, with the special symbol; None: no limit
    has_token_scores: bool  # whether hypotheses have the log-probability of each token

    def check(self, config: DecodingConfig) -> None:
        """Check that this engine can search with these settings.

        Raises:
            InputError: It cannot; the message names the setting.
        """
        ...

    def prepare(self, config: DecodingConfig) -> Literal["translate", "ctranslate2"]:
        """Load now what would be loaded before many lines; return the name of the engine that will search."""
        ...

    def search(
        self,
        inputs: Sequence[SearchInput],
        config: DecodingConfig,
        on_found: OnFound,
        on_step: OnStep | None = None,
    ) -> None:
        """Find the hypotheses of each input that has a word, and pass them on as soon as they are certain.

        Args:
            on_step: Is given the hypotheses as they grow, if the engine can show them.

        Raises:
            InputError: The constraints on the inputs contradict each other or the settings.
            OutOfMemory: The device does not have enough memory.
            RunError: A model gives no probability to any word.
        """
        ...

    def force(
        self, pairs: Sequence[EncodedPair], config: DecodingConfig, *, on_finished: OnFinished = ignore_progress
    ) -> list[ForcedDecoding]:
        """Token log-probabilities of given translations, and the attention that alignments are made from.

        Raises:
            OutOfMemory: The device does not have enough memory.
        """
        ...


def has_words(given: SearchInput) -> bool:
    """Whether there is something to translate; other inputs have no hypotheses."""
    return bool(given.source_ids) and not given.source.isspace()


def search_some(
    engine: Engine,
    inputs: Sequence[SearchInput],
    indices: Sequence[int],
    config: DecodingConfig,
    on_found: OnFound,
) -> None:
    """Search some of the inputs; the indices that `on_found` is given are still those of all inputs."""
    if indices:
        chosen = [inputs[index] for index in indices]
        engine.search(chosen, config, lambda number, hypotheses: on_found(indices[number], hypotheses))
