"""Forbidden phrases, by hand and against a slow loop over plain lists."""

import random
from typing import Any

import pytest
import torch

from translate.decoding.processors.forbidden import ForbiddenPhrases

START, END = 2, 3
Lab = Any  # conftest.py's: test modules cannot import each other

# Tokens 0, 1 and 6 go on with a word; 4 and 5 begin one, as END does; 5 is punctuation.

BEGINS_WORD = torch.tensor([False, False, True, True, True, True, False])
LEAVES_OPEN = torch.tensor([True, True, False, False, True, False, True])
BEGINNERS = {2, 3, 4, 5}


def phrases(*each: list[int]) -> ForbiddenPhrases:
    return ForbiddenPhrases(list(each), begins_word=BEGINS_WORD, leaves_word_open=LEAVES_OPEN)


def test_independence(lab: Lab) -> None:
    lab.check_independence(phrases([4], [0, 1], [1, 1, 5]))


def test_a_word_is_forbidden_and_a_longer_one_is_not(lab: Lab) -> None:
    # By hand: ▁dog is 4. After it only what goes on with the word, such as ma, is allowed: no space, no end.
    state = lab.state_of([[[4], [0]]])
    assert lab.forbidden(phrases([4]), state) == [[BEGINNERS, set()]]
    # ▁dog ma is another word, after which anything may come; forbidden itself, it is stopped at its own end.
    state = lab.state_of([[[4, 0], [4, 1]]])
    assert lab.forbidden(phrases([4]), state) == [[set(), set()]]
    assert lab.forbidden(phrases([4], [4, 0]), state) == [[BEGINNERS, set()]]


def test_a_phrase_is_forbidden_as_a_whole(lab: Lab) -> None:
    # By hand: ▁the ▁dog, and neither of its words by itself; nor anything that the start symbol would complete.
    processor = phrases([4, 0, 4], [START, 4])
    assert lab.forbidden(processor, lab.state_of([[[4, 0, 4], [1, 0, 4]]])) == [[BEGINNERS, set()]]
    assert lab.forbidden(processor, lab.state_of([[[4, 0], [0, 4]]])) == [[set(), set()]]
    assert lab.forbidden(processor, lab.state_of([[[4], [0]]])) == [[set(), set()]]


def test_punctuation_completes_a_phrase_at_once(lab: Lab) -> None:
    # By hand: 5 is forbidden by itself, or only after 4.
    assert lab.forbidden(phrases([5]), lab.state_of([[[4], [0]]])) == [[{5}, {5}]]
    assert lab.forbidden(phrases([4, 5]), lab.state_of([[[4], [0]]])) == [[{5}, set()]]


def test_a_phrase_cannot_end_a_translation_that_is_cut(lab: Lab) -> None:
    # By hand: in the last position there is no next token to wait for.
    state = lab.state_of([[[1]], [[1]]], max_lengths=[2, 3])
    assert lab.forbidden(phrases([4], [1, 0]), state) == [[{4, 0}], [set()]]


@pytest.mark.parametrize("seed", range(20))
def test_forbidden_phrases_against_a_loop(lab: Lab, seed: int) -> None:
    generator = random.Random(seed)
    listed = [generator.choices([0, 1, 4, 5], k=generator.randint(1, 3)) for _ in range(generator.randint(1, 6))]
    histories = lab.random_histories(seed)
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

    state = lab.state_of(histories, max_lengths=max_lengths)
    assert lab.forbidden(phrases(*listed), state) == lab.slowly(histories, is_forbidden)
