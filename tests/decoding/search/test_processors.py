"""Each logits processor by hand, and against a slow loop over plain lists, in states whose tails are rubbish."""

import math
import random
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from translate.decoding.constraints.phrases import WordTables
from translate.decoding.search.beam import BeamState, start_beam
from translate.decoding.search.loop import LogitsProcessor
from translate.decoding.search.processors import (
    ForbiddenPhrases,
    ForcedPrefix,
    MinimumLength,
    NoRepeatedNgrams,
    RepetitionPenalty,
)

START, END = 2, 3
VOCAB = 7
NEVER = -math.inf


def state_of(
    histories: Sequence[Sequence[Sequence[int]]],
    *,
    sentences: Sequence[int] | None = None,
    max_lengths: Sequence[int] | None = None,
    capacity: int = 13,
    rubbish: int = 5,
) -> BeamState:
    """Open hypotheses, per sentence and slot; after each there are ids that only a careless processor looks at."""
    beam_size = len(histories[0])
    state = start_beam(
        torch.tensor(max_lengths or [99] * len(histories)),
        beam_size=beam_size,
        capacity=capacity,
        start_id=START,
        sentences=None if sentences is None else torch.tensor(sentences),
        num_open=beam_size,
    )
    state.ids[:, :, 1:] = rubbish
    for sentence, slots in enumerate(histories):
        state.lengths[sentence] = len(slots[0])
        for slot, tokens in enumerate(slots):
            state.ids[sentence, slot, 1 : 1 + len(tokens)] = torch.tensor(tokens, dtype=torch.long)
    return state


def random_histories(seed: int, *, batch: int = 5, beam: int = 3, vocab: int = VOCAB) -> list[list[list[int]]]:
    generator = random.Random(seed)
    words = [token for token in range(vocab) if token not in (END, START)]
    lengths = [generator.randint(0, 12) for _ in range(batch)]
    return [[generator.choices(words[:4], k=length) for _ in range(beam)] for length in lengths]


def log_probs_for(state: BeamState, vocab: int = VOCAB) -> Tensor:
    return torch.randn(*state.cumulative_scores.shape, vocab).log_softmax(dim=2)


def apply(processor: LogitsProcessor, scores: Tensor, state: BeamState) -> Tensor:
    return processor(scores.clone(), state)


def forbidden(processor: LogitsProcessor, state: BeamState) -> list[list[set[int]]]:
    """The tokens that a processor forbids each hypothesis; the others stay as they are."""
    scores = log_probs_for(state)
    result = apply(processor, scores, state)
    is_forbidden = result == NEVER
    assert torch.equal(result.masked_fill(is_forbidden, 0.0), scores.masked_fill(is_forbidden, 0.0))
    return [[set(row.nonzero()[:, 0].tolist()) for row in rows] for rows in is_forbidden]


def slowly(
    histories: Sequence[Sequence[Sequence[int]]], is_forbidden: Callable[[int, list[int], int], bool]
) -> list[list[set[int]]]:
    """The same by a loop over sentences, slots and tokens."""
    return [
        [{token for token in range(VOCAB) if is_forbidden(sentence, list(tokens), token)} for tokens in slots]
        for sentence, slots in enumerate(histories)
    ]


