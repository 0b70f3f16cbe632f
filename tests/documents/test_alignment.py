"""Weights between words: sums and means of attention by hand, and the diagonal where words cannot be told apart."""

from unittest.mock import Mock

import pytest
import torch

from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import Tokenizer, Tokenizers, train_tokenizer
from translate.decoding import Translation, Translator
from translate.decoding.alignment import ForcedDecoding, line_attention
from translate.documents.document import word_weights


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["ab cd a b c d"] * 3, TokenizerConfig(vocab_size=11, type="bpe", byte_fallback=False))


def made(tokenizer: Tokenizer, source: str, text: str) -> Translation:
    ids, source_ids = tokenizer.encode(text), tokenizer.encode(source)
    return Translation(source, text, ids, 0.0, 0.0, False, False, source_ids=source_ids)


def weights_of(tokenizer: Tokenizer, translation: Translation, *attention: torch.Tensor) -> list[dict[int, float]]:
    translator = Mock(spec=Translator)
    tokenizers = Tokenizers(tokenizer, tokenizer, "joint")
    forced = iter([ForcedDecoding([], each) for each in attention])
    translator.attend.return_value = [(translation, line_attention(translation, forced, tokenizers, unit="words"))]
    return [dict(row) for row in next(iter(word_weights(translator, [translation])))]


def test_weights_of_words(tokenizer: Tokenizer) -> None:
    """Sums over the source's pieces, means over those of the translation; the end symbols are left out."""
    translation = made(tokenizer, "ab c", "ba c")
    pieces = tokenizer.pieces(translation.source_ids), tokenizer.pieces(translation.ids)
    assert pieces == (["▁a", "b", "▁c"], ["▁", "b", "a", "▁c"])
    word = [[0.5, 0.125, 0.25, 0.125], [0.25, 0.25, 0.0, 0.5], [0.0, 0.75, 0.25, 0.0]]
    attention = torch.tensor([*word, [0.25, 0.25, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert weights_of(tokenizer, translation, attention) == [pytest.approx({0: 0.625, 1: 0.5 / 3}), {0: 0.5, 1: 0.5}]


def test_pieces_of_a_long_sentence_follow_each_other(tokenizer: Tokenizer) -> None:
    parts = made(tokenizer, "ab ", "ab"), made(tokenizer, "c", "c")
    whole = made(tokenizer, "ab c", "ab c")._replace(pieces=parts)
    first = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    second = torch.tensor([[0.75, 0.25], [0.0, 1.0]])
    assert weights_of(tokenizer, whole, first, second) == [{0: 0.625}, {1: 0.75}]


def test_other_words_than_spaces_make_give_the_diagonal(tokenizer: Tokenizer) -> None:
    translation = made(tokenizer, "ab c", "ab c")._replace(text="ab c d")
    attention = torch.full((4, 4), 0.25)
    assert weights_of(tokenizer, translation, attention) == [{0: 1.0}, {0: 1.0}, {1: 1.0}]
