"""Several processes that find each other as those of torchrun do; PyTorch is imported once for all of them."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from harness import write_digits, write_reversed_digits

# Its children run a text of Python each, in an environment and with a log of their own.
_SERVER = """
import atexit, json, os, signal, sys, traceback
import torch._dynamo, torch.distributed.fsdp  # which a training would load, some seconds long
import translate.cli, translate.data.corpora, translate.training

for line in sys.stdin:
    python, environments, logs, arguments = json.loads(line)
    children = []
    for environment, log in zip(environments, logs):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(descriptor, stream)
            os.environ.update(environment)
            sys.argv = ["translate", *arguments]
            code = 1
            try:
                exec(python, {"__name__": "__main__"})
                code = 0
            except SystemExit as end:
                code = end.code or 0
            except BaseException:
                traceback.print_exc()
            finally:  # without the seconds in which Python takes PyTorch apart
                atexit._run_exitfuncs()
                sys.stdout.flush(), sys.stderr.flush()
                os._exit(code)
        children.append(child)
    print(json.dumps(children), flush=True)
    codes = {}
    while len(codes) < len(children):
        child, status = os.waitpid(-1, 0)
        codes[child] = os.waitstatus_to_exitcode(status)
        if codes[child] != 0:  # as torchrun does: if one fails, the others are ended
            for other in children:
                if other not in codes:
                    os.kill(other, signal.SIGTERM)
    print(json.dumps([codes[child] for child in children]), flush=True)
"""


# Adam makes noise of a zero gradient as large as any other, unless its epsilon is large.
_SETTINGS = (
    *("tokenizer.subword_sampling=0.1", "training.batch_tokens=1600", "training.validate_every=5"),
    *("training.log_every=3", "training.ema_decay=0.9", "training.max_gradient_norm=0.5", "training.adam_epsilon=1e-4"),
)


class Ended(NamedTuple):
    """What became of one process."""

    code: int
    said: str


class Processes:
    """Starts worlds of processes, one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER], stdin=-1, stdout=-1, text=True, encoding="utf-8", env=environment
        )
        self.logs: list[Path] = []
        self.processes: list[int] = []

    def start(self, size: int, python: str, arguments: Sequence[str] = ()) -> None:
        """Start a world; `processes` are their ids and `logs` what they say, by rank."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
        environments = [
            {**shared, "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)
        ]
        if size == 1:
            environments = [{}]
        self.logs = [self._directory / f"log-{rank}" for rank in range(size)]
        assert self._server.stdin is not None
        request = [python, environments, [str(log) for log in self.logs], list(arguments)]
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        self.processes = self._answer()

    def wait(self) -> list[Ended]:
        """What became of them, by rank, when all have ended."""
        codes = self._answer()
        self.processes = []
        return [Ended(code, log.read_text(encoding="utf-8")) for code, log in zip(codes, self.logs, strict=True)]

    def run(self, size: int, python: str, arguments: Sequence[str] = ()) -> list[Ended]:
        """Start a world, and wait until it has ended."""
        self.start(size, python, arguments)
        return self.wait()

    def kill(self) -> None:
        """Kill what still runs."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        """End the server."""
        self._server.kill()
        self._server.communicate()

    def _answer(self) -> list[int]:
        assert self._server.stdout is not None
        numbers: list[int] = json.loads(self._server.stdout.readline())
        return numbers


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Starts worlds, for all tests."""
    processes = Processes(tmp_path_factory.mktemp("processes"))
    yield processes
    processes.close()


@pytest.fixture
def processes(server: Processes) -> Iterator[Processes]:
    """Starts worlds; what a test that failed has left running is killed."""
    yield server
    if server.processes:
        server.kill()


class Trainings:
    """Runs of `translate train` on a tiny task: digits, to be reversed."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._processes, self.directory = processes, directory
        write_digits(directory)
        write_reversed_digits(directory, "train", num_pairs=811, draw=random.Random(5))

    def arguments(self, run: str, *overrides: str, resume: bool = False) -> list[str]:
        """What follows `translate` on the command line."""
        config = str(self.directory / "digits.yaml")
        overrides = (*_SETTINGS, *(f"training.{override}" for override in overrides))
        return ["train", config, *overrides, "--run", str(self.directory / run), *(["--resume"] if resume else [])]

    def try_to(self, size: int, run: str, *overrides: str, resume: bool = False, first: str = "") -> list[Ended]:
        """A training by so many processes.

        Args:
            overrides: Of the settings of `training`.
            first: Python that each process runs before the command.
        """
        python = f"{first}\nimport translate.cli; translate.cli.main()"
        return self._processes.run(size, python, self.arguments(run, *overrides, resume=resume))

    def run(self, size: int, run: str, *overrides: str, resume: bool = False, first: str = "") -> str:
        """One that must succeed; what its first process says, which is all that is said."""
        ended = self.try_to(size, run, *overrides, resume=resume, first=first)
        assert [each.code for each in ended] == [0] * size, ended
        assert [each.said for each in ended[1:]] == [""] * (size - 1)
        return ended[0].said


@pytest.fixture
def trainings(processes: Processes, tmp_path: Path) -> Trainings:
    """Trainings with their files in the test's directory."""
    return Trainings(processes, tmp_path)
