"""Layer 2: a run directory: what is in it, how it is written and read, safely. Copied elsewhere, it translates.

    config.yaml                        the resolved config, every default said
    run.json                           format, versions, command, checksums of the tokenizers
    tokenizer/                         SentencePiece models
    checkpoints/best.safetensors       the weights that scored best on validation
    checkpoints/last.safetensors       weights, optimizer and all else that `--resume` needs
    checkpoints/previous.safetensors   the last one before it, for when that is damaged
    metrics.jsonl                      one line for each log entry and validation
    evaluation/NAME/                   hypotheses and scores of a test set
    shortlist.safetensors              likely translations of each word, if `translate shortlist` made it
    export/                            the model as other engines read it, if one of them was asked for
    lock                               held by the process that trains

A file is on the disk before it gets its name, carries its own checksum, and runs nothing when it is read: tensors are
safetensors, the rest is text.
"""

from translate.runs.checkpoints import SoundCheckpoint, read_newest_sound, write_checkpoint
from translate.runs.creation import create_run, refuse_existing_run, write_config
from translate.runs.description import FORMAT
from translate.runs.directory import Checkpoint, RunDirectory
from translate.runs.loading import LoadedRun, build_model, load_run, open_run
from translate.runs.lock import lock_run
from translate.runs.tensors import TensorFile, read_tensors, write_tensors
from translate.runs.weights import (
    AVERAGE_PREFIX,
    WEIGHTS_PREFIX,
    add_prefix,
    get_parameters,
    set_parameters,
    with_prefix,
)

__all__ = [
    "AVERAGE_PREFIX",
    "FORMAT",
    "WEIGHTS_PREFIX",
    "Checkpoint",
    "LoadedRun",
    "RunDirectory",
    "SoundCheckpoint",
    "TensorFile",
    "add_prefix",
    "build_model",
    "create_run",
    "get_parameters",
    "load_run",
    "lock_run",
    "open_run",
    "read_newest_sound",
    "read_tensors",
    "refuse_existing_run",
    "set_parameters",
    "with_prefix",
    "write_checkpoint",
    "write_config",
    "write_tensors",
]
