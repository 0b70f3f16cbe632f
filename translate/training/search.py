"""Search over config keys: Optuna samples the settings and stops poor trials; each trial is an ordinary run.

The study is a journal in the directory of the search, so several processes can work on it. A trial that failed, or
whose process was stopped or killed, is tried again with the same settings, and its run continues exactly.
"""

import contextlib
import gc
import json
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import optuna
from filelock import FileLock
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from translate.atomic import write_text
from translate.config.load import load_config, parse_resolved_config
from translate.config.schema import Config
from translate.config.section import MOST
from translate.config.show import resolved_yaml
from translate.config.yaml import Document, join_key, read_yaml, shown_path
from translate.errors import InputError, RunError
from translate.files import MissingFileError, require_file, require_name
from translate.runs.directory import SEARCH_JOURNAL, RunDirectory
from translate.runs.lock import hold_lock
from translate.runs.metrics import best_record, read_metrics
from translate.runs.progress import Progress
from translate.training.train import Inspect, NotReady, train
from translate.training.trainer import Paused

logger = logging.getLogger(__name__)

Pruner = Literal["none", "halving", "hyperband"]
Space = dict[str, BaseDistribution]  # by dotted key; choices are JSON, so that they can be lists

_MAX_SAMPLES = 100  # draws to find settings that no trial has tried yet
_SCORED_BY = (  # must be the same in all trials, or their scores could not be compared
    *("decoding", "evaluation", "data.validation", "data.validation_also", "data.test", "data.root"),
    *("training.validate_every", "training.validation_beam_size", "training.best_metric"),
)


