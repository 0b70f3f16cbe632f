"""Words of subwords: by hand, and those of the decoded text over the embedded corpus."""

import math
import random

import pytest
from harness import corpus_lines

from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import Tokenizer, prepare_tokenizers
from translate.decoding.output.words import Word, group_words, word_confidences


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return corpus_lines("train.de", step=7)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest, lines: list[str]) -> Tokenizer:
    config = TokenizerConfig.model_validate({"vocab_size": 503, "type": request.param})
    return prepare_tokenizers(config, lines[:500], lines[:500]).source


@pytest.mark.parametrize(
    "pieces, words",
    [
        (["▁Der", "▁Hu", "nd", "▁l", "äuf", "t."], [("Der", [0]), ("Hund", [1, 2]), ("läuft.", [3, 4, 5])]),
        (["Hu", "nd", "▁da"], [("Hund", [0, 1]), ("da", [2])]),  # nothing says that the first piece begins a word
        (["▁", "Ä", "▁", "x"], [("Ä", [0, 1]), ("x", [2, 3])]),
        (["▁", "▁a", "▁", "▁", "▁b"], [("a", [0, 1]), ("b", [2, 3, 4])]),
        (["▁a", "▁", "▁▁"], [("a", [0, 1, 2])]),
        (["▁", "▁"], [("", [0, 1])]),
        ([], []),
        (["▁a", "<0xE2>", "<0x82>", "b", "▁c"], [("a\ufffd\ufffdb", [0, 1, 2, 3]), ("c", [4])]),  # not UTF-8
        (["▁<0xE", "2>", "▁<0xe2>"], [("<0xE2>", [0, 1]), ("<0xe2>", [2])]),  # text that looks like a byte
        (["▁a", "▁", "<unk>", "▁b"], [("a", [0]), ("<unk>", [1, 2]), ("b", [3])]),
        # € is E2 82 AC in UTF-8, ß is C3 9F.
        (["▁5", "<0xE2>", "<0x82>", "<0xAC>", "▁", "<0xC3>", "<0x9F>"], [("5€", [0, 1, 2, 3]), ("ß", [4, 5, 6])]),
    ],
)
def test_words_by_hand(pieces: list[str], words: list[tuple[str, list[int]]]) -> None:
    assert group_words(pieces) == [Word(*word) for word in words]


def test_words_of_any_tokens_that_a_model_may_choose(tokenizer: Tokenizer) -> None:
    spaces = {tokenizer.parse([f"<0x{byte:02X}>"])[0] for byte in b" "}  # a space that begins no word
    choices = [token for token in range(4, tokenizer.vocab_size) if token not in spaces]
    generator = random.Random(7)
    for _ in range(300):
        ids = generator.choices(choices, k=generator.randint(5, 19))
        words = group_words(tokenizer.pieces(ids))
        assert [word.text for word in words] == [word for word in tokenizer.decode(ids).split(" ") if word]
        assert [position for word in words for position in word.positions] == list(range(len(ids)))


def test_confidence_by_hand() -> None:
    # Hund: the product 0.9 · 0.4 = 0.36, and its square root 0.6, the geometric mean of two; the end symbol is no word.
    log_probs = [math.log(number) for number in (0.5, 0.9, 0.4, 0.8)]
    for given in (log_probs, log_probs[:3]):
        assert word_confidences(["▁der", "▁Hu", "nd"], given) == [
            ("der", pytest.approx(0.5), pytest.approx(0.5)),
            ("Hund", pytest.approx(0.36), pytest.approx(0.6)),
        ]
    assert word_confidences([], [math.log(0.25)]) == word_confidences([], []) == []
    assert word_confidences(["▁a", "b"], [-math.inf, 0.0]) == [("ab", 0.0, 0.0)]
