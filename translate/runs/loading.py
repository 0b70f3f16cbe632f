"""From a run directory to a model that translates: whole and sound, or refused with a reason."""

import os
from pathlib import Path
from typing import NamedTuple

import torch

from translate.config import Config, ModelConfig, read_resolved_config
from translate.config.yaml import read_yaml
from translate.data.tokenizer import PAD_ID, Tokenizers, load_tokenizers
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.model.device import explain_out_of_memory
from translate.runs.checkpoints import read_step
from translate.runs.description import check_tokenizers, read_description
from translate.runs.directory import Checkpoint, RunDirectory
from translate.runs.header import TORCH_DTYPES, Header, read_header
from translate.runs.safety import refuse_hostile_paths
from translate.runs.tensors import read_tensors
from translate.runs.weights import (
    AVERAGE_PREFIX,
    WEIGHTS_PREFIX,
    Form,
    expected_forms,
    named,
    refuse_misfits,
    set_parameters,
    with_prefix,
)


class LoadedRun(NamedTuple):
    """What translating needs of a run."""

    directory: Path
    config: Config
    tokenizers: Tokenizers
    model: Transformer
    step: int  # at which the weights were saved


def open_run(path: Path) -> RunDirectory:
    """A run directory that exists, that this version can read, and whose config and tokenizers are its own and whole.

    Raises:
        InputError: No directory, no run, or one of a newer format.
        RunError: Damaged or hostile.
    """
    refuse_no_run(path)
    run = RunDirectory(path)
    refuse_hostile_paths(run)
    description = read_description(run)
    refuse_incomplete_config(run)
    check_tokenizers(run, description)
    return run


def refuse_no_run(path: Path) -> None:
    """Raise the InputError that says what a path is, if it is not a run directory."""
    run = RunDirectory(path)
    if not path.is_dir():
        raise InputError(f"{path}: {'is a file, no run directory' if path.exists() else 'no such run directory'}")
    if os.path.lexists(run.description):
        return
    if not any(path.iterdir()):
        raise InputError(f"{path} is no run directory: it is empty")
    parts = [part.name for part in (run.config, run.tokenizer, run.checkpoints, run.metrics) if part.exists()]
    if parts:
        raise InputError(
            f"{path} is an incomplete run directory: it has {', '.join(parts)}, but no {run.description.name}; copy it"
            " again, whole, or train it again"
        )
    raise InputError(f"{path} is no run directory: it has no {run.description.name}")


def refuse_incomplete_config(run: RunDirectory) -> None:
    """Raise the InputError that names what a run's config lacks, if it does.

    A value that is not said would get its default, and so a file that was cut would give another model in silence.
    Sections and keys of the model that are younger than format 1 are to be excepted here.
    """
    values = read_yaml(run.config).values
    lacking = [name for name in Config.model_fields if name not in values]
    model = values.get("model")
    if isinstance(model, dict):
        lacking += [f"model.{name}" for name in ModelConfig.model_fields if name not in model]
    if lacking:
        raise InputError(
            f"{run.config}: is incomplete: it lacks {named(lacking)}; a run's config says every value, so copy it anew"
            " from where it came"
        )


def load_run(path: Path, *, checkpoint: Checkpoint = "best", device: torch.device | None = None) -> LoadedRun:
    """A run's config, tokenizers and model, ready to translate.

    Args:
        checkpoint: best: chosen on validation; last: the newest. A run with an average of its weights gives that.

    Raises:
        InputError: Not a run, or one without that checkpoint.
        RunError: Damaged or hostile, or weights that do not fit the model.
    """
    run = open_run(path)
    config = read_resolved_config(run.config)
    tokenizers = load_tokenizers(run.tokenizer)
    file = run.checkpoint(checkpoint)
    if not file.is_file():
        hint = "; training has not validated yet: --checkpoint last" if run.checkpoint("last").is_file() else ""
        raise InputError(f"{path} has no checkpoint {file.name}{hint}")
    header = read_header(file)
    prefix = weights_prefix(header)
    check_weights(file, header, config, tokenizers, prefix=prefix)
    tensors, metadata = read_tensors(file)
    step = read_step(file, metadata)
    model = build_model(config, tokenizers, device=device)
    set_parameters(model, with_prefix(tensors, prefix), name=str(file))
    return LoadedRun(path, config, tokenizers, model.eval(), step)


def weights_prefix(header: Header) -> str:
    """Of the weights in a checkpoint that translate: their average, if there is one."""
    return AVERAGE_PREFIX if any(name.startswith(AVERAGE_PREFIX) for name in header.entries) else WEIGHTS_PREFIX


def check_weights(file: Path, header: Header, config: Config, tokenizers: Tokenizers, *, prefix: str) -> None:
    """Raise the RunError that says why a checkpoint's weights are not those of the config's model, if they are not.

    Nothing is allocated before: a config from elsewhere may ask for more than any computer has.
    """
    given = {
        name.removeprefix(prefix): Form(entry.shape, TORCH_DTYPES[entry.dtype])
        for name, entry in header.entries.items()
        if name.startswith(prefix)
    }
    for side, tokenizer in (("encoder", tokenizers.source), ("decoder", tokenizers.target)):
        embedding = given.get(f"{side}.embedder.tokens.weight")
        if embedding is not None and embedding.shape[:1] != (tokenizer.vocab_size,):
            raise RunError(
                f"{file}: the {side}'s embedding has the shape {embedding.shape}, but its tokenizer in this run has"
                f" {tokenizer.vocab_size} subwords: it is another model's"
            )
    refuse_misfits(expected_forms(config.model, tokenizers), given, name=str(file))


def build_model(config: Config, tokenizers: Tokenizers, *, device: torch.device | None = None) -> Transformer:
    """The model of a config with the vocabularies of its tokenizers, newly initialised.

    Args:
        device: Where it goes; its weights are drawn on the CPU, and so the same on each.

    Raises:
        OutOfMemory: The memory is not enough.
    """
    sizes = config.model
    with explain_out_of_memory(
        f"the building of a model with model.d_model = {sizes.d_model}, model.d_ff = {sizes.d_ff},"
        f" {sizes.num_encoder_layers} encoder and {sizes.num_decoder_layers} decoder layers, and"
        f" {tokenizers.target.vocab_size} subwords (tokenizer.vocab_size)",
        hint="Lower them, or take a machine with more memory.",
    ):
        return Transformer(
            sizes,
            source_vocab_size=tokenizers.source.vocab_size,
            target_vocab_size=tokenizers.target.vocab_size,
            pad_id=PAD_ID,
        ).to(device)
