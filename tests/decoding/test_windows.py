"""Reading ahead: by lines and by characters, by hand."""

from collections.abc import Iterator

import pytest

from translate.decoding import windows
from translate.decoding.windows import read_windows


@pytest.mark.parametrize(
    "sizes, expected",
    [
        ([], []),
        ([1, 1, 1, 1, 1, 1, 1], [[1, 1, 1], [1, 1, 1], [1]]),
        ([9, 1, 10, 30, 4, 5], [[9, 1], [10], [30], [4, 5]]),  # a window ends with the line that makes it ten
    ],
)
def test_windows(monkeypatch: pytest.MonkeyPatch, sizes: list[int], expected: list[list[int]]) -> None:
    monkeypatch.setattr(windows, "WINDOW_CHARACTERS", 10)
    num_read = 0

    def lines() -> Iterator[str]:
        nonlocal num_read
        for size in sizes:
            num_read += 1
            yield "x" * size

    num_given = 0
    for window, sizes_expected in zip(read_windows(lines(), max_items=3, count_characters=len), expected, strict=True):
        assert list(map(len, window)) == sizes_expected
        num_given += len(window)
        assert num_read == num_given  # and none of the next
