"""Layer 4: scores of translations."""

from translate.evaluation.evaluate import Evaluation, evaluate
from translate.evaluation.metrics import Interval, Metric, score_translations
from translate.evaluation.report import spread_samples, write_report

__all__ = ["Evaluation", "Interval", "Metric", "evaluate", "score_translations", "spread_samples", "write_report"]
