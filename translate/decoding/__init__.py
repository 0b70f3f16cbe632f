"""Layer 3: search for translations, text in and text out."""

from translate.decoding.conditions import ConditionCounts, count_conditions
from translate.decoding.translator import Score, Translation, Translator

__all__ = ["ConditionCounts", "Score", "Translation", "Translator", "count_conditions"]
