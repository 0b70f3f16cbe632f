"""Searches without a neural model: probability tables to look prefixes up in, and what a search must find in them.

The oracles are plain Python: `all_sequences` enumerates, and `slow_search` is beam search for one sentence, run to its
end without any early stop.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from translate.decoding.search.beam import Hypothesis, Scoring
from translate.decoding.search.loop import BeamSearch, SearchSettings

END, START, A, B, C, S = range(6)
Prefix = tuple[int, ...]  # without START
Table = Mapping[Prefix, Sequence[float]]  # log-probabilities of the token after a prefix
LONGEST_SOURCE = 7
GNMT = Scoring(alpha=0.6)
PLAIN = Scoring("none")


def logs(*probabilities: float) -> list[float]:
    return [math.log(probability) if probability else -math.inf for probability in probabilities]


class LazyTable(dict[Prefix, Sequence[float]]):
    """A table whose lines a function makes, each when it is first looked up."""

    def __init__(self, line: Callable[[Prefix], Sequence[float]]) -> None:
        super().__init__()
        self.line = line

    def __missing__(self, prefix: Prefix) -> Sequence[float]:
        if {START, END} & {*prefix}:
            raise KeyError(prefix)
        self[prefix] = self.line(prefix)
        return self[prefix]


def random_table(seed: int, *, vocab_size: int = 5, sharpness: float = 1.5) -> Table:
    """A random distribution after every prefix."""

    def line(prefix: Prefix) -> list[float]:
        generator = random.Random(f"{seed} {prefix}")
        weights = [math.exp(sharpness * generator.gauss(0.0, 1.0)) for _ in range(vocab_size)]
        weights[START] = 0.0
        return logs(*(weight / sum(weights) for weight in weights))

    return LazyTable(line)


class Rows(NamedTuple):
    """The cache: what each slot of each row has been fed so far, and whose row it is."""

    prefixes: list[list[Prefix]]
    sentences: list[int]


class TableModel:
    """A `NextTokenModel` that looks whole prefixes up, so that a hypothesis in the wrong slot reads a wrong line.

    Prefixes without a line, as in slots without a hypothesis, get log-probability 0 for each token, to tempt a careless
    search.
    """

    def __init__(self, tables: Sequence[Table], *, beam_size: int) -> None:
        self.tables = tables
        self.beam_size = beam_size
        self.nothing = [0.0] * len(tables[0][()])
        self.num_rows: list[int] = []  # of each step
        self.started: list[list[int]] = []

    def start(self, sentences: Sequence[int], rows: Sequence[int], cache: Rows | None) -> Rows:
        self.started.append(list(sentences))
        prefixes, numbers = ([], []) if cache is None else (list(cache.prefixes), list(cache.sentences))
        for row, sentence in zip(rows, sentences, strict=True):
            assert row <= len(numbers)
            prefixes[row : row + 1] = [[()] * self.beam_size]
            numbers[row : row + 1] = [sentence]
        return Rows(prefixes, numbers)

    def step(self, last_ids: Tensor, cache: Rows) -> tuple[Tensor, Rows]:
        self.num_rows.append(len(cache.sentences))
        prefixes = [
            [() if token == START else (*prefix, token) for prefix, token in zip(*row, strict=True)]
            for row in zip(cache.prefixes, last_ids.tolist(), strict=True)
        ]
        rows = list(zip(cache.sentences, prefixes, strict=True))
        log_probs = torch.tensor([[self._line(sentence, prefix) for prefix in row] for sentence, row in rows])
        return log_probs, Rows(prefixes, cache.sentences)

    def _line(self, sentence: int, prefix: Prefix) -> Sequence[float]:
        try:
            return self.tables[sentence][prefix]
        except KeyError:
            return self.nothing

    def reorder(self, cache: Rows, beam_indices: Tensor) -> Rows:
        rows = zip(cache.prefixes, beam_indices.tolist(), strict=True)
        return Rows([[row[slot] for slot in chosen] for row, chosen in rows], cache.sentences)

    def select_rows(self, cache: Rows, rows: Sequence[int]) -> Rows:
        return Rows([cache.prefixes[row] for row in rows], [cache.sentences[row] for row in rows])


def run(
    tables: Sequence[Table],
    beam_size: int,
    *,
    scoring: Scoring = GNMT,
    max_lengths: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    max_tokens: int = 100_000,
    model: TableModel | None = None,
    **settings: Any,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence; those of sentences that are not in the order are empty."""
    search = BeamSearch(
        model or TableModel(tables, beam_size=beam_size),
        SearchSettings(beam_size, scoring, START, END, **settings),
        source_lengths=[1 + number % LONGEST_SOURCE for number in range(len(tables))],
        max_lengths=max_lengths or [5] * len(tables),
        max_tokens=max_tokens,
    )
    order = range(len(tables)) if order is None else order
    found = list(search.run(order))
    assert sorted(sentence for sentence, _ in found) == sorted(order)
    results = dict(found)
    return [results.get(sentence, []) for sentence in range(len(tables))]


