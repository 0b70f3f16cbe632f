"""`check`: data and settings before a long run; `clean`: data without suspicious pairs."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from translate.cli.terminal.console import has_colour, show_only
from translate.cli.terminal.lines import plain, print_json, print_result
from translate.cli.terminal.options import ConfigArgument, JsonOption, Overrides
from translate.errors import InputError
from translate.messages import describe_seconds, fill

if TYPE_CHECKING:
    from translate.config.schema import ModelConfig
    from translate.lint.check import Report

_COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


def check(
    config: ConfigArgument,
    overrides: Overrides = None,
    strict: Annotated[bool, Option("--strict", help="Treat warnings as failures: exit code 1.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check data and settings before a long run, with a few real training steps; writes nothing.

    Exit code 1 for errors, and with --strict for warnings.

    Examples:
      translate check demo
      translate check multi30k-local data.root=DIR --strict
      translate check mine.yaml --json | jq '.findings[].name'
    """
    from translate.config.load import load_config

    show_only(__name__)  # the report contains training's log of its data
    loaded = load_config(config, overrides or [], require_files=True).config
    from translate.lint.check import check as check_training

    report = check_training(loaded)
    if as_json:
        print_json(plain(report))
    else:
        typer.echo("\n".join(_lines(report, loaded.model)), color=has_colour(sys.stdout))
    if report.count("error") or (strict and report.count("warning")):
        raise typer.Exit(1)


