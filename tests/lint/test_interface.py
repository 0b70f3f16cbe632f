"""Strings of programs: what is a fault among sentences, and what belongs to an interface, by hand-written pairs."""

from pathlib import Path

import numpy as np
import pytest

from translate.config.data import TextCorpus
from translate.data.corpora import ParallelCorpus
from translate.lint.corpora import find_everywhere, find_repetitions, repetition_hashes, survey_corpus
from translate.lint.interface import find_copies, is_interface, own_words
from translate.lint.misalignment import find_unlikely_lengths

SETTINGS = TextCorpus(source=Path("any.de"), target=Path("any.en"))
PAIRS = {  # by the kind that `clean` removes them as; each has one more before it, which stays
    "": ["Datei|File", "_Datei|_File", "&Datei|&File", "Datei:|File:", "Datei …|File…", "datei|file", "OK|OK",
         "%s MB|%s MB", "Jan W. van Dyck|Jan W. van Dyck", "Texteditor|Text Editor", "(Keine)|(None)", "Keine|None",
         "<b>Titel</b>|<b>Title</b>", "<a href='/de'>Hilfe</a>|<a href='/en'>Help</a>", "A &amp; B|A & B", ".|!",
         "Löschen?|Delete?", "Löschen|Delete", "Ist voll|Is full", "»%s« löschen|Delete “%s”"],
    "repeated": [" Datei |File"],
    "empty": ["|Nothing", "|Other"],
    "near_repeated": ["Datei ...|File...", "Ist voll.|Is full.", "\"%s\" löschen|Delete '%s'"],
    "equal": ["Could not open the file|Could not open the file"],  # labels may be equal: see `find_copies`
    "markup": ["<b>Fett</b>|Bold", "<b>Fett</b>|<b>Bold<b>"],
}  # fmt: skip
STRINGS = [
    (f"Fenster {letter}{other}", f"Window {letter}{other}")
    for letter in "abcdefghijklm"
    for other in "nopqrstuvwxyzäöü"
]


def found(pairs: list[tuple[str, ...]]) -> dict[str, list[str]]:
    """The pairs of each kind that are found."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    survey = survey_corpus("data.any", ParallelCorpus("any", sources, targets, 1.0), SETTINGS)
    everywhere = find_everywhere(survey) | find_repetitions(*repetition_hashes(survey))
    return {kind: ["|".join(pairs[line]) for line in lines] for kind, lines in everywhere.items() if len(lines)}


def test_what_is_a_fault_among_strings() -> None:
    pairs = [tuple(pair.split("|")) for some in PAIRS.values() for pair in some]
    assert found([*STRINGS, *pairs]) == {kind: some for kind, some in PAIRS.items() if kind}
    among_sentences = found([*((f"{source} ist zu.", f"{target} is closed.") for source, target in STRINGS), *pairs])
    assert {*PAIRS[""]} - {*sum(among_sentences.values(), [])} == {
        "Datei|File", "Texteditor|Text Editor", "(Keine)|(None)", "Löschen?|Delete?", "Ist voll|Is full",
        "»%s« löschen|Delete “%s”", ".|!",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "other", "words"),
    [
        ("Portable-Document-Format", "Portable Document Format", ""),
        ("<b class='big'>Konflikt</b> mit %1$s", "<b class='big'>Conflict</b> with %1$s", "Konflikt mit"),
        ("Texteditor (TeX)", "Text Editor (tex)", "Texteditor"),
    ],
)
def test_words_that_show_a_language(line: str, other: str, words: str) -> None:
    assert own_words(line, other) == words


def test_what_is_text_of_an_interface() -> None:
    assert is_interface(["File", "Open…", "Save as ..."] * 100, ["Datei", "Öffnen…", "x" * 41] * 100)
    assert not is_interface(["File"] * 199, ["Datei"] * 199)  # too few to tell
    assert not is_interface(
        ["A dog runs.", "„Nein!“", "什么？", "Open"] * 100, ["Datei", "Ein Hund rennt"] * 100 + ["."] * 201
    )
    assert not is_interface(["x" * 41] * 200, ["x" * 41] * 200)


def test_labels_may_be_their_own_translations_in_one_pair_of_twenty() -> None:
    labels, sentences = ["OK", "Page 1 of", "HTTP/2", "Oslo"], ["All four words are", "The dog runs."]
    lines = labels + sentences + ["other"] * 74  # 80 pairs: four of them may be labels
    is_equal = np.arange(80) < 6
    assert find_copies(lines, is_equal).tolist() == [4, 5]
    assert find_copies(lines[:60], is_equal[:60]).tolist() == [3, 4, 5]  # three: of the four, 0, 1 and 2
    assert find_copies(lines[:40], is_equal[:40]).tolist() == [1, 3, 4, 5]  # two, evenly spaced
    assert find_copies(lines[:19], is_equal[:19]).tolist() == [0, 1, 2, 3, 4, 5]
    assert find_copies([], is_equal[:0]).tolist() == []
    codes = ["%d:%02d", "33 x", *labels, *["other"] * 94]  # 100 pairs: those that have no word are copies first
    assert find_copies(codes, np.arange(100) < 6).tolist() == [1]
    assert find_copies(codes[:80], is_equal).tolist() == [0, 1]
    assert find_copies(codes[:60], is_equal[:60]).tolist() == [0, 1, 5]


def test_lengths_of_strings_differ_more() -> None:
    """By hand: 16 characters for 9 deviate by 7 / sqrt(9 + 16) = 1.4, of at least 0.25: 5.6 standard deviations."""
    lengths = np.array([20] * 30 + [9, 4]), np.array([20] * 30 + [16, 16])  # 4: 12 / sqrt(20) / 0.25 = 10.7
    assert find_unlikely_lengths(*lengths).tolist() == [30, 31]
    assert find_unlikely_lengths(*lengths, is_interface=True).tolist() == [31]
