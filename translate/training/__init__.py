"""Training: from a config to a run directory."""

from translate.runs.progress import Progress
from translate.training.train import train
from translate.training.trainer import StoppedBySignal

__all__ = ["Progress", "StoppedBySignal", "train"]
