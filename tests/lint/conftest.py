"""Text of the embedded corpus for the inspections: a fault is put in, or nothing may be found."""

from pathlib import Path

import pytest

from translate.config.data import TokenizerConfig
from translate.data.text import read_lines
from translate.data.tokenizer import Tokenizer, train_tokenizer

DATA = Path(__file__).resolve().parents[2] / "data"
Text = tuple[list[str], list[str]]


def _read(name: str) -> Text:
    return list(read_lines(DATA / f"{name}.de")), list(read_lines(DATA / f"{name}.en"))


@pytest.fixture(scope="session")
def embedded() -> Text:
    """Sources and targets of the whole training corpus."""
    return _read("train")


@pytest.fixture(scope="session")
def held_out() -> Text:
    """Sources and targets of the validation corpus."""
    return _read("validation")


@pytest.fixture(scope="session")
def some(embedded: Text) -> Text:
    """The first 3,000 training pairs."""
    return embedded[0][:3000], embedded[1][:3000]


@pytest.fixture(scope="session")
def tokenizer(some: Text) -> Tokenizer:
    """A joint vocabulary of these pairs."""
    return train_tokenizer([*some[0], *some[1]], TokenizerConfig(vocab_size=2000))
