"""The output for each translated line: text, records, word alignments."""
