"""Sentences as tokens and words, and what is no sentence."""

import pytest
from harness import MakeTranslator

from translate.errors import InputError
from translate.visualize.sentences import read_sentence


def test_a_forced_translation(make_translator: MakeTranslator) -> None:
    pair = read_sentence(make_translator(), "Der Hund läuft.", target="The dog sleeps.")
    assert (pair.source_text, pair.target_text) == ("Der Hund läuft.", "The dog sleeps.")
    assert [word.text for word in pair.source.words] == ["Der", "Hund", "läuft.", "</s>"]
    assert [word.text for word in pair.target_input.words] == ["<s>", "The", "dog", "sleeps."]
    assert [word.text for word in pair.target_output.words] == ["The", "dog", "sleeps.", "</s>"]
    for tokens in (pair.source, pair.target_input, pair.target_output):
        assert [position for word in tokens.words for position in word.positions] == list(range(len(tokens.pieces)))
    assert "".join(pair.source.pieces) == "▁Der▁Hund▁läuft.</s>"
    assert pair.target_input.pieces[1:] == pair.target_output.pieces[:-1]
    assert len(pair.ids.source) + 1 == len(pair.source.pieces) > len(pair.source.words)  # some word has pieces


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("Hund", " ", "^the target is empty: ' '"),
        ("Stra\udcdfe", None, r"^the sentence is not Unicode: 'Stra\\udcdfe'; set the terminal to UTF-8$"),
        ("Hund", "dog " * 50, r"^the target has \d+ tokens .* 40 positions"),
    ],
)
def test_what_is_no_sentence(make_translator: MakeTranslator, text: str, target: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_sentence(make_translator(positions="learned"), text, target=target)