PROCESSORS: dict[str, LogitsProcessor] = {
    "minimum": MinimumLength(torch.tensor([0, 3, 20, 5, 1]), end_id=END),
    "prefix": ForcedPrefix([[], [4], [5, 6, 5, 4], [1] * 12, [4, 4]]),
    "phrases": ForbiddenPhrases(
        [[4], [0, 1], [1, 1, 5]],
        WordTables(
            torch.tensor([0, 1, 0, 1, 1, 1, 0]).bool(), torch.tensor([1, 1, 0, 0, 1, 1, 1]).bool(), torch.arange(7)
        ),
    ),
    "ngrams": NoRepeatedNgrams(2),
    "penalty": RepetitionPenalty(1.5),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_processor_sees_neither_neighbours_nor_rubbish(name: str) -> None:
    """And it raises no score."""
    processor = PROCESSORS[name]
    for seed in range(10):
        histories = random_histories(seed)
        state = state_of(histories)
        scores = log_probs_for(state)
        together = apply(processor, scores, state)
        assert torch.equal(apply(processor, scores, state_of(histories, rubbish=6, capacity=17)), together)
        order = [3, 0, 4]
        shuffled = apply(processor, scores[order], state_of([histories[index] for index in order], sentences=order))
        assert torch.equal(shuffled, together[order])
        assert (together <= scores).all()  # `Scoring.upper_bound` relies on that
        state.lengths[0] = 99  # a row that its sentence has left counts on, beyond the capacity
        state.cumulative_scores[0] = NEVER
        assert torch.equal(apply(processor, scores, state)[1:], together[1:])


# Tokens 0, 1 and 6 go on with a word; 4 and 5 begin one, as END does; 5 is punctuation.

BEGINS_WORD = torch.tensor([False, False, True, True, True, True, False])
LEAVES_OPEN = torch.tensor([True, True, False, False, True, False, True])
BEGINNERS, NONE = {2, 3, 4, 5}, set[int]()


def phrases(*each: list[int]) -> ForbiddenPhrases:
    return ForbiddenPhrases(list(each), WordTables(BEGINS_WORD, LEAVES_OPEN, torch.arange(len(LEAVES_OPEN))))


PREFIXES = ForcedPrefix([[4, 5, 6], [], [6], [5, 6]])


@pytest.mark.parametrize(
    ("processor", "histories", "expected"),
    [
        # Sentences 0 and 2 are inside their prefixes, 1 has none, 3 is at its end.
        (PREFIXES, [[[4, 5]], [[]], [[]], [[5, 6]]], [[{*range(VOCAB)} - {6}], [NONE]] * 2),
        (ForcedPrefix([[], []]), [[[]], [[4]]], [[NONE], [NONE]]),
        # ▁dog is 4. After it only what continues the word, such as ma, is allowed: no space, no end.
        (phrases([4]), [[[4], [0]]], [[BEGINNERS, NONE]]),
        # ▁dog ma is another word, after which anything may come.
        (phrases([4]), [[[4, 0], [4, 1]]], [[NONE, NONE]]),
        # ▁the ▁dog, and neither of its words by itself; nor anything that the start symbol would complete.
        (phrases([4, 0, 4], [START, 4]), [[[4, 0, 4], [1, 0, 4]]], [[BEGINNERS, NONE]]),
        (phrases([4, 0, 4], [START, 4]), [[[4, 0], [0, 4]]], [[NONE, NONE]]),
        # A phrase of many tokens takes no more memory for each short one beside it.
        (phrases([4, 0] * 50_000, *[[5]] * 50_000), [[[4], [0]]], [[{5}, {5}]]),
        # Punctuation completes a phrase at once.
        (phrases([4, 5]), [[[4], [0]]], [[{5}, NONE]]),
    ],
)
def test_forbidden_tokens_by_hand(
    processor: LogitsProcessor, histories: list[list[list[int]]], expected: list[list[set[int]]]
) -> None:
    assert forbidden(processor, state_of(histories)) == expected


def test_minimum_length() -> None:
    # By hand: sentence 0 needs 3 tokens, sentence 1 none; the positions are swapped.
    processor = MinimumLength(torch.tensor([3, 0]), end_id=END)
    for length, expected in [(0, {END}), (2, {END}), (3, set()), (4, set())]:
        state = state_of([[[4] * length], [[4] * length]], sentences=[1, 0])
        assert forbidden(processor, state) == [[set()], [expected]]


@pytest.mark.parametrize("seed", range(20))
def test_forbidden_phrases_against_a_loop(seed: int) -> None:
    generator = random.Random(seed)
    listed = [generator.choices([0, 1, 4, 5], k=generator.randint(1, 3)) for _ in range(generator.randint(1, 6))]
    histories = random_histories(seed)
    max_lengths = [len(slots[0]) + generator.randint(1, 3) for slots in histories]

    def is_forbidden(sentence: int, tokens: list[int], token: int) -> bool:
        longer = [*tokens, token]
        is_last = len(longer) == max_lengths[sentence]
        for phrase in listed:
            completes = longer[-len(phrase) :] == phrase and (is_last or not LEAVES_OPEN[phrase[-1]])
            ended = tokens[-len(phrase) :] == phrase and bool(LEAVES_OPEN[phrase[-1]] and BEGINS_WORD[token])
            if completes or ended:
                return True
        return False

    state = state_of(histories, max_lengths=max_lengths)
    assert forbidden(phrases(*listed), state) == slowly(histories, is_forbidden)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 14])
def test_no_repeated_ngrams_against_a_loop(n: int) -> None:
    def is_forbidden(sentence: int, tokens: list[int], token: int) -> bool:
        longer = [*tokens, token]
        ngrams = [tuple(longer[start : start + n]) for start in range(len(longer) - n + 1)]
        return len(ngrams) > 0 and ngrams[-1] in ngrams[:-1]

    for seed in range(8):
        histories = random_histories(seed)
        assert forbidden(NoRepeatedNgrams(n), state_of(histories)) == slowly(histories, is_forbidden)


def test_repetition_penalty_by_hand() -> None:
    # 4 came twice, 6 once: their log-probabilities are doubled, once each; the start symbol was not generated.
    state = state_of([[[4, 6, 4]], [[]]])
    scores = torch.tensor([[[-1.0, -2.0, -3.0, -4.0, -5.0, -0.0, NEVER]], [[-1.0] * VOCAB]])
    result = apply(RepetitionPenalty(2.0), scores, state)
    assert result.tolist() == [[[-1.0, -2.0, -3.0, -4.0, -10.0, 0.0, NEVER]], [[-1.0] * VOCAB]]
    assert torch.equal(apply(RepetitionPenalty(1.0), scores, state), scores)
