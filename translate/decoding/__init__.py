"""Layer 4: translates text with a trained model."""

from translate.decoding.request import (
    ConditionCounts,
    OnFinished,
    Request,
    Score,
    Translation,
    count_conditions,
    ignore_progress,
)
from translate.decoding.search.model import Combination
from translate.decoding.translator import Translator

__all__ = [
    "Combination",
    "ConditionCounts",
    "OnFinished",
    "Request",
    "Score",
    "Translation",
    "Translator",
    "count_conditions",
    "ignore_progress",
]
