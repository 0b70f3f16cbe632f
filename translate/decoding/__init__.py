"""Translates text with a trained model."""

from translate.decoding.request import (
    ConditionCounts,
    OnFinished,
    Request,
    Score,
    Translation,
    count_conditions,
    ignore_progress,
)
from translate.decoding.translator import Translator

__all__ = [
    "ConditionCounts",
    "OnFinished",
    "Request",
    "Score",
    "Translation",
    "Translator",
    "count_conditions",
    "ignore_progress",
]
