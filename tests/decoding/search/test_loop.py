"""Beam search on probability tables, by hand and drawn at random: see `tables.py` for the tables and the oracles.

Expected values come from a hand calculation, from an enumeration of all sequences, or from `slow_search`. Each test
says which.
"""

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tables import (
    END,
    GNMT,
    PLAIN,
    START,
    A,
    B,
    Table,
    TableModel,
    all_sequences,
    assert_same,
    logs,
    random_table,
    run,
    slow_search,
)

from translate.decoding.search import loop
from translate.decoding.search.beam import Hypothesis, Scoring
from translate.decoding.search.loop import BeamSearch, SearchSettings
from translate.decoding.search.processors import MinimumLength, RepetitionPenalty
from translate.decoding.search.sampling import TokenSampler

SCORINGS = [Scoring(kind, alpha) for kind in ("gnmt", "average", "none") for alpha in (0.7, 1.0)]


def ids_of(hypotheses: Sequence[Hypothesis]) -> list[tuple[list[int], bool]]:
    return [(each.ids, each.truncated) for each in hypotheses]


# Greedy search is lured to A (0.6), after which nothing is good; B END has 0.4 · 0.9 = 0.36, the best of all.
LURE: Table = {
    (): logs(0.0, 0.0, 0.6, 0.4),
    (A,): logs(0.35, 0.0, 0.35, 0.3),
    (B,): logs(0.9, 0.0, 0.05, 0.05),
    **{(first, second): logs(1.0, 0.0, 0.0, 0.0) for first in (A, B) for second in (A, B)},
}


def test_beam_finds_what_greedy_search_misses() -> None:
    ((greedy,),) = run([LURE], 1)
    # A has 0.6; then END and A are level at 0.35 (END is the lower id, and either has 0.6 · 0.35 = 0.21).
    assert greedy.ids[:1] == [A] and greedy.log_prob == pytest.approx(math.log(0.21), abs=1e-6)
    # B END: ln 0.36 = -1.0216512, 2 tokens with the end symbol: (7/6)^0.6 = 1.0969027, (7/6)^1 = 1.1666667.
    for alpha, expected in [(0.0, -1.0216512), (0.6, -0.9313964), (1.0, -0.8757011)]:
        ((best, *_),) = run([LURE], 2, scoring=Scoring(alpha=alpha))
        assert (best.ids, best.truncated) == ([B], False)
        assert best.score == pytest.approx(expected, abs=1e-6)


def test_ends_and_cuts_at_the_maximum_length() -> None:
    """An empty translation; an end in the last position; one that is cut there, and all there is in a wide beam."""
    ((best, *_),) = run([{(): logs(0.9, 0.0, 0.06, 0.04)}], 3, max_lengths=[1])
    assert best == Hypothesis([], [pytest.approx(math.log(0.9))], pytest.approx(math.log(0.9)), False)
    table: Table = {(): logs(0.2, 0.0, 0.8, 0.0), (A,): logs(0.7, 0.0, 0.3, 0.0)}
    assert ids_of(run([table], 1, max_lengths=[2])[0]) == [([A], False)]
    # END 0.2, A END 0.56, A A 0.24 (cut); best first, and nothing invented for the other slots.
    (hypotheses,) = run([table], 11, max_lengths=[2], scoring=PLAIN)
    assert ids_of(hypotheses) == [([A], False), ([A, A], True), ([], False)]
    assert [math.exp(each.log_prob) for each in hypotheses] == pytest.approx([0.56, 0.24, 0.2])
    # Never an end; cut at 3 tokens: ln 0.8^3 = -0.6694307, over a penalty of 8/6.
    endless = {prefix: logs(0.0, 0.0, 0.8, 0.2) for prefix in [(), (A,), (B,), (A, A), (A, B), (B, A), (B, B)]}
    ((best, *_),) = run([endless], 2, max_lengths=[3], scoring=Scoring(alpha=1.0))
    assert best == Hypothesis([A, A, A], [pytest.approx(math.log(0.8))] * 3, pytest.approx(-0.5020730), True)


def test_a_sure_model_is_not_cut_short() -> None:
    """Unlikely ends of all prefixes fill the beam before the likely hypothesis has ended: it is waited for."""
    table: Table = {(A,) * length: logs(0.004, 0.0, 0.992, 0.004) for length in range(4)}
    table |= {(A,) * length + (B,): logs(1.0, 0.0, 0.0, 0.0) for length in range(4)}
    table |= {(A,) * 4: logs(1.0, 0.0, 0.0, 0.0)}
    assert run([table], 3, scoring=PLAIN)[0][0].ids == [A] * 4


