"""Beam search on probability tables written by hand or drawn at random; no neural model anywhere.

Expected values come from a hand calculation, from an enumeration of all sequences, or from `slow_search` below: the
same search in plain Python, run to its end without any early stop. Each test says which.
"""

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from translate.decoding.search import loop
from translate.decoding.search.beam import (
    CHUNK,
    BeamState,
    DiverseGroups,
    Hypothesis,
    finished_hypotheses,
    largest,
    select_best,
    start_beam,
    update_state,
)
from translate.decoding.search.loop import BeamSearch, NextTokens, SearchSettings
from translate.decoding.search.scoring import Scoring

END, START, A, B, C = range(5)
Table = Mapping[tuple[int, ...], Sequence[float]]  # log-probabilities of the token after a prefix (without START)
Prefix = tuple[int, ...]


class Rows(NamedTuple):
    """The cache: what each slot of each row has been fed so far, and whose table the row reads."""

    prefixes: list[list[Prefix]]
    tables: list[Table]


class TableModel:
    """A `NextTokenModel` that looks whole prefixes up, so that a hypothesis in the wrong slot reads a wrong line.

    Slots without a hypothesis are fed anything; they get log-probability 0 for each token, to tempt a careless search.
    """

    def __init__(self, tables: Sequence[Table], *, beam_size: int) -> None:
        self.tables = tables
        self.beam_size = beam_size
        self.vocab_size = len(next(iter(tables[0].values())))
        self.num_steps = 0

    def start(self, sentences: Sequence[int], rows: Sequence[int], cache: Rows | None) -> Rows:
        prefixes, tables = ([], []) if cache is None else (list(cache.prefixes), list(cache.tables))
        for row, sentence in zip(rows, sentences, strict=True):
            prefixes[row : row + 1] = [[()] * self.beam_size]
            tables[row : row + 1] = [self.tables[sentence]]
        return Rows(prefixes, tables)

    def step(self, last_ids: Tensor, cache: Rows) -> tuple[NextTokens, Rows]:
        self.num_steps += 1
        prefixes = [
            [() if token == START else (*prefix, token) for prefix, token in zip(*row, strict=True)]
            for row in zip(cache.prefixes, last_ids.tolist(), strict=True)
        ]
        lines = [
            [table.get(prefix, [0.0] * self.vocab_size) for prefix in row]
            for table, row in zip(cache.tables, prefixes, strict=True)
        ]
        return NextTokens(torch.tensor(lines)), Rows(prefixes, cache.tables)

    def reorder(self, cache: Rows, beam_indices: Tensor) -> Rows:
        rows = zip(cache.prefixes, beam_indices.tolist(), strict=True)
        return Rows([[row[slot] for slot in chosen] for row, chosen in rows], cache.tables)

    def select_rows(self, cache: Rows, rows: Sequence[int]) -> Rows:
        return Rows([cache.prefixes[row] for row in rows], [cache.tables[row] for row in rows])


def search(
    *tables: Table,
    max_lengths: Sequence[int],
    beam_size: int,
    alpha: float = 0.0,
    model: TableModel | None = None,
    max_tokens: int = 1000,
    **settings: Any,
) -> list[list[Hypothesis]]:
    model = model or TableModel(tables, beam_size=beam_size)
    beam_search = BeamSearch(
        model,
        SearchSettings(beam_size, Scoring(alpha=alpha), START, END, **settings),
        source_lengths=[1] * len(tables),
        max_lengths=max_lengths,
        max_tokens=max_tokens,
    )
    results = dict(beam_search.run(range(len(tables))))
    return [results[sentence] for sentence in range(len(tables))]


def logs(*probabilities: float) -> list[float]:
    return [math.log(probability) if probability else -math.inf for probability in probabilities]


def random_table(seed: int, *, vocab_size: int, max_length: int, sharpness: float = 1.5) -> Table:
    """A random distribution after every prefix without END or START."""
    generator = random.Random(seed)
    table = {}
    words = [token for token in range(vocab_size) if token not in (END, START)]
    for length in range(max_length):
        for prefix in itertools.product(words, repeat=length):
            weights = [math.exp(generator.gauss(0.0, sharpness)) for _ in range(vocab_size)]
            weights[START] = 0.0
            table[prefix] = logs(*(weight / sum(weights) for weight in weights))
    return table


class Found(NamedTuple):
    ids: tuple[int, ...]
    log_prob: float
    length: int  # END counted
    truncated: bool

    def score(self, alpha: float) -> float:
        return self.log_prob / ((5 + self.length) / 6) ** alpha


