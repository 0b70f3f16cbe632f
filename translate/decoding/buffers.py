"""Buffers of lines: what is read ahead, sorted by length, and worked on together."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")

BUFFER_CHARACTERS = 1_000_000  # a buffer of very long lines ends early


def read_buffers(
    items: Iterable[Item], *, max_items: int, count_characters: Callable[[Any], int] = lambda item: len(item.source)
) -> Iterator[list[Item]]:
    """Yield the items in order, one buffer at a time.

    No item beyond the end of a buffer is read before the next buffer is asked for.

    Args:
        max_items: Items in a buffer; fewer if they have `BUFFER_CHARACTERS` characters together.
    """
    buffer: list[Item] = []
    characters = 0
    for item in items:
        buffer.append(item)
        characters += count_characters(item)
        if len(buffer) == max_items or characters >= BUFFER_CHARACTERS:
            yield buffer
            buffer, characters = [], 0
    if buffer:
        yield buffer
