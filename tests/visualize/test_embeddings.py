"""Neighbours and the map of words, by hand."""

import re
from typing import Any

import pytest
import torch
from harness import MakeTranslator

from translate.data.corpora import ParallelCorpus
from translate.data.tokenizer import Tokenizers
from translate.decoding import Translator
from translate.errors import InputError
from translate.visualize.embeddings import (
    content_words,
    cosine_neighbours,
    embeddings_picture,
    principal_plane,
)

SOURCES = ["Der Hund läuft.", "Der Hund schläft, der Hund!", "Zwei Künstler danken."]
TARGETS = ["The dog runs.", "The dog sleeps, the dog!", "Two artists thank."]


def test_content_words(tokenizers: Tokenizers) -> None:
    """Four letters, in at most one line of fifty, and an embedding of their own; then others, by frequency."""
    lines = [
        "Der Hund und die Eltern, Straße",
        *["der Hund (Straße) 12"] * 3,
        *["die Katze-Katze x"] * 2,
        *["und"] * 194,
    ]
    tokenizer = tokenizers.source
    by_frequency = ["Hund", "Straße", "Katze-Katze", "Eltern"]
    whole = [word for word in by_frequency if len(tokenizer.encode(word)) == 1]
    assert "Hund" in whole and "Katze-Katze" not in whole
    assert content_words(lines, 4, tokenizer) == [*whole, *(word for word in by_frequency if word not in whole)]
    others = content_words(lines, 99, tokenizer)[4:]
    assert set(others) == {"Der", "und", "die", "der", "x"} and others.index("und") < others.index("Der")
    assert content_words([], 3, tokenizer) == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["लड़की किताब पढ़ती है"], ["लड़की", "किताब", "पढ़ती", "है"]),  # vowel signs and nukta are marks
        (["เด็กผู้หญิง อ่าน"], ["เด็กผู้หญิง", "อ่าน"]),
        (["الوَلَدُ يَقرَأُ، ٣ كُتُب"], ["الوَلَدُ", "يَقرَأُ", "كُتُب"]),
        (["猫看书。", *["我看12"] * 99], ["猫", "书", "看", "我"]),  # the last two are in more than a line of fifty
    ],
    ids=["Hindi", "Thai", "Arabic", "Chinese"],
)
def test_content_words_of_any_script(tokenizers: Tokenizers, lines: list[str], words: list[str]) -> None:
    assert content_words(lines, 9, tokenizers.source) == words


def test_neighbours_by_the_angle_and_not_by_the_length() -> None:
    labels = ["<s>", "▁same", "near", "▁opposite", "▁itself", "▁", "<0x0A>"]
    table = torch.tensor([[1.0, 1.0], [10.0, 10.0], [3.0, 4.0], [-1.0, -1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    # By hand: cos((1, 1), (3, 4)) = 7 / (5 √2). Special symbols, bytes, the lone space and the word are left out.
    found = cosine_neighbours("itself", torch.tensor([1.0, 1.0]), table, labels=labels, count=9)
    assert [word for word, _ in found] == ["same", "-near", "opposite"]
    assert [cosine for _, cosine in found] == pytest.approx([1.0, 7 / (5 * 2**0.5), -1.0])
    assert len(cosine_neighbours("itself", torch.tensor([1.0, 1.0]), table, labels=labels, count=1)) == 1


def test_the_plane_of_points_on_it() -> None:
    # By hand: along (0.6, 0.8, 0) by ±5 and along (0, 0, 1) by ±1, all shifted: variances 2 · 25 to 2 · 1.
    shift = torch.tensor([7.0, -3.0, 2.0])
    offsets = [[3.0, 4.0, 0.0], [-3.0, -4.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]
    places, shares = principal_plane(torch.tensor(offsets) + shift)
    signs = places[0, 0].sign(), places[2, 1].sign()
    expected = torch.tensor([[5.0, 0.0], [-5.0, 0.0], [0.0, 1.0], [0.0, -1.0]]) * torch.stack(signs)
    torch.testing.assert_close(places, expected)
    assert shares == pytest.approx([50 / 52, 2 / 52])


def panels(translator: Translator, words: list[str]) -> list[Any]:
    pairs = ParallelCorpus("", SOURCES, TARGETS, 1.0)
    return list(embeddings_picture(translator, words, pairs, num_words=5, num_neighbours=2, name="toy").panels)


def test_a_joint_vocabulary_has_one_map(make_translator: MakeTranslator) -> None:
    translator = make_translator(tie_embeddings="all")
    points, table = panels(translator, [])
    assert {point.group for point in points.points} == {"source", "target"}
    words = content_words(SOURCES, 5, translator.tokenizers.source)
    assert [point.label for point in points.points if point.group == "source"] == words and "Hund" in words
    total = sum(map(float, re.findall(r"(\d+)%", points.x_axis + points.y_axis)))
    (shown,) = re.findall(r"They show (\d+)% of the variance", points.note)
    assert float(shown) == pytest.approx(total, abs=1)
    (hund,) = [point for point in points.points if point.label == "Hund"]
    assert hund.note.startswith("Nearest: ") and hund.note.count(",") == 1 and "Hund" not in hund.note
    assert [row[0] for row in table.rows][:5] == words and len(table.rows) == 10
    points, table = panels(translator, ["Künstler", "Hund"])
    assert {point.label for point in points.points if point.group == "asked for"} == {"Künstler", "Hund"}
    assert [row[0] for row in table.rows] == ["Künstler", "Hund"]


def test_vocabularies_apart_have_a_map_each(make_translator: MakeTranslator) -> None:
    translator = make_translator(tie_embeddings="decoder")
    made = panels(translator, [])
    titles = [f"{what} of {side} words" for side in ("source", "target") for what in ("Map", "Nearest neighbours")]
    assert [panel.title for panel in made] == titles
    points = made[2]
    # The map of the target words, from the target's table, by hand.
    table = translator.model.decoder.embedder.tokens.weight.detach()
    words = content_words(TARGETS, 5, translator.tokenizers.target)
    vectors = torch.stack([table[translator.tokenizers.target.encode(word)].mean(dim=0) for word in words])
    expected, _ = principal_plane(vectors)
    assert [point.label for point in points.points] == words
    torch.testing.assert_close(torch.tensor([[point.x, point.y] for point in points.points]), expected)


def test_maps_that_cannot_be_drawn(make_translator: MakeTranslator) -> None:
    settings: Any = {"num_words": 5, "num_neighbours": 2, "name": "toy"}
    with pytest.raises(InputError, match="2 source and target words"):
        embeddings_picture(make_translator(), [], ParallelCorpus("", ["Hund"], ["dog"], 1.0), **settings)
    for word, reason in [(" ", "empty: ' '"), ("\u200b", r"empty: '\\u200b'"), ("\udcff", r"not Unicode: '\\udcff'")]:
        with pytest.raises(InputError, match=reason):
            panels(make_translator(), ["Hund", word])