def all_sequences(table: Table, *, max_length: int) -> list[Found]:
    """Every translation there is, by recursion over the table."""

    def grow(prefix: tuple[int, ...], log_prob: float) -> list[Found]:
        if len(prefix) == max_length:
            return [Found(prefix, log_prob, max_length, True)]
        found = []
        for token, step in enumerate(table[prefix]):
            if token == END:
                found.append(Found(prefix, log_prob + step, len(prefix) + 1, False))
            elif step > -math.inf:
                found += grow((*prefix, token), log_prob + step)
        return found

    return grow((), 0.0)


def slow_search(table: Table, *, max_length: int, beam_size: int) -> list[Found]:
    """The search of `beam.py` as its docstring says it, in plain Python and run to its end."""
    open_: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[Found] = []
    for length in range(1, max_length + 1):
        candidates = [
            (prefix, token, log_prob + step)
            for prefix, log_prob in open_
            for token, step in enumerate(table[prefix])
            if step > -math.inf
        ]
        candidates.sort(key=lambda candidate: -candidate[2])
        open_ = []
        for rank, (prefix, token, log_prob) in enumerate(candidates):
            if token == END and rank < beam_size:
                finished.append(Found(prefix, log_prob, length, False))
            elif length == max_length and rank < beam_size:
                finished.append(Found((*prefix, token), log_prob, length, True))
            elif token != END and len(open_) < beam_size:
                open_.append(((*prefix, token), log_prob))
        if len(finished) >= (1 if beam_size == 1 else 2 * beam_size):
            break
    return finished


def best_of(found: Sequence[Found], alpha: float) -> Found:
    return max(found, key=lambda each: each.score(alpha))


def assert_same(hypothesis: Hypothesis, expected: Found, alpha: float) -> None:
    assert tuple(hypothesis.ids) == expected.ids
    assert hypothesis.truncated == expected.truncated
    assert hypothesis.log_prob == pytest.approx(expected.log_prob, abs=1e-5)
    assert hypothesis.score == pytest.approx(expected.score(alpha), abs=1e-5)


# By hand

# Greedy is lured to A (0.6), after which nothing is good; B END has 0.4 · 0.9 = 0.36, the best of all.
LURE: Table = {
    (): logs(0.0, 0.0, 0.6, 0.4),
    (A,): logs(0.35, 0.0, 0.35, 0.3),
    (B,): logs(0.9, 0.0, 0.05, 0.05),
    (A, A): logs(1.0, 0.0, 0.0, 0.0),
    (A, B): logs(1.0, 0.0, 0.0, 0.0),
    (B, A): logs(1.0, 0.0, 0.0, 0.0),
    (B, B): logs(1.0, 0.0, 0.0, 0.0),
}


def test_penalty_by_hand() -> None:
    # ((5 + 1) / 6)^a = 1; ((5 + 7) / 6)^1 = 2; ((5 + 19) / 6)^0.5 = 2; ((5 + 13) / 6)^0 = 1
    for length, alpha, expected in [(1, 0.6, 1.0), (7, 1.0, 2.0), (19, 0.5, 2.0), (13, 0.0, 1.0)]:
        assert float(Scoring(alpha=alpha).penalty(torch.tensor(length))) == pytest.approx(expected)


def test_beam_finds_what_greedy_search_misses() -> None:
    (greedy,) = search(LURE, max_lengths=[5], beam_size=1)
    # A has 0.6; then END and A are level at 0.35 (END is the lower id, and either has 0.6 · 0.35 = 0.21).
    assert len(greedy) == 1 and greedy[0].ids[:1] == [A]
    assert greedy[0].log_prob == pytest.approx(math.log(0.21), abs=1e-6)
    (wide,) = search(LURE, max_lengths=[5], beam_size=2)
    assert wide[0].ids == [B] and not wide[0].truncated
    assert wide[0].log_prob == pytest.approx(math.log(0.36), abs=1e-6)


def test_score_by_hand() -> None:
    # B END: ln 0.36 = -1.0216512, 2 tokens with the end symbol: (7/6)^0.6 = 1.0969027, (7/6)^1 = 1.1666667.
    for alpha, expected in [(0.0, -1.0216512), (0.6, -0.9313964), (1.0, -0.8757011)]:
        (hypotheses,) = search(LURE, max_lengths=[5], beam_size=2, alpha=alpha)
        assert hypotheses[0].ids == [B]
        assert hypotheses[0].score == pytest.approx(expected, abs=1e-6)


