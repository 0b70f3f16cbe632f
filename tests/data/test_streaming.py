"""Streams: segments and their batches are the same however one comes to them, by a saved position or straight on."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from harness import values_of

from translate.config.data import Augmentation, DataConfig, HubCorpus, TableCorpus, TextCorpus
from translate.config.languages import Languages
from translate.config.schema import TokenizerConfig
from translate.data import tables
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import BatchSettings, TrainingBatches
from translate.data.extension import add_tags
from translate.data.streaming import CorpusStream, StreamedBatches, TrainingStreams
from translate.data.tables import StreamPosition
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.distributed.process_group import SINGLE_PROCESS, Cancelled
from translate.errors import InputError, RunError

SEED, BATCH_TOKENS = 3, 61
Pairs = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def _small_chunks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` keeps what little it writes in a folder of the test; chunks are smaller than segments."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    monkeypatch.setattr(tables, "_CHUNK_ROWS", 7)


def numbered(start: int, count: int) -> Pairs:
    return [(f"Satz {number} \u2028", f"sentence {number}") for number in range(start, start + count)]


def make_pairs(start: int, count: int) -> Pairs:
    return [(f"{number} " * (1 + number % 4), f"{number}" * (1 + number % 3)) for number in range(start, start + count)]


def stream(path: Path, pairs: Pairs, **fields: Any) -> TableCorpus:
    path.write_text("".join(json.dumps({"de": de, "en": en}) + "\n" for de, en in pairs), encoding="utf-8")
    return TableCorpus(kind="json", path=path, source_column="de", target_column="en", **{"streaming": True, **fields})


def parquet(path: Path, pairs: Pairs) -> TableCorpus:
    columns = {"de": [de for de, _ in pairs], "en": [en for _, en in pairs]}
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=13)
    return TableCorpus(kind="parquet", path=path, source_column="de", target_column="en", streaming=True)


def csv(path: Path, pairs: Pairs) -> TableCorpus:
    path.write_text("".join(f"{de},{en}\n" for de, en in [("de", "en"), *pairs]), encoding="utf-8")
    return TableCorpus(kind="csv", path=path, source_column="de", target_column="en", streaming=True)


def shards(path: Path, pairs: Pairs) -> HubCorpus:
    """A data set of four files, as one of the Hub: `datasets` takes a folder for one."""
    path.mkdir()
    for number, (first, last) in enumerate(pairwise([0, 19, 20, 27, len(pairs)])):
        parquet(path / f"train-0000{number}-of-00004.parquet", pairs[first:last])
    return HubCorpus(dataset=str(path), split="train", source_column="de", target_column="en", streaming=True)


Make = Callable[[Path, Pairs], TableCorpus | HubCorpus]
KINDS: dict[str, Make] = {"a.jsonl": stream, "a.parquet": parquet, "a.csv": csv, "folder": shards}


@pytest.fixture(params=KINDS)
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> TableCorpus | HubCorpus:
    """A stream of 50 pairs, of each kind."""
    return KINDS[request.param](tmp_path / request.param, numbered(0, 50))


def stream_of(corpus: TableCorpus | HubCorpus, segment_pairs: int) -> CorpusStream:
    return CorpusStream(corpus, key="data.train.0", segment_pairs=segment_pairs, languages=Languages(DataConfig()))


def segments(stream: CorpusStream, count: int) -> Iterator[tuple[Pairs, StreamPosition, str]]:
    for _ in range(count):
        read, position = stream.read()
        yield list(zip(read.sources, read.targets, strict=True)), position, read.name


@pytest.mark.parametrize("size", [1, 20, 23, 50, 51])
def test_segments_of_a_pass_are_its_pairs_in_order(corpus: TableCorpus | HubCorpus, size: int) -> None:
    pairs = numbered(0, 50)
    one_pass = [pairs[first : first + size] for first in range(0, 50, size)]
    read = list(segments(stream_of(corpus, size), 2 * len(one_pass) + 1))
    assert [each for each, _, _ in read] == [*one_pass, *one_pass, one_pass[0]]
    begins = [*((0, first) for first in range(0, 50, size)), (1, 0)]
    assert [position[:2] for _, position, _ in read][: len(begins)] == begins
    assert read[0][2].endswith(f"pairs 1 to {min(size, 50)} of the stream")
    assert read[len(one_pass)][2].endswith(f"pairs 1 to {min(size, 50)} of the stream, pass 2")


def test_each_way_to_a_segment_leads_to_it(corpus: TableCorpus | HubCorpus) -> None:
    straight = list(segments(stream_of(corpus, 12), 9))
    for number, (pairs, position, name) in enumerate(straight):
        assert position == StreamPosition(*json.loads(json.dumps(position)))  # as a checkpoint keeps it
        ways = {"by state": stream_of(corpus, 12), "counted": stream_of(corpus, 12)}
        ways["by state"].seek(StreamPosition(*json.loads(json.dumps(position))))
        ways["counted"].seek(position._replace(state=None, num_skipped=position.num_pairs))
        for way, stream in ways.items():
            there = list(segments(stream, 2))  # and continues likewise
            assert there[0][0] == pairs and there[0][1].sha256 == position.sha256 and there[0][2] == name, way
            if number + 1 < len(straight):
                assert there[1][0] == straight[number + 1][0], way


def test_a_position_saves_reading(tmp_path: Path) -> None:
    """A file that lies before the position is not read (but the first, for the names of the columns)."""
    corpus = shards(tmp_path / "folder", numbered(0, 50))
    position = list(segments(stream_of(corpus, 10), 5))[4][1]
    (tmp_path / "folder" / "train-00001-of-00004.parquet").write_bytes(b"no parquet any more")
    stream = stream_of(corpus, 10)
    stream.seek(position)
    assert next(segments(stream, 1))[0] == numbered(40, 10)
    stream.seek(position._replace(state=None, num_skipped=position.num_pairs))
    with pytest.raises(InputError, match="cannot be read as a data set"):
        stream.read()


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    sources, targets = zip(*make_pairs(0, 300), strict=True)
    return prepare_tokenizers(TokenizerConfig(vocab_size=40, byte_fallback=False), sources, targets)


def batches_of(data: DataConfig, tokenizers: Tokenizers, sampling: float | None = None, **more: int) -> StreamedBatches:
    settings = BatchSettings(data, sampling, BATCH_TOKENS, SEED, **more)
    return StreamedBatches(TrainingStreams(data), tokenizers, settings, world=SINGLE_PROCESS)


def data_of(*corpora: TableCorpus | HubCorpus | TextCorpus, **fields: Any) -> DataConfig:
    limits = {"max_source_tokens": 30, "max_target_tokens": 30, "stream_segment_pairs": 40}
    return DataConfig(train=corpora, **{**limits, **fields})


def corpus_of(pairs: Pairs) -> ParallelCorpus:
    return ParallelCorpus("listed", [de for de, _ in pairs], [en for _, en in pairs], 1.0)


def expected(
    corpora: Sequence[ParallelCorpus], data: DataConfig, tokenizers: Tokenizers, number: int
) -> list[tuple[object, ...]]:
    """The batches of this epoch over a segment's pairs."""
    return values_of(TrainingBatches(corpora, tokenizers, BatchSettings(data, None, BATCH_TOKENS, SEED)).epoch(number))


