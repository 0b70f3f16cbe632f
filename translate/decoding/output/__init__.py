"""What is written for each translated line: text, records, word alignments."""
