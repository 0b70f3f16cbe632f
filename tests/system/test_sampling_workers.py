"""The worker processes of subword sampling: what they sample is what is sampled here, and they end in any case."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from translate.config.schema import TokenizerConfig
from translate.data import subword_sampling
from translate.data.subword_sampling import SamplingPool, sample_lines
from translate.data.tokenizer import Tokenizer, train_tokenizer
from translate.errors import RunError

pytestmark = pytest.mark.system
LINES = ["abc cab bca", "", "a\nb", "🦄 \u2028é", "abc" * 29]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["abc cab bca ab ca"] * 3, TokenizerConfig(vocab_size=266))


def has_ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def all_end(processes: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while not all(map(has_ended, processes)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return 1 <= len(processes) <= 2 and all(map(has_ended, processes))


def test_workers_sample_as_this_process_and_end_with_their_pool(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subword_sampling, "_MIN_LINES_OF_POOL", 0)
    pool, killed = SamplingPool(num_processes=2), SamplingPool(num_processes=2)
    tasks = [partial(sample_lines, tokenizer.model_bytes, LINES, amount=0.3, seed=seed) for seed in range(5)]
    samples = [task().ids.tolist() for task in tasks]

    def check(pool: SamplingPool) -> list[int]:
        found = [chunk.ids.tolist() for chunk in pool.run(tasks, num_lines=9, check=lambda: None)]
        assert found == samples
        return [] if pool._executor is None else list(pool._executor._processes)

    for process in check(killed):
        os.kill(process, signal.SIGKILL)
    with pytest.raises(RunError, match="--resume"):
        check(killed)
    check(pool)
    processes = check(pool)
    assert not any(map(has_ended, processes))
    del pool
    assert all_end(processes)


_PARENT = """
import time
from functools import partial
from pathlib import Path
from translate.data import subword_sampling
subword_sampling._MIN_LINES_OF_POOL = 0
pool = subword_sampling.SamplingPool(num_processes=2)
task = partial(subword_sampling.sample_lines, Path({model!r}).read_bytes(), ["abc cab"], amount=0.3, seed=1)
list(pool.run([task] * 7, num_lines=7, check=lambda: None))
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
    assert all_end(processes)


def test_workers_import_nothing_heavy() -> None:
    program = "import sys, translate.data.subword_sampling; assert not {'torch', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
