"""`compare`: which of several systems translates a test set best, with significance, and which sentences differ."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from translate.cli.terminal.lines import aligned_columns, check_outputs, plain, print_result
from translate.cli.terminal.options import (
    JsonOption,
    MetricOption,
    ReferenceOption,
    TokenizeOption,
    as_runs,
    find_runs,
    require_scores,
    takes_languages,
)
from translate.errors import InputError
from translate.messages import distinct_names, wrap

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from translate.visualize.panels import Table


@takes_languages
def compare(
    systems: Annotated[
        list[Path],
        Argument(metavar="SYSTEM", help="Runs or files of translations, baseline first.", autocompletion=find_runs),
    ],
    source: Annotated[Path | None, Option(metavar="F", help="Translate this text instead of a test set.")] = None,
    reference: ReferenceOption = None,
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
    from translate.config.schema import Config
    from translate.evaluation.test_sets import choose_test_set
    from translate.files import require_file

    runs = {system: as_runs(system) for system in systems if system.is_dir() or not (system.suffix or system.exists())}
    for file in systems:
        if file not in runs:
            require_file(file)
    first_run = next(iter(runs.values()), None)
    if first_run is None and source is None:
        raise InputError("files of translations need their source text: give --source and --reference")
    config = Config.model_construct() if first_run is None else first_run.config
    scoring = config.evaluation.tokenizing(tokenize)
    references = reference or []
    name, pairs = choose_test_set(config, source=source, references=references, name=set_name, **languages)
    from translate.evaluation.compare import compare, translate_systems
    from translate.evaluation.programs import MetricProgram
    from translate.visualize.comparison import comparison_picture, comparison_tables
    from translate.visualize.page import picture_format, save_picture

    programs = MetricProgram.parse_all(metric, scoring, num_references=len(references))
    if output is not None and picture_format(output) != "html":
        raise InputError(f"--output {output}: a comparison is a page, so end it in .html")
    check_outputs({"--output": output})
    names = distinct_names(systems)
    named = {label: runs.get(system, system) for label, system in zip(names, systems, strict=True)}
    translations = translate_systems(named, pairs, set_name=name, languages=languages)
    made_here = [label for label, system in zip(names, systems, strict=True) if system in runs]
    how: dict[str, Any] = {"num_changes": changes, "programs": programs, "translated_here": made_here}
    comparison = compare(translations, pairs.sources, [pairs.targets, *pairs.more_targets], scoring, **how)
    for warning in comparison.warnings:
        logger.warning(f"{name}: {warning}")
    shown = [f"{name}: {comparison.num_lines:,} lines", *map(_as_text, comparison_tables(comparison))]
    print_result("\n\n".join(shown), {"set": name, **plain(comparison)}, as_json=as_json)
    if output is not None:
        save_picture(comparison_picture(comparison, test_set=name), output)
    require_scores(metric, comparison.metrics)


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
