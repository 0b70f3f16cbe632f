"""The Python interface to whole runs: train one, look at it, evaluate it, see its attention."""

import contextlib
import functools
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch

from translate.config.load import as_path, load_config, names_run
from translate.config.schema import Config
from translate.decoding import Translator
from translate.decoding.loading import load_own_translator, load_translator
from translate.errors import InputError
from translate.evaluation import evaluate as evaluation
from translate.evaluation.metrics import References, check_lengths, list_references
from translate.evaluation.test_sets import choose_test_set
from translate.messages import MessageFormatter
from translate.runs.directory import Checkpoint
from translate.runs.metrics import Record, best_checkpoint_record, read_metrics
from translate.runs.run import SavedRun, open_run
from translate.visualize.attention import Attention, AttentionChoice, AttentionKind, AttentionUnit, look_at_attention


class Run(SavedRun):
    """One training run on disk, with its config, its training history and its model.

    Raises:
        InputError: There is no run, or another version wrote it in a format that this one cannot read.
        RunError: The run is damaged.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__(path)
        self.check()

    @property
    def metrics(self) -> list[Record]:
        """The records of training in order, with their `kind` (train or validation) and `step`."""
        return read_metrics(self.files)

    @property
    def step(self) -> int:
        """The last recorded step."""
        return int(max((record["step"] for record in self.metrics), default=0))

    @property
    def best(self) -> Record | None:
        """The record of the best validation, whose weights are the best checkpoint; None: there was no validation."""
        return best_checkpoint_record(self.files, self.metrics, self.config.training.best_metric)

    def load(self, **options: Any) -> Translator:
        """The run's translator; see `translate.load`."""
        return load(self, **options)

    def __repr__(self) -> str:
        best = self.best
        score = "" if best is None else f", BLEU {best['BLEU']:.2f} at step {best['step']:,.0f}"
        return f"<Run {self}, {self.languages}: {self.step:,} steps{score}>"


def load(
    run: SavedRun | str | PathLike[str],
    *,
    checkpoint: Checkpoint = "best",
    ensemble: Sequence[SavedRun | str | PathLike[str]] = (),
    reverse: SavedRun | str | PathLike[str] | None = None,
    forbidden: Sequence[str] = (),
    to: str | None = None,
    from_: str | None = None,
    **options: Any,
) -> Translator:
    """Load the translator of a run: `load("runs/demo").translate("Ein Hund schläft.", beam_size=5).text`.

    Args:
        checkpoint: best: chosen on validation; last: the newest.
        ensemble: Other runs whose probabilities are averaged with this run's.
        reverse: A run that translates in reverse; its log-probability of the source also ranks the beam.
        forbidden: Words and phrases that no translation contains in the subwords that the tokenizer makes of them.
        to: The language of translations that name none, if the run has several.
        from_: The language of their sources.
        options: Settings of the config section `decoding`, such as `precision="bf16"`.

    Raises:
        InputError: Not a run, or invalid settings.
        RunError: A damaged run.
    """
    asked_for: dict[str, Any] = {"ensemble": ensemble, "reverse": reverse, "forbidden": forbidden}
    return load_translator(run, checkpoint=checkpoint, options=options, to=to, from_=from_, **asked_for).translator


