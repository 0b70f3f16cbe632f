"""Links between words by attention: all expected values by hand, from one table of attention weights."""

import pytest
import torch

from translate.decoding.alignment import AlignmentLink, align_words, alignment_error_rate, format_pharaoh
from translate.decoding.output.words import group_words

# Two target subwords and the end symbol, four source subwords and the end symbol. Without the end symbol's column the
# rows are 0.2 0.4 0.2 0.2 and 0.375 0 0.125 0.5.
WEIGHTS = torch.tensor(
    [
        [0.1, 0.2, 0.1, 0.1, 0.5],
        [0.3, 0.0, 0.1, 0.4, 0.2],
        [0.0, 0.0, 0.1, 0.0, 0.9],
    ]
)


def links(text: str) -> set[AlignmentLink]:
    return {AlignmentLink(*map(int, link.split("-"))) for link in text.split()}


def test_subwords() -> None:
    aligned = align_words(WEIGHTS)
    assert list(aligned) == [AlignmentLink(source=1, target=0), AlignmentLink(source=3, target=1)]
    assert list(aligned.values()) == pytest.approx([0.4, 0.5])


def test_words() -> None:
    source_words = [word.positions for word in group_words(["▁Hu", "nd", "▁im", "▁Haus"])]
    # Row 0: 0.2 + 0.4, 0.2, 0.2. Row 1: 0.375 + 0, 0.125, 0.5.
    aligned = align_words(WEIGHTS, source_words=source_words, target_words=[[0], [1]])
    assert list(aligned) == [AlignmentLink(0, 0), AlignmentLink(2, 1)]
    assert list(aligned.values()) == pytest.approx([0.6, 0.5])
    # One target word of both subwords: (0.6 + 0.375) / 2, (0.2 + 0.125) / 2, (0.2 + 0.5) / 2.
    assert align_words(WEIGHTS, source_words=source_words, target_words=[[0, 1]]) == {
        AlignmentLink(0, 0): pytest.approx(0.4875)
    }


def test_attention_to_the_end_symbol_alone_gives_no_link() -> None:
    weights = torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    assert align_words(weights) == {AlignmentLink(0, 1): 0.5}  # the first of two equals


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_empty_side(shape: tuple[int, int]) -> None:
    assert align_words(torch.ones(shape)) == {}
    words = {"target_words": [[0, 1]] if shape[0] == 3 else [], "source_words": [[0, 1]] if shape[1] == 3 else []}
    assert align_words(torch.ones(shape), **words) == {}


def test_pharaoh() -> None:
    found = [AlignmentLink(10, 0), AlignmentLink(2, 3), AlignmentLink(2, 1), AlignmentLink(0, 7)]
    assert format_pharaoh(found) == "0-7 2-1 2-3 10-0"  # by number: as text 10 would come before 2
    assert format_pharaoh([]) == ""
    assert format_pharaoh(align_words(WEIGHTS)) == "1-0 3-1"


@pytest.mark.parametrize(
    ("found", "expected", "rate"),
    [
        (["0-0 1-1 2-2"], ["0-0 1-2"], 1 - 2 * 1 / (3 + 2)),
        (["0-0 1-1 2-2", "0-0"], ["0-0 1-2", "0-0"], 1 - 2 * 2 / (4 + 3)),  # counts are added up, not rates
        (["0-0 1-1"], ["1-1 0-0"], 0.0),
        ([""], ["0-0"], 1.0),
        ([""], [""], 0.0),
    ],
)
def test_error_rate_by_hand(found: list[str], expected: list[str], rate: float) -> None:
    assert alignment_error_rate(list(map(links, found)), expected=list(map(links, expected))) == pytest.approx(rate)
