"""Terminology: which terms a line holds, decided by hand, and files that are wrong."""

from pathlib import Path

import pytest
from harness import random_model

from translate.config.decoding import DecodingConfig
from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import Tokenizers, train_tokenizer
from translate.decoding import Request, Translator
from translate.decoding.constraints import terminology
from translate.decoding.constraints.terminology import Terminology, read_terminology
from translate.errors import InputError

TERMS = Terminology(
    {
        "Hund": "dog",
        "der Hund": "the dog",
        "Straße": "street",
        "grüne Straße": "green street",
        "Übung": "exercise",
        "für": "for",
        "fu": "foo",
        "Essen": "food",
        "essen": "eat",
        ".NET": ".NET",
        "3": "three",
    }
)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("Ein Hund läuft", ["dog"]),
        ("Ein „Hund“, ein Hund-Haus: Hund!", ["dog", "dog", "dog"]),  # as often as it occurs; a hyphen ends a word
        ("Hunde, Schoßhund, Hundes, Hund2, Hundé, HUND", []),  # whole words only, in this case only
        ("Hier ist der Hund und noch ein Hund", ["the dog", "dog"]),  # the longest, and not what lies in it
        ("die grüne Straße, die Straße", ["green street", "street"]),
        ("eine Übung für", ["exercise", "for"]),
        ("eine U\u0308bung fu\u0308r", ["exercise", "for"]),  # the same letters in two characters each; no "fu"
        ("Der Hund schläft", ["the dog"]),  # the first word of the line may differ in its first letter
        ("Heute schläft Der Hund", ["dog"]),  # others may not
        ("So ist es. Der Hund schläft! „Für wen?", ["the dog", "for"]),
        ("Was: übung", ["exercise"]),
        ("DER HUND", []),
        ("Essen wir das Essen? essen", ["food", "food", "eat"]),  # exactly as it is written comes first
        ("mit .NET und ASP.NET", [".NET", ".NET"]),
        ("3 Hunde, 33, 3.", ["three", "three"]),
        ("der \t Hund\u00a0", ["the dog"]),  # any white space
        ("", []),
    ],
)
def test_matches_by_hand(line: str, expected: list[str]) -> None:
    assert TERMS.matches(line) == expected


def test_the_longest_at_the_leftmost_place() -> None:
    assert Terminology({"a b": "1", "b c d": "2", "a": "3"}).matches("x a b c d a") == ["1", "3"]
    assert Terminology({}).matches("Hund") == []


FILES = {"file": "Datei", "recent file": "letzte Datei", "set": "Menge", "settings": "Einstellungen", "Undo": "zurück"}


@pytest.mark.parametrize(
    ("line", "exactly", "missed", "with_forms"),
    [
        ("Open the file", ["Datei"], [], ["Datei"]),
        ("Open Files.", [], ["Files"], ["Datei"]),
        ("Recent files and profiles", [], ["Recent files"], ["letzte Datei"]),  # every word has its stem
        ("recently-used files", [], ["files"], ["Datei"]),
        ("settings, sets", ["Einstellungen"], ["sets"], ["Einstellungen", "Menge"]),  # the term itself comes first
        ("setting", [], ["setting"], ["Menge"]),  # of two terms with one stem, the first
        ("undone filesystem", [], [], []),
    ],
)
def test_other_forms_of_terms(line: str, exactly: list[str], missed: list[str], with_forms: list[str]) -> None:
    """Snowball's stems: file of files, set of settings, recent of recent, but undon of undone."""
    for language in ("en", "eng_Latn"):
        terms = Terminology(FILES, language=language)
        assert (terms.matches(line), terms.missed_forms(line)) == (exactly, missed)
        terms = Terminology(FILES, language=language, with_forms=True)
        assert (terms.matches(line), terms.missed_forms(line)) == (with_forms, [])
    unknown = Terminology(FILES, language="tlh")
    assert (unknown.matches(line), unknown.missed_forms(line)) == (exactly, [])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Tell us about it; the US", ["USA"]),  # a word in capitals keeps its case
        ("URLs, USB Ports, usb ports", ["Adressen", "USB-Anschluss"]),
        ("Press c, C++", ["C plus"]),  # a term with signs has no other form
        ("FILE, Files, FILED", ["Datei", "Dateien", "Dateien"]),  # of one stem: equal but for case, else the first
    ],
)
def test_forms_keep_capitals_and_signs(line: str, expected: list[str]) -> None:
    targets = {"files": "Dateien", "file": "Datei", "US": "USA", "URL": "Adressen", "USB port": "USB-Anschluss"}
    assert Terminology(targets | {"C++": "C plus"}, language="en", with_forms=True).matches(line) == expected


