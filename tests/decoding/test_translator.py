"""Text in, text out, with a small trained model: what comes out depends on the line alone, and nothing is lost.

Expected values come from the full forward pass (`model(source, target)`), which shares no step with the cached search.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from harness import MakeTranslator, Toy, assert_same, random_model

from translate.config.data import DataConfig
from translate.config.decoding import DecodingConfig
from translate.config.languages import Languages
from translate.config.schema import TokenizerConfig
from translate.data.batching import EncodedPair
from translate.data.tokenizer import EOS_ID, Tokenizers, train_tokenizer
from translate.decoding import Request, Translation, Translator, request
from translate.decoding.constraints.terminology import Terminology
from translate.decoding.ranking import expected_utilities
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.loop import BeamSearch
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_text_so_far_is_told_after_each_step(toy: Toy, translator: MakeTranslator, beam_size: int) -> None:
    line = " ".join(toy.sources[:6])
    told: dict[int, list[str]] = {}

    def on_partial(number: int, piece: int, text: str) -> None:
        assert number == 5
        told.setdefault(piece, []).append(text)

    given = translator(max_source_tokens=9, workers=1, beam_size=beam_size)
    (found,) = given.translate_stream([line], first_number=5, on_partial=on_partial)
    assert sorted(told) == list(range(len(found.pieces))) and found.text == given.translate(line).text
    for piece, texts in told.items():
        if beam_size == 1:  # what is told stays
            assert all(found.pieces[piece].text.startswith(text) for text in texts)
            assert texts[-1] == found.pieces[piece].text


def test_a_translation_that_is_cut_at_the_last_position_is_aligned(toy: Toy) -> None:
    """The attention of its last token is that of the step that predicted it."""
    model = random_model(toy.tokenizers, positions="learned", max_positions=12, output_bias=True).eval()
    with torch.no_grad():
        model.output.bias[EOS_ID] = -1e4
    given = Translator(model, toy.tokenizers, DecodingConfig(device="cpu", beam_size=1, max_length_constant=20))
    ((found, attention),) = given.attend(given.translate_stream(["Hund läuft"]), unit="subwords")
    assert found.truncated and len(found.ids) == len(attention.rows) == 12
    (forced,) = given.force([EncodedPair(list(found.source_ids), found.ids[:-1])])
    assert list(attention.rows[-1].values()) == pytest.approx(forced.attention[-1, :-1].tolist())


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "identity"])
def test_lines_without_a_word_give_empty_lines(toy: Toy, normalization: str) -> None:
    tokenizer = train_tokenizer(toy.sources, TokenizerConfig(vocab_size=300, normalization=normalization))
    tokenizers = Tokenizers(tokenizer, tokenizer, "joint")
    lines = ["", "Hund", " ", "\t", "   \u3000\u00a0 ", "der Hund", "\r", "\u2028"]
    translations = Translator(
        random_model(tokenizers).eval(), tokenizers, DecodingConfig(max_length_constant=3)
    ).translate(lines)
    assert [each.source for each in translations] == lines
    assert [each.ids != [] for each in translations] == [False, True, False, False, False, True, False, False]
    for index in (0, 2, 3, 4, 6, 7):
        empty = Translation(lines[index], "", [], 0.0, 0.0, False, False)
        assert translations[index]._replace(source_ids=(), tokens=(), source_tokens=(), direction=None) == empty


def test_one_line_gives_one_translation(toy: Toy, translator: MakeTranslator) -> None:
    given = translator(beam_size=2)
    source = toy.sources[3]
    one, (first, second) = given.translate(source), given.translate(line for line in [source, "Hund"])
    assert type(one) is Translation and second.source == "Hund"
    assert_same([one._replace(alignment=None)], [first])
    assert given.translate(Request(source, prefix="green")).text.startswith("green")
    assert given.translate(source, beam_size=1) == translator(beam_size=1).translate([source], align=True)[0]
    # Only one line is aligned unless it is asked for, because a list may be long.
    words = [word.text for word in one.words]
    assert words == one.text.split() and one.tokens == toy.tokenizers.target.pieces(one.ids)
    assert one.source_tokens == toy.tokenizers.source.pieces(one.source_ids)
    assert first.alignment is None and given.translate(source, align=False).alignment is None
    assert one.alignment is not None
    assert {int(link.split("-")[1]) for link in one.alignment.split()} == set(range(len(words)))


def test_what_is_not_a_line(translator: MakeTranslator) -> None:
    wrong: list[tuple[Any, str]] = [
        (b"Hund", "bytes"),
        ({"source": "Hund"}, "dict"),
        (["Hund", 5.5], "line 2 .* float"),
    ]
    for lines, what in wrong:
        with pytest.raises(TypeError, match=what):
            translator().translate(lines)
    for one in ("Hund", Request("Hund")):
        with pytest.raises(TypeError, match=type(one).__name__):
            list(translator().translate_stream(one))


def test_a_text_is_one_line(toy: Toy, translator: MakeTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every character that parts lines, and of NUL; byte fallback can spell them all."""
    breaks = [chr(number) for number in range(0x110000) if len(f"a{chr(number)}b".splitlines()) > 1]
    assert {"\n", "\r", "\x85", "\u2028"} < set(breaks)
    pieces = ["<0x61>", *(f"<0x{byte:02X}>" for byte in "".join([*breaks, "\0", "\t€ 🦄\u200d"]).encode())]
    hypothesis = Hypothesis(toy.tokenizers.target.parse(pieces), [-1.0], -1.0, truncated=False)
    monkeypatch.setattr(BeamSearch, "run", lambda self, order, **_: ((each, [hypothesis]) for each in order))
    (found,) = translator().translate(["Hund"])
    assert found.text == "a" + " " * (len(breaks) + 1) + "\t€ 🦄\u200d"


