"""The report of an evaluation, which is kept in a run as `evaluation/NAME/report.json`, and the scores in it."""

import dataclasses
from typing import Any, NamedTuple


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
