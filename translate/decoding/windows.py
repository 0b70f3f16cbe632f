"""Reading ahead: some lines at once, so that they can be sorted by length, but no more than is meant to be held."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

WINDOW_CHARACTERS = 1_000_000  # a window of very long lines ends early


def read_windows(
    items: Iterable[Item], *, max_items: int, count_characters: Callable[[Item], int]
) -> Iterator[list[Item]]:
    """The items in order, some at once, reading no further than to the end of a window.

    Args:
        max_items: In a window; fewer where they have many characters.
    """
    window: list[Item] = []
    characters = 0
    for item in items:
        window.append(item)
        characters += count_characters(item)
        if len(window) == max_items or characters >= WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
    if window:
        yield window
