"""Layer 5: a trained model for other programs, checked to give the same numbers, and CTranslate2 as a fast engine."""

from translate.export.engine import ComputeType, CTranslate2Translator
from translate.export.export import Export, Format, export_run

__all__ = ["CTranslate2Translator", "ComputeType", "Export", "Format", "export_run"]
