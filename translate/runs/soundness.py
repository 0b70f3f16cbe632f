"""What each file of a run must be: compared with its checksum, read, and compared with what belongs to it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from translate.config import Config
from translate.data.tokenizer import Tokenizers
from translate.errors import RunError
from translate.runs.checkpoints import OPTIMIZER_PREFIX, read_step
from translate.runs.checksums import check_checksums
from translate.runs.directory import RunDirectory
from translate.runs.header import Header, read_header
from translate.runs.loading import check_weights, weights_prefix
from translate.runs.safety import MOST_TEXT_BYTES, require_kind
from translate.runs.seal import check_seal, file_digest, shortened
from translate.runs.tensors import SEAL_KEY, TensorFile, read_tensors
from translate.runs.weights import AVERAGE_PREFIX, WEIGHTS_PREFIX, named, with_prefix


class Found(NamedTuple):
    """A file that is as it should be, as far as can be said."""

    is_sealed: bool  # else nobody knows its checksum
    detail: str


class Parts(NamedTuple):
    """What a run's checkpoints belong to; None where that is damaged itself."""

    config: Config | None
    tokenizers: Tokenizers | None


def check_best(path: Path, parts: Parts, progress: Mapping[str, Any] | None) -> Found:
    """The best checkpoint: its checksum, its weights against the config, its numbers, and its step.

    Args:
        progress: Of the newest sound checkpoint to resume from; None: there is none.

    Raises:
        RunError: Something is not right.
    """
    header = read_header(path)
    tensors, metadata = _read(path, header, parts, prefixes={weights_prefix(header)})
    step, best_step = read_step(path, metadata), (progress or {}).get("best_step")
    if isinstance(best_step, int) and step < best_step:
        raise RunError(f"{path}: of step {step}, but the training has a better one of step {best_step}; copy that too")
    num_parameters = sum(tensor.numel() for tensor in tensors.values())
    return Found(SEAL_KEY in header.metadata, f"step {step}, {num_parameters:,} parameters")


def check_last(path: Path, parts: Parts) -> Found:
    """The last checkpoint, or the one before: also all that a training needs to go on.

    Raises:
        RunError: Something is not right.
    """
    header = read_header(path)
    tensors, metadata = _read(path, header, parts, prefixes={WEIGHTS_PREFIX, weights_prefix(header)})
    step = read_step(path, metadata)
    _check_state(path, tensors, metadata, parts.config)
    return Found(SEAL_KEY in header.metadata, f"step {step}, resumable")


def _read(path: Path, header: Header, parts: Parts, *, prefixes: set[str]) -> TensorFile:
    """What a checkpoint holds, if its weights are those of the config's model, and finite."""
    file = read_tensors(path)
    if parts.config is not None and parts.tokenizers is not None:
        for prefix in sorted(prefixes):
            check_weights(path, header, parts.config, parts.tokenizers, prefix=prefix)
    broken = [
        name
        for name, tensor in file.tensors.items()
        if tensor.is_floating_point() and not bool(tensor.isfinite().all())
    ]
    if broken:
        raise RunError(f"{path}: not all numbers are finite in {named(broken)}")
    return file


def _check_state(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], config: Config | None) -> None:
    """The optimizer has the same entries for each parameter, and what else a training goes on from is there."""
    parameters = with_prefix(tensors, WEIGHTS_PREFIX)
    state = with_prefix(tensors, OPTIMIZER_PREFIX)
    kinds = {name.rpartition("/")[2] for name in state}
    missing = [f"{OPTIMIZER_PREFIX}{name}/{kind}" for name in parameters for kind in kinds]
    missing = sorted(name for name in missing if name not in tensors)
    if not kinds:
        missing.append(f"{OPTIMIZER_PREFIX}*")
    if config is not None and config.training.ema_decay is not None and not with_prefix(tensors, AVERAGE_PREFIX):
        missing.append(f"{AVERAGE_PREFIX}*")
    if missing:
        raise RunError(f"{path}: cannot be resumed from; missing: {named(missing)}")
    strange = [
        f"{OPTIMIZER_PREFIX}{name}"
        for name, tensor in state.items()
        if (parameter := parameters.get(name.rpartition("/")[0])) is None
        or (tensor.dim() and tensor.shape != parameter.shape)
    ]
    if strange:
        raise RunError(f"{path}: cannot be resumed from; these fit no weights: {named(strange)}")
    read_progress(path, metadata)