@pytest.mark.parametrize("scoring", [*SCORINGS, Scoring(alpha=0.0), Scoring(alpha=5.0)])
def test_a_wide_beam_is_an_exhaustive_search(scoring: Scoring) -> None:
    """All translations of up to four words from two, whole and in order; and no narrower beam has a better one."""
    for seed, min_length in [(0, 0), (1, 0), (2, 0), (3, 2)]:
        tables = [random_table(100 * seed + number, vocab_size=4) for number in range(3)]
        processors = (MinimumLength(torch.tensor([min_length] * 3), end_id=END),) if min_length else ()
        options: dict[str, Any] = {"scoring": scoring, "max_lengths": [4] * 3, "processors": processors}
        exact = [all_sequences(table, scoring, max_length=4, min_length=min_length) for table in tables]
        for expected, hypotheses in zip(exact, run(tables, 31, num_best=31, **options), strict=True):
            assert len(expected) == (28 if min_length else 31)  # 0 to 3 words and an end, or 4; from 2 on, 4 + 8 + 16
            assert_same(hypotheses, expected)
        for beam_size in (1, 2, 3, 5, 31):
            for expected, (best, *_) in zip(exact, run(tables, beam_size, **options), strict=True):
                assert best.score <= expected[0].score + 1e-5
        assert min_length or math.fsum(math.exp(math.fsum(each.token_log_probs)) for each in exact[0]) == (
            pytest.approx(1.0)
        )


def count_wrong_lists(num_seeds: int) -> int:
    """N-best lists, of all, that are not the beginning of the slow search's."""
    wrong = 0
    for seed in range(num_seeds):
        scoring = [*SCORINGS, Scoring(alpha=3.0)][seed % 7]
        beam_size, max_length = 1 + seed % 6, 3 + seed % 3
        num_best, table = 1 + seed // 2 % beam_size, random_table(seed)
        expected = slow_search(table, beam_size, scoring, max_length=max_length)[:num_best]
        (hypotheses,) = run([table], beam_size, scoring=scoring, max_lengths=[max_length], num_best=num_best)
        wrong += ids_of(hypotheses[:num_best]) != [(list(each.ids), each.is_cut) for each in expected]
        assert [each.score for each in hypotheses] == sorted((each.score for each in hypotheses), reverse=True)
        assert len({(*each.ids, each.truncated) for each in hypotheses}) == len(hypotheses)
    return wrong


@pytest.mark.usefixtures("no_shape_checks")
def test_n_best_lists_are_exact() -> None:
    """Stopping early changes none of the `num_best` best, in whatever beam."""
    assert count_wrong_lists(120) == 0


