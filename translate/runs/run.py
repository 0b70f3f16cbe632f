"""A run on disk: it is checked once, and each of its parts is read once, when a part is first needed."""

import functools
import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from translate.config.languages import Languages
from translate.config.load import read_resolved_config
from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers, load_tokenizers
from translate.files import read_input, remember_folder
from translate.fingerprint import fingerprint
from translate.runs.checksums import check_inside, compare, read_checksums
from translate.runs.directory import Checkpoint, Description, RunDirectory, check_holds_run, parse_description

if TYPE_CHECKING:  # whoever only looks at a run does not wait for torch
    import torch

    from translate.model import Transformer
    from translate.runs.weights import SavedWeights


class SavedRun:
    """A run directory that this version can read.

    Making the object reads nothing. The parts that never change are read when they are first asked for, and kept; the
    first of them checks the run. Checkpoints and metrics, which training rewrites, are read each time.

    Raises:
        InputError: The path is not a run, or another version wrote it in a format that this one cannot read.
        RunError: A file is damaged, or a link that leads out of the run.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(os.path.expanduser(path))
        self.files = RunDirectory(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def check(self) -> "SavedRun":
        """Check the run now: whether this version reads its format, and no link leads out of it."""
        _ = self.description
        return self

    @functools.cached_property
    def checksums(self) -> dict[str, str]:
        """The recorded fingerprints of the text files and tokenizers, by name."""
        return read_checksums(self.path)

    @functools.cached_property
    def description(self) -> Description:
        """The content of `run.json`."""
        check_holds_run(self.path)
        remember_folder(self.path)
        for part in self.files.parts():
            check_inside(part, self.path)
        content = read_input(self.files.description)
        description = parse_description(self.files, content)
        compare(self.files.description, self.checksums.get(self.files.description.name), fingerprint(content))
        return description

    @functools.cached_property
    def config(self) -> Config:
        """The resolved config, which may have been edited."""
        return read_resolved_config(self.check().files.config)

    @functools.cached_property
    def languages(self) -> Languages:
        """The languages that it translates."""
        return Languages(self.config.data)

    @functools.cached_property
    def tokenizers(self) -> Tokenizers:
        """Its own tokenizers, unchanged since training."""

        def read(file: Path) -> bytes:
            content = read_input(file)
            compare(file, self.checksums.get(f"tokenizer/{file.name}"), fingerprint(content))
            return content

        return load_tokenizers(self.check().files.tokenizer, read)

    def weights(self, checkpoint: Checkpoint = "best") -> "SavedWeights":
        """The weights of a checkpoint; see `read_weights`."""
        from translate.runs.weights import read_weights

        return read_weights(self.check().files, checkpoint)

    def load_model(
        self, checkpoint: Checkpoint = "best", *, device: "torch.device | None" = None, as_stored: bool = False
    ) -> "LoadedModel":
        """Load the model, ready to translate.

        Args:
            checkpoint: best: chosen on validation; last: the newest; step-N: kept by training. If it has a moving
                average, that is loaded; LoRA's updates are added to the weights.
            as_stored: Weights that are stored in bf16 stay in bf16; otherwise all are fp32.

        Raises:
            InputError: The run does not have that checkpoint.
            RunError: A file is damaged, the weights do not fit the model, or there is not enough memory.
        """
        from translate.runs.weights import build_model, set_parameters, widen

        config, tokenizers, file = self.config, self.tokenizers, self.files.checkpoint(checkpoint)
        model = build_model(config, tokenizers, device=device, doing=f"loading {file}")
        saved = self.weights(checkpoint)
        set_parameters(model, saved.tensors, name=str(file))
        model = (model if as_stored else widen(model)).eval()
        return LoadedModel(self, model, checkpoint, saved.step, saved.averaged, saved.sha256)


class LoadedModel(NamedTuple):
    """The model of a run, and which of its weights it has."""

    run: SavedRun
    model: "Transformer"
    checkpoint: Checkpoint
    step: int  # at which the weights were saved
    averaged: tuple[int, ...]  # the steps of the checkpoints that were averaged; usually none
    sha256: str  # of the checkpoint's content

    @property
    def config(self) -> Config:
        """The run's config."""
        return self.run.config

    @property
    def tokenizers(self) -> Tokenizers:
        """The run's tokenizers."""
        return self.run.tokenizers


def open_run(run: SavedRun | str | PathLike[str]) -> SavedRun:
    """The run of a path, after its check; a run that is given stays the same."""
    return (run if isinstance(run, SavedRun) else SavedRun(run)).check()