def test_segments_are_tagged_and_augmented(tmp_path: Path, tokenizers: Tokenizers) -> None:
    tokenizers, augment = add_tags(tokenizers, ["<bt>"], []), Augmentation(typos=0.5)
    data = data_of(stream(tmp_path / "a", make_pairs(0, 100), augment=augment, source_tag="<bt>"))
    batches, continued = batches_of(data, tokenizers), batches_of(data, tokenizers)
    for number, (first, count) in enumerate([(0, 40), (40, 40), (80, 20), (0, 40)]):
        pairs = [(f"<bt> {source}", target) for source, target in make_pairs(first, count)]
        listed = expected([corpus_of(pairs)._replace(augment=augment)], data, tokenizers, number)
        epoch = batches.epoch(number)
        assert values_of(epoch) == listed and 0 < epoch.num_changed < count
    continued.continue_from(3, batches.position(3))
    assert values_of(continued.epoch(3)) == listed


def test_streams_share_a_segment_and_other_corpora_are_in_each(tmp_path: Path, tokenizers: Tokenizers) -> None:
    """Streams of 25 and 100 pairs, in proportion 1 to 3, and a listed corpus that is seen twice in each segment."""
    listed = [tmp_path / "l.de", tmp_path / "l.en"]
    for path, lines in zip(listed, zip(*make_pairs(500, 7), strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    data = data_of(
        stream(tmp_path / "a", make_pairs(0, 25), weight=0.5),
        TextCorpus(source=listed[0], target=listed[1], weight=2.0),
        stream(tmp_path / "b", make_pairs(200, 100), weight=1.5),
    )
    batches = batches_of(data, tokenizers)
    small = [(0, 10), (10, 10), (20, 5), (0, 10), (10, 10)]
    large = [(200, 30), (230, 30), (260, 30), (290, 10), (200, 30)]
    for number in range(5):
        corpora = [corpus_of(make_pairs(*each)) for each in (small[number], (500, 7), large[number])]
        corpora[1] = corpora[1]._replace(weight=2.0)
        assert values_of(batches.epoch(number)) == expected(corpora, data, tokenizers, number)


@pytest.mark.parametrize(("begun", "sampling"), [(0, None), (1, 0.2), (2, None), (6, None)])
def test_a_continued_stream_is_the_same_with_a_position_and_without(
    tmp_path: Path, tokenizers: Tokenizers, begun: int, sampling: float | None
) -> None:
    data = data_of(stream(tmp_path / "a", make_pairs(0, 100)), stream(tmp_path / "b", make_pairs(150, 33), weight=0.3))
    straight = batches_of(data, tokenizers, sampling)
    epochs = []
    for number in range(begun + 3):
        epochs.append(values_of(straight.epoch(number)))
        if number == begun:
            position = json.loads(json.dumps(straight.position(begun)))
    for noted in (position, None):
        batches = batches_of(data, tokenizers, sampling)
        batches.continue_from(begun, noted)
        assert [values_of(batches.epoch(begun + number)) for number in range(3)] == epochs[begun:]
        if noted is position:  # and from where that one has come to
            again = batches_of(data, tokenizers, sampling)
            again.continue_from(begun + 2, json.loads(json.dumps(batches.position(begun + 2))))
            assert values_of(again.epoch(begun + 2)) == epochs[-1]


def test_what_is_left_out_is_logged_of_each_segment(
    tmp_path: Path, tokenizers: Tokenizers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pairs = make_pairs(0, 100)
    pairs[3] = pairs[50] = ("", "x")
    batches = batches_of(data_of(stream(tmp_path / "a", pairs)), tokenizers)
    batches.epoch(0)
    (report,) = batches.filter_reports
    assert (report.name, report.num_kept) == (f"{tmp_path / 'a'}, pairs 1 to 40 of the stream", 39)
    batches.epoch(1)
    assert "pairs 41 to 80 of the stream: 39 of 40" in caplog.text


@pytest.mark.parametrize("sampling", [None, 0.2])
def test_a_segment_of_which_nothing_is_left_has_no_batches(
    tmp_path: Path, tokenizers: Tokenizers, sampling: float | None
) -> None:
    batches = batches_of(data_of(stream(tmp_path / "a", [*make_pairs(0, 40), ("", "")])), tokenizers, sampling)
    epochs = [batches.epoch(number) for number in range(3)]
    assert [len(epoch) > 0 for epoch in epochs] == [True, False, True]
    assert values_of(epochs[1]) == [] and epochs[1].padding.share == 0.0 and len(epochs[1].shapes) == 0


def test_data_that_changed_are_not_gone_on_with(tmp_path: Path, tokenizers: Tokenizers) -> None:
    data = data_of(stream(tmp_path / "a", make_pairs(0, 100)))
    batches = batches_of(data, tokenizers)
    for number in range(3):
        batches.epoch(number)
    position = batches.position(2)
    stream(tmp_path / "a", [*make_pairs(0, 99), ("other", "pair")])
    batches = batches_of(data, tokenizers)
    batches.continue_from(2, position)
    with pytest.raises(RunError, match=f"segment 3 .*{tmp_path / 'a'}, pairs 81 to 100 .*not the pairs"):
        batches.epoch(2)


def test_what_breaks_later_ends_the_run_with_the_line(tmp_path: Path, tokenizers: Tokenizers) -> None:
    line, message = '{"de": "x", "en": 7}', ": column 'en' is 7, of type int"
    path = tmp_path / "a"
    corpus = stream(path, make_pairs(0, 100))
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:89], line, *lines[90:]]), encoding="utf-8")
    batches = batches_of(data_of(corpus), tokenizers)
    batches.epoch(0)
    with pytest.raises(RunError, match=rf"segment [23] .*data\.train\.0: {path}, line 90{message}.*--resume"):
        batches.epoch(1)
        batches.epoch(2)


def test_planning_ends_when_nobody_waits_for_it(tmp_path: Path, tokenizers: Tokenizers) -> None:
    def check() -> None:
        raise Cancelled

    batches = batches_of(data_of(stream(tmp_path / "a", make_pairs(0, 100))), tokenizers)
    with pytest.raises(Cancelled):
        batches.epoch(1, check=check)


def test_another_batch_size_needs_no_new_reading(tmp_path: Path, tokenizers: Tokenizers) -> None:
    batches = batches_of(data_of(stream(tmp_path / "a", make_pairs(0, 100))), tokenizers)
    batches.epoch(0)
    assert batches.longest == 31
    larger = batches.with_batch_tokens(200)
    (tmp_path / "a").unlink()
    assert len(larger.epoch(0)) < len(batches.epoch(0))
