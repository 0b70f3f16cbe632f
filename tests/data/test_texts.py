"""Text and ids in files: the same sequences as in memory, gone with the process, and a full disk is said."""

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from translate.data import texts, token_store
from translate.data.spill import UnnamedFile
from translate.data.texts import JoinedText, MappedText, PairChunk, store_pairs
from translate.data.token_store import EncodedLines
from translate.errors import RunError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files for large corpora go; every corpus counts as large, and blocks are small."""
    import datasets

    cache = tmp_path / "cache" / "datasets"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    for module in (texts, token_store):
        monkeypatch.setattr(module, "MAX_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(texts, "_BLOCK_LINES", 7)
    monkeypatch.setattr(token_store, "_CHUNK_LINES", 11)
    return cache


def chunks(lines: Sequence[str], size: int) -> Iterator[PairChunk]:
    for first in range(0, len(lines), size):
        these = list(lines[first : first + size])
        yield PairChunk(these, [f"t {line}" for line in these])


LINES = [f"Zeile {number} \u2028\r\n\0 🦄" for number in range(101)]


def is_the_sequence(found: Sequence[str], expected: list[str]) -> bool:
    size = len(expected)
    places = [*range(-size, size)]
    slices = [
        slice(first, last) for first in (None, 0, 3, 7, 50, 96, -3, 200) for last in (None, 0, 7, 14, 60, -1, 300)
    ]
    assert len(found) == size and list(found) == expected
    assert [found[place] for place in places] == [expected[place] for place in places]
    assert all(found[place] == expected[place] for place in [*slices, slice(None, None, -3), slice(90, 2, -7)])
    for outside in (size, -size - 1):
        with pytest.raises(IndexError):
            found[outside]
    return True


@pytest.mark.parametrize("size", [1, 5, 7, 101])
def test_text_in_a_file_is_the_text(folder: Path, size: int) -> None:
    stored = store_pairs(chunks(LINES, size), name="news")
    assert isinstance(stored.sources, MappedText) and isinstance(stored.targets, MappedText)
    assert is_the_sequence(stored.sources, LINES)
    assert is_the_sequence(stored.targets, [f"t {line}" for line in LINES])
    assert is_the_sequence(JoinedText([stored.sources, [], ["a", "b"], stored.targets[:9]]), [
        *LINES, "a", "b", *[f"t {line}" for line in LINES[:9]]
    ])  # fmt: skip


def test_it_is_an_arrow_file_that_datasets_maps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    opened = []
    from_file = datasets.Dataset.from_file

    def watched(path: str) -> datasets.Dataset:
        opened.append(from_file(path))
        return opened[-1]

    monkeypatch.setattr(datasets.Dataset, "from_file", watched)
    stored = store_pairs(chunks(LINES, 5), name="news")
    assert [type(table.data) for table in opened] == [datasets.table.MemoryMappedTable] * 2
    assert opened[0].column_names == ["sources", "targets"] and opened[0][100]["sources"] == LINES[100]
    # Mapped anew after so many bytes, so that pages which were read do not stay resident.
    monkeypatch.setattr(texts, "_MAX_TOUCHED_BYTES", 300)
    assert list(stored.sources) == LINES
    assert len(opened) > 7


def test_few_pairs_need_no_file_and_no_datasets() -> None:
    program = (
        "import sys; from translate.data.texts import PairChunk, store_pairs;"
        "stored = store_pairs([PairChunk(['a'] * 100_000, ['b'] * 100_000)], name='news');"
        "assert type(stored.sources) is list and len(stored.targets) == 100_000;"
        "assert 'datasets' not in sys.modules and 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_lines_longer_than_a_block(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_BLOCK_CHARACTERS", 10_000)
    lines = ["x" * 100_000, "", "y" * 100_000, "z"]
    assert list(store_pairs(chunks(lines, 3), name="news").sources) == lines


@pytest.mark.parametrize("vocab_size", [2**16, 2**16 + 1])
@pytest.mark.parametrize("is_large", [False, True])
def test_ids_come_back(folder: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool, vocab_size: int) -> None:
    monkeypatch.setattr(token_store, "MAX_BYTES_IN_MEMORY", 0 if is_large else 2**20)
    monkeypatch.setattr(token_store, "_MAX_LINES_TOUCHED", 5)
    rows = [[vocab_size - 1 - number] * (number % 5) for number in range(97)]
    ids = EncodedLines(iter(rows), vocab_size=vocab_size, content="ids")
    assert [ids[line] for line in range(97)] == rows and len(ids) == 97
    assert ids.lengths.tolist() == [number % 5 for number in range(97)]
    where, lines = np.arange(97) % 3 == 0, np.arange(97)[::-1].copy()
    mixed = ids.replaced(where, by=ids, lines=lines)
    assert [mixed[line] for line in range(97)] == [rows[96 - n] if n % 3 == 0 else rows[n] for n in range(97)]
    assert folder.exists() == is_large
    assert len(EncodedLines(iter([]), vocab_size=7, content="ids")) == 0
    assert EncodedLines(iter([[], []]), vocab_size=7, content="ids")[1] == []


def test_nothing_is_left_behind(folder: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    stored = store_pairs(chunks(LINES, 5), name="news")
    ids = EncodedLines(iter([[1, 2]] * 97), vocab_size=7, content="ids")
    assert list(folder.iterdir()) == []  # the files have no name even while they are used
    assert len(os.listdir("/dev/fd")) >= before + 2
    del stored, ids
    assert len(os.listdir("/dev/fd")) == before


def test_text_outlives_the_file_it_came_from(folder: Path) -> None:
    one, two = (store_pairs(chunks([text] * 20, 5), name="news") for text in "ab")
    assert set(one.sources) == {"a"} and set(two.sources) == {"b"}  # each has its own
    sources = one.sources
    del one, two
    assert sources[19] == "a"


@contextlib.contextmanager
def files_up_to(num_bytes: int) -> Iterator[None]:
    """Around a write alone, because pytest's own files are held to it too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_with_the_folder_and_the_mend(folder: Path) -> None:
    mend = (
        " had been written to a temporary file there; free some space, or name a folder on a disk with room in the"
        " environment variable HF_DATASETS_CACHE"
    )
    long_lines = ["x" * 200_000] * 20
    with pytest.raises(RunError) as caught, files_up_to(2**21):
        store_pairs(chunks(long_lines, 1), name="a.de, a.en")
    assert str(caught.value) == f"{folder}: File too large, when 2 MiB of the text of a.de, a.en{mend}"
    with pytest.raises(RunError) as caught, files_up_to(2**20):
        EncodedLines(iter([[1] * 100_000] * 20), vocab_size=7, content="the token ids")
    assert str(caught.value) == f"{folder}: File too large, when 1 MiB of the token ids{mend}"
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    (tmp_path / "file").write_text("")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(RunError) as caught:
        UnnamedFile("the text of news")
    assert str(caught.value) == (
        f"{tmp_path / 'file' / 'cache'}: no temporary file for the text of news can be made there (Not a directory);"
        " name a folder on a disk with room in the environment variable HF_DATASETS_CACHE"
    )
