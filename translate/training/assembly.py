"""A model and all that trains it, put together as the settings and the machine want it."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from translate.config import Config, TrainingConfig
from translate.data.batching import Batch
from translate.data.tokenizer import Tokenizers
from translate.model import Transformer
from translate.model.device import choose_precision
from translate.run import build_model
from translate.training.compilation import compile_layers
from translate.training.distributed import ALONE, World
from translate.training.gradients import OwnGradients
from translate.training.loss import SummedLoss
from translate.training.optimizer import build_optimizer
from translate.training.parallel import Engine
from translate.training.precision import Arithmetic
from translate.training.staging import choose_batch_layout
from translate.training.step import Stepper, batch_loss
from translate.training.workers import Workers, choose_layout


class Assembly(NamedTuple):
    """What changes the weights."""

    model: Transformer  # in training mode
    optimizer: torch.optim.Optimizer
    stepper: Stepper
    description: str  # for the log: where and how it computes


@contextlib.contextmanager
def assembled(
    config: Config, tokenizers: Tokenizers, *, device: torch.device, world: World = ALONE
) -> Iterator[Assembly]:
    """A new model, the same in all processes, for the time of the context.

    Raises:
        InputError: The settings ask for what this machine lacks.
        OutOfMemory: The device's memory is not enough for the weights.
    """
    settings = config.training
    is_sharded = settings.parallel == "fsdp" and not world.is_alone
    torch.manual_seed(settings.seed)
    model = world.each(
        lambda: build_model(config, tokenizers, device=torch.device("cpu") if is_sharded else device).train()
    )
    if settings.compile:
        world.each(lambda: compile_layers(model))
    layout = choose_layout(settings, device, num_processes=world.size)
    said = [f"{model.num_parameters:,} parameters; {device}, {choose_precision(settings.precision, device)}, {layout}"]
    if (remark := choose_batch_layout(settings, config.model, Arithmetic.choose(settings, device)).remark) is not None:
        said.append(remark)
    engine: Engine | None = None
    if not world.is_alone:
        said[0] += f" in each of {world.size} processes ({settings.parallel})"
        engine = Engine(model, world, kind=settings.parallel, device=device, loss=_loss_of(model, settings, device))
    optimizer = build_optimizer(model, settings)
    with stepping(model, optimizer, settings, device=device, engine=engine) as stepper:
        yield Assembly(model, optimizer, stepper, "; ".join(said))


@contextlib.contextmanager
def stepping(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    settings: TrainingConfig,
    *,
    device: torch.device,
    engine: Engine | None = None,
) -> Iterator[Stepper]:
    """Steps of a training, for the time of the context.

    Args:
        engine: Of the model, where several processes train it.
    """
    arithmetic = Arithmetic.choose(settings, device)
    if engine is not None:
        yield Stepper(model, optimizer, settings, arithmetic=arithmetic, gradients=engine)
        return
    with Workers(choose_layout(settings, device)) as workers:
        gradients = OwnGradients(model, workers, _loss_of(model, settings, device))
        yield Stepper(model, optimizer, settings, arithmetic=arithmetic, gradients=gradients)


def _loss_of(model: Transformer, settings: TrainingConfig, device: torch.device) -> Callable[[Batch], SummedLoss]:
    arithmetic = Arithmetic.choose(settings, device)
    layout = choose_batch_layout(settings, model.config, arithmetic).layout
    return lambda batch: batch_loss(
        model, batch, smoothing=settings.label_smoothing, arithmetic=arithmetic, layout=layout
    )