@pytest.mark.usefixtures("no_shape_checks")
def test_an_unsafe_stop_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first finished hypothesis, a widespread heuristic; or one that thinks of the best alone."""
    real = loop.is_done
    monkeypatch.setattr(loop, "is_done", lambda state, **_: state.num_finished > 0)
    assert count_wrong_lists(60) > 5
    monkeypatch.setattr(loop, "is_done", lambda state, *, num_best, **rest: real(state, **rest))
    assert count_wrong_lists(60) > 5


def test_stopping_early_saves_steps() -> None:
    # END has 0.9 at once. One is enough after a step; the second best, A END at 0.09, needs another.
    table = {(A,) * length: logs(0.9, 0.0, 0.1, 0.0) for length in range(20)}
    for num_best, num_steps in [(1, 1), (2, 2), (4, 4)]:
        model = TableModel([table], beam_size=4)
        run([table], 4, scoring=PLAIN, max_lengths=[20], num_best=num_best, model=model)
        assert len(model.num_rows) == num_steps
    # The open A has 0.1, and even at the maximum length ln 0.1 / (25/6)^0.5 = -1.13 < ln 0.9 = -0.105.
    model = TableModel([table], beam_size=4)
    run([table], 4, scoring=Scoring(alpha=0.5), max_lengths=[20], model=model)
    assert len(model.num_rows) == 1


MAX_LENGTHS = [5, 1, 3, 5, 2, 4, 5, 5, 1, 4, 3]
TABLES = [random_table(200 + number) for number in range(11)]
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "greedy": {"beam_size": 1},
    "n_best": {"num_best": 4},
    "minimum": {"processors": (MinimumLength(torch.tensor([number % 4 for number in range(11)]), end_id=END),)},
    "penalty": {"processors": (RepetitionPenalty(1.7),)},
    "sampling": {"num_open": 4, "num_best": 4, "select_candidates": TokenSampler(seed=5, lines=torch.arange(11) + 70)},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_sentences_that_come_and_go_are_each_sentence_alone(name: str) -> None:
    """At every size of the batch and in any order: exactly the same numbers."""
    options: dict[str, Any] = {"beam_size": 4, "max_lengths": MAX_LENGTHS, **SETTINGS[name]}
    alone = [run(TABLES, order=[number], **options)[number] for number in range(11)]
    shuffled = random.Random(6).sample(range(11), 11)
    for order in (range(11), shuffled):
        for max_tokens in (1, 8, 29, 61, 113):
            assert run(TABLES, order=order, max_tokens=max_tokens, **options) == alone
    assert sum(map(len, alone)) >= 11
    for length, hypotheses in zip(MAX_LENGTHS, alone, strict=True):
        assert all(len(each.ids) + (not each.truncated) <= length for each in hypotheses)
        assert all(len(each.ids) == length for each in hypotheses if each.truncated)


def words_then_end(number: int, *, max_length: int) -> Table:
    """That many times A, then END."""
    return {(A,) * n: logs(1.0, 0, 0, 0) if n >= number else logs(0, 0, 1.0, 0) for n in range(max_length + 1)}


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_row_that_was_left_outlives_the_capacity(beam_size: int) -> None:
    """One sentence leaves at step 2; another joins late and goes on until the empty row has made 20 steps of 12."""
    lengths = [1, 7, 11, 11, 11]
    model = TableModel([words_then_end(length, max_length=12) for length in lengths], beam_size=beam_size)
    search = BeamSearch(
        model,
        SearchSettings(beam_size, PLAIN, START, END),
        source_lengths=[1] * 5,
        max_lengths=[12] * 5,
        max_tokens=3 * beam_size,
    )
    found = dict(search.run(range(5)))
    assert [found[number][0].ids for number in range(5)] == [[A] * length for length in lengths]
    assert len(model.num_rows) == 20  # so the case is the one that it is meant to be


def test_the_batch_keeps_to_its_tokens_and_is_refilled() -> None:
    """Longest sources first: rows times the beam times the longest source are never more than was allowed."""
    tables = [random_table(number) for number in range(14)]
    order = sorted(range(14), key=lambda number: -(number % 7))  # source lengths 7 7 6 6 5 5 …
    model = TableModel(tables, beam_size=2)
    run(tables, 2, order=order, max_tokens=43, model=model)
    assert [sentence for new in model.started for sentence in new] == order
    assert len(model.started[0]) == 3  # 43 // (7 · 2)
    assert len(model.started) > 3  # joined one by one, not batch after batch
    assert max(model.num_rows) <= 43 // 2
    assert all(after <= before or 8 * after >= 9 * before for before, after in itertools.pairwise(model.num_rows))

    one_by_one = TableModel(tables, beam_size=2)
    run(tables, 2, order=order, max_tokens=1, model=one_by_one)
    assert one_by_one.started == [[sentence] for sentence in order] and set(one_by_one.num_rows) == {1}


def test_rows_are_taken_away_when_no_sentence_is_left() -> None:
    tables = [words_then_end(length, max_length=16) for length in (1, 1, 2, 15)]
    model = TableModel(tables, beam_size=2)
    run(tables, 2, max_lengths=[16] * 4, model=model)
    assert model.num_rows == [4, 4, 2, *[1] * 13]


def test_a_penalty_ranks_and_the_log_probabilities_stay_the_models() -> None:
    """By hand: a token that was there before counts 1.7 times in the score, and once in `token_log_probs`."""
    theta, num_penalized = 1.7, 0
    results = run(TABLES, 5, scoring=GNMT, max_lengths=MAX_LENGTHS, processors=(RepetitionPenalty(theta),))
    for table, hypotheses in zip(TABLES, results, strict=True):
        for each in hypotheses:
            tokens = each.ids if each.truncated else [*each.ids, END]
            plain = [table[tuple(tokens[:place])][token] for place, token in enumerate(tokens)]
            assert each.token_log_probs == pytest.approx(plain, abs=1e-5)
            paid = [
                step * (theta if token in tokens[:place] else 1.0)
                for place, (token, step) in enumerate(zip(tokens, plain, strict=True))
            ]
            assert each.score == pytest.approx(math.fsum(paid) / ((5 + len(tokens)) / 6) ** 0.6, abs=1e-5)
            num_penalized += paid != plain
    assert num_penalized > 5


def test_no_hypothesis_where_the_model_leaves_none() -> None:
    """The others of the batch have what they have alone."""
    nothing: Table = {(): [-math.inf] * 5}
    dead_end: Table = {(): logs(0, 0, 0.5, 0.5, 0), **{(word,): [-math.inf] * 5 for word in (A, B)}}
    tables = [random_table(1), nothing, random_table(2), dead_end]
    for beam_size in (1, 3):
        results = run(tables, beam_size)
        assert results[1] == results[3] == []
        for number in (0, 2):
            assert results[number] == run(tables, beam_size, order=[number])[number] != []


@pytest.mark.parametrize("num_best", [1, 3])
def test_what_is_not_a_number_leaves_no_hypothesis(num_best: int) -> None:
    """Wherever it turns up: at once, or in one token after some hypothesis has finished; others are untouched."""
    at_once: Table = {(): [math.nan] * 4}
    one_token: Table = {(): [*logs(0.5, 0.0, 0.5), math.nan]}
    # END 0.4 finishes at the first step; A B has no probability that is a number, and A A END would score well.
    later: Table = {
        (): logs(0.4, 0.0, 0.6, 0.0),
        (A,): logs(0.0, 0.0, 0.9, 0.1),
        (A, A): logs(1.0, 0, 0, 0),
        (A, B): [math.nan] * 4,
    }
    tables = [at_once, words_then_end(3, max_length=5), one_token, later]
    for max_tokens in (1, 1000):
        results = run(tables, 3, scoring=Scoring("average", 1.0), max_tokens=max_tokens, num_best=num_best)
        assert [len(hypotheses) for hypotheses in results] == [0, 1, 0, 0]
    assert run(tables, 1, scoring=Scoring("average", 1.0))[0] == []
