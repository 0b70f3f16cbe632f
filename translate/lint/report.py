"""What a check has found, as data: for a terminal, and as it stands for machines."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from translate.lint.dry_run import Rehearsal
from translate.lint.settings import Finding
from translate.lint.spelling import HISTOGRAM_ENDS, length_histogram, token_lengths
from translate.lint.suspicions import Leak, Suspects, Unit
from translate.lint.vocabulary import EncodedPairs, SpellingReport, VocabularyReport


class CorpusReport(NamedTuple):
    """One corpus."""

    key: str  # where it stands in the config
    unit: Unit  # what its pairs are counted in
    name: str
    num_pairs: int
    num_kept: int | None  # by the filter of training; None: not filtered
    left_out: dict[str, int]  # reason: pairs
    num_inspected: int  # by the slow inspections
    suspects: tuple[Suspects, ...]
    spelling: SpellingReport


class Lengths(NamedTuple):
    """Tokens of the sentences of training, special symbols not counted."""

    source_histogram: tuple[int, ...]  # sentences up to each of `ends`, and over the last
    target_histogram: tuple[int, ...]
    mean_source: float
    mean_target: float
    longest_source: int
    longest_target: int
    ends: tuple[int, ...] = HISTOGRAM_ENDS

    @classmethod
    def of(cls, encoded: Sequence[EncodedPairs]) -> "Lengths":
        """Those of all training corpora."""
        sources = np.concatenate([token_lengths(each.source_ids) for each in encoded])
        targets = np.concatenate([token_lengths(each.target_ids) for each in encoded])
        return cls(
            length_histogram(sources),
            length_histogram(targets),
            float(sources.mean()),
            float(targets.mean()),
            int(sources.max()),
            int(targets.max()),
        )


class Plan(NamedTuple):
    """What the training will do."""

    steps_per_epoch: int
    num_steps: int
    num_epochs: float
    num_validations: int
    padding_share: float  # of all tokens computed in an epoch
    seconds: float | None  # all of it, validations too; None: nothing was measured
    validation_seconds: float | None  # of it


class Report(NamedTuple):
    """All that `translate check` found."""

    name: str
    findings: tuple[Finding, ...]  # errors first
    corpora: tuple[CorpusReport, ...]
    leakage: tuple[Leak, ...]
    lengths: Lengths
    vocabularies: tuple[VocabularyReport, ...]
    plan: Plan
    rehearsal: Rehearsal | None  # None: it failed, and a finding says why

    def count(self, severity: str) -> int:
        """Findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def to_document(self) -> dict[str, Any]:
        """For JSON: every name of a field is a key, and stays what it is."""
        return {"format": 1, **_plain(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value
