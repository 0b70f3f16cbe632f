"""Streams: segments are the same however one comes to them, by the state of `datasets`, by counting, or straight on."""

import gzip
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from translate.config import HubCorpus, TableCorpus
from translate.data import streaming
from translate.data.streaming import CorpusStream, Place
from translate.errors import InputError

Pairs = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def _small_chunks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` keeps what little it writes in a folder of the test's; chunks are smaller than segments."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    monkeypatch.setattr(streaming, "_CHUNK_ROWS", 7)


def make_pairs(start: int, count: int) -> Pairs:
    return [(f"Satz {number} \u2028", f"sentence {number}") for number in range(start, start + count)]


def json_lines(path: Path, pairs: Pairs) -> TableCorpus:
    text = "".join(json.dumps({"translation": {"de": de, "en": en}}) + "\n" for de, en in pairs)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return TableCorpus(
        kind="json", path=path, source_column="translation.de", target_column="translation.en", streaming=True
    )


def parquet(path: Path, pairs: Pairs) -> TableCorpus:
    columns = {"de": [de for de, _ in pairs], "en": [en for _, en in pairs]}
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=13)
    return TableCorpus(kind="parquet", path=path, source_column="de", target_column="en", streaming=True)


def shards(path: Path, pairs: Pairs) -> HubCorpus:
    """A data set of four files, as one of the Hub: `datasets` takes a folder for one."""
    path.mkdir()
    for number, (first, last) in enumerate(pairwise([0, 19, 20, 27, len(pairs)])):
        parquet(path / f"train-0000{number}-of-00004.parquet", pairs[first:last])
    return HubCorpus(dataset=str(path), split="train", source_column="de", target_column="en", streaming=True)


Make = Callable[[Path, Pairs], TableCorpus | HubCorpus]
KINDS: dict[str, Make] = {"a.jsonl": json_lines, "a.jsonl.gz": json_lines, "a.parquet": parquet, "folder": shards}


@pytest.fixture(params=KINDS)
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> TableCorpus | HubCorpus:
    """A stream of 50 pairs, of each kind."""
    return KINDS[request.param](tmp_path / request.param, make_pairs(0, 50))


def stream_of(corpus: TableCorpus | HubCorpus, segment_pairs: int) -> CorpusStream:
    return CorpusStream(corpus, key="data.train.0", segment_pairs=segment_pairs)


def segments(stream: CorpusStream, count: int) -> Iterator[tuple[Pairs, Place, str]]:
    for _ in range(count):
        read, place = stream.read()
        yield list(zip(read.sources, read.targets, strict=True)), place, read.name


@pytest.mark.parametrize("size", [1, 10, 20, 23, 49, 50, 51])
def test_segments_of_a_pass_are_its_pairs_in_order(corpus: TableCorpus | HubCorpus, size: int) -> None:
    pairs = make_pairs(0, 50)
    one_pass = [pairs[first : first + size] for first in range(0, 50, size)]
    read = list(segments(stream_of(corpus, size), 2 * len(one_pass) + 1))
    assert [each for each, _, _ in read] == [*one_pass, *one_pass, one_pass[0]]
    assert [place[:2] for _, place, _ in read][: len(one_pass) + 1] == [
        *((0, first) for first in range(0, 50, size)),
        (1, 0),
    ]
    assert read[0][2].endswith(f"pairs 1 to {min(size, 50)} of the stream")
    assert read[len(one_pass)][2].endswith(f"pairs 1 to {min(size, 50)} of the stream, pass 2")


def test_each_way_to_a_segment_leads_to_it(corpus: TableCorpus | HubCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    straight = list(segments(stream_of(corpus, 12), 9))
    for number, (pairs, place, name) in enumerate(straight):
        assert place == Place(*json.loads(json.dumps(place)))  # as a checkpoint keeps it
        ways = {
            "by state": stream_of(corpus, 12),
            "counted": stream_of(corpus, 12),
            "from nothing": stream_of(corpus, 12),
        }
        ways["by state"].go_to(Place(*json.loads(json.dumps(place))))
        ways["counted"].go_to(place.counted)
        ways["from nothing"].go_to_segment(number)
        for way, stream in ways.items():
            there = list(segments(stream, 2))  # and it goes on as well
            assert there[0][0] == pairs and there[0][1].sha256 == place.sha256 and there[0][2] == name, way
            if number + 1 < len(straight):
                assert there[1][0] == straight[number + 1][0], way


def test_a_place_saves_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that lies before the place is not read (but the first, for the names of the columns)."""
    corpus = shards(tmp_path / "folder", make_pairs(0, 50))
    place = list(segments(stream_of(corpus, 10), 5))[4][1]
    (tmp_path / "folder" / "train-00001-of-00004.parquet").write_bytes(b"no parquet any more")
    stream = stream_of(corpus, 10)
    stream.go_to(place)
    assert next(segments(stream, 1))[0] == make_pairs(40, 10)
    stream.go_to(place.counted)
    with pytest.raises(InputError, match="could not be loaded"):
        stream.read()
