"""Required phrases: searches on probability tables, compared with an enumeration of all sequences or done by hand.

`missing_in` reads a translation by regular expressions, independently of the package.
"""

import itertools
import math
import random
import re
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from harness import random_model
from tables import END, PLAIN, START, A, B, C, S, Table, all_sequences, random_table, run

from translate.config.decoding import DecodingConfig
from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import Tokenizer, Tokenizers, train_tokenizer
from translate.decoding import Request, Translator
from translate.decoding.constraints.phrases import (
    RequiredPhrases,
    WordTables,
    build_table,
    build_word_tables,
    encode_forbidden,
    encode_phrase,
    encode_placeholders,
    find_progress,
    unsatisfied_phrases,
)
from translate.decoding.search.beam import Hypothesis, Scoring, start_beam
from translate.errors import InputError

BEGINS_WORD = torch.tensor([True, True, True, True, True, False])  # S continues a word
WORDS = WordTables(BEGINS_WORD, torch.ones(6, dtype=torch.bool), torch.arange(6))
Phrases = Sequence[Sequence[int]]


def line(**probabilities: float) -> list[float]:
    """Log-probabilities by name; what is not named has nearly none."""
    names = ["END", "START", "A", "B", "C", "S"]
    return [math.log(probabilities.get(name, 1e-9)) if name != "START" else -math.inf for name in names]


def models(number: int, *, sharpness: float = 2.0) -> list[Table]:
    return [random_table(seed, vocab_size=6, sharpness=sharpness) for seed in range(number)]


def require(*phrases: Phrases) -> RequiredPhrases:
    return RequiredPhrases(phrases, words=WORDS, end_id=END)


def search_all(tables: Sequence[Table], phrases: Sequence[Phrases], *, beam_size: int, **options: Any) -> list[Any]:
    """All hypotheses that the beam has found for each sentence."""
    select = require(*phrases)
    return run(tables, beam_size, **{"scoring": PLAIN, "num_best": beam_size, "select_candidates": select} | options)


def most_satisfied_first(hypotheses: list[Hypothesis], phrases: Phrases) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda each: len(missing_in(each.ids, phrases)))


def search(table: Table, phrases: Phrases, *, max_length: int, beam_size: int, **options: Any) -> list[Hypothesis]:
    """Of one sentence, those that lack least first."""
    (found,) = search_all([table], [phrases], max_lengths=[max_length], beam_size=beam_size, **options)
    return most_satisfied_first(found, phrases)


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


PHRASES: list[Phrases] = [
    [[B]],
    [[B, S]],
    [[A, B], [C]],
    [[B], [B]],
    [[A, B], [A, B]],
    [[A, B], [A, C]],  # they begin alike
    [[A], [A, B]],  # one begins the other
    [[A], [A, S]],  # one word begins the other word
    [[B], [A, B, C]],  # one lies in the other
    [[A, A, B]],  # a phrase begun in vain may begin again one token later
    [[A, B], [B, C]],
    [[C], [B], [A]],
    [[S, S]],
]


@pytest.mark.parametrize("phrases", PHRASES, ids=str)
def test_a_wide_beam_finds_the_best_sequence_that_has_the_phrases(phrases: Phrases) -> None:
    for seed, scoring in [(1, PLAIN), (2, Scoring("gnmt", 1.0))]:
        table = random_table(seed, vocab_size=6, sharpness=2.0)
        sequences = all_sequences(table, scoring, max_length=4)
        assert len(sequences) == 341  # 1 + 4 + 16 + 64 + 256
        best = next(each for each in sequences if not missing_in(each.ids, phrases))
        found = search(table, phrases, max_length=4, beam_size=341, scoring=scoring)[0]
        assert tuple(found.ids) == best.ids
        assert found.score == pytest.approx(best.score, abs=1e-5)


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
def test_a_narrow_beam_satisfies_all_phrases(beam_size: int) -> None:
    random_numbers = random.Random(7)
    phrases = [[random_numbers.choices([A, B, C], k=random_numbers.randint(1, 3)) for _ in range(3)] for _ in range(40)]
    results = search_all(models(40), phrases, max_lengths=[25] * 40, beam_size=beam_size)
    for required, found in zip(phrases, results, strict=True):
        assert found and not missing_in(most_satisfied_first(found, required)[0].ids, required)
        assert all(each.truncated or not missing_in(each.ids, required) for each in found)


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_each_sentence_has_its_own_phrases(beam_size: int) -> None:
    """Those without phrases are searched as ever; each is known by its number, in whatever order they come."""
    tables, options = models(7), {"beam_size": beam_size, "max_lengths": [9, 3, 9, 7, 1, 9, 5]}
    plain = run(tables, scoring=PLAIN, num_best=beam_size, **options)
    assert search_all(tables, [[]] * 7, **options) == plain
    phrases: list[Phrases] = [[], [[A]], [], [[B, C], [A]], [], [], [[S]]]
    mixed = search_all(tables, phrases, order=[3, 0, 2, 6, 1, 5, 4], **options)
    for sentence, required in enumerate(phrases):
        alone = search_all(tables, phrases, order=[sentence], **options)[sentence] if required else plain[sentence]
        assert mixed[sentence] == alone


