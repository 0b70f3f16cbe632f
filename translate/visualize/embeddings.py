"""Which words have similar embeddings: nearest neighbours, and a map of the two principal components."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.tokenizer import Tokenizer
from translate.decoding import Translator
from translate.errors import InputError
from translate.visualize.panels import Anchor, Panel, Picture, Point, Points, Table


class WordVector(NamedTuple):
    """A word and its embedding, the mean over its pieces."""

    text: str
    vector: Float[Tensor, " d_model"]


def embeddings_picture(
    translator: Translator,
    words: Sequence[str],
    *,
    sources: Sequence[str],
    targets: Sequence[str],
    num_words: int,
    num_neighbours: int,
    name: str,
) -> Picture:
    """Nearest neighbours and a map of source and target words.

    Args:
        words: The words whose neighbours are listed, in either language; empty: the most frequent ones.
        sources: Source text whose most frequent words are on the map.
        targets: Target text whose most frequent words are on the map.
        num_words: How many words of each side are on the map.
        num_neighbours: How many neighbours of each word are listed.
        name: The run's name.

    Raises:
        InputError: A word is empty, or the texts have too few words.
    """
    model, tokenizers = translator.model, translator.tokenizers
    source_table, target_table = (
        stack.embedder.tokens.weight.detach().float().cpu() for stack in (model.encoder, model.decoder)
    )
    source_words = _embed_words(tokenizers.source, frequent_words(sources, num_words), source_table)
    target_words = _embed_words(tokenizers.target, frequent_words(targets, num_words), target_table)
    asked = [word for word in words if word.strip()]
    if len(asked) < len(words):
        raise InputError("a word to look at is empty: '' has no neighbours")
    is_joint = model.config.tie_embeddings == "all"
    if is_joint:
        shown = source_words[:10] + target_words[:10]
        sides = [("source and target", tokenizers.source, source_table, source_words + target_words, shown)]
    else:
        sides = [
            ("source", tokenizers.source, source_table, source_words, source_words[:20]),
            ("target", tokenizers.target, target_table, target_words, target_words[:20]),
        ]
    panels: list[Panel] = []
    for side, tokenizer, table, vectors, shown in sides:
        if len(vectors) < 3:
            raise InputError(f"{len(vectors)} {side} words are too few for a map: give a text with more of them")
        looked_up = _embed_words(tokenizer, asked, table)
        panels.append(_map(side, vectors, looked_up, source_words if is_joint else [], num_neighbours))
        rows = [[word.text, _list_neighbours(word, vectors, num_neighbours)] for word in looked_up or shown]
        panels.append(Table(f"Nearest neighbours of {side} words", ["Word", "Neighbours and their cosines"], rows))
    paragraphs = [
        "A word of several subwords is the mean of their embeddings. The map is the plane in which the embeddings"
        " differ most (principal components); words that are close on it may be apart in the other dimensions, and so"
        " the neighbours are by the cosine of all dimensions, among the words of the map.",
        "Source and target share one table of embeddings."
        if is_joint
        else "Source and target have tables of their own: their directions cannot be compared, so each has its map.",
    ]
    return Picture(f"Embeddings of {name}", paragraphs, panels)


def frequent_words(lines: Sequence[str], count: int) -> list[str]:
    """The most frequent words of a text, without punctuation around them; of equally frequent ones the first."""
    words = (word for line in lines for word in line.split())
    bare = (word.strip("".join(mark for mark in set(word) if not mark.isalnum())) for word in words)
    return [word for word, _ in Counter(filter(None, bare)).most_common(count)]


def cosine_neighbours(
    vector: Float[Tensor, " d_model"], others: Sequence[WordVector], *, count: int, but: str
) -> list[tuple[str, float]]:
    """The words whose embeddings have the largest cosine with a vector, and the cosines; the word `but` is left out."""
    matrix = torch.stack([each.vector for each in others])
    cosines = torch.nn.functional.cosine_similarity(matrix, vector[None], dim=1)
    nearest: dict[str, float] = {}
    for place in cosines.argsort(descending=True, stable=True).tolist():
        word = others[place].text
        if word != but and len(nearest) < count:
            nearest.setdefault(word, float(cosines[place]))
    return list(nearest.items())


def principal_plane(vectors: Float[Tensor, "word d_model"]) -> tuple[Float[Tensor, "word 2"], list[float]]:
    """Principal component analysis: the centred vectors along the two directions in which they vary most.

    The second result is the share of the variance that each direction has.

    The sign of a direction is chosen so that its largest component is positive.

    Source: Pearson 1901, On lines and planes of closest fit to systems of points in space.
    """
    centred = (vectors - vectors.mean(dim=0)).double()
    _, singular, directions = torch.linalg.svd(centred, full_matrices=False)
    largest = directions.abs().argmax(dim=1)
    signs = directions[torch.arange(len(directions)), largest].sign()
    total = float(singular.square().sum()) or 1.0
    places = centred @ (directions[:2] * signs[:2, None]).T
    return places.float(), [float(value) ** 2 / total for value in singular[:2]]


def _embed_words(tokenizer: Tokenizer, words: Sequence[str], table: Tensor) -> list[WordVector]:
    return [WordVector(word, table[ids].mean(dim=0)) for word in words if (ids := tokenizer.encode(word))]


def _map(
    side: str, vectors: list[WordVector], asked: list[WordVector], source: list[WordVector], num_neighbours: int
) -> Points:
    everyone = vectors + [word for word in asked if word.text not in {each.text for each in vectors}]
    places, shares = principal_plane(torch.stack([each.vector for each in everyone]))
    asked_texts = {each.text for each in asked}
    points: dict[str, Point] = {}
    for number, (each, place) in enumerate(zip(everyone, places.tolist(), strict=True)):
        group = side if not source else "source" if number < len(source) else "target"
        if each.text in asked_texts:
            group = "asked for"
        note = "Nearest: " + _list_neighbours(each, everyone, num_neighbours)
        if each.text in points and group != "asked for":  # a word of both languages
            points[each.text] = points[each.text]._replace(group="both")
        else:
            points[each.text] = Point(each.text, place[0], place[1], group, note)
    first, second = (f"{share:.0%}" for share in shares)
    return Points(
        f"Map of {side} words",
        f"first principal component ({first} of the variance)",
        f"second principal component ({second})",
        _anchored(list(points.values())),
    )


def _anchored(points: list[Point]) -> list[Point]:
    """Choose for each label, one after another, the side of its point where it covers least of the others."""
    places = torch.tensor([(point.x, point.y) for point in points], dtype=torch.float64)
    places = (places - places.amin(dim=0)) / (places.amax(dim=0) - places.amin(dim=0)).clamp(min=1e-9)
    # Sizes are shares of the map; boxes are left, bottom, right, top.
    letter, line = 0.0085, 0.022
    taken = [(x - 0.004, y - 0.007, x + 0.004, y + 0.007) for x, y in places.tolist()]
    anchored = []
    for point, (x, y) in zip(points, places.tolist(), strict=True):
        half = letter * len(point.label) / 2
        boxes: dict[Anchor, tuple[float, float, float, float]] = {
            "right": (x + 0.007, y - line / 2, x + 0.007 + 2 * half, y + line / 2),
            "left": (x - 0.007 - 2 * half, y - line / 2, x - 0.007, y + line / 2),
            "above": (x - half, y + 0.009, x + half, y + 0.009 + line),
            "below": (x - half, y - 0.009 - line, x + half, y - 0.009),
        }
        anchor = min(boxes, key=lambda name: sum(_overlap(boxes[name], other) for other in taken))
        taken.append(boxes[anchor])
        anchored.append(point._replace(anchor=anchor))
    return anchored


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The area that two boxes share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


def _list_neighbours(word: WordVector, others: Sequence[WordVector], count: int) -> str:
    near = cosine_neighbours(word.vector, others, count=count, but=word.text)
    return ", ".join(f"{text} {cosine:.2f}" for text, cosine in near)
