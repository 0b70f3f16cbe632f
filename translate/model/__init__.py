"""Layer 1: the Transformer from the ground up; tensors in, tensors out, no text and no files."""

from translate.model.classifier import SequenceClassifier
from translate.model.transformer import Decoder, Encoder, Memory, Transformer, log_probabilities

__all__ = ["Decoder", "Encoder", "Memory", "SequenceClassifier", "Transformer", "log_probabilities"]
