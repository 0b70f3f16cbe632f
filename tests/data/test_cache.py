"""What is kept comes back or is made anew: cut, flipped, deleted, by two processes at once, on a full disk."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest
import sentencepiece

from translate.data import cache as cache_module
from translate.data.cache import DataCache, entry_name, text_digest

CONTENT = b"some content" * 97


def write(file: BinaryIO) -> None:
    file.write(CONTENT)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path: Path, said: list[str]) -> DataCache:
    return DataCache(said.append, folder=tmp_path / "cache" / "ours")


# Names


def test_names_tell_apart_all_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        entry_name(*parts)
        for parts in [
            ("ids", "ab", "c"),
            ("ids", "a", "bc"),
            ("ids", "abc"),
            ("ids", b"ab", b"c"),
            ("model", "ab", "c"),
        ]
    ]
    assert len(set(names)) == 4 and names[0] == names[3]
    assert [Path(name).suffix for name in names] == [".ids"] * 4 + [".model"]
    for module, attribute in ((sentencepiece, "__version__"), (cache_module, "__version__"), (cache_module, "_FORMAT")):
        with monkeypatch.context() as patch:
            patch.setattr(module, attribute, "9.9.9")
            names.append(entry_name("ids", "ab", "c"))
    assert len(set(names)) == 7


def test_a_digest_tells_apart_where_lines_end(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        ["a", "b"],
        ["ab", ""],
        ["", "ab"],
        ["a\n", "b"],
        ["a", "\nb"],
        ["a", "b", ""],
        ["ä", "b"],
        ["1,1\nab"],
        [],
    ]
    assert len({text_digest(lines) for lines in texts}) == len(texts)
    assert text_digest(["a\ud800"]) != text_digest(["a?"])
    lines = [f"line {number}" for number in range(97)]
    monkeypatch.setattr(cache_module, "_CHUNK_LINES", 13)
    assert text_digest(lines) == text_digest(tuple(lines)) != text_digest([*lines[:96], "line 69"])


# Entries


def test_an_entry_comes_back(cache: DataCache, said: list[str]) -> None:
    assert cache.find("x.ids") is None
    made = cache.make("x.ids", write)
    found = cache.find("x.ids")
    for file in (made, found):
        assert file is not None
        assert file.content() == CONTENT and file.num_bytes == len(CONTENT)
        assert Path(file.path).read_bytes()[: file.num_bytes] == CONTENT
    assert [path.name for path in cache.folder.iterdir()] == ["x.ids"]
    assert said == [] and cache.num_made == 1


def test_nothing_is_an_entry_too(cache: DataCache) -> None:
    cache.make("x.ids", lambda file: None)
    found = cache.find("x.ids")
    assert found is not None and found.content() == b""


@pytest.mark.parametrize("size", [0, 1, 40, 41, len(CONTENT), len(CONTENT) + 40, len(CONTENT) + 42])
def test_a_cut_or_longer_file_is_said_and_deleted(cache: DataCache, said: list[str], size: int) -> None:
    cache.make("x.ids", write)
    os.truncate(cache.folder / "x.ids", size)
    assert cache.find("x.ids") is None
    assert said == [f"{cache.folder / 'x.ids'}: is damaged; it is deleted and made anew"]
    assert list(cache.folder.iterdir()) == []
    again = cache.make("x.ids", write)
    assert again is not None and again.content() == CONTENT


@pytest.mark.parametrize("place", [0, len(CONTENT) - 1, len(CONTENT), -1])
def test_a_flipped_bit_is_seen(cache: DataCache, said: list[str], place: int) -> None:
    cache.make("x.ids", write)
    data = bytearray((cache.folder / "x.ids").read_bytes())
    data[place] ^= 1
    (cache.folder / "x.ids").write_bytes(data)
    assert cache.find("x.ids") is None and len(said) == 1


def test_what_fails_while_it_is_made_leaves_nothing(cache: DataCache) -> None:
    def fail(file: BinaryIO) -> None:
        file.write(CONTENT)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.make("x.ids", fail)
    assert list(cache.folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "file").write_text("")
    cache = DataCache(said.append, folder=tmp_path / "file" / "ours")
    assert cache.find("x.ids") is None and cache.make("x.ids", write) is None
    assert said == [
        f"{cache.folder}: nothing can be kept there (Not a directory), so the next start will take as long as this"
        " one; the environment variable HF_DATASETS_CACHE names another place"
    ]


def test_a_full_disk_is_said_and_leaves_nothing(cache: DataCache, said: list[str]) -> None:
    import resource

    def fill(file: BinaryIO) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
        try:
            for _ in range(64):
                file.write(bytes(2**16))
            file.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert cache.make("x.ids", fill) is None
    assert len(said) == 1 and said[0].startswith(f"{cache.folder}: nothing can be kept there (File too large)")
    assert list(cache.folder.iterdir()) == []


# Old ones


def test_what_was_unused_for_longest_goes_first(cache: DataCache, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(CONTENT) + 41
    monkeypatch.setattr(cache_module, "MAX_BYTES", 3 * size)
    opened = cache.make("a", write)
    for age, name in enumerate("abc"):
        cache.make(name, write)
        os.utime(cache.folder / name, (1e9 + age, 1e9 + age))
    assert cache.find("a") is not None  # which makes it the one that was used last
    cache.make("d", write)
    assert {path.name for path in cache.folder.iterdir()} == {"a", "c", "d"}
    monkeypatch.setattr(cache_module, "MAX_BYTES", 0)
    last = cache.make("e", write)  # too large altogether: for this process alone
    assert list(cache.folder.iterdir()) == []
    for file in (opened, last):
        assert file is not None and file.content() == CONTENT and Path(file.path).read_bytes()[:12] == CONTENT[:12]


def test_what_killed_processes_left_goes_after_a_day(cache: DataCache) -> None:
    cache.make("a", write)
    now = time.time()
    for name, age in (("b.0.tmp", 25 * 3600), ("c.0.tmp", 23 * 3600)):
        (cache.folder / name).write_bytes(b"")
        os.utime(cache.folder / name, (now - age, now - age))
    cache.make("d", write)
    assert {path.name for path in cache.folder.iterdir()} == {"a", "c.0.tmp", "d"}


# Others


def test_two_processes_at_once(cache: DataCache) -> None:
    program = f"""
