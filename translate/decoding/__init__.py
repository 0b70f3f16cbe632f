"""Layer 3: search for translations, text in and text out."""

from translate.decoding.conditions import ConditionCounts, count_conditions
from translate.decoding.request import Request, Score, Translation
from translate.decoding.search.ensemble import Combination
from translate.decoding.translator import Translator

__all__ = ["Combination", "ConditionCounts", "Request", "Score", "Translation", "Translator", "count_conditions"]
