"""The state of a training run: what its parts share, and what its last checkpoint holds.

The last checkpoint holds the tensors that `save_last` names, and `runs.progress.Progress` as JSON. Everything else that
a step needs is a function of the config, the data and these. Other checkpoints hold weights to translate with.
"""

import contextlib
import dataclasses

from translate.data.corpora import data_fingerprint
from translate.distributed.process_group import World
from translate.distributed.state import full_state_dict, optimizer_state_dict
from translate.model.device import LOADING_HINT, explain_out_of_memory
from translate.runs.checkpoint import (
    AVERAGE_PREFIX,
    OPTIMIZER_PREFIX,
    WEIGHTS_PREFIX,
    add_prefix,
    write_checkpoint,
)
from translate.runs.directory import RunDirectory
from translate.runs.progress import Progress
from translate.runs.weights import get_parameters
from translate.training.optimizer import AveragedWeights
from translate.training.preparation import TrainingData
from translate.training.setup import describe_environment
from translate.training.step import TrainStep
from translate.training.validation import validation_fingerprint


@dataclasses.dataclass(eq=False)
class Training:
    """The inputs of training, and the state that changes while it runs: model, optimizer, average and progress."""

    run: RunDirectory
    data: TrainingData
    train_step: TrainStep  # has the model and the optimizer
    world: World

    def __post_init__(self) -> None:
        self.config, corpora, tokenizers, *_ = self.data
        settings, device = self.config.training, self.train_step.precision.device
        # The average is validated and saved as best; None: the weights themselves are.
        decay, model = settings.ema_decay, self.train_step.model
        self.average = None if decay is None else AveragedWeights(model, decay=decay)
        streams = None if corpora.streams is None else corpora.streams.identity
        self.progress = Progress(
            data_fingerprint(corpora.train, tokenizers, streams=streams),
            validation_fingerprint=validation_fingerprint(corpora.validation.values(), tokenizers, self.config),
            environment=describe_environment(settings, device, num_processes=self.world.size),
        )


@explain_out_of_memory("saving a checkpoint", hint=LOADING_HINT)
def save_last(training: Training) -> None:
    """Save everything that `resume.py` needs; rank 0 writes it.

    Raises:
        RunError: The checkpoint cannot be written; earlier ones are intact. On the other ranks it is a SilentExit.
    """
    model, optimizers, progress = training.train_step.model, training.train_step.optimizers, training.progress
    averages = {} if training.average is None else training.average.tensors
    tensors = add_prefix(get_parameters(model), WEIGHTS_PREFIX) | add_prefix(averages, AVERAGE_PREFIX)
    tensors |= add_prefix(optimizer_state_dict(model, optimizers), OPTIMIZER_PREFIX)
    tensors = full_state_dict(tensors, training.world)
    metadata = {"step": str(progress.step), "progress": progress.to_json()}
    training.world.run_on_rank_0(lambda: write_checkpoint(training.run, "last", tensors, metadata))


def remove_superseded(training: Training) -> None:
    """Remove the weights of validations that are no longer kept, also those that an interrupted training left.

    If training keeps none, the files are not its own.
    """
    settings, run = training.config.training, training.run
    owned = run.kept_steps() if settings.keep_last or settings.keep_best else []
    for step in {*owned} - training.progress.kept.keys():
        with contextlib.suppress(OSError):
            run.checkpoint(f"step-{step}").unlink()
