"""Logits processors lower the scores of next tokens before the search selects among them; see `LogitsProcessor`."""
