"""Neighbours and the map of words, by hand."""

from collections.abc import Callable

import pytest
import torch

from translate.decoding import Translator
from translate.errors import InputError
from translate.visualize.embeddings import (
    cosine_neighbours,
    embeddings_picture,
    frequent_words,
    principal_plane,
)
from translate.visualize.panels import Picture, Points, Table

MakeTranslator = Callable[..., Translator]
SOURCES = ["Der Hund läuft.", "Der Hund schläft, der Hund!", "Zwei Künstler danken."]
TARGETS = ["The dog runs.", "The dog sleeps, the dog!", "Two artists thank."]


def test_the_most_frequent_words() -> None:
    assert frequent_words(SOURCES, 3) == ["Hund", "Der", "läuft"]
    assert frequent_words(["„Straße“ (Straße) — don't, 1. 😀"], 9) == ["Straße", "don't", "1"]
    assert frequent_words([], 3) == []


def test_neighbours_by_the_angle_and_not_by_the_length() -> None:
    others = {
        "same way": torch.tensor([10.0, 10.0]),
        "near": torch.tensor([3.0, 4.0]),
        "opposite": torch.tensor([-1.0, -1.0]),
        "itself": torch.tensor([1.0, 1.0]),
    }
    # By hand: cos((1, 1), (3, 4)) = 7 / (5 √2)
    found = cosine_neighbours("itself", torch.tensor([1.0, 1.0]), others, count=3)
    assert [word for word, _ in found] == ["same way", "near", "opposite"]
    assert [cosine for _, cosine in found] == pytest.approx([1.0, 7 / (5 * 2**0.5), -1.0])
    assert len(cosine_neighbours("itself", torch.tensor([1.0, 1.0]), others, count=1)) == 1


def test_the_plane_of_points_on_it() -> None:
    # By hand: along (0.6, 0.8, 0) by ±5 and along (0, 0, 1) by ±1, all shifted: variances 2 · 25 to 2 · 1.
    shift = torch.tensor([7.0, -3.0, 2.0])
    offsets = [[3.0, 4.0, 0.0], [-3.0, -4.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]
    places, shares = principal_plane(torch.tensor(offsets) + shift)
    torch.testing.assert_close(places, torch.tensor([[5.0, 0.0], [-5.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    assert shares == pytest.approx([50 / 52, 2 / 52])


def picture(translator: Translator, words: list[str]) -> Picture:
    return embeddings_picture(
        translator, words, sources=SOURCES, targets=TARGETS, num_words=5, num_neighbours=2, name="toy"
    )


def test_a_joint_vocabulary_has_one_map(make_translator: MakeTranslator) -> None:
    translator = make_translator(tie_embeddings="all")
    points, table = picture(translator, []).panels
    assert isinstance(points, Points) and isinstance(table, Table)
    assert {point.group for point in points.points} == {"source", "target"}
    assert {point.label for point in points.points if point.group == "source"} == {
        "Hund",
        "Der",
        "läuft",
        "schläft",
        "der",
    }
    (hund,) = [point for point in points.points if point.label == "Hund"]
    assert hund.note.startswith("Nearest: ") and hund.note.count(",") == 1 and "Hund" not in hund.note
    assert [row[0] for row in table.rows][:2] == ["Hund", "Der"] and len(table.rows) == 10


def test_words_that_are_asked_for(make_translator: MakeTranslator) -> None:
    points, table = picture(make_translator(tie_embeddings="all"), ["Künstler", "Hund"]).panels
    assert isinstance(points, Points) and isinstance(table, Table)
    assert {point.label for point in points.points if point.group == "asked for"} == {"Künstler", "Hund"}
    assert [row[0] for row in table.rows] == ["Künstler", "Hund"]
    with pytest.raises(InputError, match="^a word to look at is empty: '' has no neighbours$"):
        picture(make_translator(), ["Hund", " "])


def test_vocabularies_apart_have_a_map_each(make_translator: MakeTranslator) -> None:
    translator = make_translator(tie_embeddings="decoder")
    made = picture(translator, [])
    assert [panel.title for panel in made.panels] == [
        "Map of source words",
        "Nearest neighbours of source words",
        "Map of target words",
        "Nearest neighbours of target words",
    ]
    points = made.panels[2]
    assert isinstance(points, Points)
    # The map of the target words, from the target's table, by hand.
    table = translator.model.decoder.embedder.tokens.weight.detach()
    words = frequent_words(TARGETS, 5)
    vectors = torch.stack([table[translator.tokenizers.target.encode(word)].mean(dim=0) for word in words])
    expected, _ = principal_plane(vectors)
    assert [point.label for point in points.points] == words
    torch.testing.assert_close(torch.tensor([[point.x, point.y] for point in points.points]), expected)


def test_too_few_words(make_translator: MakeTranslator) -> None:
    with pytest.raises(InputError, match="^2 source and target words are too few for a map"):
        embeddings_picture(
            make_translator(), [], sources=["Hund"], targets=["dog"], num_words=5, num_neighbours=2, name="toy"
        )
