"""Token ids are the same from one thread, from several, and from a cache; in batches they stand as `collate` has it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from translate.config import TokenizerConfig
from translate.data import token_store
from translate.data.batching import EncodedPair, collate
from translate.data.cache import DataCache
from translate.data.token_store import EncodedLines, encode_texts
from translate.data.tokenizer import BOS_ID, EOS_ID, Tokenizer, train_tokenizer
from translate.errors import InputError

LINES = [" ".join("abc"[(number * place) % 3] for place in range(number % 11)) for number in range(97)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["a b c", "ab bc ca"] * 3, TokenizerConfig(vocab_size=14, byte_fallback=False))


@pytest.fixture(params=["in memory", "mapped"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the cache; both ways of holding ids are tried."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setattr(token_store, "_THREAD_LINES", 7)
    if request.param == "mapped":
        monkeypatch.setattr(token_store, "MAX_BYTES_IN_MEMORY", 0)
        monkeypatch.setattr(token_store, "_MAX_LINES_TOUCHED", 5)
    return tmp_path / "cache"


class Failing(Tokenizer):
    """The same tokenizer, but for a line that it cannot encode; None: for any."""

    def __init__(self, tokenizer: Tokenizer, line: str | None) -> None:
        super().__init__(tokenizer.model_bytes)
        self._line = line

    def encode_lines(self, lines: Sequence[str], *, num_threads: int) -> list[list[int]]:
        if self._line is None or self._line in lines:
            raise InputError("a line")
        return super().encode_lines(lines, num_threads=num_threads)


def listed(ids: EncodedLines) -> list[list[int]]:
    return [ids[line] for line in range(len(ids))]


def test_the_number_of_threads_changes_nothing(folder: Path, tokenizer: Tokenizer) -> None:
    expected = [tokenizer.encode(line) for line in LINES]
    for num_threads in (1, 2, 5, 29):
        ids = encode_texts(LINES, tokenizer, num_threads=num_threads, cache=None)
        assert listed(ids) == expected
    assert listed(encode_texts([], tokenizer, num_threads=2, cache=None)) == []


def test_a_failure_of_a_thread_is_raised(folder: Path, tokenizer: Tokenizer) -> None:
    for cache in (None, DataCache(print, folder=folder)):
        with pytest.raises(InputError, match="a line"):
            encode_texts(LINES, Failing(tokenizer, LINES[50]), num_threads=3, cache=cache)
    assert list(folder.iterdir()) == []


def test_the_second_time_nothing_is_encoded(folder: Path, tokenizer: Tokenizer) -> None:
    said: list[str] = []
    cache = DataCache(said.append, folder=folder)
    expected = [tokenizer.encode(line) for line in LINES]
    assert listed(encode_texts(LINES, tokenizer, num_threads=2, cache=cache)) == expected
    again = encode_texts(LINES, Failing(tokenizer, None), num_threads=2, cache=DataCache(said.append, folder=folder))
    shutil.rmtree(folder)  # what is open stays
    assert listed(again) == expected
    assert again.lengths.tolist() == [len(ids) for ids in expected]
    assert cache.num_made == 1 and said == []
    assert listed(encode_texts([], tokenizer, num_threads=2, cache=cache)) == []


def test_what_is_not_the_same_is_encoded(folder: Path, tokenizer: Tokenizer) -> None:
    cache = DataCache(print, folder=folder)
    other = train_tokenizer(["a b c", "ab bc cc"] * 3, TokenizerConfig(vocab_size=14, byte_fallback=False))
    for lines, model in [(LINES, tokenizer), (LINES, other), ([*LINES[:-1], "c"], tokenizer), (LINES[:-1], tokenizer)]:
        ids = encode_texts(lines, model, num_threads=2, cache=cache)
        assert listed(ids) == [model.encode(line) for line in lines]
    assert cache.num_made == len(list(folder.iterdir())) == 4


def test_a_damaged_or_forbidden_cache_changes_nothing(folder: Path, tokenizer: Tokenizer) -> None:
    said: list[str] = []
    cache = DataCache(said.append, folder=folder)
    expected = listed(encode_texts(LINES, tokenizer, num_threads=2, cache=cache))
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-50])
    assert listed(encode_texts(LINES, tokenizer, num_threads=2, cache=cache)) == expected
    assert said == [f"{path}: is damaged; it is deleted and made anew"]
    inside_a_file = DataCache(said.append, folder=path / "folder")
    assert listed(encode_texts(LINES, tokenizer, num_threads=2, cache=inside_a_file)) == expected
    assert len(said) == 2 and "nothing can be kept there" in said[1]


@pytest.mark.parametrize("vocab_size", [2**16, 2**16 + 1])
def test_side_by_side(folder: Path, vocab_size: int) -> None:
    rows = [[vocab_size - 1 - number] * (number % 5) for number in range(13)]
    ids = EncodedLines(iter(rows), vocab_size=vocab_size, content="ids")
    for lines in ([3], [0], [0, 5, 10], [12, 7, 4, 4, 0, 9, 11], list(range(13))):
        expected = collate([EncodedPair(rows[line], rows[line]) for line in lines], lines)
        places = np.array(lines)
        assert torch.equal(ids.side_by_side(places, after=EOS_ID), expected.source_ids)
        assert torch.equal(ids.side_by_side(places, before=BOS_ID), expected.target_input_ids)
        assert torch.equal(ids.side_by_side(places, after=EOS_ID), expected.target_output_ids)
    assert ids.side_by_side(np.array([2]), before=BOS_ID).dtype == torch.int64
