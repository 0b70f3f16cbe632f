"""What is to be translated: requests, the search inputs that they become, and the buffers that read lines ahead."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from translate.config.data import Direction
from translate.decoding.constraints.terminology import Terminology

OnFinished = Callable[[int], object]
"""Receives the number of newly finished lines, to show progress; called from any thread, but never from two at once."""

BUFFER_CHARACTERS = 1_000_000  # a buffer of very long lines ends early

Item = TypeVar("Item", bound=tuple[Any, ...])


def ignore_progress(num_lines: int) -> None:
    """An `OnFinished` that does nothing."""


class Request(NamedTuple):
    """A line to translate, and the constraints on its translation.

    A line that is too long is translated in pieces. Its prefix then begins the first piece, and each term constrains
    the piece that contains the whole term. The required phrases do not constrain any piece, because it is not known
    which piece needs them; phrases that the whole translation does not contain are reported as unmet.
    """

    source: str
    prefix: str = ""  # the beginning of the translation
    required: tuple[str, ...] = ()  # words and phrases that the translation contains
    terminology: Terminology | None = None  # the translations of its terms are required too
    to: str | None = None  # the language of the translation; None: the translator's
    from_: str | None = None  # the language of the source; None: the translator's, if the model translates it so


def merge_phrases(required: Iterable[str], terms: Iterable[str]) -> list[str]:
    """The required phrases, then those of the terms. A phrase in both counts as often as in the list with more."""
    required = list(required)
    return [*required, *(Counter(terms) - Counter(required)).elements()]


def as_requests(lines: Any) -> Iterator[Request]:
    """Yield each line as a request; text is a request without constraints.

    Raises:
        TypeError: Something is neither a `str` nor a `Request`, or `lines` is a single one.
    """
    if isinstance(lines, str | Request | bytes | Mapping):  # iterable too, but not of lines
        raise TypeError(f"lines should be a list of str, and this is {type(lines).__name__}: {lines!r:.80}")
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str | Request):
            raise TypeError(f"line {number} should be a str, and it is {type(line).__name__}: {line!r:.80}")
        yield Request(line) if isinstance(line, str) else line


class SearchInput(NamedTuple):
    """The unit of search: a whole line, or one piece of a line that was split."""

    line: int  # number of the line in the whole input, from 0; it seeds sampling
    piece: int  # number of the piece within its line, from 0; it seeds sampling too
    source: str
    source_ids: list[int]  # with the tag of a language, and without special symbols
    source_truncated: bool  # tokens beyond the limit were cut off
    direction: Direction | None = None
    num_tags: int = 0  # tokens at the beginning of `source_ids` that are tags
    start_ids: Sequence[int] = ()  # the decoder begins with these after the start symbol: the tag of the target
    prefix_ids: Sequence[int] = ()  # token ids that the translation begins with
    phrases: Sequence[str] = ()  # phrases that the translation contains
    phrase_ids: Sequence[list[int]] = ()  # the same phrases as token ids

    @property
    def has_words(self) -> bool:
        """Whether there is something to translate; other inputs have no hypotheses."""
        return len(self.source_ids) > self.num_tags and not self.source.isspace()

    @property
    def is_free(self) -> bool:
        """Whether there is something to translate and no constraint on it, so that every engine can."""
        return self.has_words and not (self.prefix_ids or self.phrase_ids)


def read_buffers(items: Iterable[Item], *, max_items: int) -> Iterator[list[Item]]:
    """Yield the items, which begin with their source, in order and one buffer at a time.

    No item beyond the end of a buffer is read before the next buffer is asked for.

    Args:
        max_items: Items in a buffer; fewer if their sources have `BUFFER_CHARACTERS` characters together.
    """
    buffer: list[Item] = []
    characters = 0
    for item in items:
        buffer.append(item)
        characters += len(item[0])
        if len(buffer) == max_items or characters >= BUFFER_CHARACTERS:
            yield buffer
            buffer, characters = [], 0
    if buffer:
        yield buffer
