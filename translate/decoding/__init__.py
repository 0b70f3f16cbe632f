"""Translates text with a trained model."""

from translate.decoding.request import OnFinished, Request, ignore_progress
from translate.decoding.translation import ConditionCounts, Score, Translation, count_conditions
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
