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


def test_words_of_one_subword_each_are_subwords() -> None:
    weights = torch.rand(8, 6)
    each = {"source_words": [[place] for place in range(5)], "target_words": [[place] for place in range(7)]}
    assert align_words(weights, **each) == align_words(weights)


def test_scale_of_a_row_does_not_matter() -> None:
    scaled = align_words(WEIGHTS * torch.tensor([[2.0], [3.0], [5.0]]))
    assert list(scaled.values()) == pytest.approx(list(align_words(WEIGHTS).values()))


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


def test_error_rate_by_hand() -> None:
    # Of three links and two expected ones, one is in both: 1 - 2 · 1 / (3 + 2).
    first = links("0-0 1-1 2-2"), links("0-0 1-2")
    assert alignment_error_rate([first[0]], expected=[first[1]]) == pytest.approx(0.6)
    # With a second sentence, all right, counts are added up, not rates: 1 - 2 · 2 / (4 + 3).
    second = links("0-0"), links("0-0")
    found, expected = ([one, other] for one, other in zip(first, second, strict=True))
    assert alignment_error_rate(found, expected=expected) == pytest.approx(3 / 7)


def test_error_rate_at_its_ends() -> None:
    assert alignment_error_rate([links("0-0 1-1")], expected=[links("1-1 0-0")]) == 0.0
    assert alignment_error_rate([links("0-1")], expected=[links("0-0")]) == 1.0
    assert alignment_error_rate([links("")], expected=[links("0-0")]) == 1.0


def test_error_rate_of_wrong_input() -> None:
    with pytest.raises(ValueError, match="shorter"):
        alignment_error_rate([links(""), links("")], expected=[links("")])
    with pytest.raises(ValueError, match="neither a link nor an expected link"):
        alignment_error_rate([links("")], expected=[links("")])