def test_processed_scores_rank() -> None:
    """Forbidden tokens are not selected, though they would meet a phrase; and the input stays as it was."""
    select = require([[B]])
    state = start_beam(torch.tensor([5]), beam_size=3, capacity=5, start_id=START)
    scores = torch.tensor([[line(END=0.5, A=0.3, C=0.2)] * 3])
    scores[:, :, B] = -math.inf
    copy = scores.clone()
    candidates = select(state, scores)
    assert torch.equal(scores, copy)
    assert candidates.tokens[0, :2].tolist() == [A, C]
    assert candidates.cumulative_scores[0, :2].exp().tolist() == pytest.approx([0.3, 0.2])


def test_one_step_is_shared_out_by_hand() -> None:
    """Required: B C. Open: C (0.5) and B (0.01), with 0 and 1 tokens met."""
    state = start_beam(torch.tensor([5]), beam_size=3, capacity=5, start_id=START)._replace(
        slot_ids=torch.tensor([[[START, word, 0, 0, 0, 0] for word in (C, B, 0, 0, 0, 0)]]),
        cumulative_scores=torch.tensor([[math.log(0.5), math.log(0.01), -math.inf]]),
        lengths=torch.tensor([1]),
    )
    scores = torch.tensor([[line(A=0.6, B=0.1, C=0.3), line(A=0.5, B=0.2, C=0.001, S=0.2), line(A=1.0)]])
    candidates = require([[B, C]])(state, scores)
    # Full bank: B C, 1e-5. Bank of one token: C B, 0.05, before B B, 0.002. Empty bank: C A, 0.3, before C C, B A, B S.
    assert candidates.beam_indices[0, :3].tolist() == [0, 0, 1] and candidates.tokens[0, :3].tolist() == [A, B, C]
    assert candidates.cumulative_scores.exp().tolist() == [pytest.approx([0.3, 0.05, 1e-5, 0, 0, 0])]


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
    progress = find_progress(tokens, torch.tensor([len(ids)]), table, words=WORDS)
    assert progress.num_satisfied.tolist() == [[num_satisfied]]
    assert progress.is_missing.int().tolist() == [[missing]]
    assert progress.num_begun.tolist() == [[begun]]


def test_progress_is_what_regular_expressions_find() -> None:
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
        progress = find_progress(ids, lengths, table, words=WORDS)
        for sentence, slot in itertools.product(range(7), range(13)):
            translation = ids[sentence, slot, 1 : int(lengths[sentence]) + 1].tolist()
            missing = sorted(missing_in(translation, phrases[sentence]))
            by_table = table[sentence, progress.is_missing[sentence, slot]].tolist()
            assert sorted(tuple(token for token in row if token >= 0) for row in by_table) == missing
        places = unsatisfied_phrases(translation, phrases[-1], words=WORDS)  # of the last one
        assert sorted(tuple(phrases[-1][place]) for place in places) == missing


def test_the_last_of_equal_phrases_are_missing() -> None:
    assert unsatisfied_phrases([A, B], [[A], [B], [A], [A]], words=WORDS) == [2, 3]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = ["the dog runs", "dogs, don't run!", "a dog's house", "Über die Straße", "the doghouse"] * 3
    return train_tokenizer(lines, TokenizerConfig(vocab_size=310))


def test_phrases_are_spelt_as_words_of_their_own(tokenizer: Tokenizer) -> None:
    assert "".join(tokenizer.pieces(encode_phrase(tokenizer, " the  dog\n"))) == "▁the▁dog"
    for text in ("", " ", "\u3000\n"):
        with pytest.raises(InputError, match="is empty"):
            encode_phrase(tokenizer, text)


