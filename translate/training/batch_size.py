"""How many tokens a batch has, and how many batches a step: as the config says, or as memory allows.

`training.batch_tokens: auto` is found by real steps on the longest pairs that there are, and from then on it is a
number: the run's config has it, so that nothing is searched again when the run is continued or repeated.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from translate.config import Config, read_resolved_config
from translate.data.streaming import Batches
from translate.data.tokenizer import Tokenizers
from translate.distributed.environment import DistributedEnvironment
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.errors import InputError, RunError
from translate.runs import open_run
from translate.training.batch_trials import Trial, batches_per_step, find_fitting

_PAPER_STEP_TOKENS = 25_000  # Vaswani et al. 2017, section 5.1
_MOST_ON_CPU = 4096  # its cores are busy with fewer; more only make fewer steps of the same data


class BatchSize(NamedTuple):
    """What was found."""

    tokens: int
    reason: str  # why not more


def settle_steps(config: Config) -> Config:
    """The config with `step_tokens` said as `accumulate_batches`, if the size of a batch is known."""
    settings = config.training
    if settings.step_tokens is None or settings.batch_tokens == "auto":
        return config
    num_batches = batches_per_step(settings.num_batch_tokens, step_tokens=settings.step_tokens)
    return _with_training(config, step_tokens=None, accumulate_batches=num_batches)


def settle_as_begun(config: Config, directory: Path) -> Config:
    """The config with the batch size that the run in a directory has found, if the config leaves it to be found.

    Raises:
        InputError: `step_tokens` is less than a batch of that run.
    """
    settings = config.training
    if settings.batch_tokens != "auto":
        return config
    found = read_resolved_config(open_run(directory).config).training.num_batch_tokens
    if settings.step_tokens is not None and settings.step_tokens < found:
        raise InputError(
            f"{directory} was begun with batches of {found} tokens, so it cannot go on with: training.step_tokens ="
            f" {settings.step_tokens}"
        )
    return settle_steps(_with_training(config, batch_tokens=found))


def settle_batch_size(
    config: Config,
    batches: Batches,
    *,
    tokenizers: Tokenizers,
    device: torch.device,
    say: Callable[[str], None],
    world: World = SINGLE_PROCESS,
) -> tuple[Config, Batches]:
    """The config and its batches with the batch size as a number; if that had to be found, it is said.

    Args:
        batches: Those of a config with `batch_tokens` = auto have no limit yet.
        device: Of this process.
        world: Its processes take the size that fits the device of each.

    Raises:
        InputError: `step_tokens` is less than the longest pair has.
        RunError: Not even that pair fits in memory.
    """
    if config.training.batch_tokens != "auto":
        return settle_steps(config), batches
    longest, step_tokens = batches.longest, config.training.step_tokens

    def find() -> BatchSize:
        return find_batch_size(
            config, longest=longest, tokenizers=tokenizers, device=device, environment=world.environment
        )

    found = min(world.all_gather(world.run_on_all_ranks(find)))
    tokens = found.tokens
    if step_tokens is not None:  # in equal parts, rather than so many whole ones and a rest
        tokens = max(longest, step_tokens // math.ceil(step_tokens / tokens))
    config = settle_steps(_with_training(config, batch_tokens=tokens))
    num_batches = config.training.accumulate_batches
    say(
        f"training.batch_tokens = auto: {tokens} tokens, {num_batches} batch{'es' * (num_batches > 1)} a step"
        f" ({found.reason})"
    )
    return config, batches.with_batch_tokens(tokens)


def find_batch_size(
    config: Config, *, longest: int, tokenizers: Tokenizers, device: torch.device, environment: DistributedEnvironment
) -> BatchSize:
    """The most tokens of a batch that the device's memory holds, or that are of use.

    Args:
        longest: Tokens of the longest side of any pair, its special symbol counted.

    Raises:
        InputError: `step_tokens` is less than that.
        RunError: Not even that pair fits in memory.
    """
    wanted = config.training.step_tokens
    most = wanted or max(_PAPER_STEP_TOKENS, longest)
    if longest > most:
        raise InputError(
            f"training.step_tokens = {wanted} is less than the {longest} tokens that the longest pair may have on a"
            " side; raise it, or lower data.max_source_tokens and data.max_target_tokens"
        )
    reason = "training.step_tokens asks for no more" if wanted else "for more, set training.step_tokens"
    if device.type != "cuda" and most > (enough := max(_MOST_ON_CPU, longest)):
        most, reason = enough, f"larger batches are no faster on {device.type}"
    trial = functools.partial(Trial, config, longest=longest, tokenizers=tokenizers, device=device)
    fitting = find_fitting(trial, device, longest=longest, most=most, num_processes=environment.local_world_size)
    if fitting.tokens is None:
        return BatchSize(most, f"how many fit in memory is not known; {reason}")
    room = "" if fitting.room is None else f", {fitting.room / 2**30:.1f} GiB with a margin"
    if fitting.tokens < longest:
        raise RunError(
            f"training.batch_tokens = 'auto': not even a pair of {longest} tokens on each side fits in the memory that"
            f" {device} has free{room}. Lower data.max_source_tokens and data.max_target_tokens, or make the model"
            " smaller: model.d_model, model.d_ff, layers."
        )
    if fitting.tokens < most:
        reason = f"the most that fit in what {device} has free{room}"
    return BatchSize(fitting.tokens, reason)


def _with_training(config: Config, **values: object) -> Config:
    return config.model_copy(update={"training": config.training.model_copy(update=values)})
