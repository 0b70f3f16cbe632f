"""`init`: from text to held-out sets, a config, and the next commands."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from translate.cli.terminal.console import show_only
from translate.cli.terminal.lines import aligned_columns, plain, print_result
from translate.cli.terminal.options import JsonOption
from translate.errors import InputError
from translate.messages import describe_seconds, fill

_SOURCE = "Sentences, one per line; or a TSV, CSV, JSON Lines, Parquet or TMX file; or a data set of the Hub."
_LITTLE_TEXT = 20_000  # pairs
_ADVICE = (
    "This is little text to train on. Of the simple sentences of Multi30k, 1,800 pairs gave a model with 20 BLEU,"
    " 14,500 one with 36, and 29,000 one with 43 (docs/recipes.md). Fine-tuning a model that others trained on more"
    " text is better, with another config: `translate import --help`, docs/opus-mt.md."
)


def init(
    source: Annotated[str, Argument(metavar="SOURCE", help=_SOURCE)],
    target: Annotated[Path | None, Argument(metavar="TARGET", help="The translations, line by line.")] = None,
    name: Annotated[
        str | None, Option(metavar="NAME", help="Write NAME.yaml and the folder NAME. Default: the languages.")
    ] = None,
    from_: Annotated[
        str | None, Option("--from", metavar="CODE", help="The source's language, if no name shows it.")
    ] = None,
    to: Annotated[str | None, Option(metavar="CODE", help="The target's language, if no name shows it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Set up training from text: hold out validation and test sets, and write a config for its size and this machine.

    The held-out sets share no sentence with training, and are the same each time. A short dry run estimates how long
    training will take. Existing files are never changed.

    Examples:
      translate init train.de train.en
      translate init corpus.tmx --from de --to en --name mine
      translate init bentrevett/multi30k
    """
    from translate.files import require_name
    from translate.lint.new_corpus import find_corpora, read_named, split_pairs, write_split

    direction, named = find_corpora(source, target, from_=from_, to=to)
    name = require_name((name or str(direction)).removesuffix(".yaml"), place="--name")
    folder, config = Path(name), Path(f"{name}.yaml")
    if there := [str(path) for path in (config, folder, *sorted(folder.glob("*"))[:9]) if path.exists()]:
        train = f"train it with `translate train {config}`, or " if config.exists() else ""
        raise InputError(f"{', '.join(there)}: already exists and is not changed; {train}choose another --name")
    show_only("translate.data.tables")  # which units of a translation memory are not pairs
    corpora = read_named(named)
    whole = corpora["train"]
    split = split_pairs(whole, {part: corpora[part] for part in corpora.keys() - {"train"}})
    from translate.atomic import atomic_folder, write_text
    from translate.lint.findings import count_findings
    from translate.lint.new_config import propose_config

    with atomic_folder(folder) as temporary:
        write_split(split, corpora, temporary, direction)
        found = propose_config(direction, name=name, folder=temporary)
    write_text(config, found.text)
    report, plan, sizes = found.report, found.report.plan, {part: len(pairs) for part, pairs in split.parts.items()}
    time = "it would fail" if plan.seconds is None else f"{describe_seconds(plan.seconds)} here"
    is_ready = not report.count("error")
    commands = {
        f"translate train {config}": time,
        f"translate eval runs/{name}": "the scores on the test set",
        f"translate serve runs/{name}": "a page to translate on",
    }
    if not is_ready:
        commands = {
            f"translate check {config}": f"shows the lines, counted in {folder}",
            f"translate train {config} --ignore-errors": "trains on it as it is",
        }
    lengths = f"{report.lengths.mean_source:.0f} and {report.lengths.mean_target:.0f} subwords per sentence"
    rows = [("text", f"{direction.source} → {direction.target}, {len(whole.sources):,} pairs, {lengths}")]
    rows += [("left out", f"{count:,} {reason}") for reason, count in split.left_out.items()]
    rows += [(part, f"{size:,} pairs in {folder}/{part}.*") for part, size in sizes.items()]
    size = f"{report.vocabularies[0].size:,} subwords, {plan.num_steps:,} steps"
    rows += [("config", f"{config}: preset {found.preset}, {size}"), ("findings", count_findings(report.findings))]
    text = [*aligned_columns(rows), *(each.draw() for each in report.findings if each.severity != "note")]
    if not is_ready:
        text += ["", f"Not ready: correct the text, remove {config} and {folder}, and run this command again."]
    elif sizes["train"] < _LITTLE_TEXT:
        text += ["", fill(_ADVICE, "", "")]
    text += ["", *aligned_columns([(command, f"# {what}") for command, what in commands.items()])]
    about = {"preset": found.preset, "num_steps": plan.num_steps, "seconds": plan.seconds, "commands": [*commands]}
    about |= {"left_out": split.left_out, "findings": plain(report.findings)}
    pairs = {"given": len(whole.sources), **sizes}
    document = {"config": str(config), "languages": [*direction], "num_pairs": pairs, **about}
    print_result("\n".join(text), document, as_json=as_json)
    if not is_ready:
        raise Exit(1)
