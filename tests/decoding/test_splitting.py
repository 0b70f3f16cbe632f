"""Long lines in pieces: where they part, decided by hand; what becomes of constraints, scores, lists and links."""

import time
from collections.abc import Sequence

import pytest
from harness import MakeTranslator, Toy, random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import Tokenizers
from translate.decoding import Request, Translation, Translator, count_conditions
from translate.decoding.constraints.terminology import Terminology
from translate.decoding.output.formats import describe
from translate.decoding.splitting import split_text
from translate.errors import InputError
from translate.exchange.foreign import Vocabulary, reorder_sentencepiece


def count_words(texts: Sequence[str]) -> list[int]:
    """A token for each word begun, and one more for each five characters of it: long words are several."""
    return [sum(1 + len(word) // 5 for word in text.split()) for text in texts]


@pytest.mark.parametrize(
    "text, max_tokens, pieces",
    [
        ("a b c", 3, ["a b c"]),
        # Each sentence that is not very short is a piece, though two would fit.
        (
            "a b c d e f g hi. A b c d e f g h! Ok. A b c d e f g h? A b",
            20,
            ["a b c d e f g hi. ", "A b c d e f g h! ", "Ok. A b c d e f g h? ", "A b"],
        ),
        # No sentence ends before a small letter, after a number or after one letter.
        (
            "am 3. Mai bei J. Weh usw. und so fort. Ein Hund.",
            11,
            ["am 3. Mai bei J. Weh usw. und so fort. ", "Ein Hund."],
        ),
        # Closing quotes belong to the sentence; wide marks need no space.
        ("„A b c d e f g hi.“ (I j k l m n o p!) Q", 9, ["„A b c d e f g hi.“ ", "(I j k l m n o p!) ", "Q"]),
        (
            "你好" * 20 + "。「" + "你好" * 20 + "。」" + "你好",
            9,
            ["你好" * 20 + "。", "「" + "你好" * 20 + "。」", "你好"],
        ),
        # Within a sentence: at : and ; first, then commas, then spaces; halves of about the same length.
        ("a b c, d; e f g h", 6, ["a b c, d; ", "e f g h"]),
        ("a b, c d, e f, g h", 6, ["a b, c d, ", "e f, g h"]),
        ("a b c d e f g", 6, ["a b c d ", "e f g"]),
        ("x" * 23, 2, ["x" * 5, "x" * 6, "x" * 6, "x" * 6]),  # within a word at last
        ("a\u2028b\xa0c\u3000d", 2, ["a\u2028b\xa0", "c\u3000d"]),
    ],
)
def test_where_lines_part(text: str, max_tokens: int, pieces: list[str]) -> None:
    assert split_text([text], max_tokens=max_tokens, count_tokens=count_words) == pieces
    assert "".join(pieces) == text


def test_a_character_that_is_too_long_by_itself_stays() -> None:
    def count(texts: Sequence[str]) -> list[int]:
        return [3 * len(text) for text in texts]

    assert split_text(["abc"], max_tokens=2, count_tokens=count) == ["a", "b", "c"]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.text(max_size=120), st.integers(1, 12))
def test_nothing_is_lost_and_everything_fits(text: str, max_tokens: int) -> None:
    pieces = split_text([text], max_tokens=max_tokens, count_tokens=count_words)
    assert "".join(pieces) == text
    for piece, size in zip(pieces, count_words(pieces), strict=True):
        assert piece != "" or text == ""
        assert size <= max_tokens or len(piece) == 1


@pytest.mark.parametrize("unit", ["Hund. ", "x", "x ", "e\u0301", ".", "你好。", "\u200d"])
def test_a_hundred_thousand_characters_take_no_time(unit: str) -> None:
    """Each of them takes some hundredths of a second; what grew with the square of the length would take minutes."""
    text = unit * (100_000 // len(unit))
    started = time.perf_counter()
    pieces = split_text([text], max_tokens=255, count_tokens=count_words)
    assert "".join(pieces) == text and max(count_words(pieces)) <= 255
    assert time.perf_counter() - started < 10


LONG = "Hund läuft und Haus schläft und Straße grün. Der Hund schläft und Haus läuft und Hund"
PIECES = ["Hund läuft und Haus schläft und Straße grün. ", "Der Hund schläft und Haus läuft und Hund"]


@pytest.fixture
def limit(toy: Toy) -> int:
    """Each of the two pieces just fits."""
    return max(len(toy.tokenizers.source.encode(piece)) for piece in PIECES)


def same(one: Translation, other: Translation) -> bool:
    close = pytest.approx((one.log_prob, one.score, *one.token_log_probs), abs=1e-4)
    return one.text == other.text and close == (other.log_prob, other.score, *other.token_log_probs)


def test_a_split_line_is_its_pieces_put_together(translator: MakeTranslator, limit: int) -> None:
    given = translator(max_source_tokens=limit, beam_size=3)
    short, whole, after = given.translate(["Hund", LONG, "Haus"])
    parts = translator(beam_size=3).translate(PIECES)
    assert (short.pieces, after.pieces) == ((), ())
    assert whole.source == LONG and [piece.source for piece in whole.pieces] == PIECES
    assert all(same(piece, part) for piece, part in zip(whole.pieces, parts, strict=True))
    assert whole.text == f"{parts[0].text} {parts[1].text}" and whole.ids == parts[0].ids + parts[1].ids
    assert whole.log_prob == pytest.approx(parts[0].log_prob + parts[1].log_prob, abs=1e-4)
    assert whole.score == pytest.approx(parts[0].score + parts[1].score, abs=1e-4)
    assert len(whole.token_log_probs) == len(whole.ids) + 2  # the end symbol of each piece
    assert "split" in whole.flags and "source_truncated" not in whole.flags and "split" not in short.flags
    assert ", 1 translated in pieces" in str(count_conditions([short, whole, after]))


@pytest.mark.usefixtures("no_shape_checks")
def test_equal_pieces_are_sampled_apart(translator: MakeTranslator, toy: Toy) -> None:
    line = ". ".join(["Hund Hund Hund Haus Haus Haus grün grün läuft"] * 12)
    limit = len(toy.tokenizers.source.encode("Hund Hund Hund Haus Haus Haus grün grün läuft. "))
    (drawn,) = translator(search="sample", temperature=2.0, max_source_tokens=limit).translate([line])
    assert len(drawn.pieces) == 12 and len({piece.text for piece in drawn.pieces[:-1]}) > 1


def test_an_n_best_list_is_made_rank_by_rank(translator: MakeTranslator, limit: int) -> None:
    (whole,) = translator(max_source_tokens=limit, beam_size=4, n_best=3).translate([LONG])
    parts = translator(beam_size=4, n_best=3).translate(PIECES)
    entries = [(part, *part.alternatives) for part in parts]
    expected = [f"{first.text} {second.text}" for first, second in zip(*entries, strict=True)]
    assert [each.text for each in (whole, *whole.alternatives)] == expected
    scores = [each.score for each in (whole, *whole.alternatives)]
    assert scores == sorted(scores, reverse=True) and len(scores) == 3


def test_constraints_of_a_split_line(translator: MakeTranslator, limit: int) -> None:
    """The prefix is the first piece's, a term its own piece's; of other phrases it is said whether they are there."""
    given = translator(max_source_tokens=limit, beam_size=5)
    (plain,) = given.translate([LONG])
    present, absent = plain.text.split()[0], "sleeps green sleeps green"
    assert absent not in plain.text
    request = Request(
        LONG, prefix="the the", required=(present, absent), terminology=Terminology({"Straße": "runs runs"})
    )
    (translation,) = given.translate([request])
    first, second = translation.pieces
    assert first.text.startswith("the the") and not second.text.startswith("the the")
    assert "runs runs" in first.text and first.unmet == second.unmet == ()
    assert translation.unmet == (absent,) and "unmet" in translation.flags
    between = Terminology({"grün. Der": absent, "Hund läuft": "runs runs"})  # the first lies in both pieces
    assert given.translate(Request(LONG, terminology=between)).unmet == (absent,)


def test_a_split_line_as_a_record(translator: MakeTranslator, limit: int) -> None:
    """Words are counted on through the pieces, in the alignment too; a word that was cut itself is one word."""
    given = translator(max_source_tokens=limit)
    (aligned,) = given.align(given.translate_stream([LONG]))
    record = describe(aligned, given, number=1)
    assert [piece["source"] for piece in record["pieces"]] == PIECES
    assert record["translation"] == " ".join(piece["translation"] for piece in record["pieces"])
    assert record["tokens"] == [token for piece in record["pieces"] for token in piece["tokens"]]
    assert record["tokens"].count("</s>") == len(PIECES) == 2, "the end symbol of each piece"
    for each in (record, *record["pieces"]):
        assert len(each["tokens"]) == len(each["token_log_probs"]) and each["tokens"][-1] == "</s>"
    assert record["log_prob"] == pytest.approx(sum(piece["log_prob"] for piece in record["pieces"]))
    assert [word["text"] for word in record["words"]] == record["translation"].split()
    parts = given.align(given.translate_stream(PIECES))
    links = [[tuple(map(int, link.split("-"))) for link in part.alignment.split()] for part in parts]
    words = len(PIECES[0].split()), len(given.translate(PIECES[:1])[0].text.split())
    moved = [(source + words[0], target + words[1]) for source, target in links[1]]
    assert aligned.alignment == " ".join(f"{source}-{target}" for source, target in sorted([*links[0], *moved]))

    (aligned,) = given.align(given.translate_stream(["Hund " + "x" * (3 * limit) + " Haus"]))
    assert len(aligned.pieces) > 2
    assert {int(link.split("-")[0]) for link in aligned.alignment.split()} <= {0, 1, 2}


@pytest.mark.usefixtures("no_shape_checks")
def test_the_language_token_of_a_split_line_counts_once(toy: Toy) -> None:
    """Each piece begins with it, in the words that are aligned it is the first."""
    source = toy.tokenizers.source
    vocabulary = Vocabulary(["<unk>", "</s>", ">>deu<<", *source.all_pieces[4:]], 0, 1)
    tokenizer = reorder_sentencepiece(source.model_bytes, vocabulary, name="a.spm")
    tokenizers = Tokenizers(tokenizer, tokenizer, "joint")
    config = DecodingConfig(device="cpu", beam_size=1, max_source_tokens=9)
    given = Translator(random_model(tokenizers).eval(), tokenizers, config)
    ((found, attention),) = given.attend(given.translate_stream([f">>deu<< {LONG}"]))
    assert len(found.pieces) > 2 and all(piece.source.startswith(">>deu<< ") for piece in found.pieces)
    assert attention.num_sources == 1 + len(LONG.split())


def test_scoring_cuts_both_sides_or_refuses(toy: Toy, translator: MakeTranslator) -> None:
    encode = toy.tokenizers.target.encode
    target = encode(" ".join(["dog"] * 9))
    for long in ("split", "truncate"):
        given = translator(long=long, max_source_tokens=5, max_target_tokens=4)
        cut, whole = given.score(["Hund " * 9, "Hund"], [target, encode("dog")])
        assert cut.flags == {"source_truncated", "target_truncated"} and whole.flags == frozenset()
        assert cut.ids == target[:4] and len(cut.token_log_probs) == 5
        (by_hand,) = translator().score(
            [toy.tokenizers.source.decode(toy.tokenizers.source.encode("Hund " * 9)[:5])], [target[:4]]
        )
        assert cut.log_prob == pytest.approx(by_hand.log_prob, abs=1e-4)
    for sides, what in ((["Hund " * 9], "the source"), (["Hund"], "the target")):
        with pytest.raises(InputError, match=f"^line 8: {what} has \\d+ tokens, and the limit is [45] "):
            translator(long="error", max_source_tokens=5, max_target_tokens=4).score(sides, [target], first_number=7)


TEXT = "Der Hund schläft. Das Haus läuft.  Die Straße grün."
SENTENCES = ["Der Hund schläft. ", "Das Haus läuft.  ", "Die Straße grün."]


@pytest.mark.parametrize(
    ("setting", "share", "is_split"),
    [("auto", None, True), ("auto", 0.099, True), ("auto", 0.1, False), ("always", 1.0, True), ("never", None, False)],
)
def test_sentences_are_translated_alone_where_the_model_never_learnt_to_go_on(
    translator: MakeTranslator, setting: str, share: float | None, is_split: bool
) -> None:
    given = translator(split_sentences=setting).replace(multi_sentence_share=share)
    whole, one = given.translate([TEXT, SENTENCES[0]])
    assert [piece.source for piece in whole.pieces] == (SENTENCES if is_split else []) and one.pieces == ()
    assert ("split" in whole.flags, count_conditions([whole, one])["split"]) == (is_split, is_split)
    if is_split:
        parts = translator(split_sentences="never").translate(SENTENCES)
        assert all(same(piece, part) for piece, part in zip(whole.pieces, parts, strict=True))
        assert whole.text == " ".join(part.text for part in parts)
        [aligned] = given.align([whole])
        assert len({link.split("-")[0] for link in (aligned.alignment or "").split()}) > 3, "links of all sentences"


def test_a_constraint_on_several_sentences_keeps_them_together(translator: MakeTranslator) -> None:
    given, never = translator(split_sentences="always"), translator(split_sentences="never")
    spanning, within = Terminology({"schläft. Das": "sleeps sleeps"}), Terminology({"Haus läuft": "sleeps sleeps"})
    for request in (Request(TEXT, prefix="the. The"), Request(TEXT, required=("green green",)),
                    Request(TEXT, terminology=spanning)):  # fmt: skip
        assert same(given.translate(request), never.translate(request))
    found = given.translate(Request(TEXT, terminology=within, prefix=" "))
    assert len(found.pieces) == 3 and "sleeps sleeps" in found.pieces[1].text
    found = given.translate(Request(TEXT, prefix="the the"))
    assert [piece.text.startswith("the the") for piece in found.pieces] == [True, False, False]


def test_limits_are_those_of_a_sentence(translator: MakeTranslator, toy: Toy) -> None:
    limit = max(len(toy.tokenizers.source.encode(sentence)) for sentence in SENTENCES)
    found = translator(split_sentences="always", max_source_tokens=limit).translate(TEXT)
    assert [piece.source for piece in found.pieces] == SENTENCES and "source_truncated" not in found.flags
    found = translator(split_sentences="always", max_source_tokens=limit, long="truncate").translate(TEXT)
    assert "source_truncated" in found.flags and "split" not in found.flags
    found = translator(split_sentences="always", max_source_tokens=limit - 1).translate(TEXT)
    assert "".join(piece.source for piece in found.pieces) == TEXT and len(found.pieces) > 3
