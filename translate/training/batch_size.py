"""The sizes of batches and steps: numbers for `batch_tokens: auto` and `step_tokens`, and a resumed run's own numbers.

On a CPU `auto` is a constant. On CUDA it is found by training steps on batches of the longest pairs, with twice as many
tokens each time until memory runs out. The run's config then has the number.
"""

import gc
import math

import torch

from translate.config.schema import Config
from translate.data.batching import EncodedPair, collate
from translate.data.streaming import Batches
from translate.data.tokenizer import EOS_ID, Tokenizers
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.errors import InputError, RunError
from translate.model.device import OutOfMemory, measures_memory
from translate.training.optimizer import AveragedWeights
from translate.training.setup import setup_training
from translate.training.step import TrainStep

_PAPER_STEP_TOKENS = 25_000  # Vaswani et al. 2017, section 5.1
_CPU_BATCH_TOKENS = 4096  # measured: larger batches keep the cores no busier, and make fewer steps of the same data
_SHARE_OF_FREE_MEMORY = 0.9  # on CUDA; the rest is for fragments and for buffers of other libraries


def override_training(config: Config, **values: object) -> Config:
    """The config with other values in its section `training`."""
    return config.model_copy(update={"training": config.training.model_copy(update=values)})


def resolve_step_tokens(config: Config) -> Config:
    """The config with `accumulate_batches` in place of `step_tokens`, if the size of a batch is known."""
    settings = config.training
    if settings.step_tokens is None or settings.batch_tokens == "auto":
        return config
    num_batches = max(1, round(settings.step_tokens / settings.num_batch_tokens))  # the nearest number
    return override_training(config, step_tokens=None, accumulate_batches=num_batches)


def resume_batch_tokens(config: Config, saved: Config, *, place: str) -> Config:
    """The config with the batch size of the run that it resumes in place of `auto`, and `step_tokens` resolved.

    Args:
        saved: The run's own config.
        place: The run, for errors.

    Raises:
        InputError: `step_tokens` is less than the run's batches have.
    """
    batch_tokens, step_tokens = saved.training.num_batch_tokens, config.training.step_tokens
    if config.training.batch_tokens == "auto":
        if step_tokens is not None and step_tokens < batch_tokens:
            begun = f"{place} was started with batches of {batch_tokens} tokens"
            raise InputError(f"{begun}, so it cannot continue with training.step_tokens = {step_tokens}")
        config = override_training(config, batch_tokens=batch_tokens)
    return resolve_step_tokens(config)


def resolve_batch_tokens(
    config: Config, batches: Batches, *, tokenizers: Tokenizers, device: torch.device, world: World = SINGLE_PROCESS
) -> tuple[Config, Batches, str | None]:
    """The config and its batches with a number for `batch_tokens: auto`, and `step_tokens` resolved.

    Args:
        batches: The training batches; with `auto` they have no limit yet.
        world: The processes that train together; they use a size that fits all of their devices.

    Returns:
        The config, the batches, and a message about the number that `auto` became; None: the config had a number.

    Raises:
        InputError: `step_tokens` is less than the length of the longest pair.
        RunError: Not even a batch of the longest pair fits in memory.
    """
    if config.training.batch_tokens != "auto":
        return resolve_step_tokens(config), batches, None
    longest, step_tokens = batches.longest, config.training.step_tokens
    most = step_tokens or max(_PAPER_STEP_TOKENS, longest)
    if longest > most:
        raise InputError(
            f"training.step_tokens = {step_tokens} is less than the {longest} tokens that the longest pair may have;"
            " raise it, or lower data.max_source_tokens and data.max_target_tokens"
        )
    if measures_memory(device):
        found = world.run_on_all_ranks(
            lambda: largest_fitting_batch(config, longest=longest, most=most, tokenizers=tokenizers, device=device)
        )
        tokens = min(world.all_gather(found))
    else:
        tokens = min(most, max(_CPU_BATCH_TOKENS, longest))
    if step_tokens is not None:  # equal batches, rather than full ones and a remainder
        tokens = max(longest, step_tokens // math.ceil(step_tokens / tokens))
    config = resolve_step_tokens(override_training(config, batch_tokens=tokens))
    num = config.training.accumulate_batches
    message = f"training.batch_tokens = auto: {tokens} tokens, {num} batch{'es' * (num > 1)} per step"
    return config, batches.with_batch_tokens(tokens), message


def largest_fitting_batch(
    config: Config, *, longest: int, most: int, tokenizers: Tokenizers, device: torch.device
) -> int:
    """The tokens of a batch that fit in a GPU's free memory with a margin: doubled until memory runs out.

    Args:
        longest: Tokens of the longest side of any pair, with its special symbol.
        most: The most tokens of interest, at least `longest`.
    """
    module = torch.get_device_module(device)
    index = module.current_device() if device.index is None else device.index
    free, total = module.mem_get_info(index)
    room = int(_SHARE_OF_FREE_MEMORY * (free + module.memory_reserved(index)))
    fitting, tokens = 0, longest
    module.set_per_process_memory_fraction(room / total, index)
    try:
        trial = override_training(config, batch_tokens=longest, compile=False, initialize_from=None)  # random weights
        train_step = setup_training(trial, tokenizers, device=device, batch_tokens=(longest, longest))
        decay, step_tokens = config.training.ema_decay, config.training.step_tokens or 0
        average = None if decay is None else AveragedWeights(train_step.model, decay=decay)  # only takes up memory
        # The first step creates the optimizer's state, so only later ones use the full amount.
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
            f"training.batch_tokens = 'auto': a pair of {longest} tokens on each side does not fit in the memory that"
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
        train_step([batch] * (1 + is_accumulated), number=1, learning_rate=0.0)  # leaves the weights unchanged
        train_step.check_last_step()
        is_enough = True
    except OutOfMemory:
        is_enough = False
    train_step.model.zero_grad(set_to_none=True)
    _free_memory(train_step.precision.device)  # only here have the exception and its tensors been freed
    return is_enough


def _free_memory(device: torch.device) -> None:
    gc.collect()
    torch.get_device_module(device).empty_cache()
