"""How many tokens a batch may have before the device's memory is out, found by real steps of the training."""

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from translate.config import Config, TrainingConfig
from translate.data.batching import EncodedPair, collate
from translate.data.tokenizer import EOS_ID, Tokenizers
from translate.lint.memory_watch import MemoryWatch
from translate.memory import release_free_memory
from translate.model.device import OutOfMemory
from translate.runs import build_model
from translate.training.assembly import Computation, stepping
from translate.training.available_memory import available_bytes
from translate.training.average import AveragedWeights
from translate.training.optimizer import build_optimizer
from translate.training.workers import choose_layout

# The rest is for what the trial has not got: fragments, buffers of other libraries, and on a CPU other processes.
_SHARE_OF_GPU, _SHARE_OF_CPU = 0.9, 0.5
_BYTES_PER_WEIGHT = 12  # that stay between steps: itself and Adam's two moments, in fp32


class Fitting(NamedTuple):
    """What fits in memory."""

    tokens: int | None  # of a batch, on each side; None: not known
    room: int | None  # bytes that there are for all of the training; None: not known


def batches_per_step(batch_tokens: int, *, step_tokens: int | None) -> int:
    """As many as come nearest to the tokens that a step should see; None: one."""
    return 1 if step_tokens is None else max(1, round(step_tokens / batch_tokens))


class Trial:
    """Steps of the training on a throw-away model, on batches of the longest pairs only: none takes more memory."""

    def __init__(self, config: Config, *, longest: int, tokenizers: Tokenizers, device: torch.device) -> None:
        self._settings, self._longest, self._device = config.training, longest, device
        self._computation = Computation.choose(self._with_batches_of(longest), config.model, device)
        self._model = build_model(config, tokenizers, device=device).train()
        self._optimizer = build_optimizer(self._model, self._settings)
        self._average = None  # of the weights; it takes its room
        if self._settings.ema_decay is not None:
            self._average = AveragedWeights(self._model, decay=self._settings.ema_decay)
        self.fixed_bytes = _BYTES_PER_WEIGHT * self._model.num_parameters
        """What is needed whatever the batch, and not all of that."""

    def step(self, tokens: int) -> None:
        """One optimizer step with batches of so many tokens on each side, and a few more where the pairs are long."""
        pairs = [EncodedPair([EOS_ID] * (self._longest - 1), [EOS_ID] * (self._longest - 1))]
        num_pairs = math.ceil(tokens / self._longest)
        batch = collate(pairs * num_pairs, range(num_pairs))
        settings = self._with_batches_of(tokens)
        workers = choose_layout(settings, self._device)
        # All that are computed at once, and one more, so that there is a gradient that another is added to.
        num_tried = min(settings.accumulate_batches, workers.workers + 1)
        computation = self._computation._replace(workers=workers)
        with stepping(self._model, self._optimizer, settings, computation) as stepper:
            stepper.step([batch] * num_tried, number=1, rate=0.0)  # weights that stand still cannot diverge
            stepper.settle()

    def _with_batches_of(self, tokens: int) -> TrainingConfig:
        num_batches = batches_per_step(tokens, step_tokens=self._settings.step_tokens)
        return self._settings.model_copy(update={"batch_tokens": tokens, "accumulate_batches": num_batches})

    def fits(self, tokens: int) -> bool:
        """Whether such a step ends; if not, its memory is given back."""
        try:
            self.step(tokens)
        except OutOfMemory:
            is_enough = False
        else:
            is_enough = True
        self._optimizer.zero_grad(set_to_none=True)
        _free()  # here, where the exception is gone and what it held with it
        return is_enough


