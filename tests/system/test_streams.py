"""Standard streams, pipes, terminals and locales, for commands in processes of their own."""

import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from harness import in_order, succeed, write_reversed_digits

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")]

CONFIG = """\
data:
  train: [{kind: text, source: train.in, target: train.out}]
  validation: {kind: text, source: lines.in, target: lines.out}
tokenizer: {vocab_size: 300}
model: {d_model: 8, num_heads: 2, d_ff: 16, num_encoder_layers: 1, num_decoder_layers: 1}
training: {max_steps: 2, batch_tokens: 200, warmup_steps: 2, device: cpu, threads: 1}
decoding: {beam_size: 2, max_length_factor: 0.2, max_length_constant: 3, device: cpu}
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
ASCII = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
TERMINAL = {**ENVIRONMENT, "TERM": "vt100", "LC_ALL": "C.UTF-8", "INPUTRC": os.devnull}
COMMAND = [sys.executable, "-m", "translate"]
SHELL: dict[str, str] = {  # by row of docs/bad-input.md; $T is the command, $RUN a run, $TEXT a file of five lines
    "lines-stdin-closed": '$T tokenizer encode "$RUN" <&-',
    "lines-pipe": 'mkfifo pipe; cat "$TEXT" > pipe & $T decode "$RUN" pipe > out; test $(wc -l < out) = 5',
    "output-pipe-closed": '{ $T tokenizer encode "$RUN" "$TEXT"; echo $? >&3; } | true; exit $(cat code)',
    "output-full": '$T tokenizer encode "$RUN" "$TEXT" > /dev/full',
    "output-closed": '$T decode "$RUN" "$TEXT" >&-',
    "messages-full": '$T decode "$RUN" "$TEXT" 2> /dev/full > out; code=$?; test $(wc -l < out) = 5 && exit $code',
    "messages-closed": '$T decode "$RUN" "$TEXT" 2>&- > out; code=$?; test $(wc -l < out) = 5 && exit $code',
    "output-no-temporary": 'ulimit -f 0; $T decode "$RUN" "$TEXT" | { test $(wc -l) = 5; }',
    "directory-deleted": 'mkdir gone; cd gone; rmdir ../gone; $T verify "$RUN"',
    "name-bytes": """$T decode "$RUN" "$(printf 'x\\377')\"""",
    "name-bytes-ascii": """LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $T decode "$RUN" "$(printf 'x\\377')\"""",
    "name-escape": """$T decode "$RUN" "$(printf 'x\\033[2J')\"""",
    "errors-many": "$T config show demo $(for i in $(seq 2000); do echo model.k$i=1; done)",
}
SIGNALS = {"signal-terminate": signal.SIGTERM, "signal-hangup": signal.SIGHUP, "signal-interrupt": signal.SIGINT}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config, its corpora and its run."""
    folder = tmp_path_factory.mktemp("digits")
    for name, num_pairs in (("train", 97), ("lines", 5)):
        write_reversed_digits(folder, name, num_pairs=num_pairs, draw=random.Random(num_pairs))
    (folder / "digits.yaml").write_text(CONFIG, encoding="utf-8")
    translate("train", folder / "digits.yaml", "--run", folder / "run")
    return folder


def translate(*arguments: Any, stdin: bytes = b"") -> str:
    """Run a command in this process, and return its standard output."""
    return succeed(*arguments, stdin=stdin).stdout


@pytest.mark.parametrize("row_id", SHELL)
def test_streams(folder: Path, bad_input_rows: dict[str, Any], tmp_path: Path, row_id: str) -> None:
    if "/dev/full" in SHELL[row_id] and not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    row = bad_input_rows[row_id]
    names = {"T": " ".join(COMMAND), "RUN": str(folder / "run"), "TEXT": str(folder / "lines.in")}
    shell = ["sh", "-c", f"exec 3> code; {SHELL[row_id]}"]
    result = subprocess.run(shell, capture_output=True, text=True, cwd=tmp_path, env={**ENVIRONMENT, **names})
    assert result.returncode == row.exit_code, result.stderr
    assert all(words in result.stderr for words in row.words) and "Traceback" not in result.stderr
    assert row_id != "output-pipe-closed" or result.stderr == ""


@pytest.mark.parametrize("row_id", SIGNALS)
def test_a_signal_leaves_no_temporary_file(
    folder: Path, bad_input_rows: dict[str, Any], tmp_path: Path, row_id: str
) -> None:
    row, number = bad_input_rows[row_id], SIGNALS[row_id]
    command = [*COMMAND, "decode", folder / "run", "--output", tmp_path / "out"]
    # A signal may come before `open` has returned: nobody can close the file then, and Python is silent by default.
    silent = {**ENVIRONMENT, "PYTHONWARNINGS": "error,ignore::ResourceWarning"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=silent) as process:
        assert process.stdin is not None and process.stderr is not None
        while not list(tmp_path.glob(".translate-*.tmp")):  # as long as standard input is open
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        said = process.stderr.read().decode()
    assert process.returncode == row.exit_code == 128 + number
    assert said.startswith("translate: ") and row.words[0] in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("row_id", SIGNALS)
def test_a_signal_ends_the_program_of_a_score_and_removes_its_texts(
    bad_input_rows: dict[str, Any], tmp_path: Path, row_id: str
) -> None:
    """With the processes that it has started: one of them writes as long as it runs."""
    (tmp_path / "tmp").mkdir()
    beat = tmp_path / "beat"
    program = (
        "from translate.cli.terminal.process import run_command_line\n"
        "from translate.evaluation.programs import MetricProgram\n"
        f"command = \"sh -c '(while echo >> {beat}; do sleep 0.05; done) & wait' {{hypothesis}}\"\n"
        "program = MetricProgram.parse('slow=' + command, {})\n"
        "run_command_line(lambda prog_name: program.run(['a'], ['b'], ['c']))\n"
    )
    environment = {**ENVIRONMENT, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, env=environment) as process:
        while not beat.exists() or beat.stat().st_size < 10:  # the command waits for it, and no longer starts it
            assert process.poll() is None
            time.sleep(0.02)
        assert list(tmp_path.glob("tmp/*/hypothesis.txt"))
        process.send_signal(SIGNALS[row_id])
    assert process.returncode == bad_input_rows[row_id].exit_code
    assert list((tmp_path / "tmp").iterdir()) == []
    beats = beat.stat().st_size
    time.sleep(0.5)
    assert beat.stat().st_size == beats


def test_a_signal_is_never_lost() -> None:
    """Neither in a callback, whose exceptions Python prints and forgets, nor where a library catches all of them."""
    program = (
        "import os, signal\nfrom translate.cli.terminal.process import run_command_line\n"
        "def work(prog_name):\n"
        "    try: os.kill(os.getpid(), signal.SIGTERM); print('never')\n"
        "    except BaseException: print('never')\n"
        "run_command_line(work)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, env=ENVIRONMENT)
    assert (result.returncode, result.stdout, result.stderr) == (143, b"", b"translate: stopped by SIGTERM\n")


def test_a_crash_in_native_code_shows_what_python_was_doing() -> None:
    program = (
        "import signal; from translate.cli.terminal.process import run_command_line\n"
        "def multiply(prog_name): signal.raise_signal(signal.SIGSEGV)\n"
        "run_command_line(multiply)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT)
    assert result.returncode == -signal.SIGSEGV
    assert in_order(result.stderr, "Segmentation fault", "in multiply", "in run_command_line")


def test_a_result_is_escaped_on_a_terminal_alone(folder: Path) -> None:
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    command, text = [*COMMAND, "tokenizer", "decode", folder / "run"], b"<0x1B> <0x5B> <0x32> <0x4A>\n"
    result = subprocess.run(command, input=text, capture_output=True, env=ENVIRONMENT)
    assert (result.stdout, result.stderr) == (b"\x1b[2J\n", b"")
    ours, theirs = pty.openpty()
    subprocess.run(command, input=text, stdout=theirs, env=ENVIRONMENT, check=True)
    os.close(theirs)
    assert read_until(ours, b"\n") == rb"\x1b[2J" + b"\r\n"
    os.close(ours)


def test_output_is_utf_8_whatever_the_locale(folder: Path) -> None:
    text = "Ein Hund läuft. ☃\n".encode()
    for command in ("encode", "decode"):
        words = [*COMMAND, "tokenizer", command, folder / "run"]
        result = subprocess.run(words, input=text, capture_output=True, env=ASCII, check=True)
        assert result.stderr == b"" and (command == "decode" or "▁".encode() in result.stdout)
        text = result.stdout
    assert text == "Ein Hund läuft. ☃\n".encode()


def read_until(descriptor: int, end: bytes, *, seconds: float = 250.0) -> bytes:
    """Read what comes until it ends with these bytes, or until nothing comes for a long time."""
    seen = b""
    while not seen.endswith(end) and select.select([descriptor], [], [], seconds)[0]:
        seen += os.read(descriptor, 4096)
    return seen


@pytest.mark.timeout(300)  # other tests may keep the cores busy
def test_a_conversation_on_a_terminal(folder: Path) -> None:
    """Answers, a line brought back, one cancelled, and the end."""
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    command, lines = ["decode", folder / "run", "--min-length-constant", "2"], ["12345", "987"]
    answers = translate(*command, stdin="".join(f"{line}\n" for line in lines).encode()).splitlines()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *command], stdin=theirs, stdout=theirs, stderr=theirs, env=TERMINAL, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C interrupts it
    )  # fmt: skip
    os.close(theirs)

    def told(keys: bytes) -> list[str]:
        """What is printed before the next prompt, without the line's score."""
        os.write(ours, keys)
        return [line.partition("  ")[0] for line in read_until(ours, b"\n> ").decode().split("\r\n")[1:-1]]

    try:
        assert b"Ctrl-D ends.\r\n> " in read_until(ours, b"> ")
        assert [told(f"{line}\n".encode()) for line in lines] == [[answer] for answer in answers]
        assert told(b"\n") == []  # an empty line is not a question
        assert told(b"\x1b[A\x1b[A\n") == answers[:1]  # the line before the last
        os.write(ours, b"12")
        assert read_until(ours, b"12") == b"12"
        # A signal that comes before readline waits for the next key is seen only with that key.
        while "State:\tS" not in Path(f"/proc/{process.pid}/status").read_text():
            time.sleep(0.01)
        assert told(b"\x03") == []
        os.write(ours, b"\x04")
        assert b"3 lines, 0 empty, " in read_until(ours, b"maximum length\r\n")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
