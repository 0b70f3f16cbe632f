"""From a config to a trained run directory: everything that `translate train` does, in order."""

from collections.abc import Callable
from pathlib import Path

import torch

from translate.config import Config, resolved_yaml
from translate.data.tokenizer import load_tokenizers
from translate.errors import InputError
from translate.model.device import choose_device, choose_precision
from translate.run import RunDirectory, build_model, create_run, refuse_existing_run, write_text
from translate.training.average import AveragedWeights
from translate.training.checkpoints import restore_last
from translate.training.loop import Trainer
from translate.training.optimizer import build_optimizer
from translate.training.preparation import (
    encode_corpora,
    fingerprint,
    make_tokenizers,
    read_corpora,
    refuse_long_validation,
)
from translate.training.progress import Progress
from translate.training.resuming import check_settings
from translate.training.tracking import Tracker


def train(
    config: Config, directory: Path, *, resume: bool, command: list[str], say: Callable[[str], None] = print
) -> Progress:
    """Train as the config says, into a run directory.

    Args:
        resume: Go on with the run in that directory, if there is one with a checkpoint.
        command: What the user typed, to be kept in the run.
        say: Receives what is worth telling before the first step.

    Returns:
        Where the training stands at its end.

    Raises:
        InputError: The config or the data cannot be used, or the directory holds a run and `resume` is off.
        RunError: Something failed on the way; checkpoints written so far are intact.
    """
    settings = config.training
    device = choose_device(settings.device)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    if resume:
        check_settings(config, directory, say)
    else:
        refuse_existing_run(directory)
    corpora = read_corpora(config)
    validation = corpora.validation
    run = RunDirectory(directory)
    tokenizers = load_tokenizers(run.tokenizer) if resume else make_tokenizers(config, corpora.train, say)
    batches = encode_corpora(config, corpora.train, tokenizers, say)
    if validation is not None:
        refuse_long_validation(config, validation, tokenizers)
    if not resume:
        create_run(directory, config=config, tokenizers=tokenizers, command=command)

    torch.manual_seed(settings.seed)
    model = build_model(config, tokenizers).to(device).train()
    optimizer = build_optimizer(model, settings)
    average = AveragedWeights(model, decay=settings.ema_decay) if settings.ema_decay is not None else None
    progress = Progress(data_fingerprint=fingerprint(corpora.train, tokenizers))
    if resume and run.checkpoint("last").is_file():
        saved = restore_last(run, model, optimizer, average)
        if saved.data_fingerprint != progress.data_fingerprint:
            raise InputError(f"{directory}: data.train is not what this run was trained on, so it cannot be continued")
        progress = saved
        write_text(run.config, resolved_yaml(config))
        say(f"going on from step {progress.step}")
    precision = choose_precision(settings.precision, device)
    say(f"model: {model.num_parameters:,} parameters; {device}, {precision}, {torch.get_num_threads()} CPU threads")

    tensorboard = directory / "tensorboard" if settings.tensorboard else None
    tracker = Tracker(run.metrics, first_step=progress.step, max_steps=settings.max_steps, tensorboard=tensorboard)
    try:
        Trainer(
            config,
            run=run,
            model=model,
            tokenizers=tokenizers,
            optimizer=optimizer,
            average=average,
            batches=batches,
            validation=validation,
            progress=progress,
            tracker=tracker,
        ).train()
    finally:
        tracker.close()
    return progress
