"""`init`: from text to held-out sets, a config, and the next commands."""

from typing import Annotated

from typer import Argument, Exit, Option

from translate.cli.terminal.console import show_only
from translate.cli.terminal.lines import aligned_columns, plain, print_result
from translate.cli.terminal.options import JsonOption
from translate.messages import fill

_TEXT = "Two text files, line by line; or tables such as TSV, TMX or XLIFF, or a folder of them; or a Hub data set."
_ADVICE = (
    "This is little text to train on. Of the simple sentences of Multi30k, 1,800 pairs gave a model with 20 BLEU,"
    " 14,500 one with 36, and 29,000 one with 43 (docs/recipes.md). Fine-tuning a model that others trained on more"
    " text is better, with another config: `translate import --help`, docs/opus-mt.md."
)


def init(
    texts: Annotated[list[str], Argument(metavar="TEXT...", help=_TEXT)],
    name: Annotated[
        str | None, Option(metavar="NAME", help="Write NAME.yaml and the folder NAME. Default: the languages.")
    ] = None,
    from_: Annotated[
        str | None, Option("--from", metavar="CODE", help="The source's language, if no name shows it.")
    ] = None,
    to: Annotated[str | None, Option(metavar="CODE", help="The target's language, if no name shows it.")] = None,
    minutes: Annotated[float | None, Option(min=1, max=100_000, help="Time in which training should end.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Set up training from text: hold out validation and test sets, and write a config for its size and this machine.

    The held-out sets share no sentence with training, and are the same each time. A short dry run estimates how long
    training will take. Existing files are never changed.

    Examples:
      translate init train.de train.en
      translate init corpus.tmx --from de --to en --name mine
      translate init po/*.po --to de
      translate init bentrevett/multi30k
      translate init train.de train.en --minutes 30
    """
    from translate.lint.findings import count_findings
    from translate.starter.start import start

    show_only("translate.starter.corpus", "translate.data.tables")  # what they do not use
    found = start(texts, name=name, from_=from_, to=to, minutes=minutes)
    report = found.report
    sizes = {part: len(pairs) for part, pairs in found.split.parts.items()}
    means = " and ".join(f"{lengths.mean:.0f}" for lengths in report.lengths)
    rows = [("text", f"{' → '.join(found.direction)}, {found.num_given:,} pairs, {means} subwords per side")]
    rows += [("left out", f"{count:,} {reason}") for reason, count in found.split.left_out.items()]
    rows += [(part, f"{size:,} pairs in {found.folder}/{part}.*") for part, size in sizes.items()]
    size = f"{report.vocabularies[0].size:,} subwords, {report.plan.num_steps:,} steps"
    rows += [("config", f"{found.config}: preset {found.preset}, {size}")]
    rows += [*found.choices.items(), ("findings", count_findings(report.findings))]
    text = [*aligned_columns(rows), *(finding.draw() for finding in report.findings if finding.severity != "note")]
    if not found.is_ready:
        retry = f"correct the text, remove {found.config} and {found.folder}, and run this command again"
        text += ["", f"Not ready: {retry}."]
    elif found.is_little:
        text += ["", fill(_ADVICE, "", "")]
    text += ["", *aligned_columns([(command, f"# {what}") for command, what in found.next_commands.items()])]
    document = {
        "config": str(found.config),
        "languages": [*found.direction],
        "num_pairs": {"given": found.num_given, **sizes},
        "preset": found.preset,
        "num_steps": report.plan.num_steps,
        "seconds": report.plan.seconds,
        "choices": found.choices,
        "commands": [*found.next_commands],
        "left_out": found.split.left_out,
        "findings": plain(report.findings),
    }
    print_result("\n".join(text), document, as_json=as_json)
    if not found.is_ready:
        raise Exit(1)
