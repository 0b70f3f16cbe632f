"""Token ids in memory and in mapped files: the same ids, and rows that stand as `collate` pads them."""

from pathlib import Path

import numpy as np
import pytest

from translate.data import token_store
from translate.data.batching import EncodedPair, collate
from translate.data.cache import DataCache
from translate.data.token_store import TokenStore, chunked, id_type, read_tokens, store_tokens, write_tokens
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID


@pytest.fixture(params=["in memory", "mapped"], autouse=True)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for files; both ways of holding ids are tried."""
    monkeypatch.setattr("translate.data.cache.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(token_store, "_CHUNK_LINES", 11)
    if request.param == "mapped":
        monkeypatch.setattr(token_store, "MAX_BYTES_IN_MEMORY", 0)
        monkeypatch.setattr(token_store, "_MAX_BYTES_READ", 5 * 2**16)
    return tmp_path / "cache"


def stored(rows: list[list[int]], vocab_size: int) -> TokenStore:
    return store_tokens(chunked(iter(rows), vocab_size=vocab_size), vocab_size=vocab_size, content="ids")


def listed(ids: TokenStore) -> list[list[int]]:
    return [ids[line] for line in range(len(ids))]


@pytest.mark.parametrize("vocab_size", [2**16, 2**16 + 1])
def test_ids_come_back(folder: Path, vocab_size: int) -> None:
    rows = [[vocab_size - 1 - number] * (number % 5) for number in range(97)]
    ids = stored(rows, vocab_size)
    assert listed(ids) == rows and len(ids) == 97
    assert ids.lengths.tolist() == [number % 5 for number in range(97)]
    where, lines = np.arange(97) % 3 == 0, np.arange(97)[::-1].copy()
    mixed = ids.replaced(where, by=ids, lines=lines, content="ids")
    assert listed(mixed) == [rows[96 - n] if n % 3 == 0 else rows[n] for n in range(97)]
    assert len(stored([], 7)) == 0 and stored([[], []], 7)[1] == []


@pytest.mark.parametrize("vocab_size", [2**16, 2**16 + 1])
def test_ids_written_are_read(folder: Path, vocab_size: int) -> None:
    for rows in ([[vocab_size - 1 - number] * (number % 5) for number in range(97)], [], [[], []]):
        cache = DataCache(folder=folder)
        chunks = chunked(rows, vocab_size=vocab_size)
        file = cache.make("x.ids", lambda file, chunks=chunks: write_tokens(chunks, file))  # type: ignore[misc]
        assert file is not None
        assert listed(read_tokens(file, num_lines=len(rows), vocab_size=vocab_size)) == rows


@pytest.mark.parametrize("vocab_size", [2**16, 2**16 + 1])
def test_padded_rows_are_those_of_collate(vocab_size: int) -> None:
    rows = [[vocab_size - 1 - number] * (number % 5) for number in range(13)]
    ids = stored(rows, vocab_size)
    for lines in ([3], [0], [0, 5, 10], [12, 7, 4, 4, 0, 9, 11], list(range(13))):
        expected = collate([EncodedPair(rows[line], rows[line]) for line in lines], lines)
        chosen = np.array(lines)
        assert np.array_equal(ids.padded(chosen, pad_id=PAD_ID, after=EOS_ID), expected.source_ids)
        assert np.array_equal(ids.padded(chosen, pad_id=PAD_ID, before=BOS_ID), expected.target_input_ids)
    assert ids.padded(np.array([2]), pad_id=PAD_ID, before=BOS_ID).dtype == np.int64


def test_ids_are_small() -> None:
    assert id_type(2**16).itemsize == 2 and id_type(2**16 + 1).itemsize == 4
