"""Logits processors: what changes the scores of next tokens before the search chooses among them."""
