"""Layer 5: the trainer."""

from translate.training.progress import Progress
from translate.training.train import train

__all__ = ["Progress", "train"]
