"""Commands in processes that can be killed; PyTorch is imported once for all of them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import write_digits

# A child of this process is one `translate` command, as a shell would start it, two seconds of imports later.
_SERVER = """
import json, os, signal, sys
import torch._dynamo  # which torch.optim loads
import translate.cli, translate.data.corpora, translate.training

for line in sys.stdin:
    arguments, log, first = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` may have ignored it
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        sys.argv = ["translate", *arguments]
        exec(first)
        translate.cli.main()
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

# Everything that has a state, and checkpoints at every step.
_STATEFUL = (
    "tokenizer.subword_sampling=0.1", "model.attention_dropout=0.1", "model.activation_dropout=0.1",
    "training.accumulate_batches=2", "training.ema_decay=0.9", "training.patience=50", "training.threads=1",
    "training.validate_every=5", "training.save_every=1", "training.log_every=3",
)  # fmt: skip


class Trainings:
    """Starts `translate train` on the digits, with every part that has a state: one process at a time."""

    def __init__(self, server: "subprocess.Popen[str]", directory: Path) -> None:
        self._server = server
        self._process: int | None = None  # the running one
        self.directory = directory
        self.log = directory / "log"
        self.config = write_digits(directory, *_STATEFUL)

    def arguments(self, run: Path, *overrides: str, resume: bool = False) -> list[str]:
        """The command line after `translate`."""
        config = [str(self.directory / "digits.yaml"), *_STATEFUL, *overrides]
        return ["train", *config, "--run", str(run), *(["--resume"] if resume else [])]

    def start(self, arguments: list[str], *, first: str = "") -> int:
        """Start a command and return its process id; its output goes to the file `log`.

        Args:
            first: Python code that the process runs before the command.
        """
        self.log.write_text("", encoding="utf-8")
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps([arguments, str(self.log), first]) + "\n")
        self._server.stdin.flush()
        process = self._answer()
        assert process > 1, "a stale answer of an earlier test; killing it would kill all processes"
        self._process = process
        return process

    def wait(self) -> int:
        """Wait for its exit code, which is negative after a signal."""
        code = self._answer()
        self._process = None
        return code

    def end(self) -> None:
        """Kill what a failed test left running, and read the server's answer about it."""
        if self._process is not None:
            os.kill(self._process, signal.SIGKILL)
            self.wait()

    def run(self, run: Path, *overrides: str, resume: bool = False) -> str:
        """Run a training that must succeed, and return its output."""
        return self.command(*self.arguments(run, *overrides, resume=resume))

    def command(self, *arguments: str) -> str:
        """Run any command that must succeed, and return its output."""
        self.start(list(arguments))
        code = self.wait()
        said = self.log.read_text(encoding="utf-8")
        assert code == 0, said
        return said

    def _answer(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())


@pytest.fixture(scope="session")
def server() -> Iterator["subprocess.Popen[str]"]:
    """The process whose children are the trainings."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _SERVER]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, encoding="utf-8", env=environment) as process:
        yield process
        process.send_signal(signal.SIGKILL)


@pytest.fixture
def trainings(server: "subprocess.Popen[str]", tmp_path: Path) -> Iterator[Trainings]:
    """Trainings with their files in the test's directory."""
    made = Trainings(server, tmp_path)
    yield made
    made.end()
