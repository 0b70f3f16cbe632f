"""Alignments of chosen layers: those of the model's weights, the mean, and the layer that validation prefers."""

from typing import Any

import pytest
import torch
from harness import MakeTranslator
from torch import Tensor, nn

from translate.decoding.alignment import AlignmentLink, align_words, format_pharaoh
from translate.decoding.output.words import group_words
from translate.errors import InputError
from translate.visualize.alignments import (
    align_pairs,
    alignment_error_rate,
    alignments_picture,
    layer_error_rates,
)
from translate.visualize.attention import capture_attention
from translate.visualize.panels import Links, Matrix, Table
from translate.visualize.sentences import read_sentence

SOURCES = ["Der Künstler läuft.", "Hund", ""]
TARGETS = ["The artist runs.", "A dog", "Nothing"]


@pytest.mark.parametrize("layer", [0, 1, "mean"])
def test_links_are_those_of_the_captured_weights(make_translator: MakeTranslator, layer: Any) -> None:
    translator = make_translator()
    aligned = align_pairs(translator, SOURCES, TARGETS, layer=layer)
    assert len(aligned) == 3 and aligned[2].links == {}
    for source, target, pair in list(zip(SOURCES, TARGETS, aligned, strict=True))[:2]:
        sentence = read_sentence(translator, source, target=target)
        captured = capture_attention(translator.model, sentence.ids)
        layers = [each.weights.mean(dim=0) for each in captured if each.kind == "cross"]
        weights = torch.stack(layers).mean(dim=0) if layer == "mean" else layers[layer]
        expected = align_words(
            weights,
            source_words=[word.positions for word in group_words(sentence.source.pieces[:-1])],
            target_words=[word.positions for word in group_words(sentence.target_output.pieces[:-1])],
        )
        assert format_pharaoh(pair.links) == format_pharaoh(expected) != ""
        assert list(pair.links.values()) == pytest.approx(list(expected.values()), abs=1e-4)
        assert pair.weights.shape == (len(pair.target) + 1, len(pair.source) + 1)
        torch.testing.assert_close(pair.weights.sum(dim=1), torch.ones(len(pair.target) + 1, dtype=torch.float64))


def test_wrong_layers_and_lines(make_translator: MakeTranslator) -> None:
    long = make_translator(positions="learned")
    with pytest.raises(InputError, match="line 2 .*model.max_positions = 40"):
        align_pairs(long, ["Hund", "Hund " * 50], ["dog", "dog"], layer=0)
    fitting = layer_error_rates(long, SOURCES, TARGETS)
    assert layer_error_rates(long, [*SOURCES, "Hund " * 50], [*TARGETS, "dog"]) == fitting
    with pytest.raises(InputError, match="--layer best"):
        layer_error_rates(make_translator(), ["Hund", ""], ["", "dog"])


def test_the_best_layer_is_the_one_that_knows_the_words(make_translator: MakeTranslator) -> None:
    """Layer 0 is made to look where it should (word n at word n), layer 1 at the first word always."""
    translator = make_translator()
    tokenizers = translator.tokenizers
    pieces = tokenizers.source.pieces(range(tokenizers.source.vocab_size))
    words = [piece[1:] for piece in pieces if piece.startswith("▁") and piece[1:].isalpha()]
    words = [word for word in words if len(tokenizers.source.encode(word)) == 1][:8]  # the first four are German here
    assert len(words) == 8
    pairs = [(first, second) for first in range(4) for second in range(4) if first != second]
    sources = [f"{words[first]} {words[second]}" for first, second in pairs]
    targets = [f"{words[4 + first]} {words[4 + second]}" for first, second in pairs]

    layers: Any = translator.model.decoder.layers
    for layer in range(2):

        def look(module: nn.Module, inputs: object, weights: Tensor, layer: int = layer) -> Tensor:
            rows = torch.eye(*weights.shape[2:])
            return (rows if layer == 0 else rows[0]).expand_as(weights)

        layers[layer].cross_attention.weights_dropout.register_forward_hook(look)
    # By hand: Model 1 finds the two links of each pair, n to n; one of layer 1's two, 0 to 0, is among them.
    assert layer_error_rates(translator, sources, targets) == pytest.approx([0.0, 0.5])


def test_the_picture(make_translator: MakeTranslator) -> None:
    pairs = align_pairs(make_translator(), SOURCES, TARGETS, layer=1)
    picture = alignments_picture(pairs[1:], first_line=2, how="By layer 1", error_rates=[0.5, 0.25], name="toy")
    links, matrix, empty, end_symbols, layers = picture.panels
    assert isinstance(links, Links) and isinstance(matrix, Matrix)
    assert (links.title, list(links.source), list(links.target)) == ("Line 2", ["Hund"], ["A", "dog"])
    assert [(source, target) for source, target, _ in links.links] == [(0, 0), (0, 1)]
    assert (list(matrix.rows), list(matrix.columns)) == (["A", "dog", "</s>"], ["Hund", "</s>"])
    assert torch.tensor(matrix.values).sum(dim=1).tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert isinstance(empty, Links) and isinstance(end_symbols, Matrix)
    assert (empty.title, empty.source, empty.target, empty.links) == ("Line 3", [], ["Nothing"], [])
    assert (end_symbols.rows, end_symbols.columns) == (["Nothing", "</s>"], ["</s>"])
    assert isinstance(layers, Table) and layers.rows == [["0", "0.500"], ["1", "0.250"]]
    assert picture.paragraphs[0].startswith("By layer 1. ") and "the thicker the line" in picture.paragraphs[0]


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
    links, wanted = (
        [{AlignmentLink(*map(int, link.split("-"))) for link in line.split()} for line in lines]
        for lines in (found, expected)
    )
    assert alignment_error_rate(links, expected=wanted) == pytest.approx(rate)
