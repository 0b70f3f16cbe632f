"""The cache returns what was written, or nothing: also for a file that was changed, cut or lengthened."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
import sentencepiece
from harness import files_up_to

from translate.data import cache as cache_module
from translate.data.cache import DataCache, TemporaryFile, entry_name, text_digest
from translate.errors import RunError

CONTENT = b"some content" * 97


def write(file: BinaryIO) -> None:
    file.write(CONTENT)


@pytest.fixture
def cache(tmp_path: Path) -> DataCache:
    return DataCache(folder=tmp_path / "cache" / "ours")


# Names


def test_names_tell_apart_all_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [("ids", "ab", "c"), ("ids", "a", "bc"), ("ids", "abc"), ("ids", b"ab", b"c"), ("model", "ab", "c")]
    names = [entry_name(*each) for each in parts]  # type: ignore[arg-type]
    assert len(set(names)) == 4 and names[0] == names[3]
    assert [Path(name).suffix for name in names] == [".ids"] * 4 + [".model"]
    for module, attribute in ((sentencepiece, "__version__"), (cache_module, "__version__"), (cache_module, "_FORMAT")):
        with monkeypatch.context() as patch:
            patch.setattr(module, attribute, "9.9.9")
            names.append(entry_name("ids", "ab", "c"))
    assert len(set(names)) == 7


def test_a_digest_tells_apart_where_lines_end(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [["a", "b"], ["ab", ""], ["", "ab"], ["a\n", "b"], ["a", "\nb"], ["a", "b", ""], ["1,1\nab"], []]
    assert len({text_digest(lines) for lines in texts}) == len(texts)
    assert text_digest(["a\ud800"]) != text_digest(["a?"])


# Entries


def test_an_entry_comes_back(cache: DataCache, caplog: pytest.LogCaptureFixture) -> None:
    assert cache.find("x.ids") is None
    made = cache.make("x.ids", write)
    found = cache.find("x.ids")
    for file in (made, found):
        assert file is not None
        assert file.file.read(file.num_bytes) == CONTENT and file.num_bytes == len(CONTENT)
    assert [path.name for path in cache.folder.iterdir()] == ["x.ids"]
    assert caplog.messages == [] and cache.num_made == 1
    empty = cache.make("y.ids", lambda file: None)
    assert empty is not None and empty.num_bytes == 0


@pytest.mark.parametrize(
    "damage",
    [
        *(partial(os.truncate, length=size) for size in (0, 1, 31, 32, len(CONTENT), len(CONTENT) + 33)),
        lambda path: path.write_bytes(b"t" + path.read_bytes()[1:]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"),
        lambda path: (path.unlink(), os.mkfifo(path)),
    ],
)
def test_a_damaged_file_is_made_again(
    cache: DataCache, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    cache.make("x.ids", write)
    damage(cache.folder / "x.ids")
    assert cache.find("x.ids") is None
    assert len(caplog.messages) == 1 and f"{cache.folder / 'x.ids'}" in caplog.text and "again" in caplog.text
    again = cache.make("x.ids", write)
    assert again is not None and again.file.read(again.num_bytes) == CONTENT


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = DataCache(folder=tmp_path / "file" / "ours")
    assert cache.find("x.ids") is None and cache.make("x.ids", write) is None
    assert len(caplog.messages) == 1 and "Not a directory" in caplog.text and "HF_DATASETS_CACHE" in caplog.text


# Temporary files


def test_temporary_files_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary file has no name while it is used, so it disappears however the process ends."""
    monkeypatch.setattr(cache_module, "cache_folder", lambda: tmp_path)
    file = TemporaryFile("the text of news")
    file.write(b"abc")
    assert list(tmp_path.iterdir()) == [] or os.name == "nt"
    is_closed = file.file
    del file
    assert is_closed.closed


def test_the_error_of_a_full_or_missing_disk_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "cache_folder", lambda: tmp_path)
    file = TemporaryFile("the text of a.de, a.en")
    message = f"^{tmp_path}: File too large, after 2 MiB of the text of a.de, a.en.*HF_DATASETS_CACHE"
    with pytest.raises(RunError, match=message), files_up_to(2**21):
        for _ in range(30):
            file.write(bytes(100_000))
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(cache_module, "cache_folder", lambda: tmp_path / "file" / "cache")
    with pytest.raises(RunError, match=f"^{tmp_path}/file/cache: .*of news.*Not a directory.*HF_DATASETS_CACHE"):
        TemporaryFile("the text of news")
