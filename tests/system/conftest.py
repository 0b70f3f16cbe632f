"""Commands in processes that can be killed, alone or several as torchrun starts them.

PyTorch is imported once for all of them.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from harness import write_digits

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

COMMAND_LINE = "import translate.cli; translate.cli.main()"

# Everything that has a state, and checkpoints at every step.
_STATEFUL = (
    "tokenizer.subword_sampling=0.1", "model.attention_dropout=0.1", "model.activation_dropout=0.1",
    "training.accumulate_batches=2", "training.ema_decay=0.9", "training.patience=50", "training.threads=1",
    "training.validate_every=5", "training.save_every=1", "training.log_every=3",
)  # fmt: skip


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
        # Its port is given to no other program while it is bound, but rank 0 may listen there: both reuse addresses.
        self._address = socket.socket()
        self._address.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._address.bind(("127.0.0.1", 0))
        self.port = str(self._address.getsockname()[1])
        self.logs: list[Path] = []
        self.processes: list[int] = []

    def start(self, size: int, python: str, arguments: Sequence[str] = ()) -> None:
        """Start a world; `processes` are their ids and `logs` what they say, by rank."""
        shared = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
        environments = [
            {**shared, "MASTER_PORT": self.port, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)
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
        self._address.close()

    def _answer(self) -> list[int]:
        assert self._server.stdout is not None
        numbers: list[int] = json.loads(self._server.stdout.readline())
        return numbers


class Trainings:
    """Starts `translate train` on the digits, with every part that has a state: one process at a time."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._processes, self.directory = processes, directory
        self.config = write_digits(directory, *_STATEFUL)

    @property
    def log(self) -> Path:
        """What the last process has printed."""
        return self._processes.logs[0]

    def arguments(self, run: Path, *overrides: str, resume: bool = False) -> list[str]:
        """The command line after `translate`."""
        config = [str(self.directory / "digits.yaml"), *_STATEFUL, *overrides]
        return ["train", *config, "--run", str(run), *(["--resume"] if resume else [])]

    def start(self, arguments: list[str], *, first: str = "") -> int:
        """Start a command and return its process id.

        Args:
            first: Python code that the process runs before the command.
        """
        self._processes.start(1, f"{first}\n{COMMAND_LINE}", arguments)
        return self._processes.processes[0]

    def wait(self) -> int:
        """Wait for its exit code, which is negative after a signal."""
        return self._processes.wait()[0].code

    def run(self, run: Path, *overrides: str, resume: bool = False) -> str:
        """Run a training that must succeed, and return its output."""
        return self.command(*self.arguments(run, *overrides, resume=resume))

    def command(self, *arguments: str) -> str:
        """Run any command that must succeed, and return its output."""
        ((code, said),) = self._processes.run(1, COMMAND_LINE, arguments)
        assert code == 0, said
        return said


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


class Job:
    """Processes that torchrun itself starts; what they print goes to a file."""

    def __init__(self, log: Path, options: list[str], arguments: list[str], num_processes: int) -> None:
        self.log = log
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_processes), *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "-m", "--", "translate", *arguments], stdout=output, stderr=output, env=environment
            )

    @property
    def said(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_until_said(self, text: str) -> None:
        """Until the log contains this text."""
        while text not in self.said:
            assert self.process.poll() is None, self.said
            time.sleep(0.05)

    def kill(self, *, rank: int) -> None:
        """Kill one of its two processes, as if memory were out."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        environments = {child: Path(f"/proc/{child}/environ").read_bytes().split(b"\0") for child in children}
        (found,) = [child for child, environment in environments.items() if f"RANK={rank}".encode() in environment]
        os.kill(int(found), signal.SIGKILL)


@pytest.fixture
def torchrun(server: Processes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Job]]:
    """A function that starts torchrun, with options of its own, on a `translate` command."""
    folder, jobs = tmp_path_factory.mktemp("torchrun"), list[Job]()

    def start(*options: str, arguments: list[str], num_processes: int = 2) -> Job:
        jobs.append(Job(folder / str(len(jobs)), ["--master-port", server.port, *options], arguments, num_processes))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.terminate()  # it ends its own
        job.process.wait()


@pytest.fixture
def trainings(processes: Processes, tmp_path: Path) -> Trainings:
    """Trainings with their files in the test's directory."""
    return Trainings(processes, tmp_path)
