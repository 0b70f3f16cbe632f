"""Reading corpora of all kinds: the pairing never shifts, and whatever is bad is named with its file and place."""

import gzip
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from translate.config.data import Augmentation, Corpus, Direction, TableCorpus, TextCorpus, TsvCorpus
from translate.config.load import load_config
from translate.config.schema import TokenizerConfig
from translate.data import corpora
from translate.data.corpora import (
    FileText,
    ParallelCorpus,
    balance_directions,
    data_fingerprint,
    join_texts,
    read_corpus,
    repeat_by_weight,
    store_pairs,
)
from translate.data.tables import FORMATS, PairChunk
from translate.data.tokenizer import Tokenizers, train_tokenizer
from translate.errors import InputError
from translate.lint.corpora import survey_corpus


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_text_corpus(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.de", b"eins\nzwei\n"), write(tmp_path / "a.en", b"one\ntwo")
    corpus = read_corpus(TextCorpus(source=source, target=target, weight=2.5), key="data.train.0")
    assert corpus == (f"{source}, {target}", ["eins", "zwei"], ["one", "two"], 2.5, None, None, None, None, ())


def test_a_lost_line_is_located(tmp_path: Path) -> None:
    lengths = [7, 61, 23, 5, 47, 13, 89, 31, 3, 71, 17, 41]  # unlike neighbours, as in real text
    source = write(tmp_path / "a.de", b"".join(b"x" * length + b"\n" for length in lengths))
    del lengths[6]  # line 7
    target = write(tmp_path / "a.en", b"".join(b"y" * length + b"\n" for length in lengths))
    with pytest.raises(InputError, match=rf"^data\.train\.0: {source} has 12 .*{target} has 11; .* near line 7$"):
        read_corpus(TextCorpus(source=source, target=target), key="data.train.0")


def corpus_of_kind(kind: str, path: Path) -> Corpus:
    if kind == "text":
        return TextCorpus(source=path, target=path)
    if kind == "tsv":
        return TsvCorpus(path=path)
    return TableCorpus(kind=kind, path=path, source_column="a", target_column="b")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["text", *FORMATS])
