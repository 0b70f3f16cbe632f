"""Layer 5: scores translations, as validation and as `translate eval`."""

from translate.evaluation.evaluate import (
    Evaluation,
    ReferenceSet,
    choose_test_sets,
    evaluate,
    evaluate_test_set,
    spread_samples,
    write_report,
)
from translate.evaluation.metrics import Interval, Metric, score_translations

__all__ = [
    "Evaluation",
    "Interval",
    "Metric",
    "ReferenceSet",
    "choose_test_sets",
    "evaluate",
    "evaluate_test_set",
    "score_translations",
    "spread_samples",
    "write_report",
]
