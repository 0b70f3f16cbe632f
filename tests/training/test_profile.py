"""The table of a profile against work whose kind and amount the test knows; and a training that it does not change."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from translate.config import Config
from translate.model.dropout import Dropout
from translate.training import profiling, train
from translate.training.pace import WAITING
from translate.training.profile_table import OUTSIDE, ProfileTable, tabulate
from translate.training.profiling import StepProfile

Digits = Callable[..., Config]
StateOf = Callable[[Path], Any]
_STEPS = 10


def profiled(work: Callable[[], object], tmp_path: Path) -> ProfileTable:
    """The table of `_STEPS` times that work."""
    tables: list[ProfileTable] = []
    profile = StepProfile(tmp_path, device=torch.device("cpu"), say=lambda text: None)
    profile._write = lambda profiler, **_: tables.append(  # type: ignore[method-assign]
        tabulate(profiler.events(), num_steps=_STEPS, device="cpu")
    )
    for _ in profile.watched(iter(range(10 + _STEPS)), after_step=0, leave_out=lambda seconds: None):
        work()
    return tables[0]


def test_all_threads_that_compute_are_in_it_and_no_other(tmp_path: Path) -> None:
    left, right = torch.randn(67, 71), torch.randn(71, 73)
    wide = torch.randn(500_000)
    both = threading.Barrier(2)
    alone: list[float] = []  # seconds that the loop's own thread computes while the others have nothing to do

    def piece(_: int) -> None:
        both.wait()  # so that each thread has one
        for _ in range(5):
            left @ right

    def batches() -> None:
        torch.randn(1000).clone()

    with ThreadPoolExecutor(2) as computing, ThreadPoolExecutor(1) as preparing:

        def step() -> None:
            with torch.profiler.record_function(WAITING):
                time.sleep(0.004)
                torch.zeros(7) @ torch.zeros(7, 3)  # done while it is waited for
            preparing.submit(batches).result()
            list(computing.map(piece, range(2)))
            began = time.perf_counter()
            wide.tanh()
            alone.append(time.perf_counter() - began)
            with torch.profiler.record_function(OUTSIDE):
                time.sleep(0.02)
                with torch.profiler.record_function(OUTSIDE):
                    left @ right

        table = profiled(step, tmp_path)
    calls = {operator.name: operator.calls for operator in table.operators}
    assert calls["aten::mm"] == 2 * 5 * _STEPS
    assert "aten::clone" not in calls and "aten::zeros" not in calls
    assert table.num_threads == 2
    (tanh,) = (operator for operator in table.operators if operator.name == "aten::tanh")
    assert 0.7 * sum(alone[-_STEPS:]) < tanh.seconds <= sum(alone[-_STEPS:])
    assert table.groups[WAITING] >= 0.004 * _STEPS
    assert sum(table.groups.values()) == pytest.approx(table.seconds)
    assert "Python, and threads waiting for each other" in table.groups


def test_what_is_outside_takes_no_time(tmp_path: Path) -> None:
    def step() -> None:
        with torch.profiler.record_function(OUTSIDE):
            time.sleep(0.05)

    assert profiled(step, tmp_path).seconds < 0.05 * _STEPS / 2


_hidden = torch.randn(5, 7, 11, requires_grad=True)
_targets = torch.tensor([1, 2, 3])


@pytest.mark.parametrize(
    "work, operator, group",
    [
        (lambda: F.linear(_hidden, torch.randn(13, 11)), "aten::mm", "matrix products"),
        (lambda: _hidden @ _hidden.transpose(1, 2), "aten::bmm", "attention"),
        (lambda: _hidden.softmax(-1).sum().backward(), "aten::_softmax_backward_data", "attention"),
        (lambda: Dropout(0.5)(_hidden).sum().backward(), "_Dropped", "dropout"),
        (lambda: Dropout(0.5)(_hidden).sum().backward(), "aten::mul_", "dropout"),
        (lambda: F.dropout(_hidden, 0.5), "aten::bernoulli_", "dropout"),
        (lambda: F.cross_entropy(_hidden[0, :3], _targets).backward(), "aten::_log_softmax_backward_data", "loss"),
        (lambda: F.layer_norm(_hidden, (11,)), "aten::native_layer_norm", "norms, activations"),
        (lambda: F.relu(_hidden).sum().backward(), "aten::threshold_backward", "norms, activations"),
        (lambda: _hidden.to(torch.bfloat16), "aten::copy_", "copies and casts"),
        (lambda: torch.zeros(3), "aten::zero_", "memory allocation"),
        (lambda: _hidden + 1, "aten::add", "other operators"),
    ],
)
def test_kinds_of_work(work: Callable[[], object], operator: str, group: str, tmp_path: Path) -> None:
    assert (operator, group) in {(each.name, each.group) for each in profiled(work, tmp_path).operators}


def test_what_the_optimizer_calls_is_its_own(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step() -> None:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    groups = {(operator.name, operator.group) for operator in profiled(step, tmp_path).operators}
    assert {("aten::addcdiv_", "optimizer"), ("aten::sqrt", "optimizer")} <= groups
    assert any(name.startswith("Optimizer.step#AdamW") and group == "optimizer" for name, group in groups)


def test_on_a_gpu_the_time_of_its_kernels_counts() -> None:
    def event(name: str, start: int, end: int, kernel: int = 0, **settings: Any) -> FunctionEvent:
        made = FunctionEvent(start, name, settings.pop("thread", 1), start, end, use_device="cuda", **settings)
        if kernel:
            made.append_kernel(f"kernel of {name}", 0, kernel)
        return made

    linear, product = event("aten::linear", 100, 140), event("aten::addmm", 110, 130, kernel=300)
    linear.append_cpu_child(product)
    product.set_cpu_parent(linear)
    events = [
        event("ProfilerStep*", 0, 1000),
        event(WAITING, 0, 60),
        linear,
        product,
        event("aten::mm", 150, 160, kernel=200, thread=2),  # autograd's thread for the device
        event("aten::_log_softmax", 170, 180, kernel=90),
        event("aten::copy_", 170, 180, kernel=50, thread=3),  # of a thread that gets batches ready
        event("kernel of aten::addmm", 150, 450, device_type=DeviceType.CUDA),  # the same 300 as it is on the GPU
    ]
    table = tabulate(events, num_steps=1, device="cuda")
    assert table.groups == pytest.approx(
        {"matrix products": 500e-6, "the GPU without work": 350e-6, "loss": 90e-6, WAITING: 60e-6}, abs=1e-12
    )
    assert list(table.groups)[:2] == ["matrix products", "the GPU without work"], "most first"
    assert table.seconds == pytest.approx(1e-3)
    assert table.short().startswith("1.0 ms a step, on the GPU\n   50.0%")


@pytest.fixture
def two_threads() -> Iterator[str]:
    """The override for them; afterwards torch has as many as before."""
    before = torch.get_num_threads()
    yield "training.threads=2"
    torch.set_num_threads(before)


@pytest.fixture
def four_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than a user's profile watches: to tabulate them takes most of the time."""
    monkeypatch.setattr(profiling, "_STEPS", 4)


