"""Sentences of two languages, and a tokenizer of each kind that was trained on some."""

import pytest

from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import Tokenizer, train_tokenizer


@pytest.fixture(scope="session")
def german() -> list[str]:
    return [
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
        "Mehrere Männer mit Schutzhelmen bedienen ein Antriebsradsystem.",
        "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
        "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
        "Zwei Männer stehen am Herd und bereiten Essen zu.",
    ]


@pytest.fixture(scope="session")
def english() -> list[str]:
    return [
        "Two young, White males are outside near many bushes.",
        "Several men in hard hats are operating a giant pulley system.",
        "A little girl climbing into a wooden playhouse.",
        "A man in a blue shirt is standing on a ladder cleaning a window.",
        "Two men are at the stove preparing food.",
    ]


@pytest.fixture(scope="session", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest, german: list[str]) -> Tokenizer:
    return train_tokenizer(german, TokenizerConfig(vocab_size=331, type=request.param))
