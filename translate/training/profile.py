"""Where the time of a training goes: torch's profiler records some steps, as a trace, a table and a few lines."""

import gzip
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, schedule

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Names of `record_function` ranges.
FORWARD = "forward"  # with the loss
WAITING_FOR_DATA = "waiting for data"  # on the thread of the training loop
VALIDATION_AND_SAVING = "validation and saving"  # its time is no part of the steps

_WARMUP_STEPS, _STEPS = 10, 10
_DISCARDED_STEPS = 2  # the last of the warm-up: a profiler's first steps are slowed down by its own preparations
_TABLE_ROWS = 30
# The parts of a step, and the beginning of their events' names; torch itself names the backward pass and the update.
_PARTS = {"forward": FORWARD, "backward": "autograd::engine::evaluate_function", "update": "Optimizer.step#"}


def profile_steps(
    steps: Iterator[T], directory: Path, *, device: torch.device, after_step: int, leave_out: Callable[[float], None]
) -> Iterator[T]:
    """The same steps, some of them recorded while they are done; only their time changes.

    Args:
        directory: Receives `trace.json.gz`, for Perfetto or chrome://tracing, and `time.txt`, in place of older ones.
        device: The model's device.
        after_step: The number of the last step before these.
        leave_out: Receives the seconds that it took to write the profile.
    """
    first = after_step + _WARMUP_STEPS + 1
    logger.info("Profiling steps %d to %d after a warm-up of %d steps", first, first + _STEPS - 1, _WARMUP_STEPS)
    yield from islice(steps, _WARMUP_STEPS - _DISCARDED_STEPS)
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler writes to stderr when it begins and ends
    num_recorded = -_DISCARDED_STEPS
    with profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])],
        schedule=schedule(wait=0, warmup=_DISCARDED_STEPS, active=_STEPS, repeat=1),
        experimental_config=_ExperimentalConfig(profile_all_threads=True),  # else it sees the loop's thread alone
    ) as profiler:
        for step in islice(steps, _DISCARDED_STEPS + _STEPS):
            yield step
            profiler.step()
            num_recorded += 1
    if num_recorded <= 0:
        logger.info("No profile: the training ended before step %d", first)
        return
    began = time.perf_counter()
    _write(profiler, directory, first=first, num_steps=num_recorded, device=device)
    del profiler  # and with it all that it has recorded
    leave_out(time.perf_counter() - began)
    yield from steps


def summarize(events: Sequence[FunctionEvent], *, num_steps: int, device: torch.device) -> str:
    """The time of a step and of its parts, a line each, most first.

    Times of threads that compute at once are averaged, so that all parts are time on the clock. On CUDA the time of
    the kernels counts.

    Args:
        num_steps: The recorded steps that were completed.
    """
    events = [event for event in events if event.device_type.name == "CPU" and not event.is_async]
    steps = sorted((e.time_range for e in events if e.name.startswith("ProfilerStep")), key=lambda range: range.start)
    begin, end = steps[0].start, steps[num_steps - 1].end
    events = [event for event in events if begin <= event.time_range.start < end]
    left_out = [event.time_range for event in events if event.name == VALIDATION_AND_SAVING]
    events = [e for e in events if not any(out.start < e.time_range.start < out.end for out in left_out)]
    microseconds = end - begin - sum(e.time_range.elapsed_us() for e in events if e.name == VALIDATION_AND_SAVING)

    parts = {WAITING_FOR_DATA: sum(e.time_range.elapsed_us() for e in events if e.name == WAITING_FOR_DATA)}
    for part, name in _PARTS.items():
        found = [event for event in events if event.name.startswith(name)]
        if device.type == "cuda":
            parts[part] = sum(child.device_time_total for event in found for child in event.cpu_children)
        else:
            parts[part] = sum(e.time_range.elapsed_us() for e in found) / max(1, len({e.thread for e in found}))
    parts["the rest"] = max(0.0, microseconds - sum(parts.values()))
    lines = [f"{microseconds / num_steps / 1000:.1f} ms a step"]
    for part, time_of_part in sorted(parts.items(), key=lambda item: -item[1]):
        lines.append(f"  {time_of_part / microseconds:6.1%}{time_of_part / num_steps / 1000:8.2f} ms  {part}")
    return "\n".join(lines)


def _write(profiler: profile, directory: Path, *, first: int, num_steps: int, device: torch.device) -> None:
    trace, text = directory / "trace.json.gz", directory / "time.txt"
    times = summarize(profiler.events(), num_steps=num_steps, device=device)
    summary = f"Steps {first} to {first + num_steps - 1}: {times}"
    sort_by = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    table = profiler.key_averages().table(sort_by=sort_by, row_limit=_TABLE_ROWS)
    try:
        directory.mkdir(exist_ok=True)
        text.write_text(f"{summary}\n\n{table}\n", encoding="utf-8")
        uncompressed = trace.with_suffix("")
        profiler.export_chrome_trace(str(uncompressed))  # torch's own compression copies the trace line by line
        with uncompressed.open("rb") as events, gzip.open(trace, "wb", compresslevel=5) as packed:
            shutil.copyfileobj(events, packed)
        uncompressed.unlink()
    except OSError as error:  # does not stop the training
        logger.warning("The profile cannot be written: %s", error)
        return
    logger.info("%s\nMore in %s; %s is for https://ui.perfetto.dev", summary, text, trace)