def train(
    config: str | PathLike[str] | Mapping[str, Any] | Config,
    *,
    run: str | PathLike[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    ignore_errors: bool = False,
) -> Run:
    """Train a tokenizer and a model, as `translate train` does.

    The progress is printed, unless the program has given the logger `translate` a level, or the root logger
    another than its default.

    Args:
        config: The name of a preset, the path of a config file, or the content of such a file; to resume, also the
            path of a run. A bare name, such as `"demo"`, is a preset; a path has a slash or a suffix, or is a `Path`.
        run: The directory of the run; None: runs/NAME, or the run that is given as the config.
        overrides: Values that replace the config's, by dotted key, such as `{"training.max_steps": 200}`.
        resume: Continue the run in that directory; if there is none yet, start one.
        ignore_errors: Start a new run even if the check of its data and settings finds errors.

    Raises:
        InputError: The config or the data cannot be used, the check finds errors, or the directory holds a run and
            `resume` is off.
        RunError: Something failed during training; checkpoints written so far are intact.
        KeyboardInterrupt: Training was interrupted; the run is saved, and `resume` continues it.
    """
    from translate.lint.check import log_findings
    from translate.training import train as train_run

    given = _given_values(config) if isinstance(config, Config) else config
    if isinstance(given, str | PathLike):
        given = os.path.expanduser(given if isinstance(given, str) else as_path(given))
    with _printed_log():
        loaded = load_config(given, overrides or {}, require_files=True).config
        named = Path(given) if isinstance(given, str) and names_run(given) else Path("runs") / loaded.name
        directory = named if run is None else Path(os.path.expanduser(run))
        values = json.dumps([given, fspath(directory), overrides], default=_plain, ensure_ascii=False)
        call = f"translate.train with config, run, overrides: {values}"
        num_threads = torch.get_num_threads()  # a training run that works in several threads sets one for each
        try:
            inspect = functools.partial(log_findings, ignore_errors=ignore_errors)
            train_run(loaded, directory, resume=resume, command=[call], inspect=inspect)
        finally:
            torch.set_num_threads(num_threads)
    return Run(directory)


def _given_values(config: Config) -> dict[str, Any]:
    """The values that a config was given; a corpus is kept whole.

    Fine-tuning inherits the values that were not given.
    """
    data = config.data.model_dump(mode="json", include=config.data.model_fields_set)
    return config.model_dump(mode="json", exclude_unset=True) | {"data": data}


def _plain(value: Any) -> Any:
    """A number or an array of numpy, a mapping of another class, or a path, for JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else fspath(value)


@contextlib.contextmanager
def _printed_log() -> Iterator[None]:
    """Print what the package logs, unless the program has set up logging itself."""
    logger = logging.getLogger("translate")
    if logger.level != logging.NOTSET or logging.root.level != logging.WARNING:  # the default of the root
        yield
        return
    # Some notebooks give the root logger a handler that prints these messages too.
    handler = logging.NullHandler() if logging.root.handlers else logging.StreamHandler(sys.stdout)
    handler.setFormatter(MessageFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)


def evaluate(
    run: SavedRun | str | PathLike[str],
    *,
    test_set: str | None = None,
    sources: Sequence[str] | None = None,
    references: References | None = None,
    to: str | None = None,
    from_: str | None = None,
    checkpoint: Checkpoint = "best",
    **options: Any,
) -> evaluation.Evaluation:
    """Translate a test set and score it, as `translate eval` does. Nothing is written into the run.

    Args:
        test_set: The name of one of the config's test sets, or `validation`; None: its only test set.
        sources: Translate these lines instead; `references` are their translations, or a list of several translations.
        to: The language of the references, if the run has several.
        from_: The language of the sources.
        options: Settings of the section `decoding`, such as `beam_size=1`.

    Returns:
        The translations, and the metrics with their intervals and sacreBLEU's signatures.

    Raises:
        InputError: Not a run, no such test set, an invalid setting, or different numbers of lines on the two sides.
        RunError: A damaged run.
    """
    run = open_run(run)
    if (sources is None) != (references is None) or (sources is not None and test_set is not None):
        raise InputError("sources and references go together, and not with test_set")
    direction = None
    if sources is None or references is None:
        if to or from_:
            raise InputError("to and from_ need sources and references: the languages of a test set are in the config")
        _, pairs = choose_test_set(run.config, name=test_set)
        sources, references, direction = pairs.sources, pairs.targets, pairs.direction
    references = list_references(references)
    check_lengths(sources, references, name="sources")
    loaded = load_translator(run, checkpoint=checkpoint, options=options, token_scores=False)
    translator = loaded.translator.toward(direction, to=to, from_=from_)
    return evaluation.evaluate(translator, sources, references, run.config.evaluation)


def show_attention(
    run: SavedRun | str | PathLike[str],
    source: str,
    target: str | None = None,
    *,
    kind: AttentionKind = "cross",
    layer: int | None = None,
    head: int | None = None,
    unit: AttentionUnit = "subwords",
    to: str | None = None,
    from_: str | None = None,
    checkpoint: Checkpoint = "best",
) -> Attention:
    """What each head attends to in one sentence: a page in a notebook, or a page or figure in a file with `save`.

    Args:
        target: The translation to force; None: decode one.
        kind: The attention that a figure shows, and that the page begins with.
        layer: Counted from 0; None: all in a figure.
        head: Counted from 0; None: all in a figure.
        to: The language of the translation, if the run has several.
        from_: The language of the sentence.

    Raises:
        InputError: Not a run, no such layer or head, or a text that is empty or too long.
        RunError: A damaged run.
    """
    run = open_run(run)
    translator, loaded = load_own_translator(run, checkpoint=checkpoint)
    shown: dict[str, Any] = {"choice": AttentionChoice(kind, layer, head, unit), "name": run.path.resolve().name}
    return look_at_attention(translator.toward(to=to, from_=from_), source, target=target, step=loaded.step, **shown)
