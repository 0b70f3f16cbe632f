"""The embedded corpus is frozen: its files are intact, paired line by line, and their splits share no sentence."""

import hashlib
import unicodedata
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "data"
SIZES = {"train": 12_000, "validation": 500, "test": 500}
SHA256 = {
    "train.de": "557bc1049fe79f09ae30ac5042b16848ed2bef49b6aec7f12132362b13c78a43",
    "train.en": "29529ef9d04b07fbbfe969296f9dc1ed79cee22b6eac538e668a79e40cbb11eb",
    "validation.de": "102c9dcfcfefa228509d8c411999dc46d5e175ff6ffc9250c7da1a20f7939953",
    "validation.en": "e983c5444f062a82279801ee0da412d57515f75bec3e8fceb174c1b8e74ae1f9",
    "test.de": "6d2f59e4df11fc6066f425e61ea9444b4400e71b99265b885d1b163dbe3e0f2b",
    "test.en": "7bf4539a87cd00024bae9f6b21ab9aa80f8877e7d5ef2d36754e7c5179fdb8ec",
}


def read_lines(split: str, language: str) -> list[str]:
    return (DATA / f"{split}.{language}").read_text(encoding="utf-8").split("\n")[:-1]


def list_words(line: str) -> list[str]:
    return line.replace(",", "").rstrip(".?!").split()


@pytest.mark.parametrize("name", SHA256)
def test_file_is_intact(name: str) -> None:
    """The scores in the documentation, and the tests that decode this text, belong to exactly these bytes."""
    assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == SHA256[name]


@pytest.mark.parametrize("split", SIZES)
def test_pairs_and_plain_text(split: str) -> None:
    for language in ("de", "en"):
        content = (DATA / f"{split}.{language}").read_bytes()
        assert content.endswith(b"\n") and b"\r" not in content
        lines = read_lines(split, language)
        assert len(lines) == SIZES[split]
        for line in lines:
            assert unicodedata.is_normalized("NFC", line)
            assert line == " ".join(line.split()) and line[0].isupper() and line[-1] in ".?!", line


def test_splits_share_no_sentence() -> None:
    german = [line for split in SIZES for line in read_lines(split, "de")]
    assert len(set(german)) == len(german), "each German sentence stands once, hence with one translation"
    training, validation, test = (set(read_lines(split, "en")) for split in SIZES)
    assert not training & validation and not training & test and not validation & test


@pytest.mark.parametrize("language", ["de", "en"])
def test_held_out_words_occur_in_training(language: str) -> None:
    known = {word for line in read_lines("train", language) for word in list_words(line)}
    held_out = {
        word for split in ("validation", "test") for line in read_lines(split, language) for word in list_words(line)
    }
    assert held_out <= known
