"""Commands in processes of their own, which can be killed; PyTorch is imported once for all of them."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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

_DIGITS = """
data:
  train: [{kind: text, source: train.in, target: train.out}]
  validation: {kind: text, source: validation.in, target: validation.out}
tokenizer: {vocab_size: 40, byte_fallback: false, subword_sampling: 0.1}
model:
  {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1, norm: pre,
   dropout: 0.1, attention_dropout: 0.1, activation_dropout: 0.1}
training:
  {max_steps: 12, batch_tokens: 300, accumulate_batches: 2, schedule: constant, learning_rate: 0.005, warmup_steps: 3,
   ema_decay: 0.9, patience: 50, precision: fp32, device: cpu, threads: 1,
   validate_every: 5, save_every: 1, log_every: 3, sample_translations: 1}
decoding: {beam_size: 2, max_length_factor: 1.0, max_length_constant: 3, device: cpu}
"""


class Trainings:
    """Starts `translate train` with a tiny task that has everything with a state on: one process at a time."""

    def __init__(self, server: "subprocess.Popen[str]", directory: Path, write_pairs: Callable[..., None]) -> None:
        self._server = server
        self._process: int | None = None  # that runs now
        self.directory = directory
        self.log = directory / "log"
        draw = random.Random(5)
        write_pairs(directory, "train", num_pairs=211, draw=draw)
        write_pairs(directory, "validation", num_pairs=13, draw=draw)
        (directory / "digits.yaml").write_text(_DIGITS, encoding="utf-8")

    def arguments(self, run: Path, *overrides: str, resume: bool = False) -> list[str]:
        """What follows `translate` on the command line."""
        config = str(self.directory / "digits.yaml")
        return ["train", config, *overrides, "--run", str(run), *(["--resume"] if resume else [])]

    def start(self, arguments: list[str], *, first: str = "") -> int:
        """Start one, and give its process id; what it says goes to the file `log`.

        Args:
            first: Python that the process runs before the command.
        """
        self.log.write_text("", encoding="utf-8")
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps([arguments, str(self.log), first]) + "\n")
        self._server.stdin.flush()
        process = self._answer()
        assert process > 1, "an answer that a test before has left: to kill it would be to kill all"
        self._process = process
        return process

    def wait(self) -> int:
        """Its exit code, once it has ended; negative: of a signal."""
        code = self._answer()
        self._process = None
        return code

    def end(self) -> None:
        """Kill what a test that failed has left running, and take the server's answer, which would be the next's."""
        if self._process is not None:
            os.kill(self._process, signal.SIGKILL)
            self.wait()

    def run(self, run: Path, *overrides: str, resume: bool = False) -> str:
        """A training from start to end, which must succeed; gives what it said."""
        return self.command(*self.arguments(run, *overrides, resume=resume))

    def command(self, *arguments: str) -> str:
        """Any command, likewise."""
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
def trainings(
    server: "subprocess.Popen[str]", tmp_path: Path, write_reversed_digits: Callable[..., None]
) -> Iterator[Trainings]:
    """Trainings with their files in the test's directory."""
    made = Trainings(server, tmp_path, write_reversed_digits)
    yield made
    made.end()
