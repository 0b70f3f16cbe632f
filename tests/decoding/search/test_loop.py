"""The loop around the beam: joining and leaving, exact n-best lists, penalties, processors, sampling.

No neural model: tables drawn at random, as in `test_beam.py`. Expected values come from an enumeration of all
sequences, or from `slow_search`: beam search in plain Python, one sentence at a time, run to its end without any early
stop. Each test says which.
"""

import itertools
import math
import random
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from translate.decoding.processors import MinimumLength, RepetitionPenalty
from translate.decoding.search import loop
from translate.decoding.search.beam import DiverseGroups, Hypothesis
from translate.decoding.search.loop import BeamSearch, NextTokens, SearchSettings
from translate.decoding.search.sampling import TokenSampler
from translate.decoding.search.scoring import Scoring

END, START, A, B = range(4)
Prefix = tuple[int, ...]
Table = Mapping[Prefix, Sequence[float]]  # log-probabilities of the token after a prefix (without START)
LONGEST_SOURCE = 7
GNMT = Scoring(alpha=0.6)


class Rows(NamedTuple):
    """What each slot of each row has been fed so far, and whose row it is."""

    prefixes: list[list[Prefix]]
    sentences: list[int]


def attention_after(sentence: int, prefix: Prefix) -> list[float]:
    """Any distribution over the source that depends on the sentence and on the whole prefix."""
    generator = random.Random(f"{sentence} {prefix}")
    weights = [generator.random() ** 4 for _ in range(1 + sentence % LONGEST_SOURCE)]
    return [weight / sum(weights) for weight in weights]


class TableModel:
    """A `NextTokenModel` that looks whole prefixes up, so that a hypothesis in the wrong slot reads a wrong line.

    Slots without a hypothesis are fed anything; they get log-probability 0 for each token, to tempt a careless search.
    """

    def __init__(self, tables: Sequence[Table], *, beam_size: int, with_attention: bool = False) -> None:
        self.tables = tables
        self.beam_size = beam_size
        self.vocab_size = len(next(iter(tables[0].values())))
        self.with_attention = with_attention
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

    def step(self, last_ids: Tensor, cache: Rows) -> tuple[NextTokens, Rows]:
        self.num_rows.append(len(cache.sentences))
        prefixes = [
            [() if token == START else (*prefix, token) for prefix, token in zip(*row, strict=True)]
            for row in zip(cache.prefixes, last_ids.tolist(), strict=True)
        ]
        log_probs = torch.tensor(
            [
                [self.tables[sentence].get(prefix, [0.0] * self.vocab_size) for prefix in row]
                for sentence, row in zip(cache.sentences, prefixes, strict=True)
            ]
        )
        attention = None
        if self.with_attention:
            attention = torch.zeros(len(prefixes), self.beam_size, LONGEST_SOURCE)
            for row, sentence in enumerate(cache.sentences):
                for slot, prefix in enumerate(prefixes[row]):
                    weights = attention_after(sentence, prefix)
                    attention[row, slot, : len(weights)] = torch.tensor(weights)
            attention = attention[:, :, : max(1 + sentence % LONGEST_SOURCE for sentence in cache.sentences)]
        return NextTokens(log_probs, attention), Rows(prefixes, cache.sentences)

    def reorder(self, cache: Rows, beam_indices: Tensor) -> Rows:
        rows = zip(cache.prefixes, beam_indices.tolist(), strict=True)
        return Rows([[row[slot] for slot in chosen] for row, chosen in rows], cache.sentences)

    def select_rows(self, cache: Rows, rows: Sequence[int]) -> Rows:
        return Rows([cache.prefixes[row] for row in rows], [cache.sentences[row] for row in rows])


def logs(*probabilities: float) -> list[float]:
    return [math.log(probability) if probability else -math.inf for probability in probabilities]


def random_table(seed: int, *, vocab_size: int = 5, max_length: int = 5, sharpness: float = 1.5) -> Table:
    """A random distribution after every prefix without END or START."""
    generator = random.Random(seed)
    table = {}
    words = [token for token in range(vocab_size) if token not in (END, START)]
    for length in range(max_length):
        for prefix in itertools.product(words, repeat=length):
            weights = [math.exp(sharpness * generator.gauss(0.0, 1.0)) for _ in range(vocab_size)]
            weights[START] = 0.0
            table[prefix] = logs(*(weight / sum(weights) for weight in weights))
    return table


