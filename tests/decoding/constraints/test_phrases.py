"""What a translation has of required phrases: readings by hand, and by regular expressions; the spelling of phrases."""

import itertools
import random
import re
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from translate.config import TokenizerConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, train_tokenizer
from translate.decoding.constraints.phrases import (
    build_table,
    build_word_tables,
    encode_phrase,
    find_progress,
    unsatisfied_phrases,
)
from translate.errors import InputError

START, A, B, C, S = range(1, 6)  # S continues a word
BEGINS_WORD = torch.tensor([True, True, True, True, True, False])
Phrases = Sequence[Sequence[int]]


def missing_in(ids: Sequence[int], phrases: Phrases) -> list[tuple[int, ...]]:
    """The phrases that a translation lacks."""
    text = "".join(map(str, ids))
    missing = sorted((tuple(phrase) for phrase in phrases), key=lambda phrase: (-len(phrase), phrase))
    position = 0
    while missing:
        pattern = re.compile("|".join("".join(map(str, phrase)) + rf"(?!{S})" for phrase in missing))
        if not (match := pattern.search(text, position)):
            break
        missing.remove(tuple(map(int, match[0])))
        position = match.end()
    return missing


@pytest.mark.parametrize(
    "ids, num_satisfied, missing, begun",
    [
        # Phrases: A B C, B S, A, each once
        ([], 0, [1, 1, 1], [0, 0, 0]),
        ([A], 1, [1, 1, 0], [1, 0, 0]),
        ([A, B], 3, [1, 1, 0], [2, 1, 0]),  # A, its end, and B of B S; or two tokens of A B C
        ([A, B, C], 3, [0, 1, 1], [0, 0, 0]),  # no more A: its token is taken
        ([A, B, A], 3, [1, 1, 0], [1, 0, 0]),
        ([A, B, S], 4, [1, 0, 0], [0, 0, 0]),
        ([B, S, S], 0, [1, 1, 1], [0, 0, 0]),  # another word
        ([A, S], 0, [1, 1, 1], [0, 0, 0]),
        ([A, C], 2, [1, 1, 0], [0, 0, 0]),
        ([A, B, C, C], 4, [0, 1, 1], [0, 0, 0]),
        ([C, B], 1, [1, 1, 1], [0, 1, 0]),
        ([A, B, C, A, B, S, B], 9, [0, 0, 0], [0, 0, 0]),
    ],
)
def test_progress_by_hand(ids: list[int], num_satisfied: int, missing: list[int], begun: list[int]) -> None:
    table = build_table([[[A], [A, B, C], [B, S]]])
    rubbish = [B, S, A, B, C][:5]
    tokens = torch.tensor([[[START, *ids, *rubbish]]])
    progress = find_progress(tokens, torch.tensor([len(ids)]), table, begins_word=BEGINS_WORD)
    assert progress.num_satisfied.tolist() == [[num_satisfied]]
    assert progress.missing.tolist() == [[missing]]
    assert progress.begun.tolist() == [[begun]]


def test_a_token_of_one_phrase_begins_no_other() -> None:
    table = build_table([[[A, B], [B, C]]])
    progress = find_progress(
        torch.tensor([[[START, A, B], [START, C, B]]]), torch.tensor([2]), table, begins_word=BEGINS_WORD
    )
    assert progress.num_satisfied.tolist() == [[2, 1]] and progress.begun.tolist() == [[[0, 0], [0, 1]]]


def test_the_three_readings_agree() -> None:
    """Of 7 sentences with their own phrases and lengths, 13 hypotheses each, several times."""
    generator = random.Random(11)
    for _ in range(30):
        phrases = [
            [generator.choices([A, B, S], k=generator.randint(1, 3)) for _ in range(generator.randint(0, 4))]
            for _ in range(7)
        ]
        ids = torch.tensor([[generator.choices([A, B, C, S], k=12) for _ in range(13)] for _ in range(7)])
        lengths = torch.tensor(generator.choices(range(12), k=7))
        table = build_table(phrases)
        progress = find_progress(ids, lengths, table, begins_word=BEGINS_WORD)
        for sentence, slot in itertools.product(range(7), range(13)):
            translation = ids[sentence, slot, 1 : int(lengths[sentence]) + 1].tolist()
            missing = missing_in(translation, phrases[sentence])
            places = unsatisfied_phrases(translation, phrases[sentence], begins_word=BEGINS_WORD)
            assert sorted(tuple(phrases[sentence][place]) for place in places) == sorted(missing)
            by_table = [
                tuple(table.ids[sentence, number, : int(table.lengths[sentence, number])].tolist())
                for number, times in enumerate(progress.missing[sentence, slot].tolist())
                for _ in range(times)
            ]
            assert sorted(by_table) == sorted(missing)


