"""`runs`, `info` and `verify`: list all runs, describe one, and check its files."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit

from translate.cli.terminal.lines import aligned_columns, plain, print_result
from translate.cli.terminal.options import JsonOption, RunArgument, find_runs
from translate.errors import InputError, RunError
from translate.runs.metadata import describe_moment

if TYPE_CHECKING:
    from translate.runs.summary import RunSummary


def runs(
    folder: Annotated[Path, Argument(metavar="DIR", help="A folder with runs, or with folders of runs.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """List runs: languages, size, steps, the best BLEU on validation, minutes, and whether they can be resumed.

    Examples:
      translate runs
      translate runs experiments --json
    """
    from translate.runs.summary import summarize_run

    header = ("run", "languages", "parameters", "steps", "BLEU", "minutes", "created", "state")
    rows: list[tuple[str, ...]] = [header]
    documents: list[dict[str, object]] = []
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder; name one that has runs, such as runs")
    paths = [folder] if (folder / "run.json").exists() else map(Path, find_runs(f"{folder}/"))
    for path in paths:
        try:
            found = summarize_run(path)
        except (InputError, RunError) as error:
            rows.append((str(path), *[""] * (len(header) - 2), f"cannot be read: {error}"))
            documents.append({"run": str(path), "error": str(error)})
        else:
            bleu = "" if found.best_bleu is None else f"{found.best_bleu:.2f}"
            size = "" if found.num_parameters is None else f"{found.num_parameters:,}"
            about = (" ".join(found.languages), size, _steps(found), bleu, f"{found.minutes:.1f}", found.created[:10])
            rows.append((str(path), *about, found.state))
            documents.append(found._asdict())
    text = "\n".join(aligned_columns(rows)) if documents else f"{folder}: no runs here or in its folders"
    print_result(text, {"runs": documents}, as_json=as_json)


def info(run: RunArgument, as_json: JsonOption = False) -> None:
    """Describe a run: languages, data, model, training, scores, checkpoints, and whether it can be resumed.

    Examples:
      translate info runs/demo
      translate info runs/demo --json
    """
    from translate.runs.summary import summarize_run

    found = summarize_run(run)
    print_result("\n".join([str(run), *aligned_columns(list(_facts(found)))]), found._asdict(), as_json=as_json)


def verify(run: RunArgument, as_json: JsonOption = False) -> None:
    """Compare every file of a run with its checksum, and report what is missing, damaged or unknown.

    Exit code 0: sound; 1: not sound; 2: not a run.

    Examples:
      translate verify runs/demo
      translate verify runs/demo --json
    """
    from translate.runs.verify import verify_run

    result = verify_run(run.path)
    names = {"run": str(run), "sound": not result.unsound, "version": result.writer, "created": result.created}
    document = {**names, "run_format": result.run_format, "files": plain(result.files)}
    when = f" on {result.created[:10]}" if result.created else ""
    by = "an unknown version" if result.writer is None else f"translate {result.writer}{when}"
    width = max((len(file.name) for file in result.files), default=0)
    files = [f"  {file.state:<11}  {file.name:<{width}}  {file.detail}".rstrip() for file in result.files]
    print_result("\n".join([f"{run}: written by {by}\n", *files, f"\n{result.summary}"]), document, as_json=as_json)
    if result.unsound:
        raise Exit(1)


def _facts(found: "RunSummary") -> Iterator[tuple[str, str]]:
    from translate.config.load import as_path

    size = "no weights yet" if found.num_parameters is None else f"{found.num_parameters:,} parameters"
    yield "languages", ", ".join(found.languages) or "chosen for each text"
    yield "data", "; ".join(found.data) or "none of its own"
    yield "model", f"{found.model}, {size}"
    yield "files", f"{found.num_bytes / 1e6:,.1f} MB, with the checkpoints {', '.join(found.checkpoints) or '(none)'}"
    if found.base:
        yield "base", found.base
    yield "training", f"{_steps(found)} steps in {found.minutes:.1f} minutes"
    if found.best_bleu is not None and found.best_step is not None:
        moment = describe_moment(found.best_step, found.best_averaged)
        yield "validation", f"BLEU {found.best_bleu:.2f} with the best checkpoint, {moment}"
    for name, bleu in found.test_bleu.items():
        yield "test", f"BLEU {bleu:.2f} on {name}"
    yield "created", f"{found.created[:10]} by translate {found.version}: {shlex.join(found.command)}"
    hint = f": translate train {shlex.quote(as_path(found.run))} --resume" if found.state == "can be resumed" else ""
    yield "state", f"{found.state}{hint}"


def _steps(found: "RunSummary") -> str:
    return f"{found.step:,}" + (f" of {found.max_steps:,}" if found.max_steps is not None else "")
