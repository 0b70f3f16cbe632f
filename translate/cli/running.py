"""`train` and `eval`: a run is made, and scored."""

import functools
import logging
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translate.cli.console import fail, reports_errors, with_bar
from translate.cli.decoding_options import takes_decoding_options
from translate.cli.lines import require_pairs
from translate.cli.options import CheckpointOption, Overrides
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.evaluation import Metric

logger = logging.getLogger(__name__)

_SECONDS_AFTER_FIRST = 3.0


@reports_errors
def train(
    config: Annotated[str, typer.Argument(help="A config file, or a preset's name such as demo.", show_default=False)],
    overrides: Overrides = None,
    run: Annotated[
        Path | None,
        # torchrun would read --run as short for an option of its own.
        typer.Option(
            "--run", "--run-dir", metavar="DIR", help="Directory of the run. Default: runs/NAME.", show_default=False
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the run's last checkpoint; begin if there is no run yet.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Write where the time of ten steps goes, to DIR/profile, and train on.")
    ] = False,
) -> None:
    """Train a tokenizer and a model, as a config says, into a run directory.

    \b
    Examples:
      translate train demo
      translate train configs/multi30k.yaml model.d_model=512 training.max_steps=2000 --run runs/wide
      translate train configs/multi30k.yaml --resume
      translate train demo training.max_steps=30 --profile
    """
    from translate.config import load_config

    try:
        loaded = load_config(config, overrides or [], require_files=True).config
    except InputError:
        if not speaks(os.environ):
            time.sleep(_SECONDS_AFTER_FIRST)  # if the first process says the same, torchrun ends this one meanwhile
        raise
    directory = run or Path("runs") / loaded.name
    command = [*launcher(os.environ), *sys.argv[1:]]
    go_on = shlex.join([*command, *([] if resume else ["--resume"])])
    from translate.lint.check import log_findings
    from translate.training import StoppedBySignal
    from translate.training import train as train_run

    try:
        progress = train_run(
            loaded, directory, resume=resume, command=command, profile=profile, inspect=log_findings, say=logger.info
        )
    except StoppedBySignal as stop:
        fail(f"{stop}, and saved. Go on with: {go_on}", stop.exit_code)
    except KeyboardInterrupt:
        fail(f"interrupted. Begin again, or go on, with: {go_on}", 130)
    if not speaks(os.environ):
        return
    best = "" if progress.best_step is None else f"; the best checkpoint is of step {progress.best_step}"
    logger.info(f"done after {progress.step} steps{best}. Next: translate eval {directory}")


def launcher(environment: Mapping[str, str]) -> list[str]:
    """What starts this command: `translate`, or the torchrun that has started it in several processes."""
    if environment.get("WORLD_SIZE", "1") == "1" or "RANK" not in environment:
        return ["translate"]
    machines = environment.get("GROUP_WORLD_SIZE", "1")
    options = ["--nproc-per-node", environment.get("LOCAL_WORLD_SIZE", "1")]
    # What was typed may have --run, which torchrun without `--` takes for an option of its own.
    return ["torchrun", *(["--nnodes", machines] if machines != "1" else []), *options, "-m", "--", "translate"]


def speaks(environment: Mapping[str, str]) -> bool:
    """Whether this process says what all of them have done."""
    return environment.get("RANK", "0") == "0"


@reports_errors
@takes_decoding_options
def evaluate(
    run: Annotated[
        Path | None, typer.Argument(help="A run directory; not needed with --hypotheses.", show_default=False)
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Text to translate, in place of the run's test sets.", show_default=False),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(metavar="F", help="Its reference translations.", show_default=False)
    ] = None,
    hypotheses: Annotated[
        Path | None, typer.Option(metavar="F", help="Ready translations to score, without a run.", show_default=False)
    ] = None,
    set_name: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="NAME",
            help="One of the run's test sets, or `validation`. Default: all test sets.",
            show_default=False,
        ),
    ] = None,
    checkpoint: CheckpointOption = "best",
    samples: Annotated[int, typer.Option(metavar="N", min=0, help="Also print N translations.")] = 0,
    *,
    options: dict[str, Any],
) -> None:
    """Translate test sets and print BLEU, chrF and TER with sacreBLEU's signatures and 95 % bootstrap intervals.

    Hypotheses and a JSON report are kept in RUN/evaluation/NAME.

    \b
    Examples:
      translate eval runs/demo --samples 10
      translate eval runs/demo --source news.de --reference news.en
      translate eval --hypotheses output.en --reference news.en
    """
    if hypotheses is not None:
        if run is not None or source is not None or set_name is not None or reference is None:
            raise InputError("--hypotheses goes with --reference alone: translate eval --hypotheses F --reference F")
        _score_files(hypotheses, reference)
        return
    if run is None:
        raise InputError("name a run directory, or --hypotheses F --reference F")
    if (source is None) != (reference is None) or (source is not None and set_name is not None):
        raise InputError("--source and --reference go together, and not with --set")
    from translate.config import read_resolved_config
    from translate.decoding import count_conditions
    from translate.decoding.loading import load_translator
    from translate.evaluation import choose_test_sets, evaluate_test_set, spread_samples
    from translate.runs import open_run

    directory = open_run(run)
    config = read_resolved_config(directory.config)
    test_sets = choose_test_sets(config, source=source, reference=reference, name=set_name)
    translator, loaded = load_translator(run, checkpoint=checkpoint, options=options)
    for test_set in test_sets:
        evaluation = evaluate_test_set(
            translator,
            test_set,
            config.evaluation,
            run=directory,
            step=loaded.step,
            watch=functools.partial(with_bar, total=len(test_set.sources)),
        )
        how = f"beam {translator.config.beam_size}" if translator.config.search == "beam" else "sampled"
        typer.echo(
            f"{test_set.name}, {checkpoint} checkpoint (step {loaded.step}), {how}:"
            f" {count_conditions(evaluation.translations)}"
        )
        _print_metrics(evaluation.metrics)
        for index in spread_samples(len(test_set.sources), samples):
            translation = evaluation.translations[index]
            typer.echo(
                f"\n  source:      {translation.source}\n  reference:   {test_set.references[index]}"
                f"\n  translation: {translation.text}"
            )


def _score_files(hypotheses: Path, reference: Path) -> None:
    from translate.config import EvaluationConfig
    from translate.data.text import read_lines
    from translate.evaluation import score_translations

    translated, references = read_lines(hypotheses), read_lines(reference)
    require_pairs(hypotheses, translated, reference, references)
    _print_metrics(score_translations(translated, references, EvaluationConfig()))


def _print_metrics(metrics: Iterable["Metric"]) -> None:
    for metric in metrics:
        interval = f"  [{metric.interval.low:5.2f}, {metric.interval.high:5.2f}]" if metric.interval else ""
        typer.echo(f"  {metric.name:<8}{metric.score:6.2f}{interval}  {metric.signature}")