import sys
from pathlib import Path
from translate.data import cache as module
module.MAX_BYTES = 200_000  # so that they delete each other's
cache = module.DataCache(sys.exit, folder=Path({str(cache.folder)!r}))  # nothing is to be said
for number in range(300):
    name = f"{{number % 7}}.ids"
    content = name.encode() * 10_000
    file = cache.find(name) or cache.make(name, lambda file: file.write(content))
    assert file.content() == content
"""
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert all(path.suffix == ".ids" for path in cache.folder.iterdir())


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HF_DATASETS_CACHE": "/a/b"},
        {"HF_HOME": "~/c"},
        {"XDG_CACHE_HOME": "/d"},
        {"HF_HOME": "e", "HF_DATASETS_CACHE": "f"},
    ],
    ids=" ".join,
)
def test_the_folder_is_that_of_datasets(environment: dict[str, str]) -> None:
    program = (
        "import sys; from translate.data.spill import cache_folder; found = cache_folder();"
        "assert 'datasets' not in sys.modules; import datasets;"
        "assert found == datasets.config.HF_DATASETS_CACHE == cache_folder(), found"
    )
    others = {key: value for key, value in os.environ.items() if key not in ("HF_DATASETS_CACHE", "HF_HOME")}
    others.pop("XDG_CACHE_HOME", None)
    subprocess.run([sys.executable, "-c", program], check=True, env={**others, **environment})
