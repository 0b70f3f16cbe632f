"""A model and all that trains it, put together as the settings and the machine want it."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch

from translate.config import Config, ModelConfig, TrainingConfig
from translate.data.tokenizer import Tokenizers
from translate.distributed.data_parallel import Engine
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.model import Transformer
from translate.runs import build_model
from translate.training.compilation import compile_layers
from translate.training.gradients import BatchLoss, OwnGradients
from translate.training.optimizer import SharedOptimizer, build_optimizer
from translate.training.precision import Arithmetic
from translate.training.staging import ChosenLayout, choose_batch_layout
from translate.training.step import Stepper, batch_loss
from translate.training.workers import Layout, Workers, choose_layout


class Computation(NamedTuple):
    """How steps are computed on this machine."""

    arithmetic: Arithmetic
    batches: ChosenLayout
    workers: Layout

    @classmethod
    def choose(
        cls, settings: TrainingConfig, model: ModelConfig, device: torch.device, *, num_processes: int = 1
    ) -> "Computation":
        """What the settings say, on this device; to be asked once, and before anything is computed there.

        Args:
            num_processes: That train together.
        """
        arithmetic = Arithmetic.choose(settings, device)
        batches = choose_batch_layout(settings, model, arithmetic)
        return cls(arithmetic, batches, choose_layout(settings, device, num_processes=num_processes))


class Assembly(NamedTuple):
    """What changes the weights."""

    model: Transformer  # in training mode
    optimizer: torch.optim.Optimizer
    stepper: Stepper
    computation: Computation
    description: str  # for the log: where and how it computes


@contextlib.contextmanager
def assembled(
    config: Config, tokenizers: Tokenizers, *, device: torch.device, world: World = SINGLE_PROCESS
) -> Iterator[Assembly]:
    """A new model, the same in all processes, for the time of the context.

    Raises:
        InputError: The settings ask for what this machine lacks.
        OutOfMemory: The device's memory is not enough for the weights.
    """
    settings = config.training
    computation = Computation.choose(settings, config.model, device, num_processes=world.size)
    is_sharded = settings.parallel == "fsdp" and world.size > 1
    torch.manual_seed(settings.seed)
    model = world.run_on_all_ranks(
        lambda: build_model(config, tokenizers, device=torch.device("cpu") if is_sharded else device).train()
    )
    if settings.compile:
        world.run_on_all_ranks(lambda: compile_layers(model))
    precision = computation.arithmetic.precision
    description = f"{model.num_parameters:,} parameters; {device}, {precision}, {computation.workers}"
    engine = None
    if world.size > 1:
        description += f" in each of {world.size} processes ({settings.parallel})"
        loss = loss_of(model, settings, computation)
        engine = Engine(model, world, kind=settings.parallel, device=device, loss=loss)
    if computation.batches.remark is not None:
        description += f"; {computation.batches.remark}"
    optimizer = build_optimizer(model, settings)
    with stepping(model, optimizer, settings, computation, engine=engine) as stepper:
        yield Assembly(model, optimizer, stepper, computation, description)


@contextlib.contextmanager
def stepping(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    settings: TrainingConfig,
    computation: Computation,
    *,
    engine: Engine | None = None,
) -> Iterator[Stepper]:
    """Steps of a training, for the time of the context.

    Args:
        engine: Of the model, where several processes train it.
    """
    arithmetic = computation.arithmetic
    if engine is not None:
        yield Stepper(model, optimizer, settings, arithmetic=arithmetic, gradients=engine)
        return
    with Workers(computation.workers) as workers:
        gradients = OwnGradients(model, workers, loss_of(model, settings, computation))
        shared = SharedOptimizer(optimizer, workers) if computation.workers.workers > 1 else None
        yield Stepper(model, optimizer, settings, arithmetic=arithmetic, gradients=gradients, shared=shared)


def loss_of(model: Transformer, settings: TrainingConfig, computation: Computation) -> BatchLoss:
    """The loss of a batch on the CPU, by this model."""
    arithmetic, layout = computation.arithmetic, computation.batches.layout
    return lambda batch: batch_loss(
        model, batch, smoothing=settings.label_smoothing, arithmetic=arithmetic, layout=layout
    )
