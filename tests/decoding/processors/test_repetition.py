"""Repeated n-grams and repeated tokens, by hand and against slow loops over plain lists."""

import math
from typing import Any

import pytest
import torch

from translate.decoding.processors.prefix_and_length import MinimumLength
from translate.decoding.processors.repetition import NoRepeatedNgrams, RepetitionPenalty
from translate.decoding.search.beam import finished_hypotheses, select_best, start_beam, update_state
from translate.decoding.search.loop import LogitsProcessor
from translate.decoding.search.scoring import Scoring

START, END = 2, 3
VOCAB = 7
NEVER = -math.inf
Lab = Any  # conftest.py's: test modules cannot import each other


def test_independence(lab: Lab) -> None:
    lab.check_independence(NoRepeatedNgrams(2))
    lab.check_independence(RepetitionPenalty(1.5))


def test_no_repeated_ngrams_by_hand(lab: Lab) -> None:
    # 4 5 6 4 5: a third 6 would repeat the trigram 4 5 6, and the bigram 5 6; END is always allowed.
    state = lab.state_of([[[4, 5, 6, 4, 5]]])
    assert lab.forbidden(NoRepeatedNgrams(3), state) == [[{6}]]
    assert lab.forbidden(NoRepeatedNgrams(2), state) == [[{6}]]
    assert lab.forbidden(NoRepeatedNgrams(1), state) == [[{4, 5, 6}]]
    assert lab.forbidden(NoRepeatedNgrams(4), state) == [[set()]]
    # Overlapping n-grams count: 4 4 is in 4 4 once already.
    assert lab.forbidden(NoRepeatedNgrams(2), lab.state_of([[[4, 4]]])) == [[{4}]]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 14])
def test_no_repeated_ngrams_against_a_loop(lab: Lab, n: int) -> None:
    def is_forbidden(sentence: int, tokens: list[int], token: int) -> bool:
        longer = [*tokens, token]
        ngrams = [tuple(longer[start : start + n]) for start in range(len(longer) - n + 1)]
        return len(ngrams) > 0 and ngrams[-1] in ngrams[:-1]

    for seed in range(8):
        histories = lab.random_histories(seed)
        assert lab.forbidden(NoRepeatedNgrams(n), lab.state_of(histories)) == lab.slowly(histories, is_forbidden)


def test_repetition_penalty_by_hand(lab: Lab) -> None:
    # 4 came twice, 6 once: their log-probabilities are doubled, once each; the start symbol was not generated.
    state = lab.state_of([[[4, 6, 4]], [[]]])
    scores = torch.tensor([[[-1.0, -2.0, -3.0, -4.0, -5.0, -0.0, NEVER]], [[-1.0] * VOCAB]])
    result = lab.apply(RepetitionPenalty(2.0), scores, state)
    assert result.tolist() == [[[-1.0, -2.0, -3.0, -4.0, -10.0, 0.0, NEVER]], [[-1.0] * VOCAB]]
    assert torch.equal(lab.apply(RepetitionPenalty(1.0), scores, state), scores)


def test_repetition_penalty_against_a_loop(lab: Lab) -> None:
    histories = lab.random_histories(4)
    state = lab.state_of(histories)
    scores = lab.log_probs_for(state)
    result = lab.apply(RepetitionPenalty(1.25), scores, state)
    for sentence, slots in enumerate(histories):
        for slot, tokens in enumerate(slots):
            for token in range(VOCAB):
                factor = 1.25 if token in tokens else 1.0
                assert float(result[sentence, slot, token]) == float(scores[sentence, slot, token] * factor)


def test_a_penalty_leaves_its_input_as_it_was(lab: Lab) -> None:
    """The search reports the model's own log-probabilities."""
    state = lab.state_of([[[4, 6, 4]]])
    scores = lab.log_probs_for(state)
    copy = scores.clone()
    assert not torch.equal(RepetitionPenalty(2.0)(scores, state), copy)
    assert torch.equal(scores, copy)


def test_no_token_left_ends_nothing_and_breaks_nothing() -> None:
    """Two tokens, each allowed once, and no end before 5 tokens: after two there is nothing left to say."""
    processors: list[LogitsProcessor] = [NoRepeatedNgrams(1), MinimumLength(torch.tensor([5]), end_id=END)]
    state = start_beam(torch.tensor([7]), beam_size=2, capacity=7, start_id=START)
    log_probs = torch.full((1, 2, VOCAB), NEVER)
    log_probs[:, :, [END, 4, 5]] = math.log(1 / 3)
    for _ in range(7):
        scores = log_probs.clone()
        for processor in processors:
            scores = processor(scores, state)
        state = update_state(state, select_best(state, scores), log_probs, end_id=END, scoring=Scoring())
    assert not state.cumulative_scores.isnan().any()
    assert finished_hypotheses(state) == [[]]
