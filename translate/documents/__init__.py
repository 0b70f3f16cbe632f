"""Documents: text with markup goes in, and the same document with translated text comes out."""
