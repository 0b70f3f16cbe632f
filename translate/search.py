"""Search over config keys: trainings with sampled settings, of which only the better ones go on to the end.

Each trial is an ordinary run. One that waits for others is paused with its `training.max_steps`, and so its schedule,
as they are, and continued exactly. What is left to do follows from the trials, so a search that was killed goes on.
"""

import dataclasses
import gc
import json
import logging
import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from translate.atomic import write_text
from translate.config.load import load_config
from translate.config.schema import Config
from translate.config.show import resolved_yaml
from translate.config.yaml import Document, join_key, read_yaml, shown_path
from translate.errors import InputError, RunError
from translate.runs.directory import RunDirectory
from translate.runs.lock import hold_lock
from translate.runs.metrics import best_record, read_metrics
from translate.training import Paused, Progress, train

logger = logging.getLogger(__name__)

Settings = dict[str, Any]  # values of a config by dotted key
Strategy = Literal["random", "halving"]

_SCORED_BY = (  # what must be the same in all trials, or their scores could not be compared
    *("decoding", "evaluation", "data.validation", "data.validation_also", "data.test", "data.root"),
    *("training.validate_every", "training.validation_beam_size", "training.best_metric"),
)


class Range(NamedTuple):
    """Numbers from `low` to `high`, both included: whole ones if these are."""

    low: float
    high: float
    log: bool = False  # whether the logarithm is uniform

    def sample(self, draw: random.Random) -> float:
        """Draw a number, with three digits if it is not whole."""
        is_whole = isinstance(self.low, int) and isinstance(self.high, int)
        low, high = (self.low - 0.499, self.high + 0.499) if is_whole else (self.low, self.high)
        number = math.exp(draw.uniform(math.log(low), math.log(high))) if self.log else draw.uniform(low, high)
        return round(number) if is_whole else min(high, max(low, float(f"{number:.3g}")))


Space = dict[str, Sequence[Any] | Range]  # by dotted key


