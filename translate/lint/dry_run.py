"""A dry run of training: does its longest batch fit into memory, how fast is it, and how long will it take?"""

import gc
import itertools
import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from translate.config.schema import Config
from translate.data.batching import Batch
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import Epoch
from translate.data.tokenizer import Tokenizers
from translate.errors import RunError
from translate.memory import release_free_memory
from translate.model import Transformer
from translate.model.device import measures_memory
from translate.runs.initial import InitialWeights
from translate.runs.weights import widen
from translate.training.optimizer import AveragedWeights, learning_rate
from translate.training.preparation import TrainingData
from translate.training.setup import setup_training
from translate.training.step import describe_shapes
from translate.training.validation import validate

_MAX_TIMED_STEPS, _WINDOW = 30, 5
_VALIDATION_LINES = 50  # lines to translate
_PROCESS = Path("/proc/self")  # as Linux shows it: man 5 proc


class DryRun(NamedTuple):
    """The measurements of a dry run."""

    device: str
    precision: str
    num_threads: int  # of the CPU
    num_parameters: int
    num_trained_parameters: int
    largest_batch: dict[str, int]  # pairs and padded tokens of the batch that needed the most memory
    peak_bytes: int | None  # weights, gradients, optimizer and activations together; None: cannot be measured here
    num_timed_steps: int
    target_tokens_per_second: float
    seconds_per_epoch: float
    seconds_per_validation: float | None  # None: no validation corpus


def dry_run(
    data: TrainingData,
    epoch: Epoch,
    *,
    device: torch.device,
    initial: InitialWeights | None = None,
    max_seconds: float = 10.0,
    tries_longest: bool = True,
) -> DryRun:
    """Make real training steps on real batches, the longest first; the weights are discarded.

    Args:
        epoch: The first epoch of the data.
        initial: The initial weights; None: random ones.
        max_seconds: The time for measuring the speed; a step is never interrupted.
        tries_longest: Whether to try the longest batches; without them, memory is not measured.

    Raises:
        InputError: The settings ask for something that this machine does not support.
        RunError: Training would fail: out of memory, or the loss is not finite.
    """
    config, corpora, tokenizers, *_ = data
    before = peak_memory(device, restart=True)
    pairs, sources, targets = epoch.shapes[longest_batches(epoch)[-1]].tolist()
    batch_tokens = pairs * sources, pairs * targets
    train_step = setup_training(config, tokenizers, device=device, batch_tokens=batch_tokens, initial=initial)
    decay = config.training.ema_decay
    average = None if decay is None else AveragedWeights(train_step.model, decay=decay)
    numbers = itertools.count(1)

    def step(batches: Sequence[Batch]) -> int:
        number = next(numbers)
        rate = learning_rate(number, config.training, d_model=config.model.d_model)
        result = train_step(batches, number=number, learning_rate=rate)
        train_step.check_last_step()
        if average is not None:
            average.update(train_step.model, step=number)
        return result.tokens

    step([epoch[0]])  # creates the optimizer's state
    # Enough batches for the memory of a whole step: split in the same way, and each worker sums gradients.
    num_batches, num_workers = min(config.training.accumulate_batches, len(epoch)), train_step.parallel.num_workers
    num_batches = min(num_batches, 2 * num_workers + num_batches % num_workers)
    tried: list[tuple[int, list[int]]] = []
    for number in longest_batches(epoch) if tries_longest else ():
        peak_memory(device, restart=True)
        try:
            step([epoch[number]] * num_batches)
        except RunError as error:
            message = f"a training step on the longest batch ({describe_shapes([epoch[number]])}) fails: {error}"
            raise RunError(message) from error
        peak = peak_memory(device)
        used = 0 if before is None or peak is None else max(0, peak - before)
        tried.append((used, epoch.shapes[number].tolist()))
    peak_bytes, largest = max(tried, key=lambda used_and_shape: used_and_shape[0], default=(0, [0, 0, 0]))
    num_timed, speed = _measure_speed(step, epoch, config, device=device, max_seconds=max_seconds)
    validation = [*corpora.validation.values(), *corpora.validation_also.values()]
    model = widen(train_step.model) if validation else train_step.model
    return DryRun(
        device=str(device),
        precision=train_step.precision.name,
        num_threads=torch.get_num_threads(),
        num_parameters=model.num_parameters,
        num_trained_parameters=model.num_trained_parameters,
        largest_batch=dict(zip(("pairs", "source_tokens", "target_tokens"), largest, strict=True)),
        peak_bytes=peak_bytes or None,
        num_timed_steps=num_timed,
        target_tokens_per_second=speed,
        seconds_per_epoch=epoch.padding.num_target_tokens / speed,
        seconds_per_validation=sum(_time_validation(model, tokenizers, corpus, config) for corpus in validation)
        or None,
    )