def test_phrases_in_a_script_without_spaces_are_spelt_as_within_a_sentence() -> None:
    lines = ["狗在雪地里跑。", "我的狗在跑。", "我的猫和狗在睡觉。", "小狗abc。", "猫跑。"] * 5
    chinese = train_tokenizer(lines, TokenizerConfig(vocab_size=32, byte_fallback=False))
    phrase, words = encode_phrase(chinese, "狗"), build_word_tables(chinese)
    assert chinese.pieces(phrase) == ["狗"] and "▁猫" in chinese.pieces(chinese.encode("猫和狗跑。"))
    for wanted, text in (("狗", "猫和狗跑。"), ("狗", "狗跑。"), ("狗", "我的狗ab"), ("猫", "猫和狗跑。")):
        ids, phrase = chinese.encode(text), encode_phrase(chinese, wanted)
        assert unsatisfied_phrases(ids, [phrase, phrase], words=words) == [1], chinese.pieces(ids)
    forbidden = {piece for ids in encode_forbidden(chinese, "狗") for piece in chinese.pieces(ids)}
    assert forbidden == {piece for piece in chinese.all_pieces if "狗" in piece} > {"狗"}
    tokenizers = Tokenizers(chinese, chinese, "joint")
    translator = Translator(random_model(tokenizers).eval(), tokenizers, DecodingConfig(device="cpu"))
    assert translator.translate(Request("猫", prefix="猫和")).ids[:2] == chinese.encode("猫和")  # at the beginning
    assert encode_forbidden(chinese, "猫。") == [encode_phrase(chinese, "猫。")]


def test_a_phrase_that_cannot_be_spelt_is_named() -> None:
    plain = train_tokenizer(["the dog runs"] * 3, TokenizerConfig(vocab_size=18, byte_fallback=False))
    assert encode_phrase(plain, "dog") == plain.encode("dog")
    with pytest.raises(InputError, match="^the phrase 'dög €': the target vocabulary cannot spell 'ö', '€'$"):
        encode_phrase(plain, "dög €")


def test_where_words_begin_and_end() -> None:
    # By hand; the special symbols begin a word and end none, whatever they are called.
    listed = ["<pad>", "<unk>", "<s>", "eos", "▁dog", "ma", "▁", "!", "▁(", "'s", "▁3", "ma."]
    listed += ["<0x21>", "<0x41>", "<0x35>", "<0xC3>", "犬", "é", "ี", "▁犬"]
    tokenizer = Mock(spec=Tokenizer, vocab_size=len(listed))
    tokenizer.pieces.return_value = listed
    tables = build_word_tables(tokenizer)
    begins, leaves_open = (
        {piece for piece, is_true in zip(listed, table.tolist(), strict=True) if is_true} for table in tables[:2]
    )
    assert [listed[token] for token in tables.within_sentence.tolist()] == [*listed[:-1], "犬"]
    assert begins == {"<pad>", "<unk>", "<s>", "eos", "▁dog", "▁", "!", "▁(", "'s", "▁3", "<0x21>", "犬", "▁犬"}
    assert leaves_open == {"▁dog", "ma", "'s", "▁3", "<0x21>", "<0x41>", "<0x35>", "<0xC3>", "é"}


@pytest.mark.parametrize(
    ("source", "spelled"),
    [
        ("Open %s now", ["%s"]),
        ("Open <b>%s</b>: {name}", ["<b>", "%s", "</b>", "{name}"]),
        ("no placeholder", []),
        ("{n, plural, one {# file} other {# files}}", []),  # in this order only
        ("%s now" * 10, ["%s"] * 10),
        ("%s now" * 11, []),  # a search for so many takes minutes
        ("{" + "name" * 10 + "}", ["{" + "name" * 10 + "}"]),
        ("{" + "name" * 110 + "}", []),
        ("Open %s \U0001f600", []),  # the vocabulary cannot spell the emoji
    ],
)
def test_the_placeholders_of_a_source_are_spelled(source: str, spelled: list[str]) -> None:
    lines = ["Open <b>%s</b> now: {name}", "no placeholder {n, plural, one {# file} other {# files}}"] * 3
    config = TokenizerConfig(vocab_size=60, byte_fallback=False, add_pieces=["%s", "<b>", "</b>"])
    tokenizer = train_tokenizer(lines, config)
    found = encode_placeholders(tokenizer, source)
    assert ["".join(tokenizer.pieces(ids)).replace("\u2581", "") for ids in found] == spelled
    translated = "".join(("die ", source))
    if spelled:  # a translation with the same placeholders has all of them
        assert unsatisfied_phrases(tokenizer.encode(translated), found, words=build_word_tables(tokenizer)) == []
        cut = tokenizer.encode(translated.replace(spelled[0], "", 1))
        assert unsatisfied_phrases(cut, found, words=build_word_tables(tokenizer)) != []
