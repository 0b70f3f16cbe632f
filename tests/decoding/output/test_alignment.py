"""Alignments: all expected values by hand, from one table of attention weights."""

import pytest
import torch

from translate.decoding.output.alignment import (
    Link,
    align_subwords,
    align_words,
    alignment_error_rate,
    format_pharaoh,
    parse_pharaoh,
)
from translate.decoding.output.words import group_words
from translate.errors import InputError

# Two target subwords and the end symbol, four source subwords and the end symbol. Without the end symbol's column the
# rows are 0.2 0.4 0.2 0.2 and 0.375 0 0.125 0.5.
WEIGHTS = torch.tensor(
    [
        [0.1, 0.2, 0.1, 0.1, 0.5],
        [0.3, 0.0, 0.1, 0.4, 0.2],
        [0.0, 0.0, 0.1, 0.0, 0.9],
    ]
)


def links(text: str) -> set[Link]:
    return parse_pharaoh(text)


def test_subwords() -> None:
    aligned = align_subwords(WEIGHTS)
    assert list(aligned) == [Link(source=1, target=0), Link(source=3, target=1)]
    assert list(aligned.values()) == pytest.approx([0.4, 0.5])


def test_words() -> None:
    source_words = [word.positions for word in group_words(["▁Hu", "nd", "▁im", "▁Haus"])]
    # Row 0: 0.2 + 0.4, 0.2, 0.2. Row 1: 0.375 + 0, 0.125, 0.5.
    aligned = align_words(WEIGHTS, source_words=source_words, target_words=[[0], [1]])
    assert list(aligned) == [Link(0, 0), Link(2, 1)]
    assert list(aligned.values()) == pytest.approx([0.6, 0.5])
    # One target word of both subwords: (0.6 + 0.375) / 2, (0.2 + 0.125) / 2, (0.2 + 0.5) / 2.
    assert align_words(WEIGHTS, source_words=source_words, target_words=[[0, 1]]) == {Link(0, 0): pytest.approx(0.4875)}


def test_words_of_one_subword_each_are_subwords() -> None:
    weights = torch.rand(8, 6)
    each = {"source_words": [[place] for place in range(5)], "target_words": [[place] for place in range(7)]}
    assert align_words(weights, **each) == align_subwords(weights)


def test_scale_of_a_row_does_not_matter() -> None:
    scaled = align_subwords(WEIGHTS * torch.tensor([[2.0], [3.0], [5.0]]))
    assert list(scaled.values()) == pytest.approx(list(align_subwords(WEIGHTS).values()))


def test_attention_to_the_end_symbol_alone_gives_no_link() -> None:
    weights = torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    assert align_subwords(weights) == {Link(0, 1): 0.5}  # the first of two equals


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_empty_side(shape: tuple[int, int]) -> None:
    assert align_subwords(torch.ones(shape)) == {}
    words = {"target_words": [[0, 1]] if shape[0] == 3 else [], "source_words": [[0, 1]] if shape[1] == 3 else []}
    assert align_words(torch.ones(shape), **words) == {}


def test_wrong_weights() -> None:
    with pytest.raises(ValueError, match="weights of shape 0 x 5 have no row or no column for an end symbol"):
        align_subwords(WEIGHTS[:0])
    with pytest.raises(ValueError, match="weights of shape 3 x 0"):
        align_subwords(WEIGHTS[:, :0])
    for wrong in (-0.1, float("nan"), float("inf")):
        weights = WEIGHTS.clone()
        weights[1, 2] = wrong
        with pytest.raises(ValueError, match="must be finite and not negative"):
            align_subwords(weights)


@pytest.mark.parametrize("words", [[[0], [1], [2]], [[0, 1], [1, 2, 3]], [[0, 1, 2, 3], []], [[0, 1, 2, 3, 4]]])
def test_wrong_words(words: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="the source words hold the positions .* each of the 4 subwords once"):
        align_words(WEIGHTS, source_words=words, target_words=[[0, 1]])


def test_wrong_target_words() -> None:
    with pytest.raises(ValueError, match="the target words hold the positions .*0, 1, 2.* each of the 2 subwords once"):
        align_words(WEIGHTS, source_words=[[0, 1, 2, 3]], target_words=[[0, 1, 2]])


def test_pharaoh() -> None:
    found = [Link(10, 0), Link(2, 3), Link(2, 1), Link(0, 7)]
    assert format_pharaoh(found) == "0-7 2-1 2-3 10-0"  # by number: as text 10 would come before 2
    assert parse_pharaoh(" 0-7 2-1\t2-3 10-0\n") == set(found)
    assert format_pharaoh([]) == "" and parse_pharaoh("") == set()
    assert format_pharaoh(align_subwords(WEIGHTS)) == "1-0 3-1"


@pytest.mark.parametrize("written", ["1", "1-", "-1-2", "1-2-3", "1:2", "a-b", "1?2", "٣-1"])
def test_no_pharaoh(written: str) -> None:
    with pytest.raises(InputError) as error:
        parse_pharaoh(f"0-0 {written} 1-1")
    assert repr(written) in str(error.value)


def test_error_rate_by_hand() -> None:
    # Of the three links one is sure and two are possible: 1 - (1 + 2) / (3 + 2).
    first = links("0-0 1-1 2-2"), links("0-0 1-2"), links("1-1")
    assert alignment_error_rate([first[0]], sure=[first[1]], possible=[first[2]]) == pytest.approx(0.4)
    # Sure links repeated among the possible ones change nothing.
    assert alignment_error_rate([first[0]], sure=[first[1]], possible=[first[1] | first[2]]) == pytest.approx(0.4)
    # With a second sentence, all right, counts are added up, not rates: 1 - (3 + 2) / (5 + 2).
    second = links("0-0"), links("0-0"), links("")
    found, sure, possible = ([one, other] for one, other in zip(first, second, strict=True))
    assert alignment_error_rate(found, sure=sure, possible=possible) == pytest.approx(2 / 7)


def test_error_rate_at_its_ends() -> None:
    assert alignment_error_rate([links("0-0 1-1")], sure=[links("0-0")], possible=[links("1-1 2-2")]) == 0.0
    assert alignment_error_rate([links("0-1")], sure=[links("0-0")], possible=[links("")]) == 1.0
    assert alignment_error_rate([links("")], sure=[links("0-0")], possible=[links("")]) == 1.0


def test_error_rate_of_wrong_input() -> None:
    with pytest.raises(ValueError, match="2 alignments, 1 of sure links, 2 of possible links"):
        alignment_error_rate([links(""), links("")], sure=[links("")], possible=[links(""), links("")])
    with pytest.raises(ValueError, match="no link to judge and no sure link"):
        alignment_error_rate([links("")], sure=[links("")], possible=[links("0-0")])