def test_stems_are_computed_when_a_form_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(terminology, "_load_stemmer", lambda _: lambda word: asked.append(word) or word)
    terms = Terminology(FILES, language="en")
    assert (terms.matches("a file"), asked) == (["Datei"], [])
    assert terms.missed_forms("a FILE") == ["FILE"] and "undo" in asked


def test_a_language_without_a_stemmer_has_no_forms() -> None:
    with pytest.raises(InputError, match="stemmer knows .*tlh"):
        Terminology(FILES, language="tlh", with_forms=True)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("我的狗在学机器学习。", ["dog", "learn", "machine learning"]),  # within a sentence, and the longest
        ("我的iPhone手机，iPhones", ["iPhone"]),
        ("犬は、走る犬", ["Hund", "Hund"]),
        ("อีกาดำ กี่", ["crow"]),  # not a letter without its marks
    ],
)
def test_terms_in_scripts_without_spaces(line: str, expected: list[str]) -> None:
    targets = {"狗": "dog", "学": "learn", "机器学习": "machine learning", "iPhone": "iPhone", "犬": "Hund"}
    assert Terminology(targets | {"กา": "crow", "ก": "k"}).matches(line) == expected


def test_empty_terms_are_refused() -> None:
    for targets in ({"": "dog"}, {"Hund": " "}):
        with pytest.raises(ValueError, match="must not be empty"):
            Terminology(targets)


def test_what_the_vocabulary_cannot_spell_is_reported_at_once() -> None:
    """A translation of a term before any line has the term; what a line requires, with the line's number."""
    plain = train_tokenizer(["the dog runs"] * 3, TokenizerConfig(vocab_size=18, byte_fallback=False))
    tokenizers = Tokenizers(plain, plain, "joint")
    translator = Translator(random_model(tokenizers).eval(), tokenizers, DecodingConfig())
    for request, place in (
        (Request("dog", terminology=Terminology({"runs": "dog", "cat": "dög"})), "terminology: "),
        (Request("dog", required=("dog", "dög")), "line 2: "),
        (Request("dog", prefix="dög"), "line 2: "),
    ):
        with pytest.raises(InputError, match=f"^{place}the phrase 'dög': the target vocabulary cannot spell 'ö'$"):
            translator.translate(["dog", request])


def write(folder: Path, content: bytes) -> Path:
    path = folder / "terms.tsv"
    path.write_bytes(content)
    return path


def test_a_file_is_read(tmp_path: Path) -> None:
    content = "\ufeff# Tiere\r\nHund\tdog\r\n\n \nder  Hund \t the  dog\nFuß\tfoot # of a man\nHund\tdog\n"
    terms = read_terminology(write(tmp_path, content.encode()))
    assert terms.matches("Hund, der Hund, Fuß") == ["dog", "the dog", "foot # of a man"]
    assert read_terminology(write(tmp_path, b"")).matches("Hund") == []


@pytest.mark.parametrize(
    "content, message",
    [
        ("Hund\tdog\nKatze cat\n", "line 2: ['Katze cat'] should be two columns, a term and its translation"),
        ("# x\n\nHund\t \n", "line 3: ['Hund', ' '] should be two columns, a term and its translation"),
        (
            "U\u0308bung  A\tone\nÜbung A\ttwo\n",
            "line 2: 'Übung A' is translated as 'two', but before as 'one'; keep one of them",
        ),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content.encode())
    with pytest.raises(InputError) as error:
        read_terminology(path)
    assert str(error.value) == f"{path}, {message}"