@pytest.mark.parametrize("search, expected", [("beam", "abc"), ("sample", "aab")])
def test_an_n_best_list_has_distinct_texts_and_samples_repeat(
    toy: Toy, translator: MakeTranslator, monkeypatch: pytest.MonkeyPatch, search: str, expected: str
) -> None:
    """Two spellings of `a`, of which the better one stays; with two texts in the beam the list has two."""
    target = toy.tokenizers.target
    spellings = {"a": [["<0x61>"], ["▁", "<0x61>"]], "b": [["<0x62>"]], "c": [["<0x63>"]]}
    ids = [target.parse(pieces) for text in spellings for pieces in spellings[text]]
    assert [target.decode(each) for each in ids] == list("aabc")
    found = [Hypothesis(each, [-1.0 - rank], -1.0 - rank, truncated=False) for rank, each in enumerate(ids)]
    searched = translator(search=search, beam_size=4, n_best=3)
    for number in (4, 3):
        monkeypatch.setattr(BeamSearch, "run", lambda self, order, n=number, **_: ((each, found[:n]) for each in order))
        (first,) = searched.translate(["Hund"])
        texts = "".join(each.text for each in (first, *first.alternatives))
        assert texts == (expected if number == 4 or search == "sample" else "ab")
        assert first.ids == ids[0] and first.score == -1.0


def test_minimum_bayes_risk_chooses_among_the_candidates(toy: Toy, translator: MakeTranslator) -> None:
    lines = toy.sources[:5]
    for kind in ({"search": "sample", "temperature": 1.3, "seed": 3}, {"beam_size": 5}, {"beam_size": 9}):
        candidates = translator(**kind, n_best=5).translate(lines)
        chosen = translator(**kind, mbr="chrf", mbr_candidates=5).translate(lines)
        for translation, first in zip(chosen, candidates, strict=True):
            texts = [each.text for each in (first, *first.alternatives)]
            utilities = expected_utilities(texts)
            assert translation.text == texts[utilities.index(max(utilities))]
            assert translation.alternatives == ()


def rerank(toy: Toy, lines: Sequence[str], **settings: object) -> tuple[list[Translation], Translator]:
    """Translations ranked with a reverse model, and that model. It is untrained, so it has a mind of its own."""
    tokenizers = Tokenizers(toy.tokenizers.target, toy.tokenizers.source, toy.tokenizers.vocabulary)
    torch.manual_seed(3)
    back = Languages(DataConfig(source_language="en", target_language="de"))
    reverse = Translator(random_model(tokenizers).eval(), tokenizers, DecodingConfig(device="cpu"), languages=back)
    config = DecodingConfig.model_validate({"device": "cpu", "beam_size": 4, "n_best": 4, **settings})
    return Translator(toy.model, toy.tokenizers, config, reverse=reverse).translate(lines), reverse


def test_reranking_adds_the_log_probability_of_the_source(toy: Toy, translator: MakeTranslator) -> None:
    lines = toy.sources[:7]
    settings = {"length_penalty_kind": "average", "length_penalty": 0.5}
    found, reverse = rerank(toy, lines, reverse_weight=0.7, **settings)
    plain = translator(beam_size=4, n_best=4, **settings).translate(lines)
    num_different = 0
    for translation, alone in zip(found, plain, strict=True):
        candidates = (translation, *translation.alternatives)
        assert {each.text for each in candidates} == {each.text for each in (alone, *alone.alternatives)}
        source_ids = reverse.tokenizers.target.encode(translation.source)
        for each in candidates:
            (given,) = reverse.score([each.text], [source_ids])
            length = len(each.ids) + (not each.truncated)
            assert each.score == pytest.approx((each.log_prob + 0.7 * given.log_prob) / length**0.5, abs=1e-4)
        scores = [each.score for each in candidates]
        assert scores == sorted(scores, reverse=True)
        num_different += translation.text != alone.text
    assert num_different > 0
    best, _ = rerank(toy, lines, reverse_weight=0.7, n_best=1, **settings)
    assert [each.text for each in best] == [each.text for each in found]


