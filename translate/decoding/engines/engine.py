"""The engine protocol: searches for translations as token ids. Our own model does all forced decoding."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from translate.config.decoding import DecodingConfig
from translate.decoding.request import SearchInput
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.loop import OnStep
from translate.model import Transformer

OnFound = Callable[[int, list[Hypothesis]], object]
"""Receives the index of an input and its hypotheses, the best score first, in the thread that found them."""


class SearchJob(NamedTuple):
    """Inputs to search together."""

    inputs: Sequence[SearchInput]
    config: DecodingConfig
    on_found: OnFound
    on_step: OnStep | None = None  # receives the hypotheses as they grow, if the engine can show them
    check: Callable[[], object] | None = None  # is called between steps or batches; what it raises ends the search

    def part(self, indices: Sequence[int]) -> "SearchJob":
        """The job with some of the inputs; `on_found` and `on_step` still receive the indices of the whole job."""

        def of_whole(receive: Any) -> Any:
            return receive and (lambda number, found: receive(indices[number], found))

        inputs = [self.inputs[index] for index in indices]
        return self._replace(inputs=inputs, on_found=of_whole(self.on_found), on_step=of_whole(self.on_step))


@runtime_checkable  # so that the test run can check that an engine is one
class Engine(Protocol):
    """Finds the hypotheses of inputs. Settings come with each job, so translators can share an engine."""

    model: Transformer  # our own model, for forced decoding
    position_limit: int | None  # most tokens on either side, with the special symbol; None: no limit

    def check(self, config: DecodingConfig) -> None:
        """Check that this engine can search with these settings.

        Raises:
            InputError: It cannot; the message names the setting.
        """
        ...

    def prepare(self, num_lines: int | None = None) -> Literal["translate", "ctranslate2"]:
        """Load what an input of this many lines needs; return the name of the engine that searches from now on.

        Args:
            num_lines: None: very many.
        """
        ...

    def search(self, job: SearchJob) -> None:
        """Find the hypotheses of each input that has words, and pass them on as soon as they are certain.

        Raises:
            InputError: The settings do not allow the constraints on the inputs.
            OutOfMemory: The device does not have enough memory.
            RunError: A model gives no probability to any word.
        """
        ...
