"""The worker processes of subword sampling: what they sample is what is sampled here, and they end in any case."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from translate.config.data import TokenizerConfig
from translate.data import subword_sampling
from translate.data.subword_sampling import SamplingPool, SamplingTask, SubwordSampler
from translate.data.tokenizer import Tokenizer, train_tokenizer

pytestmark = pytest.mark.system
LINES = ["abc cab bca", "", "a\nb", "🦄 \u2028é", "abc" * 29]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["abc cab bca ab ca"] * 3, TokenizerConfig(vocab_size=266))


@pytest.fixture(autouse=True)
def _a_pool_for_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subword_sampling, "_MIN_LINES_OF_POOL", 0)


def tasks_of(tokenizer: Tokenizer) -> list[SamplingTask]:
    return [SamplingTask(tokenizer.model_bytes, LINES, seed, 0.3) for seed in range(5)]


def sampled(pool: SamplingPool, tasks: list[SamplingTask]) -> list[list[int]]:
    return [chunk.ids.tolist() for chunk in pool.sample(tasks, num_lines=9, check=lambda: None)]


def expected(tasks: list[SamplingTask]) -> list[list[int]]:
    samples = [SubwordSampler(task.model_bytes).sample(task.lines, amount=0.3, seed=task.seed) for task in tasks]
    return [sum(lines, []) for lines in samples]


def worker_ids(pool: SamplingPool) -> list[int]:
    return [] if pool._executor is None else list(pool._executor._processes)


def is_running(process: int) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def ends(process: int) -> bool:
    deadline = time.monotonic() + 30
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(process)


def test_workers_sample_as_this_process_and_end_with_their_pool(tokenizer: Tokenizer) -> None:
    pool = SamplingPool(num_processes=2)
    tasks = tasks_of(tokenizer)
    for _ in range(2):
        assert sampled(pool, tasks) == expected(tasks)
    processes = worker_ids(pool)
    assert 1 <= len(processes) <= 2 and all(map(is_running, processes))
    del pool
    assert all(map(ends, processes))


@pytest.mark.parametrize("num_processes", [1, 2])
def test_what_check_raises_ends_the_sampling(tokenizer: Tokenizer, num_processes: int) -> None:
    pool = SamplingPool(num_processes=num_processes)
    with pytest.raises(IndexError):
        list(pool.sample(tasks_of(tokenizer), num_lines=40, check=[None, None].pop))


def test_killed_workers_are_done_without(tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    pool = SamplingPool(num_processes=2)
    tasks = tasks_of(tokenizer)
    sampled(pool, tasks)
    for process in worker_ids(pool):
        os.kill(process, signal.SIGKILL)
    for _ in range(2):
        assert sampled(pool, tasks) == expected(tasks)
    assert "without worker processes" in caplog.text


_PARENT = """
import time
from pathlib import Path
from translate.data import subword_sampling
subword_sampling._MIN_LINES_OF_POOL = 0
pool = subword_sampling.SamplingPool(num_processes=2)
task = subword_sampling.SamplingTask(Path({model!r}).read_bytes(), ["abc cab"], 1, 0.3)
list(pool.sample([task] * 7, num_lines=7, check=lambda: None))
print(*pool._executor._processes, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_process_that_started_them(tokenizer: Tokenizer, tmp_path: Path, number: int) -> None:
    (tmp_path / "a.model").write_bytes(tokenizer.model_bytes)
    program = _PARENT.format(model=str(tmp_path / "a.model"))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        processes = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(number)
    assert 1 <= len(processes) <= 2 and all(map(ends, processes))


def test_workers_import_nothing_heavy() -> None:
    program = (
        "import sys, translate.data.subword_sampling;assert not {'torch', 'datasets', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
