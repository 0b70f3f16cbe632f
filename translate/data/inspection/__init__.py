"""What is wrong with a corpus, by its text alone: pure functions over sentences, in order, with numpy's memory only."""
