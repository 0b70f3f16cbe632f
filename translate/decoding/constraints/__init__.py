"""Lexically constrained decoding: phrases and terms that a translation must contain."""
