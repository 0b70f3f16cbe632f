"""Train, decode and score encoder-decoder Transformers, from raw text to a detokenised BLEU."""

__version__ = "0.1.0"
