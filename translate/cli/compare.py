"""`compare`: which of several systems translates a test set best, with significance, and which sentences differ."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from translate.bars import show_progress
from translate.cli.terminal.lines import aligned_columns, check_outputs, open_lines, plain, print_result
from translate.cli.terminal.options import (
    JsonOption,
    MetricOption,
    TokenizeOption,
    check_runs,
    find_runs,
    require_scores,
    takes_languages,
)
from translate.errors import InputError
from translate.messages import wrap

logger = logging.getLogger(__name__)

_FEW_LINES = 100  # tests of significance with fewer say little

if TYPE_CHECKING:
    from translate.config.data import Direction
    from translate.data.corpora import ParallelCorpus
    from translate.visualize.panels import Table


@takes_languages
def compare(
    systems: Annotated[
        list[Path],
        Argument(metavar="SYSTEM", help="Runs or files of translations, baseline first.", autocompletion=find_runs),
    ],
    source: Annotated[Path | None, Option(metavar="F", help="Translate this text instead of a test set.")] = None,
    reference: Annotated[Path | None, Option(metavar="F", help="References of --source.")] = None,
    set_name: Annotated[str | None, Option("--set", metavar="NAME", help="A test set of the first run.")] = None,
    changes: Annotated[int, Option(metavar="N", min=0, max=1_000_000, help="Show the N largest gains and losses.")] = 5,
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Also write a page (.html).")] = None,
    metric: MetricOption = None,
    tokenize: TokenizeOption = None,
    as_json: JsonOption = False,
    *,
    languages: dict[str, Any],
) -> None:
    """Compare systems on a test set: scores, significance of the differences, and the sentences that changed most.

    Runs translate with their own decoding settings.

    Examples:
      translate compare runs/small runs/large
      translate compare runs/small runs/large --set validation -o comparison.html
      translate compare runs/a other.en --source news.de --reference news.en
    """
    if len(systems) < 2:
        raise InputError(f"{systems[0]}: a comparison needs at least two systems")
    from translate.config.load import read_resolved_config
    from translate.config.schema import Config
    from translate.evaluation.test_sets import choose_test_set
    from translate.files import require_file
    from translate.runs.directory import open_run

    for system in systems:
        if system.is_dir() or not (system.suffix or system.exists()):
            check_runs(system)
        else:
            require_file(system)
    first_run = next((system for system in systems if system.is_dir()), None)
    if first_run is None and source is None:
        raise InputError("files of translations need their source text: give --source and --reference")
    config = Config.model_construct() if first_run is None else read_resolved_config(open_run(first_run).config)
    scoring = config.evaluation.tokenizing(tokenize)
    name, pairs = choose_test_set(config, source=source, reference=reference, name=set_name)
    for run in filter(Path.is_dir, systems):
        _check_direction(run, pairs.direction, set_name=name)
    from translate.evaluation.compare import compare
    from translate.evaluation.mistakes import find_mistakes
    from translate.evaluation.programs import MetricProgram
    from translate.visualize.comparison import comparison_picture, comparison_tables
    from translate.visualize.page import choose_picture_file, save_picture

    programs = MetricProgram.parse_all(metric, scoring)
    page = choose_picture_file(output, "html", name="comparison") if output else None
    check_outputs({"--output": output})
    names = [system.resolve().name for system in systems]
    if len({*names}) < len(names):
        names = [str(system) for system in systems]
    if len({*names}) < len(names):
        raise InputError(f"{', '.join(names)}: a system is named twice")
    named = dict(zip(names, systems, strict=True))
    in_files = {label: list(open_lines(system)) for label, system in named.items() if not system.is_dir()}
    for label, lines in in_files.items():  # check before runs translate for minutes
        if len(lines) != len(pairs.targets):
            raise InputError(f"{label} has {len(lines):,} lines, but the test set {name} has {len(pairs.targets):,}")
    translations = {label: in_files.get(label) or _translate(named[label], pairs, languages) for label in named}
    comparison = compare(translations, pairs.sources, pairs.targets, scoring, num_changes=changes, programs=programs)
    made_here = [label for label in named if label not in in_files]
    tokenizer = scoring.bleu_tokenizer
    doubts = list(
        find_mistakes(translations, pairs.targets, pairs.sources, translated_here=made_here, bleu_tokenizer=tokenizer)
    )
    if comparison.num_lines < _FEW_LINES:
        doubts.append(f"p and ± mean little with so few lines ({comparison.num_lines}): use {_FEW_LINES} or more")
    for doubt in doubts:
        logger.warning(doubt)
    shown = [f"{name}: {comparison.num_lines:,} lines", *map(_as_text, comparison_tables(comparison))]
    print_result("\n\n".join(shown), {"set": name, **plain(comparison), "warnings": doubts}, as_json=as_json)
    if page is not None:
        save_picture(comparison_picture(comparison, test_set=name), page)
    require_scores(metric, comparison.metrics)


def _check_direction(run: Path, direction: "Direction | None", *, set_name: str) -> None:
    """Check that a run can translate in the direction of a test set; a set that names none passes."""
    from translate.config.languages import Languages
    from translate.config.load import read_resolved_config
    from translate.runs.directory import open_run

    config = read_resolved_config(open_run(run).config)
    languages, is_tuned = Languages(config.data), config.training.initialize_from is not None
    if direction and (translated := languages.instead_of(languages.respell(direction), is_tuned=is_tuned)):
        raise InputError(
            f"{run} translates {translated}, but the test set {set_name} is {direction}: leave this run out, or give"
            " --source and --reference"
        )


def _translate(run: Path, pairs: "ParallelCorpus", languages: dict[str, Any]) -> list[str]:
    from translate.decoding.loading import load_translator

    translator = load_translator(run, options={}, token_scores=False).translator
    translator = translator.toward(pairs.direction, **languages)
    with show_progress("Translating", len(pairs.sources), unit="lines") as advance:
        return [each.text for each in translator.translate_stream(pairs.sources, on_finished=advance)]


def _as_text(table: "Table") -> str:
    """A table as lines of aligned columns; a row of sentences is a paragraph."""
    if table.header[0] != "Line":
        rows = aligned_columns([table.header, *([*map("".join, row)] for row in table.rows)])
        return "\n".join([table.title, *rows, *wrap(table.note, 80)])
    lines = [table.title]
    for line, score, *texts in table.rows:
        lines += [
            f"  {line}, chrF {score}",
            *(f"    {name}: {''.join(text)}" for name, text in zip(table.header[2:], texts, strict=True)),
        ]
    return "\n".join(lines)