def test_length_penalty_changes_the_winner() -> None:
    # END: 0.5, so ln -0.693147 and penalty 1. A B END: 0.45 · 1 · 1, so ln -0.798508 and (8/6)^alpha; the two are level
    # where (8/6)^alpha = 0.798508 / 0.693147, at alpha = ln 1.152004 / ln 1.333333 = 0.491872.
    table: Table = {
        (): logs(0.5, 0.0, 0.45, 0.05),
        (A,): logs(0.0, 0.0, 0.0, 1.0),
        (B,): logs(1.0, 0.0, 0.0, 0.0),
        (A, B): logs(1.0, 0.0, 0.0, 0.0),
    }
    for alpha, expected in [(0.0, []), (0.49, []), (0.494, [A, B]), (1.0, [A, B])]:
        (hypotheses,) = search(table, max_lengths=[6], beam_size=3, alpha=alpha)
        assert hypotheses[0].ids == expected, alpha


def test_ending_at_once_is_an_empty_translation() -> None:
    for beam_size in (1, 3):
        (hypotheses,) = search({(): logs(0.9, 0.0, 0.06, 0.04)}, max_lengths=[1], beam_size=beam_size, alpha=1.0)
        best = hypotheses[0]
        assert best.ids == [] and not best.truncated
        assert best.log_prob == best.score == pytest.approx(math.log(0.9), abs=1e-6)


def test_maximum_length_is_flagged() -> None:
    # Never an end; cut at 3 tokens: ln 0.8^3 = -0.6694307, over a penalty of 8/6.
    step = logs(0.0, 0.0, 0.8, 0.2)
    table = {prefix: step for length in range(3) for prefix in itertools.product((A, B), repeat=length)}
    (hypotheses,) = search(table, max_lengths=[3], beam_size=2, alpha=1.0)
    assert hypotheses[0] == Hypothesis([A, A, A], [pytest.approx(math.log(0.8))] * 3, pytest.approx(-0.5020730), True)
    assert all(hypothesis.truncated and len(hypothesis.ids) == 3 for hypothesis in hypotheses)


def test_an_end_at_the_maximum_length_is_no_truncation() -> None:
    table: Table = {(): logs(0.1, 0.0, 0.9, 0.0), (A,): logs(0.7, 0.0, 0.2, 0.1)}
    (hypotheses,) = search(table, max_lengths=[2], beam_size=1)
    log_probs = [pytest.approx(math.log(0.9)), pytest.approx(math.log(0.7))]
    assert hypotheses == [Hypothesis([A], log_probs, pytest.approx(math.log(0.63)), False)]


def test_beam_wider_than_the_vocabulary() -> None:
    table: Table = {(): logs(0.2, 0.0, 0.8, 0.0), (A,): logs(0.7, 0.0, 0.3, 0.0)}
    (hypotheses,) = search(table, max_lengths=[2], beam_size=11)
    # All there is: END 0.2, A END 0.56, A A 0.24 (cut); best first, and nothing invented for the other slots.
    assert [(each.ids, each.truncated) for each in hypotheses] == [([A], False), ([A, A], True), ([], False)]
    assert [math.exp(each.log_prob) for each in hypotheses] == pytest.approx([0.56, 0.24, 0.2])


def test_symbols_other_than_0_and_1() -> None:
    # START and END are arguments: the same table with the rows renamed END -> 3, START -> 0, A -> 1, B -> 2.
    class Renamed(TableModel):
        def step(self, last_ids: Tensor, cache: Rows) -> tuple[NextTokens, Rows]:
            tokens, cache = super().step(torch.tensor([START, A, B, END])[last_ids], cache)
            return NextTokens(tokens.log_probs[..., [START, A, B, END]]), cache

    settings = SearchSettings(2, Scoring(alpha=0.0), start_id=0, end_id=3)
    model = Renamed([LURE], beam_size=2)
    beam_search = BeamSearch(model, settings, source_lengths=[1], max_lengths=[5], max_tokens=9)
    ((_, hypotheses),) = beam_search.run([0])
    assert hypotheses[0].ids == [2]
    assert not any({0, 3} & set(hypothesis.ids) for hypothesis in hypotheses)


# Against independent searches


