"""A run directory: what is in it, and how it is written and read safely. Copied elsewhere, it still translates.

    config.yaml                        the resolved config, with every default
    run.json                           format, versions, command, date
    tokenizer/                         SentencePiece models
    SHA256SUMS                         checksums of these text files and models
    checkpoints/best.safetensors       the weights that scored best on validation
    checkpoints/last.safetensors       weights, optimizer and everything else that `--resume` needs
    checkpoints/previous.safetensors   the last checkpoint but one, for when the last is damaged
    metrics.jsonl                      one line for each log entry and validation
    evaluation/NAME/                   hypotheses and scores of a test set
    shortlist.safetensors              likely translations of each word, if `translate shortlist` made it
    export/                            the model in the formats of other engines, if one of them was asked for
    lock                               held by the process that trains

A file is on the disk before it gets its name, and reading one runs no code: tensors are safetensors, the rest is text.
"""

from translate.runs.checkpoint import (
    AVERAGE_PREFIX,
    WEIGHTS_PREFIX,
    add_prefix,
    read_newest_intact,
    read_tensors,
    with_prefix,
    write_checkpoint,
    write_tensors,
)
from translate.runs.directory import (
    FORMAT,
    Checkpoint,
    RunDirectory,
    check_holds_no_run,
    create_run,
    open_run,
    write_config,
)
from translate.runs.loading import LoadedRun, build_model, get_parameters, load_run, set_parameters
from translate.runs.lock import lock_run

__all__ = [
    "AVERAGE_PREFIX",
    "FORMAT",
    "WEIGHTS_PREFIX",
    "Checkpoint",
    "LoadedRun",
    "RunDirectory",
    "add_prefix",
    "build_model",
    "check_holds_no_run",
    "create_run",
    "get_parameters",
    "load_run",
    "lock_run",
    "open_run",
    "read_newest_intact",
    "read_tensors",
    "set_parameters",
    "with_prefix",
    "write_checkpoint",
    "write_config",
    "write_tensors",
]
