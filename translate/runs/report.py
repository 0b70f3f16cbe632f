"""The report of an evaluation, which is kept in a run as `evaluation/NAME/report.json`, and the scores in it."""

import dataclasses
from typing import Any, NamedTuple

from translate.config.inherit import OF_A_MACHINE
from translate.config.schema import Config


class Interval(NamedTuple):
    """A 95 % bootstrap interval."""

    low: float
    high: float


class Metric(NamedTuple):
    """A corpus score."""

    name: str  # such as "BLEU"; "BLEU-lc" is BLEU of lowercased text
    score: float  # in points, of 100
    interval: Interval | None
    signature: str  # with which anyone can compute the same number: sacreBLEU's, or a command and its version


@dataclasses.dataclass
class EvaluationReport:
    """The content of `report.json`, as far as it is read; see `evaluation.evaluate.write_report`."""

    name: str
    step: int
    metrics: list[Metric]
    decoding: dict[str, Any]
    averaged: list[int] = dataclasses.field(default_factory=list)
    changed: dict[str, Any] = dataclasses.field(default_factory=dict)
    source: str | None = None
    reference: str | list[str] | None = None

    def changed_settings(self, config: Config) -> dict[str, Any]:
        """The settings that are not the run's own; older versions reported the search without `changed`."""
        own = config.decoding.model_dump(mode="json", exclude=OF_A_MACHINE)  # None: a limit from `data`
        return self.changed or {key: value for key, value in self.decoding.items() if own.get(key) not in (None, value)}
