"""Text of the embedded corpus for the inspections: a fault is put in, or nothing may be found."""

from pathlib import Path

import pytest
from harness import corpus_lines

from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import Tokenizer, train_tokenizer

Text = tuple[list[str], list[str]]


@pytest.fixture(scope="session")
def embedded() -> Text:
    """Sources and targets of the whole training corpus."""
    return corpus_lines("train.de"), corpus_lines("train.en")


@pytest.fixture(scope="session")
def held_out() -> Text:
    """Sources and targets of the validation corpus."""
    return corpus_lines("validation.de"), corpus_lines("validation.en")


@pytest.fixture(scope="session")
def some(embedded: Text) -> Text:
    """The first 3,000 training pairs."""
    return embedded[0][:3000], embedded[1][:3000]


@pytest.fixture(scope="session")
def tokenizer(some: Text) -> Tokenizer:
    """A joint vocabulary of these pairs."""
    return train_tokenizer([*some[0], *some[1]], TokenizerConfig(vocab_size=2000))


@pytest.fixture
def text(clean_config: Path) -> dict[str, list[str]]:
    """Clean text by file name, to be spoilt."""
    names = ("train.de", "train.en", "valid.de", "valid.en")
    return {name: clean_config.with_name(name).read_text(encoding="utf-8").splitlines() for name in names}
