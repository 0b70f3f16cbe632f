"""Training: from a config to a run directory."""

from translate.runs.progress import Progress
from translate.training.signals import StoppedBySignal
from translate.training.train import train

__all__ = ["Progress", "StoppedBySignal", "train"]
