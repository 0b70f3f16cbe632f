"""Flags of one translation: each where it must be, and not where it must not."""

from typing import get_args

import pytest
from harness import corpus_lines

from translate.data.tokenizer import UNK_ID
from translate.decoding.output.flags import FLAGS, Flag, flag_translation, most_repeats

SOURCE = "Zwei Hunde laufen durch den tiefen Schnee."


def flags_of(text: str, *, source: str = SOURCE) -> frozenset[Flag]:
    """With as many tokens on both sides."""
    return flag_translation(source, [4, 5, 6], text, [4, 5, 6])


def test_no_flag_is_the_rule() -> None:
    assert flags_of("Two dogs are running through deep snow.") == frozenset()
    assert flag_translation("", [], "", []) == frozenset()
    assert flag_translation(" \t", [], "", []) == frozenset()


@pytest.mark.parametrize("text, ids", [("", []), ("  ", [4, 4]), ("\u3000", [9])])
def test_empty(text: str, ids: list[int]) -> None:
    # Far too short as well, which says nothing more.
    assert flag_translation(SOURCE, list(range(4, 40)), text, ids) == {"empty"}


@pytest.mark.parametrize(
    "text, repeats",
    [
        ("the the the the", 4),
        ("so the big dog, the big dog, the big dog, the big dog ran", 4),
        ("one of the men in the blue shirt of the men in the blue shirt of the men in the blue shirt", 3),  # 7 words
        ("und,und,und,und", 4),
        ("Reungungungung", 4),
        ("我在跑我在跑我在跑我在跑", 4),
    ],
)
def test_loops(text: str, repeats: int) -> None:
    assert most_repeats(text) == repeats
    assert flags_of(text) == {"repetitive"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "it was very, very, very good",
        "all that he had had had been lost",
        "two dogs and two cats and two mice and two men",
        "0 0 0 0 0 0 0 0",
        "1,000,000,000,000,000,000",
        "10:10 10:10 10:10 10:10",
        "Mississippi",
        "कि का की कु",  # the same consonant, with different vowel signs
    ],
)
def test_normal_text_is_no_loop(text: str) -> None:
    assert most_repeats(text) == 0
    assert "repetitive" not in flags_of(text)


def test_loop_of_the_source_is_no_fault_of_the_translation() -> None:
    assert flags_of("no no no no", source="Nein nein nein nein") == frozenset()
    assert flags_of("no no no no", source="Nein, nein, nein!") == {"repetitive"}
    assert flags_of("ha ha ha ha ha ha", source="hahahahahaha") == frozenset()
    assert flags_of("no no no no no no no", source="Nein nein nein nein") == {"repetitive"}  # and on, and on


@pytest.mark.parametrize(
    "num_source, num_target, is_flagged",
    [
        (10, 19, False),  # 1.5 · 10 + 4
        (10, 20, True),
        (20, 10, True),
        (1, 5, False),
        (1, 6, True),
    ],
)
def test_length_ratio(num_source: int, num_target: int, is_flagged: bool) -> None:
    flags = flag_translation(SOURCE, [5] * num_source, "Two dogs.", [5] * num_target)
    assert flags == ({"length_ratio"} if is_flagged else frozenset())


def test_unspellable() -> None:
    assert flag_translation("x 中", [5, UNK_ID], "x", [5]) == {"unspellable"}
    assert flag_translation("x", [5], "x ⁇ ", [5, UNK_ID]) == {"unspellable"}
    assert flag_translation("中", [UNK_ID], "", []) == {"unspellable", "empty"}


def test_every_flag_has_words() -> None:
    assert FLAGS.keys() == {
        *get_args(Flag),
        "truncated",
        "source_truncated",
        "split",
        "tagged",
        "unmet",
        "placeholders",
    }


def test_true_translations_of_the_corpus_have_no_loop() -> None:
    german, english = (corpus_lines(name, step=9) for name in ("train.de", "train.en"))
    for source, text in zip(german, english, strict=True):
        assert flag_translation(source, [5], text, [5]) == frozenset()
