"""Word alignments by cross-attention, of one layer or the mean of all, as a picture and as links."""

import contextlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.batching import EncodedPair
from translate.data.corpora import ParallelCorpus
from translate.data.lexicon import NULL_ID, Lexicon, learn_lexicon
from translate.decoding import Translator
from translate.decoding.alignment import AlignmentLink, align_words, merge_units
from translate.decoding.loading import LoadedTranslator
from translate.errors import InputError
from translate.evaluation.test_sets import choose_pairs
from translate.visualize.panels import Links, Matrix, Panel, Picture, Table, check_numbers
from translate.visualize.sentences import MERGED, check_positions, tokens_of


class AlignedPair(NamedTuple):
    """The words of a pair, as they are written, the links between them, and the attention between them."""

    source: list[str]
    target: list[str]
    links: dict[AlignmentLink, float]
    weights: Float[Tensor, "target source"]  # the last row and column are the end symbols


class LayerChoice(NamedTuple):
    """The decoder layer whose attention aligns words."""

    layer: int | Literal["mean"]  # mean: of all layers
    description: str
    error_rates: Sequence[float] = ()  # of each layer, if the best one was wanted


def choose_layer(wanted: str, loaded: LoadedTranslator, translator: Translator, pairs: ParallelCorpus) -> LayerChoice:
    """Read the value of `--layer`; the best layer is that on the run's validation corpus, or else on the pairs.

    Args:
        translator: The loaded translator in the direction of the pairs.

    Raises:
        InputError: The value is not a number, mean or best.
    """
    heads, counted = "The mean over the heads of", "(counted from 0)"
    if wanted == "mean":
        return LayerChoice("mean", f"{heads} all decoder layers")
    if wanted.isdecimal():
        return LayerChoice(int(wanted), f"{heads} decoder layer {wanted} {counted}")
    if wanted != "best":
        raise InputError(f"--layer {wanted}: should be a layer, counted from 0, or mean or best")
    text = "this text"
    with contextlib.suppress(InputError):  # a copied run may be without its validation text
        pairs, text = choose_pairs(loaded.model.config, None, None), "validation"
    rates = layer_error_rates(translator.toward(pairs.direction), pairs.sources, pairs.targets)
    best = rates.index(min(rates))
    return LayerChoice(best, f"{heads} decoder layer {best} {counted}, the best on {text}", rates)


def layer_error_rates(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
    """How well each decoder layer aligns validation pairs: error rates, lower is better.

    The measure is the alignment error rate against the most probable links of a word translation model (IBM model 1)
    that is learnt from these pairs and knows nothing of attention. Pairs that are longer than the model's positions are
    left out.

    Raises:
        InputError: There is no pair with words on both sides.
    """
    pairs = []
    for pair in _encode(translator, sources, targets):
        with contextlib.suppress(InputError):
            check_positions(max(pair, key=len), what="a pair", translator=translator)
            pairs.append(pair)
    if not any(pair.source and pair.target for pair in pairs):
        raise InputError("--layer best: no validation pair has words on both sides, so no layer can be chosen")
    lexicon = learn_lexicon(pairs, target_vocab_size=translator.tokenizers.target.vocab_size)
    expected = _lexical_links(pairs, lexicon)
    return [
        alignment_error_rate(
            [set(align_words(pair.attention)) for pair in translator.with_options(alignment_layer=layer).force(pairs)],
            expected=expected,
        )
        for layer in range(len(translator.model.decoder.layers))
    ]


def alignment_error_rate(
    links: Sequence[AbstractSet[AlignmentLink]], *, expected: Sequence[AbstractSet[AlignmentLink]]
) -> float:
    """Compute 1 - 2 |A ∩ E| / (|A| + |E|) over the sentences of a corpus, from the links A and the expected links E.

    The result is 0 if there are no links at all.

    Source: Och and Ney 2003, https://aclanthology.org/J03-1002, the section on evaluation, with S = P = E.
    """
    hits = sum(len(found & wanted) for found, wanted in zip(links, expected, strict=True))
    total = sum(len(found) + len(wanted) for found, wanted in zip(links, expected, strict=True))
    return 1.0 - 2 * hits / total if total else 0.0


def align_pairs(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], *, layer: int | Literal["mean"]
) -> list[AlignedPair]:
    """Align the words of pairs by the mean attention over the heads of one layer, or of all layers.

    Raises:
        InputError: The model has no such layer, or a line is longer than its positions.
    """
    num_layers = len(translator.model.decoder.layers)
    if layer != "mean" and not 0 <= layer < num_layers:
        raise InputError(f"--layer {layer}: the decoder has layers 0 to {num_layers - 1}; or use mean or best")
    pairs = _encode(translator, sources, targets)
    for line, pair in enumerate(pairs, start=1):
        check_positions(max(pair, key=len), what=f"line {line}", translator=translator)
    layers = list(range(num_layers)) if layer == "mean" else [layer]
    attention = [torch.zeros(len(pair.target) + 1, len(pair.source) + 1) for pair in pairs]
    for number in layers:
        forced = translator.with_options(alignment_layer=number).force(pairs)
        for total, one in zip(attention, forced, strict=True):
            total += one.attention / len(layers)
    return [_align(translator, pair, weights) for pair, weights in zip(pairs, attention, strict=True)]


