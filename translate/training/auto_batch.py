"""How many tokens a batch has, and how many batches a step has: as the config says, or as many as the device takes.

On a CPU `training.batch_tokens: auto` is a constant. On CUDA it is found by training steps on batches of the longest
pairs, with twice as many tokens each time until memory is refused. The run's config then has the number.
"""

import gc
import math
from pathlib import Path

import torch

from translate.config.load import read_resolved_config
from translate.config.schema import Config
from translate.data.batching import EncodedPair, collate
from translate.data.streaming import Batches
from translate.data.tokenizer import EOS_ID, Tokenizers
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.errors import InputError, RunError
from translate.model.device import OutOfMemory, measures_memory
from translate.runs.directory import open_run
from translate.training.optimizer import AveragedWeights
from translate.training.setup import setup_training
from translate.training.step import TrainStep

_PAPER_STEP_TOKENS = 25_000  # Vaswani et al. 2017, section 5.1
_CPU_BATCH_TOKENS = 4096  # measured: larger batches keep the cores no busier, and make fewer steps of the same data
_SHARE_OF_FREE_MEMORY = 0.9  # on CUDA; the rest is for fragments and for buffers of other libraries


def resolve_step_tokens(config: Config) -> Config:
    """The config with `accumulate_batches` in place of `step_tokens`, if the size of a batch is known."""
    settings = config.training
    if settings.step_tokens is None or settings.batch_tokens == "auto":
        return config
    num_batches = round(settings.step_tokens / settings.num_batch_tokens)  # the nearest number
    return _with_training(config, step_tokens=None, accumulate_batches=max(1, num_batches))


def resolve_from_run(config: Config, directory: Path) -> Config:
    """Replace `auto` in a config by the batch size that the run in a directory has.

    Raises:
        InputError: `step_tokens` is less than a batch of that run.
    """
    settings = config.training
    if settings.batch_tokens != "auto":
        return config
    found = read_resolved_config(open_run(directory).config).training.num_batch_tokens
    if settings.step_tokens is not None and settings.step_tokens < found:
        begun = f"{directory} was begun with batches of {found} tokens"
        raise InputError(f"{begun}, so it cannot go on with: training.step_tokens = {settings.step_tokens}")
    return resolve_step_tokens(_with_training(config, batch_tokens=found))


def resolve_batch_tokens(
    config: Config, batches: Batches, *, tokenizers: Tokenizers, device: torch.device, world: World = SINGLE_PROCESS
) -> tuple[Config, Batches, str | None]:
    """The config and its batches with a number for `batch_tokens: auto`, and `step_tokens` resolved.

    Args:
        batches: The training batches; with `auto` they have no limit yet.
        world: The processes that train together; they take the size that fits every one's device.

    Returns:
        The config, the batches, and a message about the number that `auto` became; None: the config had a number.

    Raises:
        InputError: `step_tokens` is less than the longest pair has.
        RunError: Not even a batch of the longest pair fits in memory.
    """
    if config.training.batch_tokens != "auto":
        return resolve_step_tokens(config), batches, None
    longest, step_tokens = batches.longest, config.training.step_tokens
    most = step_tokens or max(_PAPER_STEP_TOKENS, longest)
    if longest > most:
        raise InputError(
            f"training.step_tokens = {step_tokens} is less than the {longest} tokens that the longest pair may have on"
            " a side; raise it, or lower data.max_source_tokens and data.max_target_tokens"
        )
    if measures_memory(device):
        found = world.run_on_all_ranks(
            lambda: largest_fitting_batch(config, longest=longest, most=most, tokenizers=tokenizers, device=device)
        )
        tokens, limit = min(world.all_gather(found)), f"the most that fit in the free memory of {device}, with a margin"
    else:
        tokens, limit = min(most, max(_CPU_BATCH_TOKENS, longest)), f"larger batches are no faster on {device.type}"
    if tokens == most:
        limit = "as training.step_tokens asks" if step_tokens else "for more, set training.step_tokens"
    if step_tokens is not None:  # equal batches, rather than some full ones and a rest
        tokens = max(longest, step_tokens // math.ceil(step_tokens / tokens))
    config = resolve_step_tokens(_with_training(config, batch_tokens=tokens))
    num = config.training.accumulate_batches
    message = f"training.batch_tokens = auto: {tokens} tokens, {num} batch{'es' * (num > 1)} per step ({limit})"
    return config, batches.with_batch_tokens(tokens), message


def largest_fitting_batch(
    config: Config, *, longest: int, most: int, tokenizers: Tokenizers, device: torch.device
) -> int:
    """The tokens of a batch that fit in a GPU's free memory with a margin: doubled until memory is refused.

    Args:
        longest: Tokens of the longest side of any pair, with its special symbol.
        most: The most tokens of interest, at least `longest`.

    Raises:
        RunError: Not even a batch of one pair fits.
    """
    module = torch.get_device_module(device)
    index = module.current_device() if device.index is None else device.index
    free, total = module.mem_get_info(index)
    room = int(_SHARE_OF_FREE_MEMORY * (free + module.memory_reserved(index)))
    fitting, tokens = 0, longest
    module.set_per_process_memory_fraction(room / total, index)
    try:
        trial = _with_training(config, batch_tokens=longest, compile=False)
        train_step = setup_training(trial, tokenizers, device=device)
        decay, step_tokens = config.training.ema_decay, config.training.step_tokens or 0
        average = None if decay is None else AveragedWeights(train_step.model, decay=decay)  # only takes its room
        # The first step creates the optimizer's state, so only later ones need as much as all others.
        if _fits(train_step, longest, longest=longest, is_accumulated=False):
            while fitting < most and _fits(train_step, tokens, longest=longest, is_accumulated=step_tokens > tokens):
                fitting, tokens = tokens, min(2 * tokens, most)
        del average, train_step
    except OutOfMemory:  # the model alone needs more
        pass
    finally:
        module.set_per_process_memory_fraction(1.0, index)
    _free_memory(device)
    if fitting == 0:
        raise RunError(
            f"training.batch_tokens = 'auto': not even a pair of {longest} tokens on each side fits in the memory that"
            f" {device} has free, {room / 2**30:.1f} GiB with a margin. Lower data.max_source_tokens and"
            " data.max_target_tokens, or make the model smaller: model.d_model, model.d_ff, layers."
        )
    return fitting


def _fits(train_step: TrainStep, tokens: int, *, longest: int, is_accumulated: bool) -> bool:
    """Whether memory is enough for a step on batches of only the longest pairs, which need the most."""
    pair = EncodedPair([EOS_ID] * (longest - 1), [EOS_ID] * (longest - 1))
    num_pairs = math.ceil(tokens / longest)
    batch = collate([pair] * num_pairs, range(num_pairs))
    try:
        # A second batch adds its gradient to one that is there already; more batches need no more memory.
        train_step([batch] * (1 + is_accumulated), number=1, learning_rate=0.0)  # which leaves the weights alone
        train_step.check_last_step()
        is_enough = True
    except OutOfMemory:
        is_enough = False
    train_step.optimizer.zero_grad(set_to_none=True)
    _free_memory(train_step.precision.device)  # only here are the exception and what it holds gone
    return is_enough


def _free_memory(device: torch.device) -> None:
    gc.collect()
    torch.get_device_module(device).empty_cache()


def _with_training(config: Config, **values: object) -> Config:
    return config.model_copy(update={"training": config.training.model_copy(update=values)})
