"""Which words have similar embeddings: nearest neighbours, and a map by principal components."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.corpora import ParallelCorpus
from translate.data.tokenizer import SPACE, Tokenizer
from translate.decoding import Translator
from translate.errors import InputError
from translate.visualize.panels import Panel, Picture, Point, Points, Table
from translate.visualize.sentences import check_unicode
from translate.visualize.words import character_kinds, find_words


def embeddings_picture(
    translator: Translator,
    words: Sequence[str],
    pairs: ParallelCorpus,
    *,
    num_words: int,
    num_neighbours: int,
    name: str,
) -> Picture:
    """Nearest neighbours and a map of source and target words.

    Args:
        words: The words whose neighbours are listed, in either language; empty: content words.
        pairs: The text whose content words are on the map.
        num_words: How many words of each side are on the map.
        num_neighbours: How many neighbours of each word are listed.

    Raises:
        InputError: A word is empty or not Unicode, or the texts have too few words.
    """
    model, tokenizers = translator.model, translator.tokenizers
    for word in words:
        check_unicode(word, what="a word")
        if not (tokenizers.source.encode(word) or tokenizers.target.encode(word)):
            raise InputError(f"a word is empty: {word!r} has no neighbours")
    source = content_words(pairs.sources, num_words, tokenizers.source)
    target = content_words(pairs.targets, num_words, tokenizers.target)
    sides = [  # the group of each word on a map is its language
        ("source", tokenizers.source, model.encoder.embedder, dict.fromkeys(source, "source"), source[:20]),
        ("target", tokenizers.target, model.decoder.embedder, dict.fromkeys(target, "target"), target[:20]),
    ]
    tables = "Source and target have separate tables, whose directions cannot be compared, so each has its own map."
    if model.config.tie_embeddings == "all":
        groups = sides[0][3] | sides[1][3] | dict.fromkeys({*source} & {*target}, "both")
        shown = [*dict.fromkeys(source[:10] + target[:10])]
        sides = [("source and target", tokenizers.source, model.encoder.embedder, groups, shown)]
        tables = "Source and target share one table of embeddings."
    panels: list[Panel] = []
    for side, tokenizer, embedder, groups, shown in sides:
        table = embedder.tokens.weight.detach().float().cpu()
        vectors = _embed_words(tokenizer, groups, table)
        if len(vectors) < 3:
            raise InputError(f"{len(vectors)} {side} words are too few for a map: give a text with more of them")
        asked = _embed_words(tokenizer, words, table)
        labels = tokenizer.pieces(range(len(table)))
        neighbours = {
            word: ", ".join(f"{text} {cosine:.2f}" for text, cosine in nearest)
            for word, vector in (vectors | asked).items()
            for nearest in [cosine_neighbours(word, vector, table, labels=labels, count=num_neighbours)]
        }
        panels.append(_map(side, vectors | asked, groups | dict.fromkeys(asked, "asked for"), neighbours))
        rows = [[word, neighbours[word]] for word in asked or shown]
        panels.append(Table(f"Nearest neighbours of {side} words", ["Word", "Neighbours and their cosines"], rows))
    about = (
        "A word of several subwords is the mean of their embeddings. Neighbours have the largest cosine in all"
        " dimensions, among the whole vocabulary: -x is a subword that does not begin a word."
    )
    return Picture(f"Embeddings of {name}", [about, tables], panels)


def content_words(lines: Sequence[str], count: int, tokenizer: Tokenizer) -> list[str]:
    """The most frequent words of a text that are probably content words.

    These have at least four letters, unless they are Chinese or Japanese, and occur in at most one line of fifty; words
    with their own embedding come first. If a short text does not have enough of them, others follow by frequency.
    """
    frequency = Counter(
        word
        for line in lines
        for word in dict.fromkeys(line[start:end] for start, end in find_words(line, "HM*|[LM]+(?:-[LM]+)*"))
    )

    def rank(word: str) -> tuple[bool, bool]:
        is_long = len(word) >= 4 or character_kinds(word).startswith("H")
        is_content = is_long and frequency[word] * 50 <= len(lines)
        return not is_content, len(tokenizer.encode(word)) > 1

    return sorted((word for word, _ in frequency.most_common()), key=rank)[:count]


def cosine_neighbours(
    word: str,
    vector: Float[Tensor, " d_model"],
    table: Float[Tensor, "vocab d_model"],
    *,
    labels: Sequence[str],
    count: int,
) -> list[tuple[str, float]]:
    """The entries of the vocabulary whose embeddings have the largest cosine with a word's, and the cosines.

    Args:
        labels: The subword of each row. Special symbols, bytes and the word itself are left out.
    """
    cosines = torch.nn.functional.cosine_similarity(table, vector[None], dim=1)
    nearest: list[tuple[str, float]] = []
    for place in cosines.argsort(descending=True, stable=True).tolist():
        label = labels[place]
        text = label.removeprefix(SPACE) if label.startswith(SPACE) else f"-{label}"
        if text not in ("", "-", word) and not re.fullmatch(r"<.*>", label):
            nearest.append((text, float(cosines[place])))
        if len(nearest) == count:
            break
    return nearest


def principal_plane(vectors: Float[Tensor, "word d_model"]) -> tuple[Float[Tensor, "word 2"], list[float]]:
    """Principal component analysis: vectors along the two directions of most variance, and its share in each.

    Source: Pearson 1901, On lines and planes of closest fit to systems of points in space.
    """
    centred = (vectors - vectors.mean(dim=0)).double()
    _, singular, directions = torch.linalg.svd(centred, full_matrices=False)
    total = float(singular.square().sum()) or 1.0
    return (centred @ directions[:2].T).float(), [float(value) ** 2 / total for value in singular[:2]]


def _embed_words(tokenizer: Tokenizer, words: Iterable[str], table: Tensor) -> dict[str, Tensor]:
    """The embedding of each word, (d_model): the mean over its pieces."""
    return {word: table[ids].mean(dim=0) for word in words if (ids := tokenizer.encode(word))}


def _map(side: str, vectors: dict[str, Tensor], groups: dict[str, str], neighbours: dict[str, str]) -> Points:
    places, (first, second) = principal_plane(torch.stack(list(vectors.values())))
    axes = f"first principal component ({first:.0%} of the variance)", f"second principal component ({second:.0%})"
    note = (
        f"The two directions in which the words differ most. They show {first + second:.0%} of the variance of these"
        " words: words that are close here may be apart in the other dimensions. A word without room for its label is"
        " only a point."
    )
    points = [
        Point(word, x, y, groups[word], f"Nearest: {neighbours[word]}")
        for word, (x, y) in zip(vectors, places.tolist(), strict=True)
    ]
    return Points(f"Map of {side} words", *axes, points, note=note)
