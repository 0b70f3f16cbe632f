"""Alignments of chosen layers are those of the model's weights."""

import pytest
import torch
from harness import MakeTranslator

from translate.decoding.alignment import align_words, format_pharaoh
from translate.decoding.output.words import group_words
from translate.errors import InputError
from translate.visualize.alignments import align_pairs, alignments_picture
from translate.visualize.attention import capture_attention
from translate.visualize.panels import Links, Matrix
from translate.visualize.sentences import read_sentence

SOURCES = ["Der Künstler läuft.", "Hund", ""]
TARGETS = ["The artist runs.", "A dog", "Nothing"]


@pytest.mark.parametrize("layer", [0, 1])
def test_links_are_those_of_the_captured_weights(make_translator: MakeTranslator, layer: int) -> None:
    translator = make_translator().with_options(alignment_layer=layer)
    aligned = align_pairs(translator, SOURCES, TARGETS)
    assert len(aligned) == 3 and aligned[2].links == {}
    for source, target, pair in list(zip(SOURCES, TARGETS, aligned, strict=True))[:2]:
        sentence = read_sentence(translator, source, target=target)
        captured = capture_attention(translator.model, sentence.ids)
        layers = [each.weights.mean(dim=0) for each in captured if each.kind == "cross"]
        expected = align_words(
            layers[layer],
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
        align_pairs(long, ["Hund", "Hund " * 50], ["dog", "dog"])
    with pytest.raises(InputError, match="decoding.alignment_layer = 2: the decoder has layers 0 to 1"):
        long.with_options(alignment_layer=2)


def test_the_picture(make_translator: MakeTranslator) -> None:
    pairs = align_pairs(make_translator(), SOURCES, TARGETS)
    picture = alignments_picture(pairs[1:], first_line=2, how="By layer 1", name="toy")
    links, matrix, empty, end_symbols = picture.panels
    assert isinstance(links, Links) and isinstance(matrix, Matrix)
    assert (links.title, list(links.source), list(links.target)) == ("Line 2", ["Hund"], ["A", "dog"])
    assert [(source, target) for source, target, _ in links.links] == [(0, 0), (0, 1)]
    assert (list(matrix.rows), list(matrix.columns)) == (["A", "dog", "</s>"], ["Hund", "</s>"])
    assert torch.tensor(matrix.values).sum(dim=1).tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert isinstance(empty, Links) and isinstance(end_symbols, Matrix)
    assert (empty.title, empty.source, empty.target, empty.links) == ("Line 3", [], ["Nothing"], [])
    assert (end_symbols.rows, end_symbols.columns) == (["Nothing", "</s>"], ["</s>"])
    assert picture.paragraphs[0].startswith("By layer 1. ") and "the thicker the line" in picture.paragraphs[0]
