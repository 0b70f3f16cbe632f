"""`eval` and `tune-decode`: score a run's translations, or given ones, and tune the settings of its search."""

import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from translate.bars import show_progress
from translate.cli.terminal.lines import aligned_columns, open_lines, paired_lines, print_json, print_result
from translate.cli.terminal.options import (
    RUN,
    CheckpointOption,
    JsonOption,
    MetricOption,
    RunArgument,
    TokenizeOption,
    require_scores,
    takes_decoding_options,
    takes_languages,
)
from translate.errors import InputError, RunError
from translate.messages import escaped, wrap

logger = logging.getLogger(__name__)


@takes_decoding_options("search beam_size length_penalty batch_tokens precision device")
@takes_languages
def evaluate(
    run: Annotated[Path | None, Argument(help="A run directory; not with --hypotheses.", **RUN)] = None,
    source: Annotated[Path | None, Option(metavar="F", help="Translate this text instead of the test sets.")] = None,
    reference: Annotated[Path | None, Option(metavar="F", help="References of --source or --hypotheses.")] = None,
    hypotheses: Annotated[Path | None, Option(metavar="F", help="Score these translations, without a run.")] = None,
    set_name: Annotated[
        str | None,
        Option("--set", metavar="NAME", help="One of the run's test sets, or `validation`. Default: all test sets."),
    ] = None,
    checkpoint: CheckpointOption = "best",
    samples: Annotated[int, Option(metavar="N", min=0, max=1_000_000, help="Also print N translations.")] = 0,
    report: Annotated[bool, Option("--report", help="Also score by conventions used in papers.")] = False,
    metric: MetricOption = None,
    tokenize: TokenizeOption = None,
    as_json: JsonOption = False,
    *,
    languages: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Translate test sets and print BLEU, chrF and TER with sacreBLEU's signatures and 95 % bootstrap intervals.

    Hypotheses and a JSON report are written to RUN/evaluation/NAME.

    Examples:
      translate eval runs/demo --samples 10
      translate eval runs/demo --source news.de --reference news.en
      translate eval --hypotheses output.en --reference news.en --report
      translate eval runs/demo --metric 'WER=jiwer -r {reference} -h {hypothesis}'
    """
    if hypotheses is not None:
        unused = (run, source and not metric, set_name, samples, *languages.values(), options, checkpoint != "best")
        if reference is None or any(unused):
            options_taken = "--reference F, which it needs, --report, --metric, --tokenize and --json"
            raise InputError(f"--hypotheses F takes only {options_taken}")
        scored = [_score_files(hypotheses, reference, source, tokenize, metric=metric, report=report)]
        _print_scores(scored, metric=metric, report=report, as_json=as_json)
        return
    if run is None:
        raise InputError("name a run directory, or --hypotheses F --reference F")
    from translate.config.load import read_resolved_config
    from translate.evaluation.programs import MetricProgram, score_with
    from translate.evaluation.test_sets import choose_test_sets
    from translate.runs.directory import open_run

    directory = open_run(run)
    config = read_resolved_config(directory.config)
    scoring = config.evaluation.tokenizing(tokenize)
    programs = MetricProgram.parse_all(metric, scoring)
    test_sets = choose_test_sets(config, source=source, reference=reference, name=set_name)
    from translate.decoding import count_conditions
    from translate.decoding.loading import load_translator
    from translate.evaluation.evaluate import evaluate, report_folder, spread_samples, write_report
    from translate.evaluation.metrics import describe_scores, score_conventions
    from translate.evaluation.mistakes import find_mistakes
    from translate.runs.metadata import describe_moment

    translator, loaded = load_translator(run, checkpoint=checkpoint, options=options, token_scores=False)
    saved: dict[str, Any] = {"step": loaded.step, "averaged": loaded.averaged}
    scored, files = [], [file for file in (source, reference) if file is not None]
    not_written: RunError | None = None
    engine = translator.engine.prepare(sum(len(pairs.sources) for pairs in test_sets.values()))
    settings = {**translator.config.model_dump(mode="json"), "engine": engine}
    for name, pairs in test_sets.items():
        sources, references, searching = pairs.sources, pairs.targets, translator.toward(pairs.direction, **languages)
        with show_progress(f"Translating {name}", len(sources), unit="lines") as advance:
            evaluation = evaluate(searching, sources, references, scoring, on_finished=advance)
        translations, texts = evaluation.translations, [each.text for each in evaluation.translations]
        metrics = [*evaluation.metrics, *score_with(programs, sources, texts, references, scoring)]
        conventions = score_conventions(texts, references, scoring) if report else ()
        mistakes = find_mistakes(
            {str(run): texts}, references, sources, translated_here=[str(run)], bleu_tokenizer=scoring.bleu_tokenizer
        )
        scores = describe_scores(metrics, conventions, mistakes)
        folder = report_folder(directory.evaluation, name, files=files, set_names=config.data.keys_by_name())
        try:
            document = write_report(folder, translations, scores, name=name, files=files, settings=settings, **saved)
        except RunError as error:
            not_written, document = not_written or error, {"name": name, "num_lines": len(texts), **scores}
        moment, counts = describe_moment(**saved), count_conditions(translations)
        title = f"{name}, {checkpoint} checkpoint ({moment}), {translator.config.brief}: {counts}"
        for index in spread_samples(len(sources), samples):
            sample = {"source": sources[index], "reference": references[index], "translation": texts[index]}
            document.setdefault("samples", []).append(sample)
        scored.append((title, document))
    _print_scores(scored, metric=metric, report=report, as_json=as_json)
    if not_written is not None:
        raise not_written


def _score_files(
    hypotheses: Path,
    reference: Path,
    source: Path | None,
    tokenize: str | None,
    *,
    metric: list[str] | None,
    report: bool,
) -> tuple[str, dict[str, Any]]:
    """Score translations in a file, without a run; returns a title and the scores."""
    from translate.config.schema import EvaluationConfig
    from translate.evaluation.metrics import describe_scores, score_conventions, score_translations
    from translate.evaluation.mistakes import find_mistakes
    from translate.evaluation.programs import MetricProgram, score_with

    config = EvaluationConfig().tokenizing(tokenize)
    programs = MetricProgram.parse_all(metric, config)
    if source is None and any("{source}" in word for program in programs for word in program.command):
        raise InputError("--metric: the program reads {source}: name the text with --source F")
    lines = list(paired_lines(*(open_lines(file) for file in (hypotheses, reference, source) if file is not None)))
    texts, references, sources = ([line[side] for line in lines] for side in (0, 1, -1))
    metrics = [*score_translations(texts, references, config)]
    metrics += score_with(programs, sources, texts, references, config)
    conventions = score_conventions(texts, references, config) if report else ()
    known = None if source is None else sources
    mistakes = find_mistakes({str(hypotheses): texts}, references, known, bleu_tokenizer=config.bleu_tokenizer)
    scores = describe_scores(metrics, conventions, mistakes)
    num_empty, num_missing = (sum(not line.strip() for line in side) for side in (texts, references))
    counts = f"{len(lines):,} lines, {num_empty:,} empty" + f", {num_missing:,} empty references" * (num_missing > 0)
    return f"{hypotheses}: {counts}", {"name": str(hypotheses), "num_lines": len(lines), **scores}


def _print_scores(
    scored: Sequence[tuple[str, dict[str, Any]]], *, metric: list[str] | None, report: bool, as_json: bool
) -> None:
    """Print a table of scores for each test set with samples, then the signatures; or print everything as JSON.

    Args:
        scored: A title and a report for each test set; the report may have samples.
        metric: The requested programs; the command fails if the score of one is missing.
    """
    for _, document in scored:
        for warning in document["warnings"]:
            logger.warning(warning)
    if as_json:
        print_json({"evaluations": [document for _, document in scored]})
    else:
        _print_tables(scored, report=report)
    for _, document in scored:
        require_scores(metric, [each["name"] for each in document["metrics"]])


def _print_tables(scored: Sequence[tuple[str, dict[str, Any]]], *, report: bool) -> None:
    from translate.evaluation.metrics import CONVENTIONS, decimals

    signatures: dict[str, str] = {}
    for title, document in scored:
        typer.echo(escaped(title))
        metrics = [*document["metrics"], *document.get("conventions", ())]
        width = max(len(metric["name"]) for metric in metrics)
        for metric in metrics:
            signatures[metric["name"]] = metric["signature"]
            digits = decimals(metric["name"])
            bounds = ", ".join(f"{bound:{digits + 3}.{digits}f}" for bound in metric["interval"] or ())
            score = f"{metric['score']:{digits + 4}.{digits}f}"
            typer.echo(f"  {metric['name']:<{width}}  {score}{bounds and f'  [{bounds}]'}")
        for sample in document.get("samples", ()):
            typer.echo(escaped("\n" + "\n".join(f"  {f'{name}:':<12} {text}" for name, text in sample.items())))
        typer.echo()
    typer.echo("\n".join(["Signatures", *aligned_columns([*signatures.items()]), *[""] * report]))
    for name, text in CONVENTIONS.items() if report else ():
        typer.echo("\n".join(wrap(f"{name}: {text}", 80, initial_indent="  ", subsequent_indent="    ")))


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
    from translate.config.load import override_config, read_resolved_config
    from translate.evaluation.test_sets import choose_test_sets
    from translate.runs.directory import open_run, write_config
    from translate.runs.lock import lock_run

    directory = open_run(run)
    config = read_resolved_config(directory.config)
    test_sets = choose_test_sets(config, name=set_name)
    num_lines = sum(len(pairs.sources) for pairs in test_sets.values())
    if not dry_run:
        with lock_run(run):
            pass  # an error before the searches, not after them
    from translate.decoding.loading import load_translator
    from translate.evaluation.tune import TunedSettings, tune_decoding

    translator = load_translator(run, checkpoint=checkpoint, options={}, token_scores=False).translator
    tried: list[TunedSettings] = []
    say = functools.partial(print_result, as_json=as_json)
    say(f"{', '.join(test_sets)}, {num_lines:,} lines\n  beam  length penalty    BLEU")

    def show(settings: TunedSettings) -> None:
        tried.append(settings)
        penalty = settings.settings["length_penalty_kind"]
        if penalty != "none":
            penalty = f"{penalty} {settings.settings['length_penalty']:g}"
        say(f"  {settings.settings['beam_size']:>4}  {penalty:<14}{settings.bleu:8.2f}")

    chosen = tune_decoding(translator, test_sets.values(), config.evaluation, on_tried=show)
    changes = {f"decoding.{key}": value for key, value in chosen.settings.items()}
    if not dry_run:
        with lock_run(run):
            # Read again, because a training run may have continued with other settings in the meantime.
            write_config(directory, override_config(read_resolved_config(directory.config), changes))
    shown = " ".join(f"{key}={value}" for key, value in changes.items())
    document = {"set": set_name, "num_lines": num_lines, "tried": [each._asdict() for each in tried]}
    say(f"{'Best' if dry_run else f'Now the defaults of {run}'}: {shown}", {**document, "best": chosen._asdict()})
