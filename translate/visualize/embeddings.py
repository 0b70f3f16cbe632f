"""Which words have similar embeddings: nearest neighbours, and a map of the two principal components."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.tokenizer import Tokenizer
from translate.decoding import Translator
from translate.errors import InputError
from translate.visualize.panels import Anchor, Panel, Picture, Point, Points, Table


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

    Raises:
        InputError: A word is empty, or the texts have too few words.
    """
    model, tokenizers = translator.model, translator.tokenizers
    source_table, target_table = (
        stack.embedder.tokens.weight.detach().float().cpu() for stack in (model.encoder, model.decoder)
    )
    if not all(word.strip() for word in words):
        raise InputError("a word to look at is empty: '' has no neighbours")
    # The groups of the words on each map: the language that they are from.
    source = dict.fromkeys(frequent_words(sources, num_words), "source")
    target = dict.fromkeys(frequent_words(targets, num_words), "target")
    is_joint = model.config.tie_embeddings == "all"
    if is_joint:
        both = dict.fromkeys(source.keys() & target.keys(), "both")
        shown = [*list(source)[:10], *list(target)[:10]]
        sides = [("source and target", tokenizers.source, source_table, source | target | both, shown)]
    else:
        sides = [
            ("source", tokenizers.source, source_table, source, list(source)[:20]),
            ("target", tokenizers.target, target_table, target, list(target)[:20]),
        ]
    panels: list[Panel] = []
    for side, tokenizer, table, groups, shown in sides:
        vectors = _embed_words(tokenizer, groups, table)
        if len(vectors) < 3:
            raise InputError(f"{len(vectors)} {side} words are too few for a map: give a text with more of them")
        asked = _embed_words(tokenizer, words, table)
        panels.append(_map(side, vectors | asked, groups | dict.fromkeys(asked, "asked for"), num_neighbours))
        looked_up = asked or {word: vectors[word] for word in shown}
        rows = [[word, _list_neighbours(word, vector, vectors, num_neighbours)] for word, vector in looked_up.items()]
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
    word: str, vector: Float[Tensor, " d_model"], others: Mapping[str, Tensor], *, count: int
) -> list[tuple[str, float]]:
    """The other words whose embeddings have the largest cosine with a word's, and the cosines."""
    texts = [text for text in others if text != word]
    cosines = torch.nn.functional.cosine_similarity(torch.stack([others[text] for text in texts]), vector[None], dim=1)
    nearest = cosines.argsort(descending=True, stable=True)[:count].tolist()
    return [(texts[place], float(cosines[place])) for place in nearest]


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


def _embed_words(tokenizer: Tokenizer, words: Iterable[str], table: Tensor) -> dict[str, Tensor]:
    """The embedding of each word, (d_model): the mean over its pieces."""
    return {word: table[ids].mean(dim=0) for word in words if (ids := tokenizer.encode(word))}


def _list_neighbours(word: str, vector: Tensor, others: Mapping[str, Tensor], count: int) -> str:
    return ", ".join(f"{text} {cosine:.2f}" for text, cosine in cosine_neighbours(word, vector, others, count=count))


def _map(side: str, vectors: dict[str, Tensor], groups: dict[str, str], num_neighbours: int) -> Points:
    places, shares = principal_plane(torch.stack(list(vectors.values())))
    points = []
    for (word, vector), (x, y), anchor in zip(vectors.items(), places.tolist(), _anchors(vectors, places), strict=True):
        note = "Nearest: " + _list_neighbours(word, vector, vectors, num_neighbours)
        points.append(Point(word, x, y, groups[word], note, anchor))
    first, second = (f"{share:.0%}" for share in shares)
    return Points(
        f"Map of {side} words",
        f"first principal component ({first} of the variance)",
        f"second principal component ({second})",
        points,
    )


def _anchors(labels: Iterable[str], places: Float[Tensor, "word 2"]) -> list[Anchor]:
    """Choose for each label, one after another, the side of its point where it covers least of the others."""
    sides: dict[Anchor, tuple[int, int]] = {"right": (1, 0), "left": (-1, 0), "above": (0, 1), "below": (0, -1)}
    places = (places - places.amin(dim=0)) / (places.amax(dim=0) - places.amin(dim=0)).clamp(min=1e-9)
    # Boxes around the points and the labels so far: their middles and half of their sizes, in shares of the map.
    middles, halves = places, torch.tensor([0.004, 0.007]).expand(len(places), 2)
    anchors: list[Anchor] = []
    for label, place in zip(labels, places, strict=True):
        half = torch.tensor([0.00425 * len(label), 0.011])
        away = half + torch.tensor([0.007, 0.009])  # from the point to the middle of its label
        boxes = torch.stack([place + away * torch.tensor(side) for side in sides.values()])
        covered = (halves + half - (middles - boxes[:, None]).abs()).clamp(min=0).prod(dim=2).sum(dim=1)
        best = int(covered.argmin())
        anchors.append(list(sides)[best])
        middles, halves = torch.vstack([middles, boxes[best]]), torch.vstack([halves, half])
    return anchors