def read_progress(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    """The counters in a checkpoint to resume from.

    Raises:
        RunError: It has none.
    """
    try:
        progress = json.loads(metadata["progress"])
        if not isinstance(progress, dict):
            raise ValueError("it is no mapping")
    except (ValueError, KeyError, RecursionError) as error:
        raise RunError(f"{path}: cannot be resumed from; its progress is missing or unreadable: {error}") from error
    return progress


def check_shortlist(run: RunDirectory, parts: Parts) -> Found:
    """A shortlist's checksum, and whether it is one of the run's vocabularies.

    Raises:
        RunError: Something is not right.
    """
    file = run.shortlist
    header, tensors = read_header(file), read_tensors(file).tensors
    if parts.tokenizers is not None:
        expected = [parts.tokenizers.source.vocab_size, parts.tokenizers.target.vocab_size]
        sizes = [len(tensors.get(name, ())) for name in ("translations", "always")]
        if sizes != expected:
            raise RunError(
                f"{file}: is a shortlist for vocabularies of {sizes[0]} and {sizes[1]} subwords, but the tokenizers"
                f" have {expected[0]} and {expected[1]}"
            )
    return Found(SEAL_KEY in header.metadata, "")


def check_metrics(run: RunDirectory, progress: Mapping[str, Any] | None) -> Found:
    """Whether the metrics are lines of JSON, and begin with what the checkpoint saw.

    Args:
        progress: Of the newest sound checkpoint; None: there is none.

    Raises:
        RunError: Something is not right.
    """
    path = run.metrics
    num_bytes, expected = (progress or {}).get("metrics_bytes"), (progress or {}).get("metrics_sha256")
    if isinstance(num_bytes, int) and isinstance(expected, str):
        digest = _digest_of_beginning(path, num_bytes)
        if digest != expected:
            raise RunError(
                f"{path}: its first {num_bytes} bytes should have the checksum {shortened(expected)}, but have"
                f" {shortened(digest)}"
            )
    num_lines, is_cut = 0, False
    with path.open("rb") as file:
        while line := file.readline(MOST_TEXT_BYTES):
            if not line.endswith(b"\n") and len(line) < MOST_TEXT_BYTES:
                is_cut = True
                break
            num_lines += 1
            try:
                json.loads(line)["step"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise RunError(f"{path}: line {num_lines} is no record: {error}") from error
    end = ", and a half one of a process that was killed, which --resume removes" if is_cut else ""
    return Found(expected is not None, f"{num_lines} records{end}")


def _digest_of_beginning(path: Path, num_bytes: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while num_bytes > 0 and (chunk := file.read(min(num_bytes, MOST_TEXT_BYTES))):
            digest.update(chunk)
            num_bytes -= len(chunk)
    return digest.hexdigest()


def check_report(path: Path) -> Found:
    """An evaluation's report.

    Raises:
        RunError: Something is not right.
    """
    content = path.read_bytes()
    is_sealed = check_seal(path, content)
    _read_report(path)
    return Found(is_sealed, "")


def check_hypotheses(path: Path, report: Path) -> Found:
    """The translations that a report is of.

    Raises:
        RunError: They are others.
    """
    try:
        require_kind(report, "file", within=report.parent, most_bytes=MOST_TEXT_BYTES)
        recorded = _read_report(report).get("hypotheses") if report.exists() else None
    except RunError:  # said of the report already
        recorded = None
    if recorded is not None and file_digest(path) != recorded:
        raise RunError(f"{path}: not those that {report.name} is of; make both anew with translate eval")
    return Found(recorded is not None, "")


def _read_report(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_bytes())
        if not isinstance(report, dict):
            raise ValueError("it is no mapping")
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: is no report: {error}") from error
    return report


def check_conversion(folder: Path) -> Found:
    """A model that was converted for another engine.

    Raises:
        RunError: A file is not as it was written.
    """
    return Found(check_checksums(folder), "")
