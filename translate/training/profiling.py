"""Where the time of a training goes: some steps watched by torch's profiler, as a trace and as a table in words."""

import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, schedule

from translate.training.profile_table import tabulate

T = TypeVar("T")

_WARM_UP_STEPS, _STEPS = 10, 10
_RECORDED_IN_VAIN = 2  # of the warm-up: a profiler's first steps are slowed down by its own preparations


class StepProfile:
    """Watches some steps of a training, and changes nothing in them but the time that they take.

    Args:
        directory: Receives `trace.json.gz`, for Perfetto or chrome://tracing, and `time.txt`, in place of older ones.
        device: Of the model.
        say: Receives which steps are watched, and the table's short form.
    """

    def __init__(self, directory: Path, *, device: torch.device, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._device = device
        self._say = say

    def watched(self, steps: Iterator[T], *, after_step: int, leave_out: Callable[[float], None]) -> Iterator[T]:
        """The same, with some of them watched while they are done.

        Args:
            after_step: Number of the last step that is done already.
            leave_out: Receives the seconds that it took to write the profile.
        """
        first = after_step + _WARM_UP_STEPS + 1
        self._say(f"profiling steps {first} to {first + _STEPS - 1}, after {_WARM_UP_STEPS} to warm up")
        yield from islice(steps, _WARM_UP_STEPS - _RECORDED_IN_VAIN)
        profiler, done = self._profiler(), -_RECORDED_IN_VAIN
        with profiler:
            for step in islice(steps, _RECORDED_IN_VAIN + _STEPS):
                yield step
                profiler.step()
                done += 1
        if done <= 0:
            self._say(f"no profile: the training ended before step {first}")
            return
        began = time.perf_counter()
        self._write(profiler, first_step=first, num_steps=done)
        del profiler  # and with it all that it has recorded
        leave_out(time.perf_counter() - began)
        yield from steps

    def _profiler(self) -> profile:
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or it tells on stderr when it begins and ends
        activities = [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        return profile(
            activities=activities,
            schedule=schedule(wait=0, warmup=_RECORDED_IN_VAIN, active=_STEPS, repeat=1),
            experimental_config=_ExperimentalConfig(profile_all_threads=True),  # or it sees the loop's thread alone
        )

    def _write(self, profiler: profile, *, first_step: int, num_steps: int) -> None:
        steps = f"steps {first_step} to {first_step + num_steps - 1}"
        table = tabulate(profiler.events(), num_steps=num_steps, device=self._device.type)
        trace, text = self._directory / "trace.json.gz", self._directory / "time.txt"
        try:
            self._directory.mkdir(exist_ok=True)
            text.write_text(f"{steps}: {table}", encoding="utf-8")
            plain = trace.with_suffix("")
            profiler.export_chrome_trace(str(plain))  # to pack, it goes from line to line
            with plain.open("rb") as events, gzip.open(trace, "wb", compresslevel=5) as packed:
                shutil.copyfileobj(events, packed)
            plain.unlink()
        except OSError as error:
            self._say(f"the profile cannot be written: {error}")
            return
        self._say(f"{steps}: {table.short()}\nmore in {text}; {trace} is for https://ui.perfetto.dev")
