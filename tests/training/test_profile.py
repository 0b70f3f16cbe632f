"""A profile's summary against work whose kind and amount the test knows; and a training that it does not change."""

import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import record_function

from translate.config.schema import Config
from translate.training import profile as module
from translate.training import train
from translate.training.profile import (
    FORWARD,
    VALIDATION_AND_SAVING,
    WAITING_FOR_DATA,
    profile_steps,
    summarize,
)

Digits = Callable[..., Config]
StateOf = Callable[[Path], Any]
CPU = torch.device("cpu")
_STEPS = 10


def profiled(work: Callable[[], object], folder: Path) -> str:
    """The text of a profile of ten times that work."""
    for _ in profile_steps(iter(range(10 + _STEPS)), folder, device=CPU, after_step=0, leave_out=lambda seconds: None):
        work()
    return (folder / "time.txt").read_text(encoding="utf-8")


def milliseconds(text: str) -> dict[str, float]:
    """The parts of a summary."""
    found = re.findall(r"^ +[\d.]+%\s+([\d.]+) ms  ([a-z ]+)$", text, flags=re.MULTILINE)
    return {part: float(time_of_part) for time_of_part, part in found}


def test_parts_of_a_step(tmp_path: Path) -> None:
    """Two threads that compute at once count as one; other threads, and what is outside of the steps, do not count."""
    weights = nn.Linear(67, 71)
    optimizer = torch.optim.AdamW(weights.parameters())
    both = threading.Barrier(2)

    def compute(_: int) -> None:
        both.wait()  # so that each thread has one
        with record_function(FORWARD):
            time.sleep(0.006)
            loss = weights(torch.ones(3, 67)).sum()
        loss.backward()

    with ThreadPoolExecutor(2) as computing, ThreadPoolExecutor(1) as preparing:

        def step() -> None:
            with record_function(WAITING_FOR_DATA):
                time.sleep(0.003)
            list(computing.map(compute, range(2)))
            optimizer.step()
            time.sleep(0.002)
            preparing.submit(torch.zeros, 3).result()
            with record_function(VALIDATION_AND_SAVING):
                time.sleep(0.03)
                with record_function(VALIDATION_AND_SAVING), record_function(FORWARD):
                    time.sleep(0.01)

        text = profiled(step, tmp_path)
    parts = milliseconds(text)
    assert set(parts) == {"forward", "backward", "update", WAITING_FOR_DATA, "the rest"}
    assert 6 <= parts["forward"] < 10 and 3 <= parts[WAITING_FOR_DATA] < 6 and parts["the rest"] >= 2
    assert parts["backward"] > 0 and parts["update"] > 0
    first, total = text.splitlines()[0].rsplit(": ", 1)
    assert first == "Steps 11 to 20"
    assert sum(parts.values()) == pytest.approx(float(total.removesuffix(" ms a step")), abs=0.1)
    assert list(parts.values()) == sorted(parts.values(), reverse=True)
    assert "aten::addmm" in text and "Self CPU" in text  # torch's own table


def test_on_cuda_the_time_of_kernels_counts() -> None:
    def event(name: str, start: int, end: int, kernel: int = 0, **settings: Any) -> FunctionEvent:
        made = FunctionEvent(start, name, settings.pop("thread", 1), start, end, use_device="cuda", **settings)
        if kernel:
            made.append_kernel(f"kernel of {name}", 0, kernel)
        return made

    forward, product = event(FORWARD, 100, 140, kernel=950), event("aten::addmm", 110, 130, kernel=300)
    backward, gradient = (
        event("autograd::engine::evaluate_function: A", 150, 160, thread=2),
        event("aten::mm", 150, 160),
    )
    gradient.append_kernel("kernel of aten::mm", 0, 500)
    forward.append_cpu_child(product)
    backward.append_cpu_child(gradient)
    events = [
        event("ProfilerStep*", 0, 1000),
        event(WAITING_FOR_DATA, 0, 60),
        forward,  # the GPU has a range of the same name, from its first kernel to its last
        product,
        backward,
        gradient,
        event("kernel of aten::addmm", 150, 450, device_type=DeviceType.CUDA),  # the same 300 as it is on the GPU
    ]
    summary = summarize(events, num_steps=1, device=torch.device("cuda"))
    assert summary.splitlines() == [
        "1.0 ms a step",
        "   50.0%    0.50 ms  backward",
        "   30.0%    0.30 ms  forward",
        "   14.0%    0.14 ms  the rest",
        "    6.0%    0.06 ms  waiting for data",
        "    0.0%    0.00 ms  update",
    ]


@pytest.fixture
def two_threads() -> Iterator[str]:
    """The override for them; afterwards torch has as many as before."""
    before = torch.get_num_threads()
    yield "training.threads=2"
    torch.set_num_threads(before)


@pytest.fixture
def four_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than a user's profile watches: to tabulate them takes most of the time."""
    monkeypatch.setattr(module, "_STEPS", 4)


def test_a_profile_changes_no_number(
    digits: Digits,
    tmp_path: Path,
    state_of: StateOf,
    two_threads: str,
    four_steps: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "translate")
    # Validations, checkpoints and the border of an epoch fall among the steps that are watched.
    work = (
        "training.max_steps=15",
        "training.validate_every=13",
        "training.save_every=12",
        "training.batch_tokens=1100",
    )
    config = digits(*work, two_threads)
    for name, profile in (("plain", False), ("profiled", True)):
        train(config, tmp_path / name, resume=False, command=["test"], profile=profile)
    assert state_of(tmp_path / "profiled") == state_of(tmp_path / "plain")
    assert not (tmp_path / "plain" / "profile").exists()
    folder = tmp_path / "profiled" / "profile"
    text = (folder / "time.txt").read_text(encoding="utf-8")
    assert text.startswith("Steps 11 to 14: ") and "aten::" in text
    assert "Profiling steps 11 to 14 after" in caplog.text
    parts = milliseconds(text)
    assert min(parts[part] for part in ("forward", "backward", "update", WAITING_FOR_DATA)) > 0
    assert milliseconds(caplog.text) == parts
    with gzip.open(folder / "trace.json.gz", "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = [event.get("name", "") for event in events]
    assert sum(name.startswith("ProfilerStep") for name in names) == 4
    assert sum(name.startswith("Optimizer.step") for name in names) == 2 * 4  # a part of each step by each worker


@pytest.mark.parametrize(
    "max_steps, message",
    [(9, "No profile: the training ended before step 11"), (10, "No profile: "), (13, "Steps 11 to 13: ")],
)
def test_a_training_that_ends_before(
    digits: Digits, tmp_path: Path, caplog: pytest.LogCaptureFixture, max_steps: int, message: str
) -> None:
    caplog.set_level("INFO", "translate")
    config = digits(f"training.max_steps={max_steps}", "data.validation=null")
    train(config, tmp_path / "run", resume=False, command=["test"], profile=True)
    assert message in caplog.text
    assert (tmp_path / "run" / "profile" / "time.txt").exists() == (max_steps > 10)


def test_a_profile_that_cannot_be_written_stops_no_training(
    digits: Digits, tmp_path: Path, four_steps: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    run = tmp_path / "run"
    train(digits("training.max_steps=2"), run, resume=False, command=["test"])
    (run / "profile").write_text("in the way", encoding="utf-8")
    config = digits("training.max_steps=17")
    progress = train(config, run, resume=True, command=["test"], profile=True)
    assert progress.step == 17
    assert "Profiling steps 13 to 16" in caplog.text
    assert "The profile cannot be written: [Errno 17] File exists" in caplog.text
