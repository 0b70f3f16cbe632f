"""Where training time goes: torch's profiler records some steps as a trace and a table."""

import logging
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, schedule, supported_activities

from translate.atomic import write_text
from translate.errors import RunError
from translate.model.device import is_asynchronous

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Names of `record_function` ranges.
FORWARD = "forward"  # with the loss
WAITING_FOR_DATA = "waiting for data"  # on the thread of the training loop
VALIDATION_AND_SAVING = "validation and saving"  # not part of the steps' time

_WARMUP_STEPS, _STEPS = 10, 10
_DISCARDED_STEPS = 2  # at the end of the warm-up: a profiler slows its first steps down


def profile_steps(steps: Iterator[T], directory: Path, *, device: torch.device, after_step: int) -> Iterator[T]:
    """Yield the same steps, and record some of them; only their time changes.

    Args:
        directory: Receives `trace.json.gz`, for Perfetto or chrome://tracing, and `time.txt`, in place of older ones.
        after_step: The number of the last step before these.
    """
    first = after_step + _WARMUP_STEPS + 1
    logger.info("Profiling steps %d to %d after a warm-up of %d steps", first, first + _STEPS - 1, _WARMUP_STEPS)
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise the profiler writes to stderr at both ends
    with profile(
        activities=supported_activities() if is_asynchronous(device) else [ProfilerActivity.CPU],
        schedule=schedule(wait=_WARMUP_STEPS - _DISCARDED_STEPS, warmup=_DISCARDED_STEPS, active=_STEPS, repeat=1),
        experimental_config=_ExperimentalConfig(profile_all_threads=True),  # otherwise it only sees the loop's thread
    ) as profiler:
        for step in islice(steps, _WARMUP_STEPS + _STEPS):
            yield step
            profiler.step()
    last = after_step + profiler.step_num
    if last < first:
        logger.info("No profile: training ended before step %d", first)
        return
    trace, table = directory / "trace.json.gz", directory / "time.txt"
    sort_by = "self_device_time_total" if is_asynchronous(device) else "self_cpu_time_total"
    try:
        directory.mkdir(exist_ok=True)
        write_text(table, profiler.key_averages().table(sort_by=sort_by))
        profiler.export_chrome_trace(str(trace))
        logger.info("Profile of steps %d to %d: %s; %s is for https://ui.perfetto.dev", first, last, table, trace)
    except (OSError, RunError) as error:  # does not stop training
        logger.warning("The profile cannot be written: %s", error)
    del profiler  # and everything that it has recorded
    yield from steps