def read_space(path: Path) -> Space:
    """Read the file of a search space: for each key of a config a list of choices, or a range of numbers.

    Raises:
        InputError: The file cannot be read, or a value is neither; with line and column.
    """
    document = read_yaml(path, dotted_keys=True)
    space: Space = {}
    for key, values in _leaves(document.values, ""):
        position = document.origins[key].position
        if key in space:
            raise InputError(f"{position}: {key} is given twice")
        if fixed := [each for each in _SCORED_BY if f"{key}.".startswith(f"{each}.")]:
            hint = "; `translate tune-decode` chooses the search of a run" if fixed == ["decoding"] else ""
            raise InputError(f"{position}: {key} decides how trials are scored, and is the same in all of them{hint}")
        space[key] = _read_dimension(values, key, document)
    if not space:
        raise InputError(f"{shown_path(path)}: has no key; a line is such as model.dropout: [0.1, 0.2, 0.3]")
    return space


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The keys of sections, and what stands behind them."""
    if isinstance(value, dict) and value and not value.keys() & set(Range._fields):
        for name, item in value.items():
            yield from _leaves(item, join_key(key, name))
    elif key:
        yield key, value


def _read_dimension(value: Any, key: str, document: Document) -> Sequence[Any] | Range:
    if isinstance(value, list) and value:
        return value
    if isinstance(value, dict) and {"low", "high"} <= value.keys() <= set(Range._fields):
        low, high, log = range_ = Range(**value)
        are_numbers = all(type(each) in (int, float) and math.isfinite(each) for each in (low, high))
        if are_numbers and isinstance(log, bool) and low < high and (low > 0 or not log):
            return range_
    raise InputError(
        f"{document.origins[key].position}: {key} = {json.dumps(value)}: should be a list of choices, or a range such"
        " as {low: 1e-4, high: 1e-2, log: true}, with low < high, and above 0 if log is true"
    )


def sample_settings(space: Space, *, number: int, seed: int) -> list[Settings]:
    """Sample different settings, fewer where the space has no more; a larger number begins with the same ones.

    Source: Bergstra and Bengio 2012, https://jmlr.org/papers/v13/bergstra12a.html.
    """
    draw, found = random.Random(seed), dict[str, Settings]()
    for _ in range(100 * number):
        if len(found) < number:
            settings = {
                key: each.sample(draw) if isinstance(each, Range) else draw.choice(each) for key, each in space.items()
            }
            found.setdefault(json.dumps(settings), settings)
    return list(found.values())


@dataclasses.dataclass
class Trial:
    """One training of a search, and how far it has come."""

    name: str  # of its run, in the directory of the search
    settings: Settings
    state: Literal["waiting", "paused", "ended", "failed"] = "waiting"
    reason: str = ""  # why it has failed
    step: int = 0
    seconds: float = 0.0  # spent on it, with the preparation of data and with validations
    bleu: float | None = None  # on validation, of the best checkpoint


class Search:
    """The trials of a search, in a directory that holds no other.

    Args:
        base: The config whose keys are searched.
        place: Where the space was given, for messages.
        num_trials: How many settings are sampled; a search that has more keeps them.

    Raises:
        InputError: A sampled config cannot be, or the directory holds something else.
    """

    def __init__(
        self,
        directory: Path,
        base: Config,
        space: Space,
        *,
        strategy: Strategy,
        num_trials: int,
        seed: int = 1,
        place: str = "Python",
    ) -> None:
        if base.data.validation is None:
            raise InputError("a search compares trials on data.validation, and the config has none")
        self.directory, self.base = directory, base
        self.identity = {"strategy": strategy, "seed": seed, "config": base.model_dump(mode="json"), "space": space}
        self.identity = json.loads(json.dumps(self.identity))  # as it is read
        stored = self._read()
        samples = sample_settings(space, number=max(num_trials, len(stored)), seed=seed)
        self.trials = [
            stored[number] if number < len(stored) else Trial(f"trial-{number + 1:03}", settings)
            for number, settings in enumerate(samples)
        ]
        values = base.model_dump(mode="json")
        self.configs = {
            each.name: load_config(values, each.settings, require_files=True, place=place).config
            for each in self.trials
        }
        if len(samples) < num_trials:
            logger.info(f"{num_trials} trials were asked for, and the space has {len(samples)}")
        self.rungs = [] if strategy == "random" else self._plan_rungs(space)

    def _plan_rungs(self, space: Space) -> list[int]:
        """The steps after each of which the worse half of the trials is left out."""
        steps, every = self.base.training.max_steps, self.base.training.validate_every
        if "training.max_steps" in space:
            raise InputError("training.max_steps: the halves are taken at shares of it, so it cannot be searched too")
        if len(self.trials) < 2:
            raise InputError("halving compares two trials or more, and there is one")
        if steps < 2 * every:
            raise InputError(
                "halving compares trials by validations up to the middle of their training, and training.validate_every"
                f" = {every} of training.max_steps = {steps}: try training.validate_every={max(1, steps // 8)}"
            )
        num_halvings = int(math.log2(min(len(self.trials), steps / every)))
        return [math.ceil(steps / 2**number / every) * every for number in range(num_halvings, 0, -1)]

    def run(self, *, minutes: float | None = None, command: Sequence[str] = ()) -> None:
        """Train until every trial has come as far as it should, or the time of all trainings is used up.

        Args:
            minutes: The time of all trainings, those of earlier calls included; None: as long as it takes.
            command: What the user typed, to be kept in the runs.

        Raises:
            InputError: Another process searches in the directory.
            RunError: No trial has a score in the end, or the results cannot be written.
            StoppedBySignal: SIGINT, SIGTERM or SIGHUP came; all is saved. A `KeyboardInterrupt`.

        Source: successive halving: Jamieson and Talwalkar 2016, https://arxiv.org/abs/1502.07943.
        """
        with hold_lock(self.directory / "lock", busy="is searching here: wait for it, or choose another --dir"):
            self.write()
            if self.rungs:
                steps = ", ".join(f"{rung:,}" for rung in self.rungs)
                logger.info(f"The worse half of the trials is left out after each of the steps {steps}")
            spent = sum(each.seconds for each in self.trials)
            deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes - spent
            for trial in self.trials:
                if trial.state == "failed":  # perhaps there is more memory now, or more room on the disk
                    trial.state = "paused"
            while (following := self._next()) and time.monotonic() < deadline:
                self._train(*following, deadline=deadline, command=list(command))
            if following:
                num_open = sum(each.state in ("waiting", "paused") for each in self.trials)
                logger.info(
                    f"The budget of {minutes:g} minutes is used up, with {num_open} of {len(self.trials)} trials not at"
                    " their end; the same command with more --minutes goes on"
                )
            if all(each.state == "failed" for each in self.trials):
                raise RunError(f"all trials have failed; {self.trials[0].name}: {self.trials[0].reason}")

    def _next(self) -> tuple[Trial, float] | None:
        """The trial to train next, and the step to pause at."""
        contenders = self.trials
        for rung in (*self.rungs, math.inf):
            for trial in contenders:
                if trial.state in ("waiting", "paused") and trial.step < rung:
                    return trial, rung
            scores = {each.name: self._score(each, until=rung) for each in contenders}
            scored = [each for each in contenders if each.state != "failed" and scores[each.name] is not None]
            scored.sort(key=lambda each: -(scores[each.name] or 0.0))
            contenders = scored[: max(1, len(contenders) // 2)]
        return None

    def _train(self, trial: Trial, rung: float, *, deadline: float, command: list[str]) -> None:
        began, config = time.monotonic(), self.configs[trial.name]

        def pause(progress: Progress) -> bool:
            trial.step = progress.step
            return progress.step >= rung or time.monotonic() >= deadline

        logger.info(f"{trial.name}: {' '.join(f'{key}={json.dumps(each)}' for key, each in trial.settings.items())}")
        trial.state, trial.reason = "paused", ""
        try:
            trial.step = train(config, self.directory / trial.name, resume=True, command=command, pause=pause).step
            trial.state = "ended"
        except Paused:
            pass
        except (InputError, RunError) as error:
            trial.state, trial.reason = "failed", str(error)
            logger.warning(f"{trial.name} failed: {error}")
        finally:
            trial.seconds += time.monotonic() - began
            trial.bleu = self._score(trial)
            self.write()
        gc.collect()  # the model may be part of a cycle, and a GPU needs its memory for the next one
        if trial.bleu is not None:
            logger.info(f"  BLEU {trial.bleu:.2f} by step {trial.step:,}, {trial.seconds / 60:.1f} min")

    def _score(self, trial: Trial, *, until: float = math.inf) -> float | None:
        """The BLEU of the best checkpoint up to a step; None: nothing was validated."""
        records = read_metrics(RunDirectory(self.directory / trial.name))
        best = best_record([each for each in records if each["step"] <= until], self.base.training.best_metric)
        return None if best is None else best.get("BLEU")

    @property
    def ranking(self) -> list[Trial]:
        """The trials, the best first."""
        return sorted(self.trials, key=lambda each: -math.inf if each.bleu is None else each.bleu, reverse=True)

    def table(self) -> list[list[str]]:
        """A header and a row for each trial, the best first."""
        keys = list(self.trials[0].settings)
        header = ["trial", "BLEU", "step", "minutes", *keys, "state"]
        rows = [
            [
                each.name,
                "" if each.bleu is None else f"{each.bleu:.2f}",
                str(each.step),
                f"{each.seconds / 60:.1f}",
                *(json.dumps(each.settings[key], ensure_ascii=False).strip('"') for key in keys),
                " ".join(f"{each.state}: {each.reason}".removesuffix(": ").split()),
            ]
            for each in self.ranking
        ]
        return [header, *rows]

    def write(self) -> None:
        """Write `search.json`, which all goes on from, `results.tsv`, and the best config so far as `best.yaml`.

        Raises:
            RunError: A file cannot be written.
        """
        values = self.identity | {"trials": [dataclasses.asdict(each) for each in self.trials]}
        write_text(self.directory / "search.json", json.dumps(values, indent=2, ensure_ascii=False) + "\n")
        write_text(self.directory / "results.tsv", "".join("\t".join(row) + "\n" for row in self.table()))
        best = self.ranking[0]
        if best.bleu is not None:
            config = self.configs[best.name].model_copy(update={"name": f"{self.base.name}-best"})
            head = f"# {best.name}, BLEU {best.bleu:.2f} on validation: the best of {len(self.trials)} trials\n"
            write_text(self.directory / "best.yaml", head + resolved_yaml(config))

    def _read(self) -> list[Trial]:
        """The trials of the search that the directory holds, if it does."""
        file = self.directory / "search.json"
        if not file.exists():
            names = [each.name for each in self.directory.iterdir()] if self.directory.is_dir() else []
            if self.directory.is_file() or names not in ([], ["lock"]):
                raise InputError(f"{self.directory} is neither empty nor a search: choose another --dir")
            return []
        try:
            values = json.loads(file.read_bytes())
            different = [name for name, value in self.identity.items() if values[name] != value]
            trials = [Trial(**each) for each in values["trials"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file} is damaged: {error!r}") from error
        if different:
            raise InputError(
                f"{self.directory} holds a search with another {different[0]}, and only --minutes and --trials may"
                " change: choose another --dir, or remove it"
            )
        return trials
