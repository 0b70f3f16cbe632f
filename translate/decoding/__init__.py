"""Layer 3: search for translations, text in and text out."""

from translate.decoding.translator import Score, Translation, Translator

__all__ = ["Score", "Translation", "Translator"]