def alignments_picture(
    pairs: Sequence[AlignedPair], *, first_line: int, how: str, error_rates: Sequence[float], name: str
) -> Picture:
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
    if error_rates:
        rates = [[str(layer), f"{error_rate:.3f}"] for layer, error_rate in enumerate(error_rates)]
        note = (
            "Alignment error rate against the links of a word translation model (IBM model 1) learnt from the same"
            " pairs; lower is better. The links are a reference point, not the truth."
        )
        panels.append(Table("Layers", ["Layer", "Error rate"], rates, note))
    paragraphs = [
        f"{how}. Each target word is linked to the source word that it attends to most when it is predicted, the end"
        " symbols left out: the thicker the line, the larger that source word's share of the weight. Words without a"
        f" line are grey. {MERGED}"
    ]
    return Picture(f"Word alignments of {name}", paragraphs, panels, columns=2)


def _encode(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[EncodedPair]:
    encode, encode_target = translator.tokenizers.source.encode, translator.tokenizers.target.encode
    return [EncodedPair(encode(source), encode_target(target)) for source, target in zip(sources, targets, strict=True)]


def _align(translator: Translator, pair: EncodedPair, weights: Tensor) -> AlignedPair:
    sides = [tokens_of(tokenizer, ids) for tokenizer, ids in zip(translator.tokenizers[:2], pair[:2], strict=True)]
    units = [[word.positions for word in side.words] for side in sides]
    source_words, target_words = (words[:-1] for words in units)  # the end symbols are the last words, without links
    links = align_words(weights, source_words=source_words, target_words=target_words)
    source, target = ([word.text for word in side.words[:-1]] for side in sides)
    return AlignedPair(source, target, links, merge_units(weights.double(), *units))


def _lexical_links(pairs: Sequence[EncodedPair], lexicon: Lexicon) -> list[set[AlignmentLink]]:
    """Link each target subword to its most probable source subword, unless the empty word is more probable."""
    entries = zip(lexicon.source_ids.tolist(), lexicon.target_ids.tolist(), lexicon.probabilities.tolist(), strict=True)
    probability = {(source, target): value for source, target, value in entries}
    all_links = []
    for pair in pairs:
        links = set()
        for place, target in enumerate(pair.target):
            chances = [probability.get((source, target), 0.0) for source in (NULL_ID, *pair.source)]
            if best := chances.index(max(chances)):
                links.add(AlignmentLink(best - 1, place))
        all_links.append(links)
    return all_links
