"""Words of subwords: by hand, and those of the decoded text over the embedded corpus."""

import math
import random
from pathlib import Path

import pytest
import torch

from translate.config.data import TokenizerConfig
from translate.data.tokenizer import Tokenizer, prepare_tokenizers
from translate.decoding.output.words import (
    AlignmentLink,
    Word,
    align_words,
    alignment_error_rate,
    format_pharaoh,
    group_words,
    word_confidences,
)

CORPUS = Path(__file__).parents[3] / "data" / "train.de"


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return CORPUS.read_text(encoding="utf-8").splitlines()[::7]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest, lines: list[str]) -> Tokenizer:
    config = TokenizerConfig.model_validate({"vocab_size": 503, "type": request.param})
    return prepare_tokenizers(config, lines[:500], lines[:500]).source


def spelt(*pieces: str) -> list[str]:
    return [word.text for word in group_words(pieces)]


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
    ],
)
def test_words_by_hand(pieces: list[str], words: list[tuple[str, list[int]]]) -> None:
    assert group_words(pieces) == [Word(*word) for word in words]


def test_bytes_belong_to_their_word() -> None:
    # € is E2 82 AC in UTF-8, ß is C3 9F.
    assert group_words(["▁5", "<0xE2>", "<0x82>", "<0xAC>", "▁", "<0xC3>", "<0x9F>", "a"]) == [
        ("5€", [0, 1, 2, 3]),
        ("ßa", [4, 5, 6, 7]),
    ]


def test_bytes_that_are_no_utf8() -> None:
    assert spelt("▁a", "<0xE2>", "<0x82>", "b", "▁c") == ["a\ufffd\ufffdb", "c"]
    assert spelt("▁<0xE", "2>", "▁<0xe2>") == ["<0xE2>", "<0xe2>"]  # text that looks like one


def test_unknown_token_is_a_part_of_its_word() -> None:
    assert group_words(["▁a", "▁", "<unk>", "▁b"]) == [("a", [0]), ("<unk>", [1, 2]), ("b", [3])]


def test_words_are_those_of_the_text(tokenizer: Tokenizer, lines: list[str]) -> None:
    lines = [*lines, "Ein 🦄 läuft", "中文 5€!", "x"]
    for ids in tokenizer.encode_lines(lines, num_threads=1):
        words = group_words(tokenizer.pieces(ids))
        assert [word.text for word in words] == tokenizer.decode(ids).split(" ")
        assert [position for word in words for position in word.positions] == list(range(len(ids)))
    assert max(len(ids) for ids in tokenizer.encode_lines(lines[:9], num_threads=1)) > 9  # words of several subwords


def test_words_of_any_tokens_that_a_model_may_choose(tokenizer: Tokenizer) -> None:
    spaces = {tokenizer.parse([f"<0x{byte:02X}>"])[0] for byte in b" "}  # a space that begins no word
    choices = [token for token in range(4, tokenizer.vocab_size) if token not in spaces]
    generator = random.Random(7)
    for _ in range(300):
        ids = generator.choices(choices, k=generator.randint(5, 19))
        expected = [word for word in tokenizer.decode(ids).split(" ") if word]
        assert spelt(*tokenizer.pieces(ids)) == expected


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


# Alignments: all expected values by hand, from one table of attention weights

# Two target subwords and the end symbol, four source subwords and the end symbol. Without the end symbol's column the
# rows are 0.2 0.4 0.2 0.2 and 0.375 0 0.125 0.5.
WEIGHTS = torch.tensor(
    [
        [0.1, 0.2, 0.1, 0.1, 0.5],
        [0.3, 0.0, 0.1, 0.4, 0.2],
        [0.0, 0.0, 0.1, 0.0, 0.9],
    ]
)


def links(text: str) -> set[AlignmentLink]:
    return {AlignmentLink(*map(int, link.split("-"))) for link in text.split()}


