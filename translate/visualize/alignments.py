"""Word alignments by the cross-attention of one layer, as a picture and as links."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from translate.data.batching import EncodedPair
from translate.decoding import Translator
from translate.decoding.alignment import AlignmentLink, align_words, merge_units
from translate.visualize.panels import Links, Matrix, Panel, Picture, check_numbers
from translate.visualize.sentences import MERGED, check_positions, tokens_of


class AlignedPair(NamedTuple):
    """The words of a pair, as they are written, the links between them, and the attention between them."""

    source: list[str]
    target: list[str]
    links: dict[AlignmentLink, float]
    weights: Float[Tensor, "target source"]  # the last row and column are the end symbols


def align_pairs(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[AlignedPair]:
    """Align the words of pairs by the mean attention over the heads of the layer `decoding.alignment_layer`.

    Raises:
        InputError: A line is longer than the positions of the model.
    """
    encode, encode_target = translator.tokenizers.source.encode, translator.tokenizers.target.encode
    pairs = [
        EncodedPair(encode(source), encode_target(target)) for source, target in zip(sources, targets, strict=True)
    ]
    for line, pair in enumerate(pairs, start=1):
        check_positions(max(pair, key=len), what=f"line {line}", translator=translator)
    forced = translator.force(pairs)
    return [_align(translator, pair, decoded.attention) for pair, decoded in zip(pairs, forced, strict=True)]


def alignments_picture(pairs: Sequence[AlignedPair], *, first_line: int, how: str, name: str) -> Picture:
    """Lines between the words of each pair, and their weights; an InputError if there are too many."""
    numbers = sum(pair.weights.numel() for pair in pairs)
    check_numbers(numbers, of=f"{len(pairs)} lines", less="lower --number, or begin with another line (--first)")
    panels: list[Panel] = []
    axes = "target word predicted", "attended source word"
    for number, pair in enumerate(pairs, start=first_line):
        links = [(link.source, link.target, weight) for link, weight in pair.links.items()]
        rows, columns, title = [*pair.target, "</s>"], [*pair.source, "</s>"], f"Line {number}"
        panels.append(Links(title, pair.source, pair.target, links))
        panels.append(Matrix(f"{title}: weights", rows, columns, pair.weights.tolist(), *axes, "weight"))
    paragraphs = [
        f"{how}. Each target word is linked to the source word that it attends to most when it is predicted, the end"
        " symbols left out: the thicker the line, the larger that source word's share of the weight. Words without a"
        f" line are grey. {MERGED}"
    ]
    return Picture(f"Word alignments of {name}", paragraphs, panels, columns=2)


def _align(translator: Translator, pair: EncodedPair, weights: Tensor) -> AlignedPair:
    sides = [tokens_of(tokenizer, ids) for tokenizer, ids in zip(translator.tokenizers[:2], pair[:2], strict=True)]
    units = [[word.positions for word in side.words] for side in sides]
    source_words, target_words = (words[:-1] for words in units)  # the end symbols are the last words, without links
    links = align_words(weights, source_words=source_words, target_words=target_words)
    source, target = ([word.text for word in side.words[:-1]] for side in sides)
    return AlignedPair(source, target, links, merge_units(weights.double(), *units))
