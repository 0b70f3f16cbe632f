"""From text without a config to what `translate train` takes: held-out sets, a config, and the next commands."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from translate.atomic import atomic_folder, write_text
from translate.config.data import Direction
from translate.errors import InputError
from translate.files import require_name, require_utf8
from translate.messages import describe_seconds
from translate.starter.corpus import Split, find_corpora, read_named, split_pairs, write_split

if TYPE_CHECKING:
    from translate.lint.check import Report

_LITTLE_TEXT = 20_000  # pairs


class Starter(NamedTuple):
    """What `translate init` wrote, and what is known about it."""

    config: Path
    folder: Path  # of the text
    direction: Direction
    num_given: int  # pairs
    split: Split
    preset: str
    report: "Report"  # of the check, for this machine
    choices: dict[str, str]  # see `NewConfig`

    @property
    def is_ready(self) -> bool:
        """Whether training can begin."""
        return not self.report.count("error")

    @property
    def is_little(self) -> bool:
        """Whether fine-tuning a model that others trained on more text would be better."""
        return len(self.split.parts["train"]) < _LITTLE_TEXT

    @property
    def next_commands(self) -> dict[str, str]:
        """The commands that come next, and what each does."""
        if not self.is_ready:
            return {
                f"translate check {self.config}": f"shows the lines, counted in {self.folder}",
                f"translate train {self.config} --ignore-errors": "trains on it as it is",
            }
        seconds = self.report.plan.seconds
        time = "it would fail" if seconds is None else f"takes {describe_seconds(seconds)} here"
        return {
            f"translate train {self.config}": time,
            f"translate eval runs/{self.folder}": "the scores on the test set",
            f"translate serve runs/{self.folder}": "a page to translate on",
        }


def start(
    texts: Sequence[str], *, name: str | None, from_: str | None, to: str | None, minutes: float | None = None
) -> Starter:
    """Hold out validation and test sets, and write them and a config that suits the text and this machine.

    Args:
        texts: Two text files; or tables, folders and patterns such as `po/*.po`; or a data set of the Hub.
        name: Of the folder and, with `.yaml`, of the config; None: the languages.
        from_: The language of the sources; None: names of files or columns show it. `to` likewise.
        minutes: The time in which training should end; None: a night.

    Raises:
        InputError: The text cannot be used, the languages are not clear, or a file exists.
    """
    if minutes is not None and not 1.0 <= minutes <= 100_000:
        raise InputError(f"--minutes {minutes:g}: should be a number from 1 to 100,000")
    require_utf8(Path.cwd(), place="the working directory")
    direction, named = find_corpora(texts, from_=from_, to=to)
    name = require_name((name or str(direction)).removesuffix(".yaml"), place="--name")
    folder, config = Path(name), Path(f"{name}.yaml")
    if there := [str(path) for path in (config, folder, *sorted(folder.glob("*"))[:9]) if path.exists()]:
        train = f"train it with `translate train {config}`, or " if config.exists() else ""
        raise InputError(f"{', '.join(there)}: already exists and is not changed; {train}choose another --name")
    corpora = read_named(named, direction)
    split = split_pairs(corpora["train"], {part: corpora[part] for part in corpora.keys() - {"train"}})
    from translate.starter.settings import propose_config  # only now, because it imports torch

    with ExitStack() as undo:
        with atomic_folder(folder) as temporary:
            write_split(split, corpora, temporary, direction)
            found = propose_config(direction, name=name, folder=temporary, minutes=minutes)
            write_text(config, found.text, is_new=True)
            undo.callback(config.unlink, missing_ok=True)
        undo.pop_all()
    return Starter(config, folder, direction, len(corpora["train"].sources), split, *found[1:])
