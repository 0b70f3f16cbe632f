"""Text in, batches of token ids out."""
