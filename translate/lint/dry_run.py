"""A training tried out on a throw-away model: does its longest batch fit, how fast is it, how long will it take?"""

import contextlib
import gc
import itertools
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from translate.config.schema import Config
from translate.data.batching import Batch
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import Epoch
from translate.data.tokenizer import Tokenizers
from translate.decoding import Translator
from translate.errors import RunError
from translate.memory import release_free_memory
from translate.model import Transformer
from translate.training.optimizer import learning_rate
from translate.training.setup import setup_training
from translate.training.step import describe_shapes

_MAX_TIMED_STEPS = 30
_FEW_LINES, _SOME_LINES = 16, 200  # of validation
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_CLEAR_PEAK = "5"  # makes Linux forget the peak of the resident memory: man 5 proc


class BatchShape(NamedTuple):
    """The sizes of one batch, with special symbols and padding."""

    pairs: int
    source_tokens: int  # of the longest source
    target_tokens: int


class DryRun(NamedTuple):
    """What a dry run has measured."""

    device: str
    precision: str
    num_threads: int  # of the CPU
    num_parameters: int
    largest_batch: BatchShape  # of the batches tried, the one that needed the most memory
    peak_bytes: int | None  # weights, gradients, optimizer and activations together; None: cannot be measured here
    num_timed_steps: int
    target_tokens_per_second: float
    seconds_per_epoch: float
    seconds_per_validation: float | None  # None: no validation corpus


def dry_run(
    config: Config,
    epoch: Epoch,
    *,
    tokenizers: Tokenizers,
    validation: ParallelCorpus | None,
    device: torch.device,
    max_seconds: float = 10.0,
) -> DryRun:
    """Make real training steps on real batches, the longest first; the weights are thrown away.

    Args:
        epoch: The batches to try.
        validation: Some of its lines are translated, for the time of a validation.
        max_seconds: The time for measuring the speed; a step is never broken off.

    Raises:
        InputError: The settings ask for what this machine lacks.
        RunError: The training would fail: memory is short, or the loss is not finite.
    """
    memory = PeakMemory(device)
    train_step, numbers = setup_training(config, tokenizers, device=device), itertools.count(1)

    def step(batches: Sequence[Batch]) -> int:
        number = next(numbers)
        rate = learning_rate(number, config.training, d_model=config.model.d_model)
        result = train_step(batches, number=number, learning_rate=rate)
        train_step.check_last_step()
        return result.tokens

    step([epoch[0]])  # creates the optimizer's state
    tried: list[tuple[int, BatchShape]] = []
    for number in longest_batches(epoch):
        memory.restart()
        try:
            step([epoch[number]])
        except RunError as error:
            message = f"a training step on the longest batch ({describe_shapes([epoch[number]])}) fails: {error}"
            raise RunError(message) from error
        tried.append((memory.peak_bytes() or 0, BatchShape(*epoch.shapes[number].tolist())))
    peak_bytes, largest = max(tried, key=lambda each: each[0])
    size = config.training.accumulate_batches
    num_steps = math.ceil(len(epoch) / size)
    chosen = np.linspace(0, num_steps - 1, min(_MAX_TIMED_STEPS, num_steps)).astype(np.int64)  # all over the epoch
    np.random.Generator(np.random.PCG64(config.training.seed)).shuffle(chosen)
    num_timed, tokens, started = 0, 0, time.perf_counter()
    for number in chosen.tolist():
        tokens += step([epoch[batch] for batch in range(number * size, min((number + 1) * size, len(epoch)))])
        num_timed += 1
        if time.perf_counter() - started > max_seconds:
            break
    if device.type == "cuda":
        torch.cuda.synchronize()
    model, speed = train_step.model, tokens / (time.perf_counter() - started)
    return DryRun(
        device=str(device),
        precision=train_step.precision.name,
        num_threads=torch.get_num_threads(),
        num_parameters=model.num_parameters,
        largest_batch=largest,
        peak_bytes=peak_bytes or None,
        num_timed_steps=num_timed,
        target_tokens_per_second=speed,
        seconds_per_epoch=epoch.padding.num_target_tokens / speed,
        seconds_per_validation=None if validation is None else _time_validation(model, tokenizers, validation, config),
    )


def longest_batches(epoch: Epoch) -> list[int]:
    """The numbers of the batch with the longest sentence and of the one with the most tokens; often they are one.

    Attention needs the most memory for the first, the output layer for the second, and which of them needs more
    depends on the model.
    """
    pairs, sources, targets = epoch.shapes.T
    longest = int(np.lexsort((pairs, np.maximum(sources, targets)))[-1])
    fullest = int((pairs * (sources + targets)).argmax())
    return list(dict.fromkeys([longest, fullest]))


def _time_validation(model: Transformer, tokenizers: Tokenizers, validation: ParallelCorpus, config: Config) -> float:
    """About how long the whole validation corpus takes, from some of its lines.

    A new model does not know when to end, so its translations are limited to the references' mean length.
    """
    model.eval()
    seconds, num_lines = 0.0, 0
    for wanted in (_FEW_LINES, _SOME_LINES):
        num_lines = min(wanted, len(validation.sources))
        lines = [int(line) for line in np.linspace(0, len(validation.sources) - 1, num_lines)]
        sources = [validation.sources[line] for line in lines]
        target_ids = [tokenizers.target.encode(validation.targets[line]) for line in lines]
        num_source_tokens = sum(len(tokenizers.source.encode(source)) for source in sources)
        ratio = sum(map(len, target_ids)) / max(1, num_source_tokens)
        limits = {"max_length_factor": min(100.0, ratio), "max_length_constant": 1}
        limits |= {"min_length_factor": 0.0, "min_length_constant": 0}
        translator = Translator(model, tokenizers, config.decoding_settings().model_copy(update=limits))
        started = time.perf_counter()
        translator.score(sources, target_ids)
        translator.translate(sources)
        seconds = time.perf_counter() - started
        if seconds > 1.0 or num_lines == len(validation.sources):
            break
    model.train()
    return seconds * len(validation.sources) / num_lines


class PeakMemory:
    """Measures the memory that work needs above what is in use when this object is made.

    On CUDA it is what PyTorch has allocated on the device, elsewhere the resident memory of the process. Linux can
    forget a peak; where that is not possible, a peak is only known if it is higher than any before.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.restart()
        self._before = torch.cuda.memory_allocated(device) if device.type == "cuda" else _read_memory("VmRSS")

    def restart(self) -> None:
        """Forget the peak so far."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            return
        gc.collect()
        release_free_memory()  # else it would be used again and not be seen
        self._highest_before = _read_memory("VmHWM")
        with contextlib.suppress(OSError):
            _CLEAR.write_text(_CLEAR_PEAK)
            self._highest_before = 0

    def peak_bytes(self) -> int | None:
        """The most that was in use at once since the last restart, above what was in use at first; None: not known."""
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device)) - self._before
        if self._device.type != "cpu":  # Apple's GPU shares the memory, and its peak cannot be measured
            return None
        peak = _read_memory("VmHWM")
        return max(0, peak - self._before) if self._before > 0 and peak > self._highest_before else None


def _read_memory(field: str) -> int:
    """Bytes by a line such as `VmHWM:  1024 kB` of Linux's status of this process; elsewhere the peak; 0: not known."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
