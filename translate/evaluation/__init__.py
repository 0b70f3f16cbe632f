"""Layer 5: scores translations, the same way for validation and for `translate eval`."""
