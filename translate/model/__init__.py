"""The Transformer from the ground up: tensors in, tensors out, no text and no files."""

from translate.model.classifier import SequenceClassifier
from translate.model.transformer import Decoder, Encoder, Memory, Transformer, log_probabilities
from translate.model.varlen import PackedSequences, fill_up, flatten, pack

__all__ = [
    "Decoder",
    "Encoder",
    "Memory",
    "PackedSequences",
    "SequenceClassifier",
    "Transformer",
    "fill_up",
    "flatten",
    "log_probabilities",
    "pack",
]