@pytest.mark.parametrize("seed", range(20))
def test_beam_1_is_greedy(seed: int) -> None:
    table = random_table(seed, vocab_size=5, max_length=6)
    prefix: tuple[int, ...] = ()
    log_prob, is_ended = 0.0, False
    while len(prefix) < 6 and not is_ended:  # an independent argmax loop
        token = max(range(5), key=lambda token: table[prefix][token])
        log_prob += table[prefix][token]
        is_ended = token == END
        prefix = prefix if is_ended else (*prefix, token)
    (hypotheses,) = search(table, max_lengths=[6], beam_size=1, alpha=0.6)
    assert len(hypotheses) == 1
    assert (tuple(hypotheses[0].ids), hypotheses[0].truncated) == (prefix, not is_ended)
    assert hypotheses[0].log_prob == pytest.approx(log_prob, abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.6, 1.0, 2.0, 5.0])
def test_a_wide_beam_is_an_exhaustive_search(alpha: float) -> None:
    for seed in range(8):
        table = random_table(seed, vocab_size=4, max_length=4)
        sequences = all_sequences(table, max_length=4)
        assert len(sequences) == 1 + 2 + 4 + 8 + 16  # ended after 0 to 3 words, or cut at 4
        assert sum(math.exp(each.log_prob) for each in sequences) == pytest.approx(1.0)
        (hypotheses,) = search(table, max_lengths=[4], beam_size=len(sequences), alpha=alpha)
        assert_same(hypotheses[0], best_of(sequences, alpha), alpha)


def compare_with_slow_search(num_seeds: int) -> int:
    """The number of cases, of all, in which the best hypotheses differ."""
    differences = 0
    for seed in range(num_seeds):
        alpha, beam_size, max_length = [0.0, 0.6, 1.0, 3.0][seed % 4], 1 + seed % 5, 3 + seed % 4
        table = random_table(seed, vocab_size=5, max_length=max_length)
        expected = slow_search(table, max_length=max_length, beam_size=beam_size)
        (hypotheses,) = search(table, max_lengths=[max_length], beam_size=beam_size, alpha=alpha)
        differences += tuple(hypotheses[0].ids) != best_of(expected, alpha).ids
    return differences


def test_stopping_early_never_changes_the_best() -> None:
    assert compare_with_slow_search(100) == 0


