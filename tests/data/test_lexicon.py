"""IBM model 1 against the plain loops of the paper."""

from collections import defaultdict

import numpy as np
import pytest

from translate.data.batching import EncodedPair
from translate.data.lexicon import NULL_ID, Lexicon, learn_lexicon

A, X = 4, 6


def learn(pairs: list[EncodedPair], *, num_iterations: int = 5) -> Lexicon:
    return learn_lexicon(pairs, target_vocab_size=37, num_iterations=num_iterations)


def as_dict(lexicon: Lexicon) -> dict[tuple[int, int], float]:
    entries = zip(lexicon.source_ids.tolist(), lexicon.target_ids.tolist(), lexicon.probabilities.tolist(), strict=True)
    return {(source, target): probability for source, target, probability in entries}


def draw_pairs(count: int) -> list[EncodedPair]:
    """Sentences in which each source id has a translation, among noise; some of them empty, and with repeated ids."""
    generator = np.random.default_rng(7)
    pairs = []
    for _ in range(count):
        source = generator.integers(4, 31, size=generator.integers(0, 11)).tolist()
        noise = generator.integers(4, 37, size=generator.integers(0, 3)).tolist()
        pairs.append(EncodedPair(source, [token + 5 for token in source if token % 5] + noise))
    return pairs


def learn_in_loops(pairs: list[EncodedPair], num_iterations: int) -> dict[tuple[int, int], float]:
    """The figure of the textbook: for each pair, each target token, each source token."""
    probabilities: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(num_iterations):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in pairs:
            sources = [NULL_ID, *source]
            for token in target:
                total = sum(probabilities[word, token] for word in sources)
                for word in sources:
                    share = probabilities[word, token] / total
                    counts[word, token] += share
                    totals[word] += share
        probabilities = defaultdict(float, {key: count / totals[key[0]] for key, count in counts.items()})
    return dict(probabilities)


def test_agrees_with_plain_loops() -> None:
    pairs = draw_pairs(101)
    assert any(not pair.source for pair in pairs) and any(not pair.target for pair in pairs)
    expected = learn_in_loops(pairs, num_iterations=5)
    found = as_dict(learn(pairs))
    assert list(found) == sorted(expected)
    assert found == pytest.approx(expected, rel=1e-9)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = draw_pairs(101)
    whole = as_dict(learn(pairs))
    monkeypatch.setattr("translate.data.lexicon._BLOCK_PAIRS", 7)
    parts = as_dict(learn(pairs))
    assert list(parts) == list(whole) and parts == pytest.approx(whole, rel=1e-9)


def test_no_pairs_give_an_empty_lexicon() -> None:
    assert as_dict(learn([])) == as_dict(learn([EncodedPair([A], [])])) == {}
    assert as_dict(learn([EncodedPair([], [X])])) == {(NULL_ID, X): 1.0}
