"""Accelerators and ends of labels: which signs are one, and where a translation gets it."""

import time

import pytest

from translate.documents.interface import add_accelerator, end_like, remove_accelerator


@pytest.mark.parametrize(
    ("text", "plain", "accelerator"),
    [
        ("_File", "File", "_F"),
        ("Save &As…", "Save As…", "&A"),
        ("E_xit", "Exit", "_x"),
        ("Bea&rbeiten", "Bearbeiten", "&r"),
        ("&1 page", "1 page", "&1"),
        ("ファイル(&F)…", "ファイル…", "&F"),
        ("Datei (_D)", "Datei", "_D"),
        ("&Cut && paste", "Cut && paste", "&C"),
        ("_Open %(my_file)s", "Open %(my_file)s", "_O"),
        *[(text, text, "") for text in ("my_file", "LC_ALL", "AT&T", "Cut & paste", "a_b _c", "Copy &amp; paste")],
        *[(text, text, "") for text in ("%(my_file)s", "https://a.b/c_d?e&f", "{a_b}", "_", "&copy; me", "__init__")],
    ],
)  # fmt: skip
def test_one_mark_before_a_letter_is_an_accelerator(text: str, plain: str, accelerator: str) -> None:
    assert remove_accelerator(text) == (plain, accelerator)


@pytest.mark.parametrize(
    ("text", "accelerator"),
    [
        ("Reconcile to t_oday", "_o"),
        ("Load P_GP", "_G"),
        ("Fi_le", "_l"),
        *[(text, "") for text in ("Quarter_note", "quarter_note", "file_a", "R&D")],
    ],
)
def test_the_words_of_a_catalog_tell_accelerators_from_names(text: str, accelerator: str) -> None:
    words = {"today", "pgp", "quarter", "note", "reconcile", "rd"}
    assert remove_accelerator(text, words)[1] == accelerator


@pytest.mark.parametrize(
    ("accelerator", "translation", "expected"),
    [
        ("_F", "Datei öffnen", "Datei ö_ffnen"),
        ("_o", "Datei öffnen, oder nicht", "Datei öffnen, _oder nicht"),
        ("&x", "Verlassen", "&Verlassen"),
        ("&x", "%s fix", "%s fi&x"),
        ("_F", "Da_tei", "Da_tei"),  # the model's own
        ("_P", "In Ordner e_infügen", "In Ordner e_infügen"),
        ("_P", "e_infügen in my_file", ""),
        ("", "Da_tei", "Datei"),
        ("", "meine_datei", "meine_datei"),  # a name
        ("", "_Datei", "Datei"),
        ("_F", "ファイル…", "ファイル(_F)…"),
        ("&n", "URL を開く", "URL を開く(&N)"),
        ("&F", "A & B", ""),  # two marks
        ("&F", "…", ""),
    ],
)
def test_the_translation_has_the_accelerator_at_the_same_letter_or_the_first(
    accelerator: str, translation: str, expected: str
) -> None:
    assert add_accelerator(translation, accelerator) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Name:", "Name", "Name:"),
        ("Name:", "Nom\u00a0:", "Nom\u00a0:"),
        ("Name", "Name:", "Name"),
        ("Save…", "Sichern...", "Sichern..."),  # an ellipsis as the translation writes it
        ("Save...", "Sichern …", "Sichern …"),
        ("Save...", "Sichern:", "Sichern..."),
        ("Save...", "Sichern.", "Sichern..."),
        ("Save", "Sichern…", "Sichern"),
        ("Save it.", "Sichern", "Sichern."),
        ("保存。", "Save.", "Save."),
        ("Save it.", "Sichern!", "Sichern!"),
        ("Sure?", "Sicher?", "Sicher?"),
        (" Name: ", " Name ", " Name: "),
        ("Save.", "", ""),
    ],
)
def test_a_translation_ends_like_its_source(source: str, translation: str, expected: str) -> None:
    assert end_like(source, translation) == expected


@pytest.mark.parametrize("unit", ["%s a ", "&amp; ", "a"])
def test_the_time_is_linear(unit: str) -> None:
    """400,000 characters take a few seconds if the text is copied for each placeholder, and otherwise 0.2 s."""
    started = time.process_time()
    remove_accelerator(unit * (400_000 // len(unit)) + "_x")
    assert time.process_time() - started < 1.5