def _measure_speed(
    step: Callable[[list[Batch]], int], epoch: Epoch, config: Config, *, device: torch.device, max_seconds: float
) -> tuple[int, float]:
    """Make steps of an epoch, spread over it, and return their number and the target tokens per second.

    The speed is that of the fastest window, which other programs disturb least, so that two calls agree.
    """
    size = config.training.accumulate_batches
    num_steps = math.ceil(len(epoch) / size)
    chosen = np.linspace(0, num_steps - 1, min(_MAX_TIMED_STEPS, num_steps)).astype(np.int64)
    np.random.Generator(np.random.PCG64(config.training.seed)).shuffle(chosen)
    tokens, times = list[int](), [time.perf_counter()]
    for number in chosen.tolist():  # each waits until it is done
        tokens.append(step([epoch[batch] for batch in range(len(epoch))[number * size : (number + 1) * size]]))
        times.append(time.perf_counter())
        if times[-1] - times[0] > max_seconds:
            break
    n = min(_WINDOW, len(tokens))
    return len(tokens), max(sum(tokens[i : i + n]) / (times[i + n] - times[i]) for i in range(len(times) - n))


def longest_batches(epoch: Epoch) -> list[int]:
    """The numbers of the batch with the longest sentence and the batch with the most tokens, often the same one.

    Attention needs the most memory for the first, the output layer for the second; which one wins depends on the model.
    """
    pairs, sources, targets = epoch.shapes.T
    longest = int(np.lexsort((pairs, np.maximum(sources, targets)))[-1])
    fullest = int((pairs * (sources + targets)).argmax())
    return list(dict.fromkeys([longest, fullest]))


def _time_validation(model: Transformer, tokenizers: Tokenizers, validation: ParallelCorpus, config: Config) -> float:
    """Estimate the time of a whole validation corpus from some of its lines.

    A new model does not know when to stop, so its translations are limited to the references' mean length.
    """
    num_lines = min(_VALIDATION_LINES, len(validation.sources))
    lines = [int(line) for line in np.linspace(0, len(validation.sources) - 1, num_lines)]
    targets = [validation.targets[line] for line in lines]
    part = validation._replace(sources=[validation.sources[line] for line in lines], targets=targets)
    mean_length = sum(len(tokenizers.target.encode(target)) for target in targets) // num_lines + 1
    limits = {"max_length_factor": 0.0, "max_length_constant": mean_length, "min_length_factor": 0.0}
    search = config.validation_search().model_copy(update={**limits, "min_length_constant": 0})
    return validate(model, tokenizers, part, config, search=search).seconds * len(validation.sources) / num_lines


def peak_memory(device: torch.device, *, restart: bool = False) -> int | None:
    """The peak of bytes in use since the last restart; None: not known.

    It counts what PyTorch allocated on CUDA, or the resident memory of the process on a CPU under Linux. Without a
    restart, peaks of earlier work hide a training step's peak.
    """
    if measures_memory(device):
        module = torch.get_device_module(device)
        if restart:
            module.reset_peak_memory_stats(device)
        return int(module.max_memory_allocated(device))
    try:
        if restart:
            gc.collect()
            release_free_memory()  # otherwise it would be reused and not counted
            (_PROCESS / "clear_refs").write_text("5")
        found = re.search(r"VmHWM:\s*(\d+) kB", (_PROCESS / "status").read_text())
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024
