"""Batches of streams: segment by segment what `TrainingBatches` makes of the same pairs, wherever one begins."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config import DataConfig, TableCorpus, TextCorpus, TokenizerConfig
from translate.data import drawing, streaming, tables, token_store
from translate.data.batching import Batch
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import Epoch, TrainingBatches
from translate.data.streaming import StreamedBatches, TrainingStreams
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.errors import InputError, RunError

Pairs = list[tuple[str, str]]
SEED, BATCH_TOKENS = 3, 61


@pytest.fixture(autouse=True)
def _small_chunks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    monkeypatch.setattr(streaming, "_CHUNK_ROWS", 11)


def make_pairs(start: int, count: int) -> Pairs:
    return [(f"{number} " * (1 + number % 4), f"{number}" * (1 + number % 3)) for number in range(start, start + count)]


def stream(path: Path, pairs: Pairs, **fields: Any) -> TableCorpus:
    path.write_text("".join(json.dumps({"de": de, "en": en}) + "\n" for de, en in pairs), encoding="utf-8")
    return TableCorpus(kind="json", path=path, source_column="de", target_column="en", **{"streaming": True, **fields})


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    sources, targets = zip(*make_pairs(0, 300), strict=True)
    return prepare_tokenizers(TokenizerConfig(vocab_size=40, byte_fallback=False), sources, targets)


def batches_of(
    data: DataConfig, tokenizers: Tokenizers, sampling: float | None = None, num_threads: int = 1
) -> StreamedBatches:
    return StreamedBatches(
        TrainingStreams(data),
        tokenizers,
        limits=data,
        subword_sampling=sampling,
        batch_tokens=BATCH_TOKENS,
        seed=SEED,
        num_threads=num_threads,
    )


def data_of(*corpora: TableCorpus | TextCorpus, **fields: Any) -> DataConfig:
    limits = {"max_source_tokens": 30, "max_target_tokens": 30, "stream_segment_pairs": 40}
    return DataConfig(train=corpora, **{**limits, **fields})


def corpus_of(pairs: Pairs, weight: float = 1.0) -> ParallelCorpus:
    return ParallelCorpus("listed", [de for de, _ in pairs], [en for _, en in pairs], weight)


def expected(corpora: Sequence[ParallelCorpus], data: DataConfig, tokenizers: Tokenizers, number: int) -> Epoch:
    """The epoch of this number over a segment's pairs."""
    listed = TrainingBatches(
        corpora, tokenizers, limits=data, subword_sampling=None, batch_tokens=BATCH_TOKENS, seed=SEED
    )
    return listed.epoch(number)


def content(epoch: Epoch) -> list[list[Any]]:
    def values(batch: Batch) -> list[Any]:
        return [each.tolist() if isinstance(each, torch.Tensor) else each for each in batch]

    return [values(batch) for batch in epoch.batches()]


def test_an_epoch_is_a_segment(tmp_path: Path, tokenizers: Tokenizers) -> None:
    data = data_of(stream(tmp_path / "a", make_pairs(0, 100)))
    batches = batches_of(data, tokenizers)
    for number, (first, count) in enumerate([(0, 40), (40, 40), (80, 20), (0, 40), (40, 40)]):
        listed = expected([corpus_of(make_pairs(first, count))], data, tokenizers, number)
        assert content(batches.epoch(number)) == content(listed)
    assert content(batches.epoch(4)) == content(listed)  # again


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
    parts = [
        ((0, 10), (200, 30)),
        ((10, 10), (230, 30)),
        ((20, 5), (260, 30)),
        ((0, 10), (290, 10)),
        ((10, 10), (200, 30)),
    ]
    for number, (small, large) in enumerate(parts):
        corpora = [
            corpus_of(make_pairs(*small)), corpus_of(make_pairs(500, 7), weight=2.0), corpus_of(make_pairs(*large))
        ]  # fmt: skip
        assert content(batches.epoch(number)) == content(expected(corpora, data, tokenizers, number))


@pytest.mark.parametrize("sampling", [None, 0.2])
def test_the_number_of_threads_changes_nothing(
    tmp_path: Path, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch, sampling: float | None
) -> None:
    """Segmentations are drawn by other processes then, the same in all segments."""
    monkeypatch.setattr(drawing, "_LEAST_LINES", 0)
    monkeypatch.setattr(token_store, "_THREAD_LINES", 7)
    starts: list[int] = []
    start = drawing._start
    monkeypatch.setattr(drawing, "_start", lambda: (starts.append(1), start())[1])
    data = data_of(stream(tmp_path / "a", make_pairs(0, 100)))
    one, several = batches_of(data, tokenizers, sampling), batches_of(data, tokenizers, sampling, num_threads=2)
    for number in range(3):
        assert content(several.epoch(number)) == content(one.epoch(number))
    assert (1 <= len(starts) <= 2) if sampling else not starts


