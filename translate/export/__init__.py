"""CTranslate2 as a fast engine."""

from translate.export.engine import CTranslate2Translator, load_engine

__all__ = ["CTranslate2Translator", "load_engine"]