def find_fitting(
    make_trial: Callable[[], Trial], device: torch.device, *, longest: int, most: int, num_processes: int
) -> Fitting:
    """The most tokens that fit, up to `most`; fewer than `longest`: not even one pair does.

    Args:
        longest: Tokens of the longest side of any pair, its special symbol counted.
        most: The most that are of use, at least `longest`.
        num_processes: That do the same on this machine: on a CPU they share its memory.
    """
    match device.type:
        case "cuda":
            return _find_on_gpu(make_trial, device, first=longest, most=most)
        case "cpu":
            return _find_on_cpu(make_trial, device, first=longest, most=most, num_processes=num_processes)
        case _:
            return Fitting(None, None)


def largest_that_fits(fits: Callable[[int], bool], *, first: int, most: int) -> int:
    """By doubling, then halving the interval, until it is known to a sixteenth.

    Args:
        fits: Whether so many fit. If some do, fewer do.
        first: The fewest of interest.
        most: The most of interest.

    Returns:
        A number that fits; 0 if not even `first` does.
    """
    if not fits(first):
        return 0
    good, bad = first, most + 1
    while good < most and bad > most:
        tokens = min(2 * good, most)
        good, bad = (tokens, bad) if fits(tokens) else (good, tokens)
    while bad <= most and bad - good > max(1, good // 16):
        tokens = (good + bad) // 2
        good, bad = (tokens, bad) if fits(tokens) else (good, tokens)
    return good


def largest_proven(peak_of: Callable[[int], int | None], *, room: int, fixed: int, first: int, most: int) -> int | None:
    """The largest that fits, without ever trying more than is sure to fit: nothing may fail on the way.

    Above a part that is the same for all sizes, c times the tokens take at most c times the memory.

    Args:
        peak_of: Bytes that so many tokens take; None: not known.
        room: Bytes that there are.
        fixed: Bytes that are known to be needed whatever the tokens.

    Returns:
        A number that fits, or as near to `first` as makes it plain that it does not; None: not known.
    """
    tokens = first
    while True:
        peak = peak_of(tokens)
        if peak is None:
            return None
        proven = tokens * (room - fixed) // max(1, peak - fixed)
        if proven >= most:
            return most
        if proven <= tokens * 1.1:
            return proven
        tokens = proven


def _find_on_gpu(make_trial: Callable[[], Trial], device: torch.device, *, first: int, most: int) -> Fitting:
    index = torch.cuda.current_device() if device.index is None else device.index
    free, total = torch.cuda.mem_get_info(index)
    room = int(_SHARE_OF_GPU * (free + torch.cuda.memory_reserved(index)))
    try:
        with _limited(index, share=room / total):
            trial = make_trial()
            # The first step makes the optimizer's state; only the next ones are as all others will be.
            tokens = largest_that_fits(trial.fits, first=first, most=most) if trial.fits(first) else 0
            del trial
    except OutOfMemory:  # of the model alone
        tokens = 0
    _free()
    return Fitting(tokens, room)


@contextmanager
def _limited(gpu: int, *, share: float) -> Iterator[None]:
    """PyTorch refuses to take more than this share of a GPU's memory."""
    torch.cuda.set_per_process_memory_fraction(share, gpu)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, gpu)


def _find_on_cpu(
    make_trial: Callable[[], Trial], device: torch.device, *, first: int, most: int, num_processes: int
) -> Fitting:
    """By measuring: a system that is out of memory does not refuse it, it kills."""
    available = available_bytes()
    if available is None:
        return Fitting(None, None)
    room = int(_SHARE_OF_CPU * available / num_processes)
    watch = MemoryWatch(device)
    trial = make_trial()
    if trial.fixed_bytes > room:
        return Fitting(0, room)
    trial.step(first)  # so that the optimizer has its state

    def peak_of(tokens: int) -> int | None:
        watch.restart()
        trial.step(tokens)
        return watch.peak_bytes()

    tokens = largest_proven(peak_of, room=room, fixed=trial.fixed_bytes, first=first, most=most)
    del trial, peak_of
    _free()
    return Fitting(tokens, room)


def _free() -> None:
    gc.collect()
    release_free_memory()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
