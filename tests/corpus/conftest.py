"""Makes the corpus grammar importable: it lives beside its output in data/, not in the package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "data"))
