"""Scores translations, the same way for validation and for `translate eval`."""