def run(
    tables: Sequence[Table],
    beam_size: int,
    *,
    scoring: Scoring = GNMT,
    max_lengths: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    max_tokens: int = 1000,
    model: TableModel | None = None,
    **settings: Any,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence; those of sentences that are not in the order are empty."""
    model = model or TableModel(tables, beam_size=beam_size, with_attention=settings.get("has_coverage", False))
    search = BeamSearch(
        model,
        SearchSettings(beam_size, scoring, START, END, **settings),
        source_lengths=[1 + number % LONGEST_SOURCE for number in range(len(tables))],
        max_lengths=max_lengths or [5] * len(tables),
        max_tokens=max_tokens,
    )
    found = list(search.run(range(len(tables)) if order is None else order))
    assert sorted(sentence for sentence, _ in found) == sorted(range(len(tables)) if order is None else order)
    results = dict(found)
    return [results.get(sentence, []) for sentence in range(len(tables))]


class Finished(NamedTuple):
    """A translation and all that its score depends on."""

    ids: Prefix
    token_log_probs: tuple[float, ...]
    is_cut: bool
    score: float


def score_by_hand(scoring: Scoring, sentence: int, ids: Prefix, log_probs: Sequence[float]) -> float:
    """In Python's numbers; `ids` without the end symbol, `log_probs` with its own."""
    length = len(log_probs)
    penalty = {"gnmt": (5 + length) / 6, "average": float(length), "none": 1.0}[scoring.length_penalty]
    score = math.fsum(log_probs) / penalty**scoring.alpha
    if scoring.coverage_penalty:
        rows = [attention_after(sentence, ids[:position]) for position in range(length)]
        covered = [min(1.0, math.fsum(column)) for column in zip(*rows, strict=True)]
        score += scoring.coverage_penalty * math.fsum(map(math.log, covered))
    return score


def slow_search(
    table: Table, beam_size: int, scoring: Scoring, *, max_length: int = 5, sentence: int = 0, min_length: int = 0
) -> list[Finished]:
    """Beam search as `beam.py` describes it, run to its end; the best score first."""
    open_: list[tuple[Prefix, tuple[float, ...]]] = [((), ())]
    finished: list[Finished] = []
    for length in range(1, max_length + 1):
        candidates = [
            (ids, token, (*log_probs, step))
            for ids, log_probs in open_
            for token, step in enumerate(table[ids])
            if step > -math.inf and not (token == END and length <= min_length)
        ]
        candidates.sort(key=lambda candidate: -math.fsum(candidate[2]))
        open_ = []
        for rank, (ids, token, log_probs) in enumerate(candidates):
            if token != END and length < max_length and len(open_) < beam_size:
                open_.append(((*ids, token), log_probs))
            elif rank < beam_size and (token == END or length == max_length):
                whole = ids if token == END else (*ids, token)
                score = score_by_hand(scoring, sentence, whole, log_probs)
                finished.append(Finished(whole, log_probs, token != END, score))
        if len(finished) >= (1 if beam_size == 1 else 2 * beam_size):
            break
    return sorted(finished, key=lambda each: -each.score)[:beam_size]


def assert_same(hypotheses: Sequence[Hypothesis], expected: Sequence[Finished]) -> None:
    assert [(tuple(each.ids), each.truncated) for each in hypotheses] == [(each.ids, each.is_cut) for each in expected]
    for hypothesis, each in zip(hypotheses, expected, strict=True):
        assert hypothesis.token_log_probs == pytest.approx(each.token_log_probs, abs=1e-5)
        assert hypothesis.score == pytest.approx(each.score, abs=1e-4)


SCORINGS = [
    Scoring(kind, alpha, beta) for kind in ("gnmt", "average", "none") for alpha, beta in [(0.7, 0.0), (1.0, 0.2)]
]


# Against independent searches


@pytest.mark.parametrize("scoring", SCORINGS)
def test_a_wide_beam_is_an_exhaustive_search(scoring: Scoring) -> None:
    """All 31 translations of up to four words from two, whole and in order, with a minimum length or without one."""
    for seed, min_length in itertools.product(range(3), (0, 2)):
        tables = [random_table(100 * seed + number, vocab_size=4, max_length=4) for number in range(3)]
        processors = (MinimumLength(torch.tensor([min_length] * 3), end_id=END),) if min_length else ()
        results = run(
            tables, 31, scoring=scoring, max_lengths=[4] * 3, num_best=31, processors=processors,
            has_coverage=scoring.coverage_penalty > 0,
        )  # fmt: skip
        for number, (table, hypotheses) in enumerate(zip(tables, results, strict=True)):
            expected = slow_search(table, 31, scoring, max_length=4, sentence=number, min_length=min_length)
            # A beam that nothing leaves enumerates: 0 to 3 words and an end, or 4 words; from 2 words, 4 + 8 + 16.
            assert len(expected) == (28 if min_length else 31)
            assert_same(hypotheses, expected)


@pytest.mark.parametrize("scoring", SCORINGS)
def test_no_beam_beats_the_best_of_all(scoring: Scoring) -> None:
    has_coverage = scoring.coverage_penalty > 0
    for seed in range(3):
        table = random_table(seed, vocab_size=4, max_length=4)
        exact = slow_search(table, 31, scoring, max_length=4)[0].score
        for beam_size in (1, 2, 3, 5, 31):
            ((best, *_),) = run([table], beam_size, scoring=scoring, max_lengths=[4], has_coverage=has_coverage)
            assert best.score <= exact + 1e-5
        assert best.score == pytest.approx(exact, abs=1e-5)


def count_wrong_lists(num_seeds: int) -> int:
    """N-best lists, of all, that are not the beginning of the slow search's."""
    wrong = 0
    for seed in range(num_seeds):
        scoring = SCORINGS[seed % len(SCORINGS)]
        beam_size, max_length = 2 + seed % 5, 3 + seed % 3
        num_best = 1 + seed % beam_size
        table = random_table(seed, max_length=max_length)
        expected = slow_search(table, beam_size, scoring, max_length=max_length)[:num_best]
        has_coverage = scoring.coverage_penalty > 0
        (hypotheses,) = run(
            [table], beam_size, scoring=scoring, max_lengths=[max_length], num_best=num_best, has_coverage=has_coverage
        )
        found = [(tuple(each.ids), each.truncated) for each in hypotheses[:num_best]]
        wrong += found != [(each.ids, each.is_cut) for each in expected]
    return wrong


def test_n_best_lists_are_exact() -> None:
    """Stopping early changes none of the `num_best` best."""
    assert count_wrong_lists(60) == 0


def test_a_stop_that_thinks_of_the_best_alone_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = loop.is_done
    monkeypatch.setattr(loop, "is_done", lambda state, *, num_best, **rest: real(state, **rest))
    assert count_wrong_lists(60) > 5


def test_stopping_early_saves_steps() -> None:
    # END has 0.9 at once. One is enough after a step; the second best, A END at 0.09, needs another.
    table = {(A,) * length: logs(0.9, 0.0, 0.1, 0.0) for length in range(20)}
    for num_best, num_steps in [(1, 1), (2, 2), (4, 4)]:
        model = TableModel([table], beam_size=4)
        run([table], 4, scoring=Scoring("none"), max_lengths=[20], num_best=num_best, model=model)
        assert len(model.num_rows) == num_steps


# Joining and leaving

MAX_LENGTHS = [5, 1, 3, 5, 2, 4, 5, 5, 1, 4, 3]


def tables_of_all_lengths() -> list[Table]:
    return [random_table(200 + number, max_length=length) for number, length in enumerate(MAX_LENGTHS)]


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "coverage": {"has_coverage": True, "scoring": Scoring("gnmt", 0.6, 0.3)},
    "n_best": {"num_best": 4},
    "minimum": {"processors": (MinimumLength(torch.tensor([number % 4 for number in range(11)]), end_id=END),)},
    "penalty": {"processors": (RepetitionPenalty(1.7),)},
    "groups": {"num_groups": 2, "select_candidates": DiverseGroups(2, strength=0.8)},
    "sampling": {"num_open": 4, "num_best": 4, "select_candidates": TokenSampler(seed=5, lines=torch.arange(11) + 70)},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_sentences_that_come_and_go_are_each_sentence_alone(name: str) -> None:
    """At every size of the batch and in any order: exactly the same numbers."""
    tables = tables_of_all_lengths()
    options = {"max_lengths": MAX_LENGTHS, **SETTINGS[name]}
    alone = [run(tables, 4, order=[number], **options)[number] for number in range(len(tables))]
    shuffled = list(range(len(tables)))
    random.Random(6).shuffle(shuffled)
    for order in (range(len(tables)), shuffled):
        for max_tokens in (1, 29, 61, 113):
            assert run(tables, 4, order=order, max_tokens=max_tokens, **options) == alone
    assert sum(map(len, alone)) > 11


def test_greedy_sentences_that_come_and_go() -> None:
    tables = tables_of_all_lengths()
    alone = [run(tables, 1, order=[number], max_lengths=MAX_LENGTHS)[number] for number in range(len(tables))]
    for max_tokens in (1, 8, 15, 29):
        assert run(tables, 1, max_tokens=max_tokens, max_lengths=MAX_LENGTHS) == alone


def words_then_end(number: int, *, max_length: int) -> Table:
    """A so many times, then END."""
    return {(A,) * n: logs(1.0, 0, 0, 0) if n >= number else logs(0, 0, 1.0, 0) for n in range(max_length + 1)}


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_row_that_was_left_outlives_the_capacity(beam_size: int) -> None:
    """One sentence leaves at step 2; another joins late and goes on until the empty row has made 20 steps of 12."""
    lengths = [1, 7, 11, 11, 11]
    tables = [words_then_end(length, max_length=12) for length in lengths]
    model = TableModel(tables, beam_size=beam_size)
    settings = SearchSettings(beam_size, Scoring("none"), START, END)
    search = BeamSearch(model, settings, source_lengths=[1] * 5, max_lengths=[12] * 5, max_tokens=3 * beam_size)
    found = dict(search.run(range(5)))
    assert [found[number][0].ids for number in range(5)] == [[A] * length for length in lengths]
    assert len(model.num_rows) == 20  # so the case is the one that it is meant to be


def test_a_search_that_is_stopped_makes_no_further_step() -> None:
    """Even of a sentence that would go on: one is finished in the second step, when another thread stops the search."""
    stop = threading.Event()

    class StoppedModel(TableModel):
        def step(self, *arguments: Any) -> Any:
            if len(self.num_rows) == 1:
                stop.set()
            return super().step(*arguments)

    model = StoppedModel([words_then_end(1, max_length=12), words_then_end(11, max_length=12)], beam_size=1)
    settings = SearchSettings(1, Scoring("none"), START, END)
    search = BeamSearch(model, settings, source_lengths=[1] * 2, max_lengths=[12] * 2, max_tokens=10)
    assert [sentence for sentence, _ in search.run(range(2), stop=stop)] == [0]
    assert len(model.num_rows) == 2


def test_the_batch_keeps_to_its_tokens_and_is_refilled() -> None:
    """Longest sources first: rows times the beam times the longest source are never more than was allowed."""
    tables = [random_table(number, max_length=5) for number in range(14)]
    order = sorted(range(14), key=lambda number: -(number % LONGEST_SOURCE))  # source lengths 7 7 6 6 5 5 …
    model = TableModel(tables, beam_size=2)
    run(tables, 2, order=order, max_tokens=43, model=model)
    assert [sentence for new in model.started for sentence in new] == order
    assert len(model.started[0]) == 3  # 43 // (7 · 2)
    assert len(model.started) > 3  # joined one by one, not batch after batch
    assert max(model.num_rows) <= 43 // 2

    one_by_one = TableModel(tables, beam_size=2)
    run(tables, 2, order=order, max_tokens=1, model=one_by_one)
    assert one_by_one.started == [[sentence] for sentence in order] and set(one_by_one.num_rows) == {1}


def test_rows_are_taken_away_when_nobody_waits() -> None:
    tables = [words_then_end(length, max_length=16) for length in (1, 1, 2, 15)]
    model = TableModel(tables, beam_size=2)
    run(tables, 2, max_lengths=[16] * 4, model=model)
    assert model.num_rows == [4, 4, 2, *[1] * 13]


# Groups, sampling, processors


def test_groups_are_merged_sorted_and_distinct() -> None:
    num_more = 0
    for seed in range(12):
        table = random_table(seed)
        (found,) = run([table], 6, num_groups=3, num_best=2, select_candidates=DiverseGroups(3, strength=1.0))
        (same,) = run([table], 6, num_groups=3, num_best=2, select_candidates=DiverseGroups(3, strength=0.0))
        (narrow,) = run([table], 2, num_best=2)
        for hypotheses in (found, same):
            assert [each.score for each in hypotheses] == sorted((each.score for each in hypotheses), reverse=True)
            assert len({(tuple(each.ids), each.truncated) for each in hypotheses}) == len(hypotheses)
        assert same == narrow  # three times the same beam of two
        assert all(each in found for each in narrow)  # the first group is that beam
        num_more += len(found) - len(narrow)
    assert num_more > 12


def test_samples_are_as_many_as_asked_for() -> None:
    """Each slot goes its own way; equal samples are not merged; over many, frequencies are the model's."""
    probabilities = [0.5, 0.0, 0.3, 0.2]
    table = {(): logs(*probabilities), (A,): logs(1.0, 0, 0, 0), (B,): logs(1.0, 0, 0, 0)}
    num_lines, num_samples = 61, 11
    sampler = TokenSampler(seed=3, lines=torch.arange(num_lines))
    results = run(
        [table] * num_lines, num_samples, scoring=Scoring("none"), max_lengths=[3] * num_lines, num_open=num_samples,
        num_best=num_samples, select_candidates=sampler,
    )  # fmt: skip
    assert {len(hypotheses) for hypotheses in results} == {num_samples}
    firsts = [(each.ids or [END])[0] for hypotheses in results for each in hypotheses]
    for token in (END, A, B):  # four standard deviations
        share, number = probabilities[token], len(firsts)
        assert abs(firsts.count(token) - share * number) < 4 * math.sqrt(share * (1 - share) * number)


def test_a_penalty_ranks_and_the_log_probabilities_stay_the_models() -> None:
    """By hand: a token that was there before counts 1.7 times in the score, and once in `token_log_probs`."""
    theta, num_penalized = 1.7, 0
    tables = tables_of_all_lengths()
    for number, hypotheses in enumerate(
        run(tables, 5, scoring=Scoring("gnmt", 0.6), max_lengths=MAX_LENGTHS, processors=(RepetitionPenalty(theta),))
    ):
        for each in hypotheses:
            tokens = each.ids if each.truncated else [*each.ids, END]
            plain = [tables[number][tuple(tokens[:place])][token] for place, token in enumerate(tokens)]
            assert each.token_log_probs == pytest.approx(plain, abs=1e-5)
            assert each.log_prob == pytest.approx(math.fsum(plain), abs=1e-5)
            paid = [
                step * (theta if token in tokens[:place] else 1.0)
                for place, (token, step) in enumerate(zip(tokens, plain, strict=True))
            ]
            assert each.score == pytest.approx(math.fsum(paid) / ((5 + len(tokens)) / 6) ** 0.6, abs=1e-5)
            num_penalized += paid != plain
    assert num_penalized > 5


# Models that leave nothing


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


def test_what_is_not_a_number_in_one_group_is_not_hidden_by_another() -> None:
    # The first group goes on from A alone, the second from B, which is broken.
    table: Table = {(): logs(0.0, 0.0, 0.6, 0.4), (A,): logs(1.0, 0, 0, 0), (B,): [math.nan] * 4}
    assert run([table], 2, num_groups=2, select_candidates=DiverseGroups(2, strength=5.0)) == [[]]
