"""Which process this is, and what several of them agree on; each test with processes that really talk to each other."""

import os
import re
import signal
from typing import Any

import pytest

_JOINED = """
import datetime, os, signal, sys, time
import typer
from translate.cli.terminal.process import ReportingGroup
from translate.errors import InputError, RunError
from translate.distributed.process_group import join_world

def fail(error):
    raise error

app = typer.Typer(cls=ReportingGroup, pretty_exceptions_enable=False)

@app.callback(invoke_without_command=True)
def work():
    with join_world({timeout}) as world:
{work}

app([])
"""


def in_world(python: str, *, timeout: str = "") -> str:
    """What each process runs: the lines, with `world` joined, and errors told as the command line does."""
    work = "\n".join(f"        {line}" for line in python.splitlines())
    return _JOINED.format(timeout=timeout, work=work)


def test_what_they_agree_on(processes: Any) -> None:
    ended = processes.run(
        3,
        in_world("""
assert world.all_gather(f"from {world.rank}") == ["from 0", "from 1", "from 2"]
assert world.max([5, 11, 7][world.rank]) == 11
assert world.run_on_rank_0(lambda: ("only", world.rank)) == ("only", 0)
assert world.run_on_rank_0(lambda: None) is None
assert world.run_on_all_ranks(lambda: world.rank) == world.rank
world.check_same_on_all_ranks({"a": "1"})
print(world.environment)"""),
    )
    assert [each.code for each in ended] == [0, 0, 0], ended
    assert [each.said.split(" (")[0] for each in ended] == [f"process {number} of 3" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "python, code, told",
    [
        (
            "world.run_on_rank_0(lambda: fail(InputError('the file is gone')))",
            2,
            ["translate: the file is gone\n", "", ""],
        ),
        (
            "world.run_on_all_ranks(lambda: fail(RunError('no memory')) if world.rank == 1 else 0)",
            1,
            ["", "translate: process 2 of 3 (on HOST): no memory\n", ""],
        ),
        (
            "world.run_on_all_ranks(lambda: fail(MemoryError('no room')) if world.rank == 1 else 0)",
            1,
            ["", "translate: out of memory (no room): lower settings, give less text, or use a larger machine\n", ""],
        ),
        (
            "world.check_same_on_all_ranks({'training.seed': str(world.rank // 2), 'torch': '2'})",
            2,
            [
                "translate: all processes must have the same settings, data and versions, but process 3 of 3 differs"
                " from the first one: training.seed = 1 (there it is 0). Start all with the same command\n",
                "",
                "",
            ],
        ),
    ],
)
def test_an_error_is_told_once(processes: Any, python: str, code: int, told: list[str]) -> None:
    ended = processes.run(3, in_world(python))
    host = os.uname().nodename
    assert [each.said.replace(f"(on {host})", "(on HOST)") for each in ended] == told
    assert all(each.code in (code, -signal.SIGTERM) for each in ended)  # who has spoken may be ended with the others


def test_nobody_waits_long_for_a_process_that_failed_and_does_not_end(processes: Any) -> None:
    soon = "from translate.distributed import process_group\n"
    soon += "process_group._PATIENCE_WITH_FAILED = process_group.datetime.timedelta(seconds=1)\n"
    python = """
try:
    world.run_on_rank_0(lambda: fail(InputError('the file is gone')))
finally:
    time.sleep(20 * (world.rank == 0))"""
    ended = processes.run(2, soon + in_world(python))
    assert [each.code for each in ended] == [-signal.SIGTERM, 2], ended


def test_a_process_that_dies_is_told_of(processes: Any) -> None:
    ended = processes.run(2, in_world("if world.rank == 0: os.kill(os.getpid(), signal.SIGKILL)\nworld.max(1)"))
    assert [each.code for each in ended] in ([-signal.SIGKILL, 1], [-signal.SIGKILL, -signal.SIGTERM])
    if ended[1].code == 1:  # it heard of it before it was ended
        assert ended[1].said.startswith("translate: process 2 of 2 (on ")
        assert "another process has ended or does not answer, and this one cannot continue alone" in ended[1].said
        assert "--resume" in ended[1].said and ended[1].said.count("\n") == 1


def test_processes_that_do_not_come(processes: Any) -> None:
    leave = "import os, sys\nos.environ['RANK'] == '1' and sys.exit()\n"
    ended = processes.run(2, leave + in_world("pass", timeout="timeout=datetime.timedelta(seconds=2)"))
    assert re.search(r"the processes did not come together at 127\.0\.0\.1:\d+ within 2 s", ended[0].said), ended
