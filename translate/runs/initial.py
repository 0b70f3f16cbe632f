"""Initial weights of a fine-tuning: the weights of another run, with rows for new entries of the vocabulary."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from translate.config.inherit import check_agreement
from translate.config.languages import UNKNOWN, Languages, list_some
from translate.config.schema import Config
from translate.config.yaml import shown_path
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.fingerprint import fingerprint
from translate.language_codes import find_language
from translate.model import Transformer
from translate.runs.directory import Checkpoint
from translate.runs.metrics import read_metrics
from translate.runs.run import SavedRun, open_run
from translate.runs.weights import get_parameters, set_parameters

_NOISE = 0.01  # of new rows, in standard deviations of the existing ones


class InitialWeights(NamedTuple):
    """The weights of a checkpoint of another run."""

    file: Path
    tensors: dict[str, Tensor]
    sha256: str  # of the file
    checkpoint: Checkpoint
    step: int  # at which they were saved
    bleu: float | None  # at that step, on that run's validation corpus; None: unknown
    origin: dict[str, Any]  # the imported model and the licences behind the weights: see `Description`

    @property
    def run(self) -> Path:
        """The run's directory."""
        return self.file.parents[1]

    def __str__(self) -> str:
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.2f}"
        return f"{shown_path(self.run)} (step {self.step:,}{bleu})"

    def provenance(self, directory: Path) -> dict[str, Any]:
        """The entry of `run.json` about the initial weights of a run in `directory`, to which the path is relative."""
        run = Path(os.path.relpath(self.run, directory.resolve())).as_posix()
        values = {"run": run, "checkpoint": self.checkpoint, "step": self.step, "sha256": self.sha256}
        values |= self.origin
        return {"initialized_from": values}

    def give_to(self, model: Transformer, *, seed: int, related: Sequence[Mapping[int, int]] = ({}, {})) -> None:
        """Give a model these weights. New rows of a larger vocabulary are the mean of the others plus a little noise.

        So the logit of a new entry is near the mean of all, and the other probabilities hardly change. Weights that are
        stored in bf16 stay in bf16. They are moved, not copied: this works once.

        Args:
            related: New ids of the source and of the target that get the rows of other ids instead.

        Source: Hewitt 2021, https://nlp.stanford.edu/~johnhew/vocab-expansion.html.

        Raises:
            RunError: They do not fit the model.
        """
        generator, tensors = torch.Generator().manual_seed(seed), self.tensors
        for name, parameter in get_parameters(model).items():
            rows = tensors.get(name)
            if rows is not None and rows.shape[1:] == parameter.shape[1:] and 0 < len(rows) < len(parameter):
                noise = torch.randn(len(parameter) - len(rows), *rows.shape[1:], generator=generator)
                exact = rows.float()
                mean, deviation = exact.mean(0), exact.std(0)
                if name == "output.bias" and not model.config.bias:  # it excludes tokens, and not these
                    mean = deviation = exact.new_zeros(())
                tensors[name] = torch.cat([exact, mean + _NOISE * deviation * noise])
                for token, same in related[not name.startswith("encoder")].items():
                    tensors[name][token] = rows[same]
        set_parameters(model, tensors, name=str(self.file))


def check_languages(config: Config, base: Languages, *, run: Path) -> None:
    """Check that a multilingual base run knows all languages of its fine-tuning, except for those that are added.

    Raises:
        InputError: It does not know one, perhaps one that `tokenizer.add_languages` names as related; or that key would
            add no tag.
    """
    known = sorted({*(base.sources if base.tags == "both" else ()), *base.targets})  # those with a tag
    added = config.tokenizer.add_languages
    codes = {code for pair in Languages(config.data).directions for code in (pair if base.tags == "both" else pair[1:])}
    if added and not base.tags:
        raise InputError(
            f"tokenizer.add_languages: training.initialize_from = {run} has no language tags to add to; leave it out,"
            " because the languages of the training corpora decide on tags"
        )
    if unused := sorted(added.keys() - codes):
        side = "" if base.tags == "both" else "as its target "
        raise InputError(
            f"tokenizer.add_languages: no corpus of data.train has {side}the language {list_some(unused)}, so there is"
            " nothing to learn it from; add such a corpus, or leave it out"
        )
    codes |= {*config.data.languages}
    for code in sorted({*(codes - added.keys()), *filter(None, added.values())} - {*known}) if base.tags else ():
        to = f" to {same}" if (same := find_language(code, known)) else ""
        advice = f"Correct the code{to}, or add a language with 'tokenizer.add_languages={{{code}: RELATED}}'"
        if code == UNKNOWN:
            advice = "Name source_language and target_language of each corpus"
        raise InputError(
            f"training.initialize_from = {run} does not know the language {code}; it knows"
            f" {list_some(known, near=code)}. {advice}"
        )


def related_tags(config: Config, tokenizers: Tokenizers) -> list[dict[int, int]]:
    """The ids of new languages' tags and of the languages that they begin as, for each side."""
    tag = config.data.language_tag.format
    pairs = [(tag(new), tag(old)) for new, old in config.tokenizer.add_languages.items() if old]
    sides = ([map(tokenizer.tag_id, pair) for pair in pairs] for tokenizer in tokenizers[:2])
    return [{new: old for new, old in side if new is not None and old is not None} for side in sides]


def read_initial_weights(config: Config) -> InitialWeights | None:
    """The weights of `training.initialize_from`; None: it names no run.

    Raises:
        InputError: There is no run or no such checkpoint, or the config contradicts the run's.
        RunError: A file is damaged.
    """
    path, checkpoint = config.training.initialize_from, config.training.initialize_checkpoint
    if path is None:
        return None
    try:
        run = open_run(path)
    except InputError as error:
        raise InputError(f"training.initialize_from: {error}") from error
    check_agreement(config.model_dump(mode="json"), run.config, run=path)
    check_languages(config, run.languages, run=path)
    tensors, step, averaged, _ = run.weights(checkpoint)
    file, recorded = run.files.checkpoint(checkpoint), [] if averaged else read_metrics(run.files)
    scores = [record.get("BLEU") for record in recorded if (record["kind"], record["step"]) == ("validation", step)]
    licences = sorted(run.description.licences(run.config.data), key=str)
    origin = {"imported": run.description.base, "licences": licences}
    bleu = scores[-1] if scores else None
    return InitialWeights(file.resolve(), tensors, fingerprint(file), checkpoint, step, bleu, origin)


def check_unchanged(run: SavedRun, initial: InitialWeights) -> None:
    """Raise an InputError if a run has no checkpoint yet and its initial weights have changed since it was created."""
    if run.description.initialized_from.get("sha256") != initial.sha256:
        raise InputError(
            f"{run} has no checkpoint yet, and {initial.file} has changed since it was started: remove {run}"
            " and start again"
        )
