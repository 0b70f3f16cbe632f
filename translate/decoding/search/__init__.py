"""Beam search and sampling: a pure step over scored continuations, and the loop that feeds it."""