@pytest.mark.parametrize("settings", [{"search": "sample"}, {"mbr": "chrf", "n_best": 1}])
def test_a_reverse_model_ranks_beams_alone(toy: Toy, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^a reverse run reranks a beam: leave out decoding.search = sample and "):
        rerank(toy, [], **settings)


def test_a_prefix_is_kept_and_scored_as_all_else(toy: Toy, translator: MakeTranslator) -> None:
    given = translator(beam_size=3)
    free, forced = given.translate([toy.sources[0], Request(toy.sources[0], prefix="green street")])
    assert not free.text.startswith("green street")
    assert forced.text.startswith("green street") and forced.flags <= {"length_ratio", "repetitive"}
    (score,) = given.score([forced.source], [forced.ids])
    assert forced.token_log_probs == pytest.approx(score.token_log_probs, abs=1e-4)
    # The translation's own beginning, given as a prefix, changes nothing.
    (again,) = given.translate([Request(toy.sources[0], prefix=" ".join(free.text.split()[:2]))])
    assert again.text == free.text


def test_required_words_without_room_are_reported(toy: Toy, translator: MakeTranslator) -> None:
    tight = translator(beam_size=3, max_length_factor=0.0, max_length_constant=1)
    (translation,) = tight.translate([Request("Hund", required=("street", "the green house"))])
    assert "the green house" in translation.unmet
    assert {"unmet", "truncated"} <= translation.flags


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (Request("Hund", required=("dog",), terminology=Terminology({"Hund": "dog"})), {}),
        (Request("Hund Hund", terminology=Terminology({"Hund": "dog"})), {"no_repeat_ngram": 1}),
    ],
)
def test_what_is_required_by_both_or_must_not_be_repeated_is_required_once(
    translator: MakeTranslator, line: Request, options: dict[str, Any]
) -> None:
    """In both cases, requiring it twice would fill the translation to its maximum length or double the word."""
    found = translator(**options).translate(line)
    assert found.text.split().count("dog") == 1 and not found.flags & {"truncated", "unmet"}


def test_a_hypothesis_with_the_required_words_comes_before_a_better_one_without(
    toy: Toy, translator: MakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was cut at its maximum length never paid for what it lacks."""
    dog, street = toy.tokenizers.target.encode("dog"), toy.tokenizers.target.encode("street")
    lacking = Hypothesis(dog * 2, [-0.1] * len(dog * 2), -0.2, truncated=True)
    met = Hypothesis(street, [-1.0] * (len(street) + 1), -3.0, truncated=False)
    monkeypatch.setattr(BeamSearch, "run", lambda search, order, **_: iter([(0, [lacking, met])]))
    (translation,) = translator().translate([Request("Hund", required=("street",))])
    assert (translation.text, translation.unmet) == ("street", ())
    (translation,) = translator().translate(["Hund"])
    assert translation.text == "dog dog"


def test_options_of_a_call_are_for_that_call(toy: Toy, translator: MakeTranslator) -> None:
    given = translator(beam_size=1)
    lines = toy.sources[:7]
    assert_same(
        given.translate(lines, beam_size=4, length_penalty=1.0),
        translator(beam_size=4, length_penalty=1.0).translate(lines),
    )
    assert given.config.beam_size == 1
    changed = given.with_options(n_best=3, beam_size=3)
    assert (changed.config.n_best, changed.config.beam_size, changed.model) == (3, 3, given.model)
    assert [len(found.alternatives) for found in given.translate(lines[:2], n_best=4, beam_size=4)] == [3, 3]
    with pytest.raises(InputError, match="^decoding.precision is fixed when a run is loaded; "):
        given.translate(lines, precision="int8")


@pytest.mark.parametrize(
    "sizes, expected",
    [
        ([], []),
        ([1, 1, 1, 1, 1, 1, 1], [[1, 1, 1], [1, 1, 1], [1]]),
        ([9, 1, 10, 30, 4, 5], [[9, 1], [10], [30], [4, 5]]),  # a buffer ends with the line that makes it ten
    ],
)
def test_buffers(monkeypatch: pytest.MonkeyPatch, sizes: list[int], expected: list[list[int]]) -> None:
    monkeypatch.setattr(request, "BUFFER_CHARACTERS", 10)
    num_read = 0

    def lines() -> Iterator[Request]:
        nonlocal num_read
        for size in sizes:
            num_read += 1
            yield Request("x" * size)

    num_given = 0
    found = request.read_buffers(lines(), max_items=3)
    for buffer, sizes_expected in zip(found, expected, strict=True):
        assert [len(each.source) for each in buffer] == sizes_expected
        num_given += len(buffer)
        assert num_read == num_given  # and none of the next
