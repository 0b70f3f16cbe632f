"""Segmentations drawn by other processes are those drawn here, and those processes end whatever happens."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from translate.config import DataConfig, TokenizerConfig
from translate.data import drawing
from translate.data.corpora import ParallelCorpus
from translate.data.drawing import Drawer, Part
from translate.data.drawing_worker import pack_lines, unpack_lines
from translate.data.epochs import TrainingBatches
from translate.data.token_store import IdChunk
from translate.data.tokenizer import Tokenizer, Tokenizers, train_tokenizer

LINES = ["abc cab bca", "", " ", "a\nb", "ab\0c", "🦄 \u2028é", "abc" * 29, "cab abc bca abc"]


def make_tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer(["abc cab bca ab ca"] * 3, TokenizerConfig.model_validate({"type": kind, "vocab_size": 266}))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return make_tokenizer("bpe")


@pytest.fixture(autouse=True)
def _every_line_counts_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_LEAST_LINES", 0)


def nothing() -> None:
    pass


def parts_of(*tokenizers: Tokenizer) -> list[Part]:
    return [Part(tokenizer, LINES[seed:] + LINES[:seed], seed) for tokenizer in tokenizers for seed in range(5)]


def drawn(drawer: Drawer, parts: list[Part]) -> list[list[list[int]]]:
    return [listed(chunk) for chunk in drawer.draw(iter(parts), num_lines=len(parts), check=nothing)]


def listed(chunk: IdChunk) -> list[list[int]]:
    ends = chunk.lengths.cumsum().tolist()
    assert len(chunk.ids) == (ends[-1] if ends else 0)
    return [chunk.ids[start:end].tolist() for start, end in zip([0, *ends], ends, strict=False)]


def expected(parts: list[Part]) -> list[list[list[int]]]:
    return [part.tokenizer.sample_lines(part.lines, amount=0.3, seed=part.seed) for part in parts]


def worker_ids(drawer: Drawer) -> list[int]:
    found = []
    for _ in range(drawer._idle.qsize()):
        process = drawer._idle.get()
        drawer._idle.put(process)
        if process._process is not None:
            found.append(process._process.pid)
    return found


def is_running(process: int) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def ends(process: int) -> bool:
    deadline = time.monotonic() + 30
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(process)


@pytest.mark.parametrize("num_processes", [1, 2, 3])
def test_who_draws_changes_nothing(tokenizer: Tokenizer, num_processes: int) -> None:
    drawer = Drawer(amount=0.3, num_processes=num_processes)
    parts = parts_of(tokenizer, make_tokenizer("unigram"))
    for _ in range(2):
        assert drawn(drawer, parts) == expected(parts)
    assert len(worker_ids(drawer)) == (0 if num_processes == 1 else num_processes)
    assert drawn(drawer, []) == [] and drawn(drawer, [Part(tokenizer, [], 1)]) == [[]]


def test_few_lines_start_no_process(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_LEAST_LINES", 11)
    drawer = Drawer(amount=0.3, num_processes=2)
    parts = parts_of(tokenizer)
    assert len(parts) < 11 and drawn(drawer, parts) == expected(parts)
    assert worker_ids(drawer) == []


def test_lines_travel_as_they_are() -> None:
    for lines in (LINES, [], [""], ["a", "", ""], ["\ud800", "\udfff🦄"]):
        assert unpack_lines(*pack_lines(lines)) == lines


def test_epochs_are_the_same(tokenizer: Tokenizer) -> None:
    lines = [line for line in LINES if line.strip()] * 5

    def epoch(num_threads: int) -> list[tuple[object, ...]]:
        batches = TrainingBatches(
            [ParallelCorpus("letters", lines, lines[::-1], 1.5)],
            Tokenizers(tokenizer, tokenizer, "joint"),
            limits=DataConfig(),
            subword_sampling=0.3,
            batch_tokens=500,
            seed=1,
            num_threads=num_threads,
        )
        return [(batch.indices, *(ids.tolist() for ids in batch[:3])) for batch in batches.epoch(2).batches()]

    assert epoch(1) == epoch(2)


# What goes wrong


def test_a_process_that_is_killed_is_done_without(tokenizer: Tokenizer) -> None:
    drawer = Drawer(amount=0.3, num_processes=2)
    parts = parts_of(tokenizer)
    drawn(drawer, parts)
    for process in worker_ids(drawer):
        os.kill(process, signal.SIGKILL)
    for _ in range(2):
        assert drawn(drawer, parts) == expected(parts)


def test_processes_that_cannot_be_started_are_done_without(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    parts = parts_of(tokenizer)
    assert drawn(Drawer(amount=0.3, num_processes=2), parts) == expected(parts)


def test_what_check_raises_ends_it(tokenizer: Tokenizer) -> None:
    asked = 0

    def stop_at_third() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise KeyboardInterrupt

    for num_processes in (1, 2):
        asked = 0
        drawer = Drawer(amount=0.3, num_processes=num_processes)
        with pytest.raises(KeyboardInterrupt):
            list(drawer.draw(parts_of(tokenizer), num_lines=40, check=stop_at_third))
        assert asked == 3


def test_processes_end_with_their_drawer(tokenizer: Tokenizer) -> None:
    drawer = Drawer(amount=0.3, num_processes=2)
    drawn(drawer, parts_of(tokenizer))
    processes = worker_ids(drawer)
    assert len(processes) == 2 and all(map(is_running, processes))
    del drawer
    assert not any(map(is_running, processes))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_one_that_started_them(tokenizer: Tokenizer, tmp_path: Path, number: int) -> None:
    (tmp_path / "a.model").write_bytes(tokenizer.model_bytes)
    program = f"""
import time
from pathlib import Path
from translate.data import drawing
from translate.data.tokenizer import Tokenizer
drawing._LEAST_LINES = 0
drawer = drawing.Drawer(amount=0.3, num_processes=2)
part = drawing.Part(Tokenizer(Path({str(tmp_path / "a.model")!r}).read_bytes()), ["abc cab"], 1)
list(drawer.draw([part] * 7, num_lines=7, check=lambda: None))
processes = [drawer._idle.get() for _ in range(2)]
print(*[process._process.pid for process in processes], flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        processes = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(number)
    assert len(processes) == 2 and all(map(ends, processes))


def test_the_process_imports_nothing_heavy() -> None:
    program = (
        "import sys, translate.data.drawing_worker;"
        "assert not {'torch', 'datasets', 'pydantic', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