def test_an_unsafe_stop_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping at the first finished hypothesis, a widespread heuristic, fails the test above."""
    monkeypatch.setattr(loop, "is_done", lambda state, **_: state.num_finished > 0)
    assert compare_with_slow_search(60) > 5


def test_stops_as_soon_as_it_is_done() -> None:
    # END 0.9 at once; the open A has 0.1, and even at the maximum length ln 0.1 / (25/6)^0.5 = -1.13 < ln 0.9 = -0.105.
    table = {prefix: logs(0.9, 0.0, 0.1) for prefix in [(A,) * length for length in range(20)]}
    model = TableModel([table], beam_size=4)
    search(table, max_lengths=[20], beam_size=4, alpha=0.5, model=model)
    assert model.num_steps == 1


def test_every_hypothesis_is_one_of_the_slow_search() -> None:
    for seed in range(40):
        table = random_table(seed, vocab_size=6, max_length=4)
        slow = {each.ids: each for each in slow_search(table, max_length=4, beam_size=4)}
        (hypotheses,) = search(table, max_lengths=[4], beam_size=4, alpha=0.6)
        for hypothesis in hypotheses:
            assert_same(hypothesis, slow[tuple(hypothesis.ids)], 0.6)


def test_results_are_sorted_and_distinct() -> None:
    for seed in range(40):
        table = random_table(seed, vocab_size=6, max_length=4)
        (hypotheses,) = search(table, max_lengths=[4], beam_size=7, alpha=1.0)
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({(tuple(each.ids), each.truncated) for each in hypotheses}) == len(hypotheses)
        assert not any({START, END} & set(hypothesis.ids) for hypothesis in hypotheses)


# Batches


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_batch_is_each_sentence_alone(beam_size: int) -> None:
    max_lengths = [2, 5, 1, 5, 3, 4, 5]
    tables = [random_table(100 + seed, vocab_size=5, max_length=length) for seed, length in enumerate(max_lengths)]
    together = search(*tables, max_lengths=max_lengths, beam_size=beam_size, alpha=0.6)
    for table, length, hypotheses in zip(tables, max_lengths, together, strict=True):
        (alone,) = search(table, max_lengths=[length], beam_size=beam_size, alpha=0.6)
        assert hypotheses == alone
        assert all(len(each.ids) + (not each.truncated) <= length for each in hypotheses)
        assert all(len(each.ids) == length for each in hypotheses if each.truncated)


# The state


def random_log_probs(beam_size: int, vocab_size: int) -> Tensor:
    return torch.randn(7, beam_size, vocab_size).log_softmax(dim=-1)


def advance(state: BeamState, log_probs: Tensor) -> BeamState:
    return update_state(state, select_best(state, log_probs), log_probs, end_id=END, scoring=Scoring(alpha=0.0))


def test_finished_hypotheses_never_change() -> None:
    state = start_beam(torch.tensor([11, 2, 3, 5, 7, 11, 1]), beam_size=3, capacity=11, start_id=START)
    num_finished_early = 0
    for _ in range(11):
        before = state
        state = advance(state, random_log_probs(3, 5))
        assert (state.num_finished >= before.num_finished).all()
        for row, (old, new) in enumerate(zip(finished_hypotheses(before), finished_hypotheses(state), strict=True)):
            if state.num_found[row] <= 3:  # else a better one may have taken the place of another
                assert all(hypothesis in new for hypothesis in old)
                num_finished_early += len(old)
        # A slot that is left is filled again, unless the search is over.
        num_open = (state.cumulative_scores > -math.inf).sum(dim=1)
        assert (num_open == torch.where((state.num_found >= 6) | (state.lengths >= state.max_lengths), 0, 3)).all()
    assert num_finished_early > 10  # there was something to keep
    assert (state.num_finished == 3).sum() >= 5


def test_a_step_is_pure() -> None:
    state = start_beam(torch.full((7,), 3), beam_size=2, capacity=3, start_id=START)
    copy = BeamState(*(part.clone() for part in state))
    log_probs = random_log_probs(2, 5)
    first, second = advance(state, log_probs), advance(state, log_probs)
    assert all(torch.equal(*parts) for parts in zip(state, copy, strict=True))
    assert all(torch.equal(*parts) for parts in zip(first, second, strict=True))


def test_one_step_by_hand() -> None:
    """Two open hypotheses: A (0.5) goes on with END 0.6 or B 0.4, B (0.25) with A 1.0."""
    state = start_beam(torch.tensor([4]), beam_size=2, capacity=4, start_id=START)
    opening = torch.tensor([[logs(0.25, 0.0, 0.5, 0.25), logs(0.25, 0.25, 0.25, 0.25)]])
    opening[0, 0, END] = -math.inf
    assert select_best(state, opening).beam_indices[:, :2].tolist() == [[0, 0]]
    state = advance(state, opening)
    assert state.ids[:, :, :2].tolist() == [[[START, A], [START, B]]]

    log_probs = torch.tensor([[logs(0.6, 0.0, 0.0, 0.4), logs(0.0, 0.0, 1.0, 0.0)]])
    assert select_best(state, log_probs).beam_indices[0, 1] == 1
    state = advance(state, log_probs)
    # A END 0.3 has finished; B A 0.25 and A B 0.2 go on.
    assert state.finished_ids[0, 0, :3].tolist() == [START, A, END]
    assert state.finished_scores.exp().tolist() == [[pytest.approx(0.3), 0.0]]
    assert state.finished_lengths.tolist() == [[2, 0]] and state.finished_truncated.tolist() == [[False, False]]
    assert state.cumulative_scores.exp().tolist() == [pytest.approx([0.25, 0.2])]
    assert state.ids[0, :, :3].tolist() == [[START, B, A], [START, A, B]] and state.parents.tolist() == [[1, 0]]


def test_the_best_stay_where_more_finish_than_the_beam_has_slots() -> None:
    """A END 0.04 has finished, as the second, of two; B END 0.2 and A END 0.3 follow, and end the search."""
    state = start_beam(torch.tensor([4]), beam_size=2, capacity=4, start_id=START, num_open=2)
    state.finished_scores[0, 0] = math.log(0.04)
    state.num_found[0] = 2
    state.cumulative_scores.copy_(torch.tensor([logs(0.5, 0.4)]))
    state = advance(state, torch.tensor([[logs(0.6, 0.0, 0.4, 0.0), logs(0.5, 0.0, 0.5, 0.0)]]))
    assert state.finished_scores.exp().tolist() == [pytest.approx([0.3, 0.2])]
    assert state.cumulative_scores.tolist() == [[-math.inf, -math.inf]]


def test_a_sure_model_is_not_cut_short() -> None:
    """Unlikely ends of all prefixes fill the beam before the likely hypothesis has ended: it is waited for."""
    table: Table = {(A,) * length: logs(0.004, 0.0, 0.992, 0.004) for length in range(4)}
    table |= {(A,) * length + (B,): logs(1.0, 0.0, 0.0, 0.0) for length in range(4)}
    table[(A,) * 4] = logs(1.0, 0.0, 0.0, 0.0)
    ((best, *_),) = search(table, max_lengths=[6], beam_size=3)
    assert best.ids == [A] * 4


def test_new_sentences_are_put_into_rows_that_are_free_or_new() -> None:
    old = start_beam(torch.tensor([5, 7]), beam_size=2, capacity=11, start_id=START)
    old = advance(old, random_log_probs(2, 5)[:2])
    new = start_beam(torch.tensor([2, 3]), beam_size=2, capacity=11, start_id=START, sentences=torch.tensor([17, 13]))
    state = BeamState(*(part.clone() for part in old)).insert([1, 2], new)
    assert state.sentences.tolist() == [0, 17, 13] and state.max_lengths.tolist() == [5, 2, 3]
    for rows, expected in ([0], old.select_rows(slice(0, 1))), ([1, 2], new):
        assert all(torch.equal(part[rows], whole) for part, whole in zip(state, expected, strict=True))


# The largest numbers in two passes, against `torch.topk` over all sums at once, ties and infinities included


def assert_as_torch(values: Tensor, count: int, offsets: Tensor) -> None:
    """The same values; each index names its value, and none stands twice (but for -inf, which is no value)."""
    totals = (values + offsets[:, :, None]).flatten(1)
    expected = totals.topk(min(count, totals.shape[1]), dim=1).values
    found, places = largest(values, count, offsets=offsets)
    assert torch.equal(found, expected)
    for row in range(len(values)):
        is_real = found[row] > -math.inf
        indices = places[row][is_real]
        assert torch.equal(totals[row, indices], expected[row][is_real])
        assert len(indices.unique()) == len(indices)


def test_the_sizes_below_are_around_a_chunk() -> None:
    assert CHUNK == 256


@pytest.mark.parametrize("vocab", [1, 7, 255, 256, 257, 511, 512, 513, 8000])
@pytest.mark.parametrize("beam", [1, 5])
def test_largest_of_random_numbers(vocab: int, beam: int) -> None:
    for count in {1, 2, 5, 31, 32, vocab - 1, vocab * beam, vocab * beam + 3} - {0}:
        if count < 1500:
            assert_as_torch(torch.randn(3, beam, vocab), count, -3 * torch.rand(3, beam))


@pytest.mark.parametrize("vocab", [256, 257, 511, 769, 8000])
def test_largest_with_ties(vocab: int) -> None:
    """Few distinct values, so that many chunks have the same maximum; and all numbers equal."""
    for count in (1, 3, 5, 11):
        assert_as_torch(torch.randint(4, (3, 2, vocab)).float(), count, torch.zeros(3, 2))
        assert_as_torch(torch.zeros(3, 2, vocab), count, torch.tensor([[0.0, 0.0], [0.0, -1.0], [-1.0, 0.0]]))


@pytest.mark.parametrize("vocab", [255, 257, 511, 8000])
@pytest.mark.parametrize("share", [0.5, 0.999, 1.0])
def test_forbidden_numbers_and_absent_hypotheses(vocab: int, share: float) -> None:
    for count in (1, 5, 13):
        values = torch.randn(7, 3, vocab)
        values = values.masked_fill(torch.rand_like(values) < share, -math.inf)
        offsets = torch.randn(7, 3).masked_fill(torch.rand(7, 3) < 0.5, -math.inf)
        offsets[0] = -math.inf
        assert_as_torch(values, count, offsets)


def test_the_greatest_may_stand_anywhere() -> None:
    """Each position of a vocabulary with an overlapping last chunk in turn."""
    for position in [0, 1, 254, 255, 256, 257, 509, 510, 511, 512, 700, 766, 767, 768, 769, 770]:
        values = torch.zeros(1, 2, 771)
        values[0, 1, position] = 1.0
        found, places = largest(values, 1, offsets=torch.zeros(1, 2))
        assert found.tolist() == [[1.0]] and places.tolist() == [[771 + position]]


@pytest.mark.parametrize("vocab", [5, 256, 511, 8000])
def test_what_is_not_a_number_comes_first(vocab: int) -> None:
    """As torch has it; so that a broken model is never mistaken for one that finds all else improbable."""
    for position in {0, vocab // 2, vocab - 1}:
        values = torch.randn(2, 3, vocab)
        values[1, 2, position] = math.nan
        found, places = largest(values, 4, offsets=torch.zeros(2, 3))
        assert found[0].isfinite().all()
        assert found[1].isnan().tolist() == [True, False, False, False]
        assert int(places[1, 0]) == 2 * vocab + position


def test_one_chunk_too_few_would_be_noticed() -> None:
    """Five numbers, each the maximum of its chunk: a first pass that takes the four best chunks misses the fifth."""
    values = torch.randn(1, 1, 8000)
    values[0, 0, [3, 300, 1000, 4000, 7999]] = torch.tensor([9.0, 8.0, 7.0, 6.0, 5.5])
    assert_as_torch(values, 5, torch.zeros(1, 1))
    real = torch.Tensor.topk

    def short(numbers: Tensor, k: int, **options: int) -> Any:
        found = real(numbers, k, **options)
        if numbers.shape[1] == 32:  # the maxima of 31 whole chunks and the rest: the last chunk is taken twice
            return type(found)((found.values, found.indices[:, [0, 1, 2, 3, 3]]))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "topk", short)
        found, _ = largest(values, 5, offsets=torch.zeros(1, 1))
    assert found.tolist() != values.flatten(1).topk(5, dim=1).values.tolist()


# Diverse beam search: by hand, and against a loop over sentences, groups and candidates in plain Python

NEVER = -math.inf
LONGEST = torch.tensor([7])  # maximum length


def random_state(seed: int, *, rows: int, beam: int) -> BeamState:
    """In the middle of a search: some slots are empty, and some hypotheses have finished."""
    generator = random.Random(seed)
    state = start_beam(LONGEST.expand(rows), beam_size=beam, capacity=7, start_id=START)
    for row in range(rows):
        num_finished = generator.randint(0, beam)
        for slot in range(beam):
            is_open = slot < beam - num_finished and generator.random() < 0.8
            state.cumulative_scores[row, slot] = -3 * generator.random() if is_open else NEVER
            state.finished_scores[row, slot] = -1.0 if slot < num_finished else NEVER
    return state


def test_one_step_of_groups_by_hand() -> None:
    """Three groups of one hypothesis each, at the start; a token chosen before costs 0.5 each time.

    A has 0.5, B 0.3, C 0.2: ln -0.69, -1.20, -1.61. The first group takes A; for the second A has -1.19, still the
    best; for the third it has -1.69, and B -1.20 wins. Totals are those of the model.
    """
    state = start_beam(LONGEST.expand(3), beam_size=1, capacity=3, start_id=START)
    scores = torch.tensor([[logs(0.0, 0.0, 0.5, 0.3, 0.2)]]).expand(3, -1, -1)
    candidates = DiverseGroups(3, strength=0.5)(state, scores)
    assert candidates.tokens.tolist() == [[A], [A], [B]]
    assert candidates.cumulative_scores.exp()[:, 0].tolist() == pytest.approx([0.5, 0.5, 0.3])
    # A cost of 1 is enough for the second group, and for the third to take C: -1.61 > -1.69, -2.20.
    assert DiverseGroups(3, strength=1.0)(state, scores).tokens.tolist() == [[A], [B], [C]]


def test_tokens_are_counted_across_a_group() -> None:
    """A group of two in which both hypotheses take A counts A twice, and a token that is not taken not at all."""
    state = start_beam(LONGEST.expand(4), beam_size=2, capacity=3, start_id=START, num_open=2)
    state.cumulative_scores.copy_(torch.tensor([[0.0, 0.0], [0.0, NEVER]] * 2))
    first = logs(0.0, 0.0, 0.9, 0.1, 0.0)
    second = logs(0.0, 0.0, 0.6, 0.4, 0.0)  # ln 0.6 - ln 0.4 = 0.405: a cost of 0.3 is too little once, enough twice
    scores = torch.tensor([[first, first], [second, second]] * 2)
    scores[2, 1] = NEVER  # in the second sentence the first group has one A, and B
    candidates = DiverseGroups(2, strength=0.3)(state, scores)
    assert candidates.tokens[0, :2].tolist() == [A, A] and candidates.tokens[1, 0] == B
    assert candidates.tokens[2, :2].tolist() == [A, B] and candidates.tokens[3, 0] == A
    assert float(candidates.cumulative_scores[1, 0].exp()) == pytest.approx(0.4)


def test_only_real_choices_cost() -> None:
    """The first group has finished: whatever stands in its slots keeps the second one from nothing."""
    state = start_beam(LONGEST.expand(2), beam_size=2, capacity=3, start_id=START)
    state.cumulative_scores[0] = NEVER
    state.finished_scores[0] = -1.0
    scores = torch.tensor([logs(0.1, 0.0, 0.5, 0.4, 0.0)]).expand(2, 2, -1)
    candidates = DiverseGroups(2, strength=9.0)(state, scores)
    expected = select_best(state, scores)
    assert candidates.cumulative_scores[0].tolist() == [NEVER] * 4
    assert candidates.tokens[1].tolist() == expected.tokens[1].tolist() and expected.tokens[1, :2].tolist() == [A, B]


def slow_choice(state: BeamState, scores: Tensor, *, num_groups: int, strength: float) -> list[list[tuple[float, ...]]]:
    """Rows of (total, parent, token), the best by penalised total first."""
    rows: list[list[tuple[float, ...]]] = []
    beam, vocab = scores.shape[1:]
    for row in range(len(scores)):
        if row % num_groups == 0:
            taken: list[int] = []
        candidates = []
        for slot in range(beam):
            for token in range(vocab):
                total = float(state.cumulative_scores[row, slot]) + float(scores[row, slot, token])
                if total > NEVER:
                    candidates.append((total - strength * taken.count(token), total, slot, token))
        candidates.sort(reverse=True)
        kept = candidates[: 2 * beam if beam > 1 else 1]
        taken += [token for _, _, _, token in kept[:beam]]
        rows.append([(total, slot, token) for _, total, slot, token in kept])
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_against_a_loop(seed: int) -> None:
    num_groups, beam, strength = 1 + seed % 4, 1 + seed % 3, [0.0, 0.4, 2.0][seed % 3]
    rows = 3 * num_groups
    state = random_state(seed, rows=rows, beam=beam)
    scores = torch.randn(rows, beam, 7).log_softmax(dim=2)
    scores[:, :, 5] = NEVER
    scores[seed % rows] = NEVER  # a row that cannot go on
    candidates = DiverseGroups(num_groups, strength=strength)(state, scores)
    expected = slow_choice(state, scores, num_groups=num_groups, strength=strength)
    for row, wanted in enumerate(expected):
        found = candidates.cumulative_scores[row]
        is_real = found > NEVER
        assert int(is_real.sum()) == len(wanted)
        assert found[is_real].tolist() == pytest.approx([total for total, _, _ in wanted], abs=1e-6)
        assert candidates.beam_indices[row][is_real].tolist() == [parent for _, parent, _ in wanted]
        assert candidates.tokens[row][is_real].tolist() == [token for _, _, token in wanted]


@pytest.mark.parametrize(("num_groups", "strength"), [(1, 0.7), (3, 0.0)])
def test_one_group_or_no_strength_is_beam_search(num_groups: int, strength: float) -> None:
    for seed in range(10):
        state = random_state(seed, rows=6, beam=5)
        scores = torch.randn(6, 5, 601).log_softmax(dim=2)
        candidates = DiverseGroups(num_groups, strength=strength)(state, scores)
        expected = select_best(state, scores)
        assert all(torch.equal(*parts) for parts in zip(candidates, expected, strict=True))


def test_sentences_do_not_touch_each_other() -> None:
    state = random_state(3, rows=12, beam=2)
    scores = torch.randn(12, 2, 11).log_softmax(dim=2)
    groups = DiverseGroups(3, strength=0.8)
    together = groups(state, scores)
    for order in ([3, 4, 5], [9, 10, 11, 0, 1, 2]):
        alone = groups(BeamState(*(part[order] for part in state)), scores[order])
        assert all(torch.equal(part, whole[order]) for part, whole in zip(alone, together, strict=True))


def search_in_groups(groups: DiverseGroups, *, rows: int) -> list[list[tuple[int, ...]]]:
    generator = torch.Generator().manual_seed(3)
    chain = torch.randn(7, 7, generator=generator).log_softmax(dim=1)
    state = start_beam(torch.full((rows,), 5), beam_size=2, capacity=5, start_id=START)
    for _ in range(5):
        log_probs = chain[state.last_ids]
        state = update_state(state, groups(state, log_probs), log_probs, end_id=END, scoring=Scoring("none"))
    found = finished_hypotheses(state)
    for hypotheses in found:
        for hypothesis in hypotheses:  # ranked by the model's log-probability, free of any penalty
            assert hypothesis.score == pytest.approx(hypothesis.log_prob, abs=1e-5)
    return [[tuple(hypothesis.ids) for hypothesis in hypotheses] for hypotheses in found]


def test_groups_find_different_translations() -> None:
    same = search_in_groups(DiverseGroups(3, strength=0.0), rows=3)
    different = search_in_groups(DiverseGroups(3, strength=1.0), rows=3)
    assert same[0] == same[1] == same[2] == different[0]
    assert len({ids for found in different for ids in found}) > len({ids for found in same for ids in found})