def read_space(path: Path) -> Space:
    """Read a search space: for each config key a list of choices, or a range of numbers.

    Raises:
        InputError: The file cannot be read, or a value is neither; the message has line and column.
    """
    document = read_yaml(path, dotted_keys=True)
    space: Space = {}
    for key, values in _leaves(document.values, ""):
        position = document.origins[key].position
        if key in space:
            raise InputError(f"{position}: {key} is given twice")
        if fixed := [each for each in _SCORED_BY if f"{key}.".startswith(f"{each}.")]:
            hint = "; `translate tune-decode` tunes the decoding of a trained run" if fixed == ["decoding"] else ""
            raise InputError(f"{position}: {key} decides how trials are scored, so it cannot differ between them{hint}")
        space[key] = _distribution(values, f"{position}: {key} = {json.dumps(values)[:100]}")
    if not space:
        raise InputError(f"{shown_path(path)}: has no key; write lines such as model.dropout: [0.1, 0.2, 0.3]")
    return space


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The dotted keys of nested sections, with their values."""
    if isinstance(value, dict) and value and not value.keys() & {"low", "high", "log"}:
        for name, item in value.items():
            yield from _leaves(item, join_key(key, name))
    elif key:
        yield key, value


def _distribution(value: Any, place: str) -> BaseDistribution:
    if isinstance(value, list) and value:
        return CategoricalDistribution([json.dumps(each) for each in value])
    if isinstance(value, dict) and {"low", "high"} <= value.keys() <= {"low", "high", "log"}:
        kinds = {type(value["low"]), type(value["high"])}
        are_numbers = kinds <= {int, float} and all(abs(value[end]) <= MOST for end in ("low", "high"))
        if are_numbers and isinstance(value.get("log", False), bool) and value["low"] < value["high"]:
            with contextlib.suppress(ValueError):  # a logarithm of 0
                return IntDistribution(**value) if kinds == {int} else FloatDistribution(**value)
    raise InputError(
        f"{place}: should be a list of choices, or a range such as {{low: 1e-4, high: 1e-2, log: true}}, with"
        " low < high, and low > 0 if log is true"
    )


def _settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """The values for a config: what Optuna sampled, with choices as they were given."""
    return {key: json.loads(each) if isinstance(each, str) else each for key, each in params.items()}


class Result(NamedTuple):
    """One run of a search, with its results so far."""

    run: str
    settings: dict[str, Any]
    state: str
    step: int  # of the last record
    minutes: float  # of training and validation
    bleu: float  # on validation, of the best checkpoint; -inf: not validated yet
    loss: float  # of the same validation, without label smoothing
    trial: FrozenTrial

    @property
    def rank(self) -> tuple[float, float]:
        """Sorts the best first: by BLEU as it is shown, then by loss."""
        return -round(self.bleu, 2), self.loss


class Search:
    """A study of training runs.

    Args:
        directory: Holds the study and its runs, and nothing else.
        base: The config whose keys are searched.
        pruner: Stops poor trials early: by asynchronous successive halving, by Hyperband, or never.
        place: Where the space was given, for messages.

    Raises:
        InputError: The config cannot be searched like this, or the directory holds something else.

    Sources: halving: Li et al. 2020, arXiv 1810.05934; Hyperband: Li et al. 2018, arXiv 1603.06560.
    """

    def __init__(
        self, directory: Path, base: Config, space: Space, *, pruner: Pruner = "none", place: str = "Python"
    ) -> None:
        self.directory, self.base, self.space, self.place = directory, base, space, place
        steps, every, journal = base.training.max_steps, base.training.validate_every, directory / SEARCH_JOURNAL
        if base.data.validation is None:
            raise InputError("data.validation is missing: a search compares its trials on it")
        if pruner != "none" and ("training.max_steps" in space or steps < 2 * every):
            raise InputError(
                f"training.validate_every = {every}: a pruner compares trials of equal length before their end; set it"
                f" to at most half of training.max_steps = {steps}, and do not search training.max_steps"
            )
        first = {key: each.to_external_repr(getattr(each, "low", 0)) for key, each in space.items()}
        self._config(_settings(first))  # reports an unknown key before anything is written
        if directory.is_file() or (directory.is_dir() and any(directory.iterdir()) and not journal.exists()):
            raise InputError(f"{directory} is neither empty nor a search: choose another --dir")
        directory.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(MissingFileError):
            require_file(journal)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruners = {
            "none": optuna.pruners.NopPruner(),
            "halving": optuna.pruners.SuccessiveHalvingPruner(min_resource=every, reduction_factor=2),
            "hyperband": optuna.pruners.HyperbandPruner(min_resource=every, max_resource=steps),
        }
        try:
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
            self.study = optuna.create_study(
                storage=storage, study_name="search", direction="maximize", pruner=pruners[pruner], load_if_exists=True
            )
        except Exception as error:  # a malformed record can raise anything
            raise InputError(f"{journal} is damaged ({error!r}): restore it, or choose another --dir") from error
        has_runs = any(each.is_dir() for each in directory.glob("trial-*"))  # none, if the first was not ready
        found = self.study.user_attrs if has_runs else {}
        before = parse_resolved_config(Document(found["config"], {}), journal) if "config" in found else base
        for name, is_another in (("config", before != base), ("space", found.get("space", str(space)) != str(space))):
            if is_another:
                raise InputError(f"{directory} holds a search with another {name}: choose another --dir")
        self.study.set_user_attr("config", base.model_dump(mode="json"))
        self.study.set_user_attr("space", str(space))

    def run(
        self,
        *,
        num_trials: int = 16,
        sampler: Literal["tpe", "random"] = "tpe",
        seed: int = 1,
        minutes: float | None = None,
        command: Sequence[str] = (),
        inspect: Inspect | None = None,
    ) -> None:
        """Train until there are enough trials, or their time is used up.

        Args:
            num_trials: How many settings to try, including earlier calls.
            sampler: Chooses settings at random, or by a tree-structured Parzen estimator from the trials so far.
            minutes: The time of all training runs, including earlier calls; None: no limit.
            command: The command that the user typed, which the runs record.
            inspect: Inspects the first training, whose data the others share; see `train`.

        Raises:
            NotReady: The inspection has found errors.
            RunError: All trials have failed, or the results cannot be written.
            StoppedBySignal: SIGINT, SIGTERM or SIGHUP came; everything is saved. A `KeyboardInterrupt`.

        Source: Bergstra et al. 2011, Algorithms for hyper-parameter optimization.
        """
        spent = sum(each.minutes for each in self.results())
        deadline = math.inf if minutes is None else time.monotonic() + 60 * (minutes - spent)
        begun: list[str] = []  # runs of this call, which are not retried
        while time.monotonic() < deadline:
            with contextlib.ExitStack() as held:
                with FileLock(self.directory / "lock"):
                    trial = self._ask_again(begun) or self._ask(num_trials, sampler, seed=seed)
                    if trial is None:
                        break
                    begun.append(trial.user_attrs["run"])
                    held.enter_context(self._lock(begun[-1]))
                self._train(trial, deadline=deadline, command=list(command), inspect=inspect)
                inspect = None
            gc.collect()  # the model may be part of a cycle, and a GPU needs its memory for the next one
        else:
            logger.info(f"The budget of {minutes:g} minutes is used up; a larger --minutes continues the search")
        results = self.results()
        if results and all(each.state.startswith("failed") for each in results):
            raise RunError(f"all trials have failed; {results[0].run}: {results[0].state}")

    def _ask_again(self, begun: Sequence[str]) -> Trial | None:
        """A trial for a run that failed, or whose process was stopped or killed, with the same settings."""
        for run, _, state, *_, trial in self.results():
            if run not in begun and state.startswith(("paused", "failed")):
                self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
                self.study.enqueue_trial(trial.params, user_attrs={"run": run})
                return self.study.ask(self.space)
        return None

    def _ask(self, num_trials: int, sampler: str, *, seed: int) -> Trial | None:
        """A trial with settings that no other has; None: there are enough, or the space is exhausted."""
        others = [each.trial.params for each in self.results()]
        for _ in range(_MAX_SAMPLES if len(others) < num_trials else 0):
            # Each trial has its own seed, so that a continued search, or another process, does not repeat the samples.
            state = np.random.SeedSequence([seed, len(self.study.get_trials(deepcopy=False))]).generate_state(1)
            samplers = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
            self.study.sampler = samplers[sampler](seed=int(state[0]))
            trial = self.study.ask(self.space)
            if trial.params not in others:
                trial.set_user_attr("run", f"trial-{len(others) + 1:03}")
                return trial
            self.study.tell(trial, state=TrialState.PRUNED)
        if len(others) < num_trials:
            logger.info(f"{num_trials} trials were requested, but only {len(others)} different settings were found")
        return None

    def _train(self, trial: Trial, *, deadline: float, command: list[str], inspect: Inspect | None) -> None:
        name, settings, num_validations, is_poor = trial.user_attrs["run"], _settings(trial.params), 0, False

        def pause(progress: Progress) -> bool:
            nonlocal num_validations, is_poor
            if progress.step % self.base.training.validate_every == 0:
                records = read_metrics(RunDirectory(self.directory / name))
                validations = [each for each in records if each["kind"] == "validation"]
                for record in validations[num_validations:]:
                    trial.report(record["BLEU"], int(record["step"]))
                    is_poor = is_poor or trial.should_prune()
                num_validations = len(validations)
            return is_poor or time.monotonic() >= deadline

        logger.info(f"{name}: {' '.join(f'{key}={json.dumps(each)}' for key, each in settings.items())}")
        try:
            config, run = self._config(settings), self.directory / name
            train(config, run, resume=True, command=command, inspect=inspect, pause=pause)
            self.study.tell(trial, next(each.bleu for each in self.results() if each.run == name))
        except Paused:
            if is_poor:  # otherwise the time is up, and the trial stays open
                self.study.tell(trial, state=TrialState.PRUNED)
        except (InputError, RunError) as error:
            trial.set_user_attr("reason", " ".join(str(error).split()))
            self.study.tell(trial, state=TrialState.FAIL)
            if isinstance(error, NotReady):
                raise
            logger.warning(f"{name} failed: {error}")
        finally:
            self.write()

    def _config(self, settings: dict[str, Any]) -> Config:
        return load_config(self.base.model_dump(mode="json"), settings, require_files=True, place=self.place).config

    def _lock(self, run: str) -> contextlib.AbstractContextManager[None]:
        return hold_lock(self.directory / f"{run}.lock", busy=f"trains {run}")

    def results(self) -> list[Result]:
        """The results of the trials, the best first; for a run that was tried again, the last one."""
        trials = [each for each in self.study.get_trials(deepcopy=False) if "run" in each.user_attrs]
        trials = [each for each in trials if each.params.keys() == self.space.keys()]  # others were stopped midway
        results, place = [], str(self.directory / SEARCH_JOURNAL)
        for run, trial in {require_name(each.user_attrs["run"], place=place): each for each in trials}.items():
            state = "ended" if trial.state == TrialState.COMPLETE else trial.state.name.lower()
            if trial.state == TrialState.FAIL:
                state = f"failed: {trial.user_attrs.get('reason', 'stopped')}"
            if trial.state == TrialState.RUNNING:
                with contextlib.suppress(InputError), self._lock(run):
                    state = "paused"
            records = read_metrics(RunDirectory(self.directory / run))
            best = best_record(records, self.base.training.best_metric) or {}
            last = records[-1] if records else {}
            progress = int(last.get("step", 0)), last.get("minutes_so_far", 0.0)
            scores = best.get("BLEU", -math.inf), best.get("nll", math.inf)
            results.append(Result(run, _settings(trial.params), state, *progress, *scores, trial))
        return sorted(results, key=lambda each: each.rank)

    def best(self) -> Result | None:
        """The first result, if its BLEU is above 0.00 and its validation differs from the second's."""
        results = self.results()
        is_separated = len(results) > 1 and results[0].rank < results[1].rank < (math.inf, math.inf)
        return results[0] if is_separated and results[0].rank[0] < 0 else None

    def verdict(self) -> str:
        """Which trial is the best, or why there is no best one."""
        results = self.results()
        if (best := self.best()) is not None:
            by = "loss, at the same BLEU as the next" if results[1].rank[0] == best.rank[0] else "BLEU"
            return f"{best.run} is the best of {len(results)} trials by {by}"
        why = "validation does not separate the trials"
        if results and results[0].rank[0] == 0:
            why = "no trial has a BLEU above 0.00; train longer, or search other settings"
        return f"No trial is called the best: {why}"

    def write(self) -> list[list[str]]:
        """Write the results, the best first, as `results.tsv`, and the best config as `best.yaml` if one is the best.

        Returns:
            The rows of `results.tsv`, with a header.

        Raises:
            RunError: A file cannot be written.
        """
        rows = [["trial", "BLEU", "loss", "step", "minutes", *self.space, "state"]]
        for each in self.results():
            scores = ["", ""] if each.bleu == -math.inf else [f"{each.bleu:.2f}", f"{each.loss:.4f}"]
            values = [json.dumps(each.settings[key], ensure_ascii=False).strip('"') for key in self.space]
            rows.append([each.run, *scores, str(each.step), f"{each.minutes:.1f}", *values, each.state])
        write_text(self.directory / "results.tsv", "".join("\t".join(row) + "\n" for row in rows))
        (self.directory / "best.yaml").unlink(missing_ok=True)  # from an earlier call, when one was the best
        if (best := self.best()) is not None:
            config = self._config(best.settings).model_copy(update={"name": f"{self.base.name}-best"})
            measured = f"BLEU {best.bleu:.2f}, loss {best.loss:.4f} on validation"
            head = f"# {best.run}, {measured}\n# {self.verdict()}\n"
            write_text(self.directory / "best.yaml", head + resolved_yaml(config))
        return rows