@pytest.mark.parametrize(("begun", "sampling"), [(0, None), (1, 0.2), (2, None), (6, None)])
def test_going_on_is_the_same_with_a_position_and_without(
    tmp_path: Path, tokenizers: Tokenizers, begun: int, sampling: float | None
) -> None:
    data = data_of(stream(tmp_path / "a", make_pairs(0, 100)), stream(tmp_path / "b", make_pairs(150, 33), weight=0.3))
    straight = batches_of(data, tokenizers, sampling)
    epochs = []
    for number in range(begun + 3):
        epochs.append(content(straight.epoch(number)))
        if number == begun:
            position = json.loads(json.dumps(straight.position(begun)))
    bad_state = json.loads(json.dumps(position))
    for place in bad_state["places"]:  # as if another version of `datasets` counted otherwise
        place["state"] = {"examples_iterable": {"offset": 3}, "epoch": 0}
    wrong_state = json.loads(json.dumps(straight.position(begun + 2)))
    for place, right in zip(wrong_state["places"], position["places"], strict=True):
        right = dict(right, state=place["state"], num_skipped=place["num_skipped"])
        place.update(right)
    wrong_state |= {"segment": begun, "filtered": position["filtered"]}
    for noted in (position, bad_state, wrong_state, None, {"segment": begun + 1}, {"segment": begun, "places": [3]}):
        batches = batches_of(data, tokenizers, sampling)
        said: list[str] = []
        batches.go_on_from(begun, noted, say=said.append)
        is_known = noted is not None and len(noted) == 3
        assert (not said) == (is_known or begun == 0)
        assert [content(batches.epoch(begun + number)) for number in range(3)] == epochs[begun:]
        counted = "  found by counting the pairs before it, because where datasets noted its place it is not"
        assert noted is wrong_state or (counted in batches.report(begun)) == (noted is bad_state and begun > 0)
        if noted is not position:
            continue
        assert batches.report(begun) == straight_report(data, tokenizers, begun)
        again = batches_of(data, tokenizers, sampling)  # and from where that one has come to
        again.go_on_from(begun + 2, json.loads(json.dumps(batches.position(begun + 2))), say=pytest.fail)
        assert content(again.epoch(begun + 2)) == epochs[-1]


def straight_report(data: DataConfig, tokenizers: Tokenizers, number: int) -> list[str]:
    batches = batches_of(data, tokenizers)
    for each in range(number + 1):
        batches.epoch(each)
    return batches.report(number)


def test_what_is_left_out_is_said_of_each_segment_and_of_all(tmp_path: Path, tokenizers: Tokenizers) -> None:
    pairs = make_pairs(0, 100)
    for number in (3, 50, 51, 99):
        pairs[number] = ("", "x")
    pairs[60] = ("1 " * 20, "1 " * 31)
    path = tmp_path / "a"
    batches = batches_of(data_of(stream(path, pairs)), tokenizers)
    for number in range(3):
        batches.epoch(number)
    assert batches.report(0) == [
        "segment 1 of the streamed corpora",
        f"{path}, pairs 1 to 40 of the stream: 39 of 40 pairs kept",
        "  1 left out: empty source",
    ]
    assert batches.report(2) == [
        "segment 3 of the streamed corpora",
        f"{path}, pairs 81 to 100 of the stream: 19 of 20 pairs kept",
        "  1 left out: empty source",
        "segments 1 to 3",
        f"{path}: 95 of 100 pairs kept",
        "  4 left out: empty source",
        "  1 left out: target over data.max_target_tokens = 30",
    ]


@pytest.mark.parametrize("sampling", [None, 0.2])
def test_a_segment_of_which_nothing_is_left_has_no_batches(
    tmp_path: Path, tokenizers: Tokenizers, sampling: float | None
) -> None:
    data = data_of(stream(tmp_path / "a", [*make_pairs(0, 40), ("", "")]))
    batches = batches_of(data, tokenizers, sampling)
    epochs = [batches.epoch(number) for number in range(3)]
    assert [len(epoch) > 0 for epoch in epochs] == [True, False, True]
    assert content(epochs[1]) == [] and epochs[1].padding.share == 0.0 and len(epochs[1].shapes) == 0
    assert batches.report(1)[1:3] == [
        f"{tmp_path / 'a'}, pairs 41 to 41 of the stream: 0 of 1 pairs kept", "  1 left out: empty source"
    ]  # fmt: skip
    nothing = data_of(stream(tmp_path / "b", [("", "a")] * 3))
    with pytest.raises(InputError, match=r"no sentence pair is left to train on: .*; 3 left out: empty source"):
        batches_of(nothing, tokenizers).epoch(0)