def test_subwords() -> None:
    aligned = align_words(WEIGHTS)
    assert list(aligned) == [AlignmentLink(source=1, target=0), AlignmentLink(source=3, target=1)]
    assert list(aligned.values()) == pytest.approx([0.4, 0.5])


def test_words() -> None:
    source_words = [word.positions for word in group_words(["▁Hu", "nd", "▁im", "▁Haus"])]
    # Row 0: 0.2 + 0.4, 0.2, 0.2. Row 1: 0.375 + 0, 0.125, 0.5.
    aligned = align_words(WEIGHTS, source_words=source_words, target_words=[[0], [1]])
    assert list(aligned) == [AlignmentLink(0, 0), AlignmentLink(2, 1)]
    assert list(aligned.values()) == pytest.approx([0.6, 0.5])
    # One target word of both subwords: (0.6 + 0.375) / 2, (0.2 + 0.125) / 2, (0.2 + 0.5) / 2.
    assert align_words(WEIGHTS, source_words=source_words, target_words=[[0, 1]]) == {
        AlignmentLink(0, 0): pytest.approx(0.4875)
    }


def test_words_of_one_subword_each_are_subwords() -> None:
    weights = torch.rand(8, 6)
    each = {"source_words": [[place] for place in range(5)], "target_words": [[place] for place in range(7)]}
    assert align_words(weights, **each) == align_words(weights)


def test_scale_of_a_row_does_not_matter() -> None:
    scaled = align_words(WEIGHTS * torch.tensor([[2.0], [3.0], [5.0]]))
    assert list(scaled.values()) == pytest.approx(list(align_words(WEIGHTS).values()))


def test_attention_to_the_end_symbol_alone_gives_no_link() -> None:
    weights = torch.tensor([[0.0, 0.0, 1.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    assert align_words(weights) == {AlignmentLink(0, 1): 0.5}  # the first of two equals


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_empty_side(shape: tuple[int, int]) -> None:
    assert align_words(torch.ones(shape)) == {}
    words = {"target_words": [[0, 1]] if shape[0] == 3 else [], "source_words": [[0, 1]] if shape[1] == 3 else []}
    assert align_words(torch.ones(shape), **words) == {}


def test_pharaoh() -> None:
    found = [AlignmentLink(10, 0), AlignmentLink(2, 3), AlignmentLink(2, 1), AlignmentLink(0, 7)]
    assert format_pharaoh(found) == "0-7 2-1 2-3 10-0"  # by number: as text 10 would come before 2
    assert format_pharaoh([]) == ""
    assert format_pharaoh(align_words(WEIGHTS)) == "1-0 3-1"


def test_error_rate_by_hand() -> None:
    # Of three links and two expected ones, one is in both: 1 - 2 · 1 / (3 + 2).
    first = links("0-0 1-1 2-2"), links("0-0 1-2")
    assert alignment_error_rate([first[0]], expected=[first[1]]) == pytest.approx(0.6)
    # With a second sentence, all right, counts are added up, not rates: 1 - 2 · 2 / (4 + 3).
    second = links("0-0"), links("0-0")
    found, expected = ([one, other] for one, other in zip(first, second, strict=True))
    assert alignment_error_rate(found, expected=expected) == pytest.approx(3 / 7)


def test_error_rate_at_its_ends() -> None:
    assert alignment_error_rate([links("0-0 1-1")], expected=[links("1-1 0-0")]) == 0.0
    assert alignment_error_rate([links("0-1")], expected=[links("0-0")]) == 1.0
    assert alignment_error_rate([links("")], expected=[links("0-0")]) == 1.0


def test_error_rate_of_wrong_input() -> None:
    with pytest.raises(ValueError, match="shorter"):
        alignment_error_rate([links(""), links("")], expected=[links("")])
    with pytest.raises(ValueError, match="neither a link nor an expected link"):
        alignment_error_rate([links("")], expected=[links("")])
