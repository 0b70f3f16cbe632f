"""From a config to a trained run directory: everything that `translate train` does, in order."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from translate.config import Config
from translate.config.advice import Finding
from translate.data.tokenizer import load_tokenizers
from translate.errors import InputError
from translate.model.device import choose_device
from translate.run import RunDirectory, build_model, create_run, lock_run, refuse_existing_run, write_config
from translate.training.average import AveragedWeights
from translate.training.check import cheap_findings
from translate.training.checkpoints import Restored, restore_last
from translate.training.circumstances import circumstances, describe_changes
from translate.training.loop import Trainer
from translate.training.metrics_log import MetricsLog
from translate.training.optimizer import build_optimizer
from translate.training.preparation import (
    encode_corpora,
    fingerprint,
    make_tokenizers,
    read_corpora,
    refuse_long_validation,
)
from translate.training.progress import Progress
from translate.training.resuming import check_settings, is_begun
from translate.training.steady_memory import limit_kernels
from translate.training.tracking import Tracker

Say = Callable[[str], None]


def train(config: Config, directory: Path, *, resume: bool, command: list[str], say: Say = print) -> Progress:
    """Train as the config says, into a run directory.

    Args:
        resume: Go on with the run in that directory; if none has been begun there, begin one.
        command: What the user typed, to be kept in the run.
        say: Receives what is worth telling before the first step.

    Returns:
        Where the training stands at its end.

    Raises:
        InputError: The config or the data cannot be used, the directory holds a run and `resume` is off, or another
            process trains there.
        RunError: Something failed on the way; checkpoints written so far are intact.
        StoppedBySignal: SIGINT or SIGTERM came, and the training is saved. A `KeyboardInterrupt`.
    """
    if not (resume and directory.is_dir()):
        refuse_existing_run(directory)
    limit_kernels()
    device = choose_device(config.training.device)
    if config.training.threads is not None:
        torch.set_num_threads(config.training.threads)
    with lock_run(directory):
        is_continued = is_begun(directory) and resume
        if is_continued:
            check_settings(config, directory, say)
        elif resume:
            say(f"{directory} holds no run to go on with: beginning one")
        return _train(config, RunDirectory(directory), device, is_continued=is_continued, command=command, say=say)


def _train(
    config: Config, run: RunDirectory, device: torch.device, *, is_continued: bool, command: list[str], say: Say
) -> Progress:
    settings = config.training
    corpora = read_corpora(config)
    tokenizers = load_tokenizers(run.tokenizer) if is_continued else make_tokenizers(config, corpora.train, say)
    batches = encode_corpora(config, corpora.train, tokenizers, say)
    if corpora.validation is not None:
        refuse_long_validation(config, corpora.validation, tokenizers)
    if not is_continued:
        create_run(run.path, config=config, tokenizers=tokenizers, command=command)

    torch.manual_seed(settings.seed)
    model = build_model(config, tokenizers, device=device).train()
    optimizer = build_optimizer(model, settings)
    average = AveragedWeights(model, decay=settings.ema_decay) if settings.ema_decay is not None else None
    progress = Progress(fingerprint(corpora.train, tokenizers), circumstances=circumstances(settings, device))
    if is_continued:
        progress = _go_on(run, restore_last(run, model, optimizer, average), now=progress, say=say)
        write_config(run, config)
    arithmetic = progress.circumstances["precision"]
    threads = torch.get_num_threads()
    say(
        f"model: {model.num_parameters:,} parameters; {device}, {arithmetic}, {threads} CPU thread{'s' * (threads > 1)}"
    )

    if not is_continued:
        _say_findings(
            cheap_findings(config, corpora, batches, tokenizers, num_parameters=model.num_parameters), say=say
        )

    tracker = Tracker(
        MetricsLog(run.metrics, first_step=progress.step, mark=progress.metrics, say=say),
        first_step=progress.step,
        max_steps=settings.max_steps,
        tensorboard=run.path / "tensorboard" if settings.tensorboard else None,
    )
    try:
        Trainer(
            config,
            run=run,
            model=model,
            tokenizers=tokenizers,
            optimizer=optimizer,
            average=average,
            batches=batches,
            validation=corpora.validation,
            progress=progress,
            tracker=tracker,
        ).train()
    finally:
        tracker.close()
    return progress


def _go_on(run: RunDirectory, restored: Restored | None, *, now: Progress, say: Say) -> Progress:
    """Where a continued training stands, if its data are the same; what else is not as it was is said.

    Args:
        now: The progress of a training that begins.
    """
    if restored is None:
        say(f"{run.path} has no checkpoint yet: its training begins at the first step")
        return now
    saved = restored.progress
    if saved.data_fingerprint != now.data_fingerprint:
        raise InputError(f"{run.path}: data.train is not what this run was trained on, so it cannot be continued")
    for remark in (*restored.remarks, describe_changes(saved.circumstances, now.circumstances)):
        if remark is not None:
            say(remark)
    say(f"going on from step {saved.step}")
    saved.circumstances = now.circumstances
    return saved


def _say_findings(findings: Sequence[Finding], *, say: Say) -> None:
    """What should make people think before they wait for the training; the rest is counted."""
    notes = [finding for finding in findings if finding.severity == "note"]
    for finding in findings:
        if finding not in notes:
            say(finding.summary)
    if notes:
        say(f"{len(notes)} note{'s' * (len(notes) > 1)} on the data and settings: translate check tells")