def test_paths_that_are_not_files_are_refused(tmp_path: Path, kind: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    rows = [(tmp_path, "folder"), (pipe, "pipe"), (Path("/dev/zero"), "device"), (tmp_path / "gone", "no such file")]
    for path, message in rows:
        with pytest.raises(InputError, match=f"^data.validation: {path}: .*{message}"):
            read_corpus(corpus_of_kind(kind, path), key="data.validation")
    empty = write(tmp_path / "empty", b"")
    with pytest.raises(InputError, match="^data.validation: .*empty" + ("$" if kind == "text" else "")):
        read_corpus(corpus_of_kind(kind, empty), key="data.validation")


def test_a_table_may_be_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their pairs are those of the files, in the order of their names; a config finds them as it finds a file."""
    (tmp_path / "tables/sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "tables/b.tsv", b"b1\tB1\nb2\tB2\n")
    write(tmp_path / "tables/sub/c.tsv", b"c\tC\n")
    write(tmp_path / "tables/a.tsv.gz", gzip.compress(b"a\tA\n"))
    write(tmp_path / "tables/d.txt", b"d\tD\n")
    paths = {
        "tables": "a b1 b2 c",
        "tables/[ab].*": "a b1 b2",
        "tables/**/*.t*": "a b1 b2 d c",
        "tables/b.tsv": "b1 b2",
    }
    for path, sources in paths.items():
        [corpus] = load_config({"data": {"train": [{"kind": "tsv", "path": path}]}}).config.data.train
        read = read_corpus(corpus, key="data.train.0")
        assert [*read.sources] == sources.split() and [*read.targets] == sources.upper().split()
    write(tmp_path / "tables/b.tsv", b"b1")
    with pytest.raises(InputError, match=r"data.train.0: .*tables/b.tsv, line 1: "):
        read_corpus(TsvCorpus(path=Path("tables")), key="data.train.0")
    with pytest.raises(InputError, match=r"data.train.0: tables/\*.csv: matches no file"):
        read_corpus(TsvCorpus(path=Path("tables/*.csv")), key="data.train.0")


def test_tsv_has_columns_and_no_quoting(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b'\nid\t"one\t"eins\n\nid2\ttwo\tzwei\r\n\r\n')  # blank lines as in a CSV
    corpus = read_corpus(TsvCorpus(path=path, source_column=2, target_column=1), key="data.train.0")
    assert (corpus.sources, corpus.targets) == (['"eins', "zwei"], ['"one', "two"])
    # A stray tab would pair "Drei" with "Personen".
    for row, wrong in ((b"Drei\tPersonen\tthree people", "3 cells, .* has 2$"), (b"Drei", "1 cell, .* has 2$")):
        path = write(tmp_path / "a.tsv", b"eins\tone\n\n" + row)
        with pytest.raises(InputError, match=f"a.tsv, line 3: has {wrong}"):
            read_corpus(TsvCorpus(path=path), key="data.train.0")


def test_tsv_columns_by_the_names_of_its_header(tmp_path: Path) -> None:
    text = b"id\tde\ten\n1\teins\tone\n2\tzwei\ttwo\n"
    for path in (write(tmp_path / "a.tsv", text), write(tmp_path / "a.tsv.gz", gzip.compress(text))):
        for columns in (("de", "en"), ("de", 2), (1, "en")):
            corpus = TsvCorpus(path=path, source_column=columns[0], target_column=columns[1])
            read = read_corpus(corpus, key="data.train.0")
            assert (read.sources, read.targets) == (["eins", "zwei"], ["one", "two"])
            assert survey_corpus("data.train.0", read, corpus).unit == "row"  # the first pair is row 1
    for source, target, message in ("fr", "en", "'fr' .* id, de, en;"), ("de", 3, "line 1: .* 'de' .* 3 need 4 .* 3$"):
        with pytest.raises(InputError, match=f"^data.train.0: {path}.*{message}"):
            read_corpus(TsvCorpus(path=path, source_column=source, target_column=target), key="data.train.0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files; every corpus counts as large."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("translate.data.cache.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(corpora, "MAX_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr("translate.data.text._CHUNK_LINES", 7)
    return tmp_path / "cache"


def chunks(lines: Sequence[str], size: int) -> Iterator[PairChunk]:
    for first in range(0, len(lines), size):
        these = list(lines[first : first + size])
        yield PairChunk(these, [f"t {line}" for line in these])


LINES = [f"Zeile {number} \u2028\r\n\0 🦄" for number in range(101)]


def is_the_sequence(found: Sequence[str], expected: list[str]) -> bool:
    size = len(expected)
    places = [*range(-size, size)]
    ends = (None, 0, 3, 7, 14, 50, 96, -3, 200)
    slices = [slice(first, last) for first in ends for last in ends]
    assert len(found) == size and list(found) == expected
    assert [found[place] for place in places] == [expected[place] for place in places]
    assert all(found[place] == expected[place] for place in [*slices, slice(None, None, -3), slice(90, 2, -7)])
    with pytest.raises(IndexError):
        found[size]
    return True


@pytest.mark.parametrize("size", [1, 7, 101])
def test_text_in_a_file_is_the_text(folder: Path, size: int) -> None:
    sources, targets = store_pairs(chunks(LINES, size), name="news")
    assert isinstance(sources, FileText) and isinstance(targets, FileText)
    assert is_the_sequence(sources, LINES)
    assert is_the_sequence(targets, [f"t {line}" for line in LINES])
    parts = [ParallelCorpus("a", part, part, 1.0) for part in ([], sources, [], ["a", "b"], targets[:9])]
    assert is_the_sequence(join_texts(parts)[0], [*LINES, "a", "b", *[f"t {line}" for line in LINES[:9]]])
    assert list(join_texts([])[0]) == [] and join_texts(parts[:1])[0][:3] == []


def test_a_tag_stands_before_each_source_that_is_trained_on(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n \n y\n")
    (tmp_path / "b").write_text("1\n2\n3\n")
    values = {"source": tmp_path / "a", "target": tmp_path / "b"}
    plain, tagged = (read_corpus(TextCorpus(**values, source_tag=tag), key="data.train.0") for tag in (None, "<bt>"))
    assert list(tagged.sources) == ["x", " ", " y"] and tagged.name.endswith("b with <bt>")
    assert list(join_texts([plain, tagged])[0]) == ["x", " ", " y"] * 2
    sources, targets = join_texts([plain, tagged], with_tags=True)
    assert is_the_sequence(sources, ["x", " ", " y", "<bt> x", " ", "<bt>  y"])  # an empty source stays empty
    assert list(targets) == ["1", "2", "3"] * 2


def test_directions_are_balanced_by_temperature() -> None:
    """By hand, with T = 2: of 1600, 100 and 2·50 weighted pairs, the shares are as 40 : 10 : 10."""
    de, fr, cs = (Direction(code, "en") for code in ("de", "fr", "cs"))
    sizes = [(de, 1000, 1.0), (de, 300, 2.0), (fr, 100, 1.0), (cs, 50, 2.0)]
    given = [ParallelCorpus("", ["a"] * size, ["b"] * size, weight, direction=each) for each, size, weight in sizes]
    assert balance_directions(given, None) == balance_directions(given, 1.0) == given
    found = balance_directions(given, 2.0)
    assert [each.weight for each in found] == pytest.approx([1.0, 2.0, 4.0, 8.0])
    seen = [each.weight * len(each.sources) for each in found]
    assert [seen[0] + seen[1], *seen[2:]] == pytest.approx([1600, 400, 400])
    assert balance_directions(given[:2], 7.0) == given[:2]
    assert balance_directions(given, 3.0)[2].weight == 6.349604208  # 16^(2/3), whose last bits depend on the machine


@pytest.mark.parametrize(
    ("weight", "expected"), [(2.0, "aabbcc"), (0.7, "ab"), (1.4, "aabc"), (0.01, "a"), (1.0, "abc")]
)
def test_lines_are_repeated_by_weight(weight: float, expected: str) -> None:
    repeated = repeat_by_weight(ParallelCorpus("", ["a", "b", "c"], ["A", "B", "C"], weight))
    assert ("".join(repeated.sources), "".join(repeated.targets)) == (expected, expected.upper())
    assert repeated.sources[1:] == list(expected)[1:] and repeated.weight == 1.0


def test_the_fingerprint_is_that_of_the_text_in_order() -> None:
    tokenizer = train_tokenizer(["a b c"] * 3, TokenizerConfig(vocab_size=11, byte_fallback=False))
    both = Tokenizers(tokenizer, tokenizer, "joint")

    def fingerprint(source: str, target: str, *, streams: str | None = None, **fields: Any) -> str:
        corpus = ParallelCorpus("any", list(source), list(target), 1.0)._replace(**fields)
        return data_fingerprint([corpus], both, streams=streams)

    tags, typos = ({"source_tag": "<bt>"}, {"source_tag": "<ft>"}), {"augment": Augmentation(typos=0.1)}
    texts = [fingerprint(*text) for text in (("ab", "cd"), ("ba", "cd"), ("ab", "ce"))]
    changes = ({"weight": 2.0}, {"streams": "x"}, *tags, typos)
    fingerprints = [*texts, *(fingerprint("ab", "cd", **each) for each in changes)]
    assert len(set(fingerprints)) == len(fingerprints)
    # What 0.3.0 has written into checkpoints, by hand.
    text = tokenizer.model_bytes * 2 + b"2 1.0\na\nbc\nd"
    assert fingerprints[0] == hashlib.sha256(text).hexdigest()