def clean(
    config: ConfigArgument,
    output: Annotated[Path, Argument(metavar="OUT", help="A new folder.")],
    overrides: Overrides = None,
    rule: Annotated[list[str] | None, Option(metavar="NAME", help="Apply only this rule; repeat for several.")] = None,
    keep: Annotated[list[str] | None, Option(metavar="NAME", help="Leave this rule out; repeat for several.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the training corpora without the pairs that `translate check` would report.

    A rule finds one kind of suspicious pair; the page on training lists all rules.
    Pairs are removed, never changed. OUT gets the rest as plain text, config.yaml to train on it, and all removed pairs
    with their rules in removed.tsv.

    Examples:
      translate clean mine.yaml cleaned
      translate clean mine.yaml cleaned --keep markup --keep near_repeated
      translate clean mine.yaml cleaned --rule leaked --rule repeated
    """
    from translate.atomic import check_new_folder
    from translate.config.data import is_stream
    from translate.config.load import load_config
    from translate.files import require_utf8
    from translate.lint.findings import KINDS, choose_rules

    show_only(__name__)
    rules = choose_rules(rule or [], keep or [])
    check_new_folder(output, purpose="cleaned corpora")
    require_utf8(output.absolute(), place="OUT")
    loaded = load_config(config, overrides or [], require_files=True)
    if not (corpora := loaded.config.data.corpora("train")):
        raise InputError("data.train names no corpus: there is nothing to clean")
    if key := next((key for key, corpus in corpora.items() if is_stream(corpus)), None):
        hint = f"clean compares all pairs of a corpus, so read it as a whole, with {key}.streaming=false"
        raise InputError(f"{key}.streaming = true: {hint}")
    from translate.lint.clean import clean as clean_corpora

    cleaned, lines = clean_corpora(loaded, output, rules), []
    for corpus in cleaned:
        share = corpus.num_kept / corpus.num_pairs
        lines.append(f"{corpus.key}: {corpus.num_kept:,} of {_plural(corpus.num_pairs, 'pair')} kept ({share:.1%})")
        for suspects in corpus.removed:
            lines.append(f"{suspects.num_pairs:>9,}  {suspects.kind}: {KINDS[suspects.kind].what}")
            lines += [fill(str(example), " " * 13, " " * 15) for example in suspects.examples]
    lines.append(f"\nAll removed pairs: {output / 'removed.tsv'}; next: translate train {output / 'config.yaml'}")
    document = {"corpora": plain(cleaned), "rules": rules, "output": str(output)}
    print_result("\n".join(lines), document, as_json=as_json)


def _lines(report: "Report", model: "ModelConfig") -> Iterator[str]:
    """Draw the report: data, lengths, model and training, and the findings."""
    from translate.decoding.counterparts import find_lacking
    from translate.lint.findings import LABEL_WIDTH, count_findings

    yield from _data_lines(report)
    yield ""
    yield from _training_lines(report)
    unlike = f"; MarianMT lacks {', '.join(report.marian_lacks)}" if report.marian_lacks else ""
    is_refused = find_lacking(model, "modeling") and find_lacking(model, "t5")
    yield _row("export", f"ctranslate2, onnx{', huggingface' * (not is_refused)}{unlike}")
    yield ""
    yield _row("findings", count_findings(report.findings))
    for finding in report.findings:
        text = finding.draw()
        yield typer.style(text[:LABEL_WIDTH], fg=_COLOURS[finding.severity], bold=True) + text[LABEL_WIDTH:]
    yield ""
    if report.count("error"):
        yield f"Not ready: fix {_plural(report.count('error'), 'error')} first"
    else:
        yield "Ready to start" + (", if the warnings are intended" if report.count("warning") else "")


def _data_lines(report: "Report") -> Iterator[str]:
    """Describe the corpora, and the lengths of both sides."""
    for number, corpus in enumerate(report.corpora):
        pairs = _plural(corpus.num_pairs, "pair")
        if corpus.num_kept is not None:
            pairs += f", {corpus.num_kept:,} kept"
        if corpus.left_out:
            reasons = (f"{count:,} {name}" for name, count in corpus.left_out.items())
            pairs += f", left out: {', '.join(reasons)}"
        if corpus.num_inspected != corpus.num_pairs:
            pairs += f"; {corpus.num_inspected:,} of them inspected closely"
        files = ", ".join(name.rsplit("/", 1)[-1] for name in corpus.name.split(", "))
        yield _row("" if number else "data", f"{corpus.key}: {pairs} ({files})")
    for number, lengths in enumerate(report.lengths):
        tokens = f"{lengths.mean:.1f} on average, 99 % have at most {lengths.usual}, the longest {lengths.longest}"
        yield _row("" if number else "tokens", f"{lengths.side}: {tokens}")


def _training_lines(report: "Report") -> Iterator[str]:
    for vocabulary in report.vocabularies:
        unused = f"{vocabulary.num_unused:,} of {vocabulary.num_entries:,} subwords never used"
        if vocabulary.subwords_per_word is not None:
            unused += f", {vocabulary.subwords_per_word:.1f} per word"
        yield _row("vocabulary", f"{vocabulary.name}, {vocabulary.size:,} entries: {unused}")
    plan, measured = report.plan, report.dry_run
    if measured is not None:
        threads = f", {_plural(measured.num_threads, 'thread')}" if measured.device == "cpu" else ""
        parameters = f"{measured.num_parameters:,} parameters"
        if measured.num_trained_parameters != measured.num_parameters:
            parameters = f"{measured.num_trained_parameters:,} of {parameters} are trained"
        yield _row("model", f"{parameters}; {measured.device}, {measured.precision}{threads}")
        mib = None if measured.peak_bytes is None else f"{measured.peak_bytes / 2**20:,.0f} MiB at its peak"
        pairs, source, target = measured.largest_batch.values()
        batch = f"on the largest batch: {pairs:,} × {source} source, {target} target tokens"
        yield _row("memory", f"{mib or 'its peak cannot be measured here'}, {batch}")
        speed = f"{measured.target_tokens_per_second:,.0f} target tokens/s over {measured.num_timed_steps} steps"
        yield _row("speed", f"{speed}; {plan.padding_share:.1%} of the computation is padding")
    epochs = f"{plan.steps_per_epoch:,} per epoch: {plan.num_epochs:.1f} epochs"
    yield _row("training", f"{plan.num_steps:,} steps, {epochs}")
    for number, seen in enumerate(plan.directions):
        yield _row("" if number else "directions", str(seen))
    if plan.seconds is not None:
        time = f"about {describe_seconds(plan.seconds)}"
        if plan.num_validations and plan.validation_seconds is not None:
            validations = _plural(plan.num_validations, "validation")
            time += f", {describe_seconds(plan.validation_seconds)} of it {validations}"
        yield _row("time", time)


def _row(name: str, text: str) -> str:
    return f"{typer.style(f'{name:<11}', bold=True)} {fill(text, ' ' * 12, ' ' * 14)[12:]}".rstrip()


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
