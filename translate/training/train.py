"""From a config to a trained run directory: everything that `translate train` does, in order."""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from translate.config import Config, read_resolved_config, resolved_yaml
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.epochs import TrainingBatches
from translate.data.tokenizer import Tokenizers, load_tokenizers
from translate.data.tokenizer_training import prepare_tokenizers
from translate.errors import InputError
from translate.model.device import choose_device, choose_precision
from translate.run import RunDirectory, build_model, create_run, open_run, refuse_existing_run, write_text
from translate.training.average import AveragedWeights
from translate.training.checkpoints import restore_last
from translate.training.loop import Trainer
from translate.training.optimizer import build_optimizer
from translate.training.progress import Progress
from translate.training.tracking import Tracker

# A continued run may end later, or say more or less of itself; anything else would make it another training.
_MAY_CHANGE = {
    f"training.{name}"
    for name in (
        *("max_steps", "max_epochs", "validate_every", "save_every", "log_every", "patience"),
        *("threads", "device", "sample_translations", "tensorboard"),
    )
}
# What the training corpora hold is compared by checksum; where they lie may change.
_PLACES = (
    *("data.train", "data.validation", "data.test", "data.root"),
    *("tokenizer.source_model", "tokenizer.target_model"),
)


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
        _check_settings(config, directory, say)
    else:
        refuse_existing_run(directory)
    corpora, validation = _read_corpora(config)
    run = RunDirectory(directory)
    tokenizers = load_tokenizers(run.tokenizer) if resume else _make_tokenizers(config, corpora, say)
    batches = _encode(config, corpora, tokenizers, say)
    if validation is not None:
        _refuse_long_validation(config, validation, tokenizers)
    if not resume:
        create_run(directory, config=config, tokenizers=tokenizers, command=command)

    torch.manual_seed(settings.seed)
    model = build_model(config, tokenizers).to(device).train()
    optimizer = build_optimizer(model, settings)
    average = AveragedWeights(model, decay=settings.ema_decay) if settings.ema_decay is not None else None
    progress = Progress(data_fingerprint=_fingerprint(corpora, tokenizers))
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


def _read_corpora(config: Config) -> tuple[list[ParallelCorpus], ParallelCorpus | None]:
    """All that will be needed is read now, so that a missing test set is known before the training and not after it."""
    if not config.data.train:
        raise InputError("data.train names no corpus: there is nothing to train on")
    corpora = [read_corpus(corpus, key=f"data.train.{index}") for index, corpus in enumerate(config.data.train)]
    validation = None
    if config.data.validation is not None:
        validation = read_corpus(config.data.validation, key="data.validation")
    for name, corpus in config.data.test.items():
        read_corpus(corpus, key=f"data.test.{name}")
    return corpora, validation


def _make_tokenizers(config: Config, corpora: Sequence[ParallelCorpus], say: Callable[[str], None]) -> Tokenizers:
    started = time.perf_counter()
    sources = [line for corpus in corpora for line in corpus.sources]
    targets = [line for corpus in corpora for line in corpus.targets]
    tokenizers = prepare_tokenizers(config.tokenizer, sources, targets)
    sizes = f"joint vocabulary of {tokenizers.source.vocab_size}"
    if tokenizers.vocabulary == "separate":
        sizes = f"vocabularies of {tokenizers.source.vocab_size} and {tokenizers.target.vocab_size}"
    say(f"tokenizer: {sizes}, in {time.perf_counter() - started:.1f} s")
    return tokenizers


def _encode(
    config: Config, corpora: Sequence[ParallelCorpus], tokenizers: Tokenizers, say: Callable[[str], None]
) -> TrainingBatches:
    """The corpora as batches; what is left out of them is said."""
    batches = TrainingBatches(
        corpora,
        tokenizers,
        limits=config.data,
        subword_sampling=config.tokenizer.subword_sampling,
        batch_tokens=config.training.batch_tokens,
        seed=config.training.seed,
        num_threads=torch.get_num_threads(),
    )
    for report in batches.filter_reports:
        for line in report.lines():
            say(line)
    return batches


def _refuse_long_validation(config: Config, validation: ParallelCorpus, tokenizers: Tokenizers) -> None:
    if config.model.positions != "learned":
        return
    for number, target in enumerate(validation.targets, start=1):
        length = len(tokenizers.target.encode(target)) + 1
        if length > config.model.max_positions:
            raise InputError(
                f"data.validation: the target of pair {number} has {length} tokens, more than model.max_positions ="
                f" {config.model.max_positions}; raise that, leave the pair out, or use other model.positions"
            )


def _fingerprint(corpora: Iterable[ParallelCorpus], tokenizers: Tokenizers) -> str:
    """A checksum of all that is trained on, in its order."""
    digest = hashlib.sha256(tokenizers.source.model_bytes + tokenizers.target.model_bytes)
    for corpus in corpora:
        digest.update(f"{len(corpus.sources)} {corpus.weight}\n".encode())
        digest.update("\n".join(corpus.sources).encode("utf-8", "surrogatepass"))
        digest.update("\n".join(corpus.targets).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _check_settings(config: Config, directory: Path, say: Callable[[str], None]) -> None:
    """A run is continued with the settings it was begun with, but for those that change nothing of the steps done."""
    before, settings = read_resolved_config(open_run(directory).config), config.training
    saved, given = (
        _flatten(each.model_dump(mode="json", include={"tokenizer", "model", "training", "data"}))
        for each in (before, config)
    )
    different = [
        f"{key} = {given.get(key)} (the run has {saved.get(key)})"
        for key in sorted(saved.keys() | given.keys())
        if saved.get(key) != given.get(key) and key not in _MAY_CHANGE and not key.startswith(_PLACES)
    ]
    if different:
        raise InputError(f"{directory} was begun with other settings, so it cannot go on with: {'; '.join(different)}")
    if settings.schedule in {"linear", "cosine"} and settings.max_steps != before.training.max_steps:
        say(f"training.max_steps is now {settings.max_steps}, and the {settings.schedule} schedule ends there")


def _flatten(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        key: leaf
        for name, item in value.items()
        for key, leaf in _flatten(item, f"{prefix}.{name}" if prefix else name).items()
    }