def test_the_last_of_equal_phrases_are_missing() -> None:
    assert unsatisfied_phrases([A, B], [[A], [B], [A], [A]], begins_word=BEGINS_WORD) == [2, 3]


# Text


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = ["the dog runs", "dogs, don't run!", "a dog's house", "Über die Straße", "the doghouse"] * 3
    return train_tokenizer(lines, TokenizerConfig(vocab_size=310))


@pytest.fixture(scope="module")
def begins_word(tokenizer: Tokenizer) -> Tensor:
    return build_word_tables(tokenizer).begins_word


def test_phrases_are_spelt_as_words_of_their_own(tokenizer: Tokenizer) -> None:
    assert "".join(tokenizer.pieces(encode_phrase(tokenizer, " the  dog\n"))) == "▁the▁dog"
    for text in ("", " ", "\u3000\n"):
        with pytest.raises(InputError, match="is empty"):
            encode_phrase(tokenizer, text)


def test_a_phrase_that_cannot_be_spelt_is_named() -> None:
    plain = train_tokenizer(["the dog runs"] * 3, TokenizerConfig(vocab_size=18, byte_fallback=False))
    assert encode_phrase(plain, "dog") == plain.encode("dog")
    with pytest.raises(InputError, match="^the phrase 'dög €': the target vocabulary cannot spell 'ö', '€'$"):
        encode_phrase(plain, "dög €")


@pytest.mark.parametrize(
    "text, is_met",
    [
        ("the dog", True),
        ("dog dog runs", True),
        ("a dog, or two", True),
        ("a dog's house", True),
        ("dog-house", True),
        ("the dogs run", False),
        ("doghouse", False),
        ("dogö dogé dog5", False),
        ("bulldog", False),
        ("dogs dog", True),
        ("", False),
    ],
)
def test_words_in_text(tokenizer: Tokenizer, begins_word: Tensor, text: str, is_met: bool) -> None:
    """All but the phrase is spelt by characters and bytes, so that none is merged with the end of a word."""
    dog = encode_phrase(tokenizer, "dog")
    known = set(tokenizer.pieces(range(tokenizer.vocab_size)))
    ids: list[int] = []
    for part in re.findall("▁dog|.", ("▁" + text.replace(" ", "▁")).rstrip("▁")):
        spelt = [part] if part in known else [f"<0x{byte:02X}>" for byte in part.encode()]
        ids += dog if part == "▁dog" else tokenizer.parse(spelt)
    assert tokenizer.decode(ids) == text
    assert (unsatisfied_phrases(ids, [dog], begins_word=begins_word) == []) == is_met


def test_what_begins_a_word(tokenizer: Tokenizer, begins_word: Tensor) -> None:
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    for token, piece in enumerate(pieces):
        if not piece.startswith("<"):
            assert begins_word[token] == (piece[0] in "▁,'!"), piece
    assert all(begins_word[token] for token in (PAD_ID, UNK_ID, BOS_ID, EOS_ID))
    for piece, expected in [
        ("<0x21>", True),
        ("<0x41>", False),
        ("<0x35>", False),
        ("<0xC3>", False),
        ("<0xBC>", False),
    ]:
        assert begins_word[pieces.index(piece)] == expected, piece


class ListedPieces(Tokenizer):
    """A vocabulary written by hand: all that `build_word_tables` asks for."""

    listed = ["<pad>", "<unk>", "<s>", "eos", "▁dog", "ma", "▁", "!", "▁(", "'s", "▁3", "ma.", "<0xC3>", "犬", "é"]

    def __init__(self) -> None:
        pass

    @property
    def vocab_size(self) -> int:
        return len(self.listed)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.listed[token] for token in ids]


def test_what_leaves_a_word_open() -> None:
    # By hand; the special symbols end no word, whatever they are called.
    table = build_word_tables(ListedPieces()).leaves_word_open
    found = [piece for piece, is_open in zip(ListedPieces.listed, table.tolist(), strict=True) if is_open]
    assert found == ["▁dog", "ma", "'s", "▁3", "<0xC3>", "犬", "é"]
