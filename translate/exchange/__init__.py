"""Models in the formats of other toolkits, written and read, and checked to give the same numbers."""

from translate.exchange.exporting import Format, Quantization, export_run
from translate.exchange.importing import import_model

__all__ = ["Format", "Quantization", "export_run", "import_model"]