class Finished(NamedTuple):
    """A translation and all that its score depends on."""

    ids: Prefix
    token_log_probs: tuple[float, ...]
    is_cut: bool
    score: float


def finish(scoring: Scoring, ids: Prefix, log_probs: tuple[float, ...], *, is_cut: bool) -> Finished:
    """With the score in Python's numbers; `ids` are without the end symbol, `log_probs` with its own."""
    length = len(log_probs)
    penalty = {"gnmt": (5 + length) / 6, "average": float(length), "none": 1.0}[scoring.length_penalty]
    return Finished(ids, log_probs, is_cut, math.fsum(log_probs) / penalty**scoring.alpha)


def all_sequences(table: Table, scoring: Scoring, *, max_length: int = 5, min_length: int = 0) -> list[Finished]:
    """Every translation there is, by recursion over the table; the best score first."""

    def grow(ids: Prefix, log_probs: tuple[float, ...]) -> list[Finished]:
        if len(ids) == max_length:
            return [finish(scoring, ids, log_probs, is_cut=True)]
        found = []
        for token, step in enumerate(table[ids]):
            if token == END and len(ids) >= min_length:
                found.append(finish(scoring, ids, (*log_probs, step), is_cut=False))
            elif token != END and step > -math.inf:
                found += grow((*ids, token), (*log_probs, step))
        return found

    return sorted(grow((), ()), key=lambda each: -each.score)


def slow_search(table: Table, beam_size: int, scoring: Scoring, *, max_length: int = 5) -> list[Finished]:
    """Beam search as `beam.py` describes it, run to its end; the best score first."""
    open_: list[tuple[Prefix, tuple[float, ...]]] = [((), ())]
    finished: list[Finished] = []
    for length in range(1, max_length + 1):
        candidates = [
            (ids, token, (*log_probs, step))
            for ids, log_probs in open_
            for token, step in enumerate(table[ids])
            if step > -math.inf
        ]
        candidates.sort(key=lambda candidate: -math.fsum(candidate[2]))
        open_ = []
        for rank, (ids, token, log_probs) in enumerate(candidates):
            if token != END and length < max_length and len(open_) < beam_size:
                open_.append(((*ids, token), log_probs))
            elif rank < beam_size and (token == END or length == max_length):
                whole = ids if token == END else (*ids, token)
                finished.append(finish(scoring, whole, log_probs, is_cut=token != END))
        if len(finished) >= (1 if beam_size == 1 else 2 * beam_size):
            break
    return sorted(finished, key=lambda each: -each.score)[:beam_size]


def assert_same(hypotheses: Sequence[Hypothesis], expected: Sequence[Finished]) -> None:
    assert [(tuple(each.ids), each.truncated) for each in hypotheses] == [(each.ids, each.is_cut) for each in expected]
    for hypothesis, each in zip(hypotheses, expected, strict=True):
        assert hypothesis.token_log_probs == pytest.approx(each.token_log_probs, abs=1e-5)
        assert hypothesis.score == pytest.approx(each.score, abs=1e-4)