def test_data_that_changed_are_not_gone_on_with(tmp_path: Path, tokenizers: Tokenizers) -> None:
    data = data_of(stream(tmp_path / "a", make_pairs(0, 100)))
    batches = batches_of(data, tokenizers)
    for number in range(3):
        batches.epoch(number)
    position = batches.position(2)
    stream(tmp_path / "a", [*make_pairs(0, 99), ("other", "pair")])
    batches = batches_of(data, tokenizers)
    batches.go_on_from(2, position, say=pytest.fail)
    with pytest.raises(InputError) as caught:
        batches.epoch(2)
    assert str(caught.value) == (
        f"{tmp_path / 'a'}, pairs 81 to 100 of the stream: these are not the pairs that this run was trained on, so it"
        " cannot be continued; give the data that it was begun with (of a data set of the Hub, its revision), or begin"
        " a new run"
    )


def test_what_breaks_later_ends_the_run_with_the_line(
    tmp_path: Path, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_CHUNK_ROWS", 80)  # so many lines are looked at before
    path = tmp_path / "a"
    corpus = stream(path, make_pairs(0, 100))
    for line, message in [
        ('{"de": "x", "en": 7}', f"data.train.0: {path}, line 90: column 'en' is 7, of type int, where text is needed"),
        ('{"de": "x"', f"data.train.0: {path}, line 90, character 11: is no JSON"),
        ('{"de": "x", "en": null}', f"data.train.0: {path}: row 90 of column 'en' is null where text is needed"),
    ]:
        lines = [json.dumps({"de": de, "en": en}) for de, en in make_pairs(0, 100)]
        lines[89] = line
        path.write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises((InputError, RunError)) as caught:
            later = batches_of(data_of(corpus), tokenizers)
            for number in range(3):
                later.epoch(number)
        assert message in str(caught.value)
    assert str(caught.value) == f"segment 3 of the training data: {message}. When that is mended, go on by --resume"


def test_planning_ends_when_nobody_waits_for_it(tmp_path: Path, tokenizers: Tokenizers) -> None:
    class Closed(Exception):
        pass

    def check() -> None:
        raise Closed

    data = data_of(stream(tmp_path / "a", make_pairs(0, 100)))
    batches, undisturbed = batches_of(data, tokenizers), batches_of(data, tokenizers)
    epochs = [content(undisturbed.epoch(number)) for number in range(3)]
    for number in (1, 0, 2):
        with pytest.raises(Closed):
            batches.epoch(number, check=check)
        assert content(batches.epoch(number)) == epochs[number]


def test_another_batch_size_needs_no_new_reading(tmp_path: Path, tokenizers: Tokenizers) -> None:
    data = data_of(stream(tmp_path / "a", make_pairs(0, 100)))
    batches = batches_of(data, tokenizers)
    assert batches.num_pairs == 40 and batches.longest == 31
    larger = batches.with_batch_tokens(200)
    (tmp_path / "a").unlink()
    assert len(larger.epoch(0)) < len(batches.epoch(0))


_PASS = """
import sys
from pathlib import Path
from translate.config import DataConfig, TableCorpus, TokenizerConfig
from translate.data.streaming import StreamedBatches
from translate.data.streaming import TrainingStreams
from translate.data.tokenizer import prepare_tokenizers

corpus = TableCorpus(kind="parquet", path=Path(sys.argv[1]), source_column="de", target_column="en", streaming=True)
data = DataConfig(train=(corpus,), stream_segment_pairs=5_000)
streams = TrainingStreams(data)
first = streams.first.corpora[0]
tokenizers = prepare_tokenizers(TokenizerConfig(vocab_size=300), first.sources, first.targets)
batches = StreamedBatches(streams, tokenizers, limits=data, subword_sampling=None, batch_tokens=4096, seed=1)
num_pairs = 0
for number in range(40):
    num_pairs += sum(len(batch.indices) for batch in batches.epoch(number).batches())
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(num_pairs, status["VmHWM"].removesuffix("kB"))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_memory_does_not_grow_with_the_stream(tmp_path: Path) -> None:
    """From a quarter of a file, more than what Arrow reads ahead, to its end: 150,000 pairs, some 30 MB as Python's."""
    import pyarrow as pa
    import pyarrow.parquet

    path = tmp_path / "large.parquet"
    columns = {"de": [f"{number} Satz " * 4 for number in range(200_000)]}
    columns["en"] = [f"{number} phrase " * 4 for number in range(200_000)]
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=5_000)
    run = subprocess.run(
        [sys.executable, "-c", _PASS, str(path)],
        capture_output=True, text=True, check=True, env={**os.environ, "HF_DATASETS_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    seen, peaks = zip(*(map(int, line.split()) for line in run.stdout.splitlines()), strict=True)
    assert seen[-1] == 200_000 and run.stderr == ""
    assert peaks[-1] - peaks[9] < 12 * 2**10, peaks