def test_a_profile_changes_no_number(
    digits: Digits,
    tmp_path: Path,
    state_of: StateOf,
    two_threads: str,
    four_steps: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Validations, checkpoints and the border of an epoch fall among the steps that are watched.
    work = (
        "training.max_steps=15",
        "training.validate_every=13",
        "training.save_every=12",
        "training.batch_tokens=1100",
    )
    config = digits(*work, two_threads)
    for name, profile in (("plain", False), ("profiled", True)):
        train(config, tmp_path / name, resume=False, command=["test"], profile=profile, say=lambda text: None)
    assert state_of(tmp_path / "profiled") == state_of(tmp_path / "plain")
    assert not (tmp_path / "plain" / "profile").exists()
    folder = tmp_path / "profiled" / "profile"
    text = (folder / "time.txt").read_text(encoding="utf-8")
    assert text.startswith("steps 11 to 14: ") and ", 2 threads\n" in text and "aten::" in text
    said = capsys.readouterr().err
    assert "profiling steps 11 to 14, after 10 to warm up" in said
    for group in ("matrix products", "attention", "dropout", "loss", "optimizer", WAITING):
        assert f"  {group}\n" in text and f"  {group}\n" in said
    with gzip.open(folder / "trace.json.gz", "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = [event.get("name", "") for event in events]
    assert sum(name.startswith("ProfilerStep") for name in names) == 4
    assert sum(name.startswith("Optimizer.step") for name in names) == 2 * 4  # a part of each step by each worker


@pytest.mark.parametrize(
    "max_steps, told",
    [(9, "no profile: the training ended before step 11"), (10, "no profile: "), (13, "steps 11 to 13: ")],
)
def test_a_training_that_ends_before(
    digits: Digits, tmp_path: Path, capsys: pytest.CaptureFixture[str], max_steps: int, told: str
) -> None:
    config = digits(f"training.max_steps={max_steps}", "data.validation=null")
    train(config, tmp_path / "run", resume=False, command=["test"], profile=True, say=lambda text: None)
    assert told in capsys.readouterr().err
    assert (tmp_path / "run" / "profile" / "time.txt").exists() == (max_steps > 10)


def test_a_profile_that_cannot_be_written_stops_no_training(
    digits: Digits, tmp_path: Path, four_steps: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    train(digits("training.max_steps=2"), run, resume=False, command=["test"], say=lambda text: None)
    (run / "profile").write_text("in the way", encoding="utf-8")
    config = digits("training.max_steps=17")
    progress = train(config, run, resume=True, command=["test"], profile=True, say=lambda text: None)
    said = capsys.readouterr().err
    assert progress.step == 17
    assert "profiling steps 13 to 16" in said
    assert "the profile cannot be written: [Errno 17] File exists" in said
