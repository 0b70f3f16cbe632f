"""One training at a time in a run directory, by processes that are really two."""

import errno
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from translate.errors import InputError, RunError
from translate.runs.directory import check_holds_no_run, is_lock_file
from translate.runs.lock import lock_run

# A process that holds the lock as `hold_lock` does; it does not import torch, which takes seconds.
HOLDER = """
import os, platform, sys
from filelock import FileLock

with FileLock(sys.argv[1]):
    with open(sys.argv[1], "w") as file:
        file.write(f"lock of translate-nmt\\nprocess {os.getpid()} on {platform.node()}\\n")
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Holds the lock until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_lock_that_no_second_handle_may_use_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows refuses to read or write a locked file by another handle than the lock's."""

    def refuse(path: Path, *args: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        for name in ("open", "write_bytes"):
            patch.setattr(Path, name, refuse)
        with lock_run(tmp_path / "mine"):
            assert is_lock_file(tmp_path / "mine" / "lock")
            check_holds_no_run(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    run = tmp_path / "mine"
    run.mkdir()
    with other_process(run) as process:
        for _ in range(2):  # who is refused does not wipe out who holds it
            holder = f"process {process.pid} on {platform.node()}"
            with pytest.raises(InputError, match=f"^{run}: {holder} .*--run"), lock_run(run):
                pass
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -9
    for _ in range(2):  # an error inside frees it too
        with pytest.raises(KeyError), lock_run(run):
            assert (run / "lock").read_text().endswith(f"\nprocess {os.getpid()} on {platform.node()}\n")
            raise KeyError


def test_a_directory_made_for_the_lock_alone_goes_with_it(tmp_path: Path) -> None:
    with lock_run(tmp_path / "runs" / "new"):
        assert (tmp_path / "runs" / "new" / "lock").is_file()
    assert list((tmp_path / "runs").iterdir()) == []
    with lock_run(tmp_path / "runs" / "new"):
        (tmp_path / "runs" / "new" / "run.json").write_text("")
    assert {path.name for path in (tmp_path / "runs" / "new").iterdir()} == {"lock", "run.json"}


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("victim")
    for _ in range(2):
        with pytest.raises(RunError, match=f"^{tmp_path}/lock: is a link"), lock_run(tmp_path):
            pass
        (tmp_path / "victim").touch()
    assert (tmp_path / "victim").read_text() == ""


def test_a_lock_of_version_0_8_is_taken_in_a_run_alone(tmp_path: Path) -> None:
    """It has no mark, so anybody may have written it."""
    (tmp_path / "lock").write_text("process 5 on a machine\n")
    with pytest.raises(RunError, match="another program's file"), lock_run(tmp_path):
        pass
    (tmp_path / "run.json").touch()
    with lock_run(tmp_path):
        assert (tmp_path / "lock").read_text().startswith("lock of translate-nmt\n")
