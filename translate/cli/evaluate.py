"""`eval` and `tune-decode`: score a run's translations, or given ones, and tune the settings of its search."""

import functools
import logging
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from translate.cli.terminal.lines import aligned_columns, open_lines, paired_lines, print_json, print_result
from translate.cli.terminal.options import (
    RUN,
    CheckpointOption,
    JsonOption,
    MetricOption,
    ReferenceOption,
    RunArgument,
    SavedRun,
    TokenizeOption,
    require_scores,
    takes_decoding_options,
    takes_languages,
)
from translate.errors import InputError
from translate.messages import escaped

if TYPE_CHECKING:
    from translate.evaluation.scorer import Scorer

logger = logging.getLogger(__name__)


@takes_decoding_options("search beam_size length_penalty batch_tokens precision device")
@takes_languages
def evaluate(
    run: Annotated[SavedRun | None, Argument(help="A run directory; not with --hypotheses.", **RUN)] = None,
    source: Annotated[
        Path | None, Option(metavar="F", help="Translate this text or file of pairs, not the sets.")
    ] = None,
    reference: ReferenceOption = None,
    hypotheses: Annotated[Path | None, Option(metavar="F", help="Score these translations, without a run.")] = None,
    set_name: Annotated[
        str | None,
        Option("--set", metavar="NAME", help="One of the run's test sets, or `validation`. Default: all test sets."),
    ] = None,
    checkpoint: CheckpointOption = "best",
    samples: Annotated[int, Option(metavar="N", min=0, max=1_000_000, help="Also print N translations.")] = 0,
    metric: MetricOption = None,
    tokenize: TokenizeOption = None,
    as_json: JsonOption = False,
    *,
    languages: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Translate test sets and print BLEU, chrF and TER with sacreBLEU's signatures and 95 % bootstrap intervals.

    Hypotheses and a JSON report are written to RUN/evaluation/NAME; with other settings than the run's own, to
    RUN/evaluation/NAME-2, and so on.

    Examples:
      translate eval runs/demo --samples 10
      translate eval runs/demo --source news.de --reference news.en
      translate eval runs/app --source po/next.po
      translate eval --hypotheses output.en --reference news.en
      translate eval runs/demo --metric 'WER=jiwer -r {reference} -h {hypothesis}'
    """
    references = reference or []
    if hypotheses is not None:
        unused = (run, set_name, samples, *languages.values(), options, checkpoint != "best")
        if not references or any(unused):
            options_taken = "--reference F, which it needs, --source F, --metric, --tokenize and --json"
            raise InputError(f"--hypotheses F takes only {options_taken}")
    elif run is None:
        raise InputError("name a run directory, or --hypotheses F --reference F")
    from translate.config.schema import Config
    from translate.evaluation.programs import MetricProgram
    from translate.evaluation.scorer import Scorer
    from translate.evaluation.test_sets import choose_test_sets

    config = Config.model_construct() if run is None else run.config
    scoring = config.evaluation.tokenizing(tokenize)
    has: dict[str, Any] = {"has_sources": run is not None or source is not None, "num_references": len(references)}
    scorer = Scorer(scoring, MetricProgram.parse_all(metric, scoring, **has))
    if run is None:
        assert hypotheses is not None
        scored = [_score_files(scorer, hypotheses, references, source)]
        _print_scores(scored, metric=metric, as_json=as_json)
        return
    test_sets = choose_test_sets(config, source=source, references=references, name=set_name, **languages)
    from translate.config.inherit import OF_A_MACHINE
    from translate.decoding.loading import load_translator
    from translate.evaluation.evaluate import evaluate_run

    loaded = load_translator(run, checkpoint=checkpoint, options=options, token_scores=False)
    own = {**config.decoding.model_dump(), "checkpoint": "best", "tokenize": config.evaluation.bleu_tokenizer}
    settings = {**options, "checkpoint": checkpoint, "tokenize": scoring.bleu_tokenizer}
    only_speed = OF_A_MACHINE - {"precision"}
    changed = {key: value for key, value in settings.items() if value != own[key] and key not in only_speed}
    given: dict[str, Any] = {"changed": changed} if changed else {}
    if source is not None:
        first, *others = map(os.path.realpath, references or [source])
        given |= {"source": os.path.realpath(source), "reference": [first, *others] if others else first}
    how: dict[str, Any] = {"checkpoint": checkpoint, "languages": languages, "num_samples": samples}
    reported = list(evaluate_run(loaded, test_sets, scorer, given=given, **how))
    scored = [(title, document) for title, document, _ in reported]
    _print_scores(scored, metric=metric, as_json=as_json)
    for error in filter(None, (found.error for found in reported)):
        raise error


def _score_files(
    scorer: "Scorer", hypotheses: Path, references: Sequence[Path], source: Path | None
) -> tuple[str, dict[str, Any]]:
    """A title and a report of given translations, without a run."""
    files = [open_lines(file) for file in (hypotheses, *references, *([source] if source else []))]
    lines = list(paired_lines(*files))
    texts, *others = ([line[side] for line in lines] for side in range(len(files)))
    known, sources = others[: len(references)], others[len(references) :]
    num_empty, num_missing = (sum(not line.strip() for line in side) for side in (texts, chain(*known)))
    missing = f", {num_missing:,} empty references" if num_missing else ""
    scores = scorer.score(texts, known, *sources)
    document = {"name": str(hypotheses), "num_lines": len(texts), **scores}
    return f"{hypotheses}: {len(texts):,} lines, {num_empty:,} empty{missing}", document


def _print_scores(scored: Sequence[tuple[str, dict[str, Any]]], *, metric: list[str] | None, as_json: bool) -> None:
    """Print a table of scores for each test set with samples, then the signatures; or print everything as JSON.

    Args:
        scored: A title and a report for each test set; the report may have samples.
        metric: The requested programs; the command fails if the score of one is missing.
    """
    for _, document in scored:
        for warning in document["warnings"]:
            logger.warning(f"{document['name']}: {warning}")
    if as_json:
        print_json({"evaluations": [document for _, document in scored]})
    else:
        _print_tables(scored)
    for _, document in scored:
        require_scores(metric, [score["name"] for score in document["metrics"]])


def _print_tables(scored: Sequence[tuple[str, dict[str, Any]]]) -> None:
    from translate.evaluation.metrics import decimals

    signatures: dict[str, str] = {}
    for title, document in scored:
        typer.echo(escaped(title))
        width = max(len(metric["name"]) for metric in document["metrics"])
        for metric in document["metrics"]:
            signatures[metric["name"]] = metric["signature"]
            digits = decimals(metric["name"])
            bounds = ", ".join(f"{bound:{digits + 3}.{digits}f}" for bound in metric["interval"] or ())
            score = f"{metric['score']:{digits + 4}.{digits}f}"
            typer.echo(f"  {metric['name']:<{width}}  {score}{bounds and f'  [{bounds}]'}")
        if folder := document.get("folder"):
            changed = ", ".join(f"{key} = {value}" for key, value in document.get("changed", {}).items())
            typer.echo(escaped(f"  kept in {folder}" + f", because of {changed}" * bool(changed)))
        for sample in document.get("samples", ()):
            typer.echo(escaped("\n" + "\n".join(f"  {f'{side}:':<12} {text}" for side, text in sample.items())))
        typer.echo()
    typer.echo("\n".join(["Signatures", *aligned_columns([*signatures.items()])]))


def tune_decode(
    run: RunArgument,
    set_name: Annotated[
        str,
        Option("--set", metavar="NAME", help="The set to tune on. Never tune on a test set whose scores you report."),
    ] = "validation",
    checkpoint: CheckpointOption = "best",
    dry_run: Annotated[bool, Option("--dry-run", help="Do not change the run's config.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Tune a run's beam size and length penalty by BLEU on its validation set, and make them the run's defaults.

    A larger beam or a different penalty must gain at least 0.05 BLEU.

    Example:
      translate tune-decode runs/demo
    """
    from translate.evaluation.test_sets import choose_test_sets

    test_sets = choose_test_sets(run.config, name=set_name)
    num_lines = sum(len(pairs.sources) for pairs in test_sets.values())
    from translate.evaluation.tune import TunedSettings, tune_run

    tried: list[TunedSettings] = []
    say = functools.partial(print_result, as_json=as_json)

    def show(settings: TunedSettings) -> None:
        if not tried:
            say(f"{', '.join(test_sets)}, {num_lines:,} lines\n  beam  length penalty    BLEU")
        tried.append(settings)
        say(f"  {settings.settings['beam_size']:>4}  {settings.penalty:<14}{settings.bleu:8.2f}")

    chosen, changes = tune_run(run, test_sets.values(), checkpoint=checkpoint, is_saved=not dry_run, on_tried=show)
    shown = " ".join(f"{key}={value}" for key, value in changes.items())
    document = {"set": set_name, "num_lines": num_lines, "tried": [settings._asdict() for settings in tried]}
    say(f"{'Best' if dry_run else f'Now the defaults of {run}'}: {shown}", {**document, "best": chosen._asdict()})
