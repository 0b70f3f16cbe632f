"""Token ids are the same from one thread, several, the cache, in memory, and in files."""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from translate.config.schema import TokenizerConfig
from translate.data import token_store
from translate.data.cache import DataCache
from translate.data.token_store import (
    TokenStore,
    TokenWriter,
    encode_texts,
    flatten,
    id_type,
    read_tokens,
    write_tokens,
)
from translate.data.tokenizer import Tokenizer, train_tokenizer
from translate.errors import InputError

LINES = [" ".join("abc"[(number * place) % 3] for place in range(number % 11)) for number in range(97)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["a b c", "ab bc ca"] * 3, TokenizerConfig(vocab_size=14, byte_fallback=False))


@pytest.fixture(params=["in memory", "in files"], autouse=True)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for files; both ways of holding ids are tried."""
    monkeypatch.setattr("translate.data.cache.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(token_store, "_THREAD_LINES", 7)
    if request.param == "in files":
        monkeypatch.setattr(token_store, "MAX_BYTES_IN_MEMORY", 0)
    return tmp_path / "cache"


def stored(rows: list[list[int]], vocab_size: int) -> TokenStore:
    writer = TokenWriter("ids")
    for first in range(0, len(rows), 11):
        writer.add(flatten(rows[first : first + 11], vocab_size=vocab_size))
    return writer.finish()


def listed(store: TokenStore) -> list[list[int]]:
    num_lines = len(store.lengths)
    return [store.chunk(np.array([line])).ids.tolist() for line in range(num_lines)]


@pytest.mark.parametrize(("vocab_size", "num_bytes"), [(2**16, 2), (2**16 + 1, 4)])
def test_ids_come_back(folder: Path, vocab_size: int, num_bytes: int) -> None:
    rows = [[vocab_size - 1 - number] * (number % 5) for number in range(97)]
    assert id_type(vocab_size).itemsize == num_bytes
    ids = stored(rows, vocab_size)
    assert listed(ids) == rows
    assert ids.lengths.tolist() == [number % 5 for number in range(97)]
    lines = np.array([7, 96, 0, 4, 4])
    writer = TokenWriter("ids")
    writer.add(ids.chunk(lines))
    assert listed(writer.finish()) == [rows[n] for n in lines]
    for some in (rows, [], [[], []]):
        assert listed(stored(some, vocab_size)) == some
        chunks = [flatten(some[:40], vocab_size=vocab_size), flatten(some[40:], vocab_size=vocab_size)]
        file = DataCache(folder=folder).make("x.ids", partial(write_tokens, chunks))
        assert file is not None
        assert listed(read_tokens(file, num_lines=len(some), vocab_size=vocab_size)) == some


class Failing(Tokenizer):
    """The same tokenizer, but for a line that it cannot encode; None: for any."""

    def __init__(self, tokenizer: Tokenizer, line: str | None) -> None:
        super().__init__(tokenizer.model_bytes)
        self._line = line

    def encode_lines(self, lines: Sequence[str], *, num_threads: int) -> list[list[int]]:
        if self._line is None or self._line in lines:
            raise InputError("a line")
        return super().encode_lines(lines, num_threads=num_threads)


def test_the_number_of_threads_changes_nothing(folder: Path, tokenizer: Tokenizer) -> None:
    expected = [tokenizer.encode(line) for line in LINES]
    for num_threads in (1, 2, 5, 29):
        ids = encode_texts(LINES, tokenizer, num_threads=num_threads, cache=None)
        assert listed(ids) == expected
    assert listed(encode_texts([], tokenizer, num_threads=2, cache=None)) == []
    for cache in (None, DataCache(folder=folder)):
        with pytest.raises(InputError, match="a line"):
            encode_texts(LINES, Failing(tokenizer, LINES[50]), num_threads=3, cache=cache)
    assert list(folder.iterdir()) == []


def test_the_second_time_nothing_is_encoded(
    folder: Path, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    cache = DataCache(folder=folder)
    expected = [tokenizer.encode(line) for line in LINES]
    assert listed(encode_texts(LINES, tokenizer, num_threads=2, cache=cache)) == expected
    again = encode_texts(LINES, Failing(tokenizer, None), num_threads=2, cache=DataCache(folder=folder))
    shutil.rmtree(folder)  # what is open stays
    assert listed(again) == expected
    assert again.lengths.tolist() == [len(ids) for ids in expected]
    assert cache.num_made == 1 and caplog.messages == []
    assert listed(encode_texts([], tokenizer, num_threads=2, cache=cache)) == []
