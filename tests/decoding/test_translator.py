"""Text in, text out, with a small trained model: what comes out depends on the line alone, and nothing is lost.

Expected values come from the full forward pass (`model(source, target)`), which shares no step with the cached search.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from translate.config import DecodingConfig, ModelConfig, TokenizerConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizers
from translate.data.tokenizer_training import train_tokenizer
from translate.decoding import Translation, Translator
from translate.model import Transformer

MakeTranslator = Callable[..., Translator]
Toy = Any  # conftest.py's: test modules cannot import each other


@pytest.fixture
def translator(toy: Toy) -> MakeTranslator:
    def make(**settings: object) -> Translator:
        return Translator(toy.model, toy.tokenizers, DecodingConfig.model_validate({"device": "cpu", **settings}))

    return make


def untrained(tokenizers: Tokenizers, **settings: object) -> Transformer:
    config = ModelConfig.model_validate(
        {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1, **settings}
    )
    sizes = {"source_vocab_size": tokenizers.source.vocab_size, "target_vocab_size": tokenizers.target.vocab_size}
    return Transformer(config, **sizes, pad_id=PAD_ID).eval()


def assert_same(translations: list[Translation], expected: list[Translation]) -> None:
    assert [each._replace(log_prob=0.0, score=0.0) for each in translations] == [
        each._replace(log_prob=0.0, score=0.0) for each in expected
    ]
    for name in ("log_prob", "score"):
        assert [getattr(each, name) for each in translations] == pytest.approx(
            [getattr(each, name) for each in expected], abs=1e-4
        )


def test_the_model_has_learnt_something(toy: Toy, translator: MakeTranslator) -> None:
    """Else the tests below would compare nothing with nothing."""
    translations = translator().translate(toy.sources)
    right = sum(each.text == reference for each, reference in zip(translations, toy.references, strict=True))
    assert right > len(toy.sources) / 3
    assert not any(each.truncated for each in translations)
    assert len({len(each.ids) for each in translations}) >= 5


# Batch invariance


@pytest.mark.parametrize("beam_size", [1, 5])
def test_translations_depend_on_nothing_but_the_line(toy: Toy, translator: MakeTranslator, beam_size: int) -> None:
    lines = toy.sources[:23]
    alone = translator(beam_size=beam_size, batch_tokens=1).translate(lines)
    for settings in [{}, {"batch_tokens": 97 * beam_size}, {"look_ahead_lines": 7}]:
        assert_same(translator(beam_size=beam_size, **settings).translate(lines), alone)
    order = list(range(len(lines)))
    random.Random(4).shuffle(order)
    shuffled = translator(beam_size=beam_size).translate([lines[index] for index in order])
    assert_same(shuffled, [alone[index] for index in order])


# Search and forced decoding


def test_beam_1_is_greedy(toy: Toy, translator: MakeTranslator) -> None:
    translations = translator(beam_size=1).translate(toy.sources)
    for translation in translations[:12]:
        source_ids = torch.tensor([[*toy.tokenizers.source.encode(translation.source), EOS_ID]])
        ids, log_prob = [BOS_ID], 0.0
        while ids[-1] != EOS_ID:  # an independent loop over whole forward passes
            with torch.no_grad():
                log_probs = toy.model(source_ids, torch.tensor([ids]))[0, -1].log_softmax(dim=0)
            log_probs[[PAD_ID, BOS_ID]] = -torch.inf
            ids.append(int(log_probs.argmax()))
            log_prob += float(log_probs[ids[-1]])
        assert translation.ids == ids[1:-1]
        assert translation.log_prob == pytest.approx(log_prob, abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 5])
def test_a_translations_score_is_its_forced_score(toy: Toy, translator: MakeTranslator, beam_size: int) -> None:
    given = translator(beam_size=beam_size, length_penalty=0.9)
    translations = given.translate(toy.sources)
    scores = given.score(toy.sources, [translation.ids for translation in translations])
    for translation, score in zip(translations, scores, strict=True):
        assert translation.log_prob == pytest.approx(score.log_prob, abs=1e-4)
        assert translation.score == pytest.approx(score.score, abs=1e-4)
        assert len(score.token_log_probs) == len(translation.ids) + 1
        assert sum(score.token_log_probs) == pytest.approx(score.log_prob)
        assert translation.score == pytest.approx(translation.log_prob / ((6 + len(translation.ids)) / 6) ** 0.9)


def test_a_wider_beam_helps_on_the_whole(toy: Toy, translator: MakeTranslator) -> None:
    """Not a law for one sentence; but that it lowers the sum over many would be a mistake somewhere."""
    totals = [
        sum(each.log_prob for each in translator(beam_size=size, length_penalty=0.0).translate(toy.sources))
        for size in (1, 4)
    ]
    assert totals[1] > totals[0]


def test_score_does_not_depend_on_the_batch(toy: Toy, translator: MakeTranslator) -> None:
    targets = [toy.tokenizers.target.encode(line) for line in toy.references]
    targets[5] = []
    together = translator().score(toy.sources, targets)
    for settings in [{"batch_tokens": 1}, {"batch_tokens": 53}]:
        for one, other in zip(translator(**settings).score(toy.sources, targets), together, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
    assert len(together[5].token_log_probs) == 1  # the end symbol of an empty translation


def test_score_refuses_unequal_numbers(toy: Toy, translator: MakeTranslator) -> None:
    with pytest.raises(ValueError, match="shorter"):
        translator().score(["Hund", "Haus"], [[5]])


# Lines


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "identity"])
def test_lines_without_a_word_give_empty_lines(toy: Toy, normalization: str) -> None:
    tokenizer = train_tokenizer(toy.sources, TokenizerConfig(vocab_size=300, normalization=normalization))
    tokenizers = Tokenizers(tokenizer, tokenizer, "joint")
    lines = ["", "Hund", " ", "\t", "   \u3000\u00a0 ", "der Hund", "\r", "\u2028"]
    translations = Translator(untrained(tokenizers), tokenizers, DecodingConfig(max_length_constant=3)).translate(lines)
    assert [each.source for each in translations] == lines
    assert [each.ids != [] for each in translations] == [False, True, False, False, False, True, False, False]
    for index in (0, 2, 3, 4, 6, 7):
        assert translations[index] == Translation(lines[index], "", [], 0.0, 0.0, False, False)


def test_no_lines_and_only_empty_lines(translator: MakeTranslator) -> None:
    assert translator().translate([]) == []
    assert [each.text for each in translator().translate(["", " ", ""])] == ["", "", ""]


def test_one_line_out_for_each_line_in(toy: Toy, translator: MakeTranslator) -> None:
    lines = [line for source in toy.sources[:12] for line in (source, "")] + [
        "Hund\u2028Haus",
        "Hund\rHaus",
        "🦄",
        "x" * 50,
    ]
    translations = translator(look_ahead_lines=11, beam_size=2).translate(lines)
    assert [each.source for each in translations] == lines
    assert not any("\n" in each.text or "\r" in each.text for each in translations)


@pytest.mark.parametrize("look_ahead_lines", [1, 4])
def test_reads_no_further_ahead_than_asked(toy: Toy, translator: MakeTranslator, look_ahead_lines: int) -> None:
    num_read = 0

    def lines() -> Iterator[str]:
        nonlocal num_read
        for line in toy.sources[:10]:
            num_read += 1
            yield line

    stream = translator(beam_size=1, look_ahead_lines=look_ahead_lines).translate_stream(lines())
    assert num_read == 0
    num_translated = 0
    for _ in stream:
        num_translated += 1
        assert num_read <= num_translated - 1 + look_ahead_lines
    assert num_translated == num_read == 10


def test_a_generated_line_break_is_a_space(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is made to prefer the byte of a line break, which byte fallback can spell, over all else."""
    tokenizers = toy.tokenizers
    newline, carriage_return = tokenizers.target.parse(["<0x0A>", "<0x0D>"])
    dog = tokenizers.target.encode("dog")
    model = untrained(tokenizers)
    wanted = [*dog, newline, *dog, carriage_return, newline, EOS_ID]
    decoder = model.decoder
    real_step = decoder.step

    def step(target_ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        hidden, cache = real_step(target_ids, cache)
        return torch.full_like(hidden, cache.length - 1), cache

    def output(hidden: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(len(hidden), tokenizers.target.vocab_size)
        return logits.index_fill(1, torch.tensor([wanted[int(hidden[0, 0])]]), 50.0)

    monkeypatch.setattr(decoder, "step", step)
    monkeypatch.setattr(model, "output", _Stub(model.output, output))
    (translation,) = Translator(model, tokenizers, DecodingConfig(beam_size=1)).translate(["Hund"])
    assert translation.ids == wanted[:-1]
    assert "\n" in tokenizers.target.decode(translation.ids)  # so it would have broken the line
    assert translation.text.split() == ["dog", "dog"] and translation.text.splitlines() == [translation.text]


class _Stub(torch.nn.Module):
    """An output layer that computes what a function says."""

    def __init__(self, layer: torch.nn.Linear, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.weight = layer.weight
        self.function = function

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.function(hidden)


# Limits


def test_truncation_is_flagged(toy: Toy, translator: MakeTranslator) -> None:
    source = max(toy.sources, key=len)
    (whole,) = translator(beam_size=1).translate([source])
    length = len(whole.ids)
    assert length > 4 and not whole.truncated
    # The end symbol is the last token that fits; it does not fit any more; half of the translation fits.
    for limit, is_cut in [(length + 1, False), (length, True), (length // 2, True)]:
        greedy = translator(beam_size=1, max_length_factor=0.0, max_length_constant=limit)
        (translation,) = greedy.translate([source])
        assert (translation.truncated, translation.source_truncated) == (is_cut, False)
        assert translation.ids == whole.ids[:limit]


def test_length_limit_by_hand(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """factor · source tokens + constant, its end symbol counted; reached exactly by a model that never ends."""
    model = untrained(toy.tokenizers)
    layer = model.output
    endless = _Stub(layer, lambda hidden: layer(hidden).index_fill(1, torch.tensor([EOS_ID]), -1e4))
    monkeypatch.setattr(model, "output", endless)
    config = DecodingConfig(beam_size=2, max_length_factor=1.5, max_length_constant=3)
    for translation in Translator(model, toy.tokenizers, config).translate(toy.sources[:7]):
        num_source = len(toy.tokenizers.source.encode(translation.source)) + 1
        assert translation.truncated and len(translation.ids) == int(1.5 * num_source) + 3


@pytest.fixture
def limited(toy: Toy) -> Translator:
    model = untrained(toy.tokenizers, positions="learned", max_positions=11)
    return Translator(model, toy.tokenizers, DecodingConfig(beam_size=2))


def test_a_source_beyond_learned_positions_is_cut_and_flagged(toy: Toy, limited: Translator) -> None:
    lines = ["x" * number for number in range(1, 20)]  # a letter outside the vocabulary is spelt in bytes
    lengths = [len(toy.tokenizers.source.encode(line)) for line in lines]
    assert 10 in lengths and 11 in lengths  # just fits with its end symbol; one too many
    translations = limited.translate([*lines, "der Hund"])
    assert [each.source_truncated for each in translations] == [length > 10 for length in lengths] + [False]
    assert all(each.text is not None and len(each.ids) <= 11 for each in translations)
    # What is beyond the limit has no part in the translation.
    beyond = [each for each in translations if each.source_truncated]
    assert {tuple(each.ids) for each in beyond} == {tuple(beyond[0].ids)}


def test_a_source_beyond_learned_positions_can_be_scored(toy: Toy, limited: Translator) -> None:
    """As a validation with such a source is, during training; and as it is translated: cut."""
    long, cut = limited.score([" ".join(["Hund"] * 40), " ".join(["Hund"] * 10)], [[7, 8, 9], [7, 8, 9]])
    assert len(long.token_log_probs) == 4
    assert long.token_log_probs == pytest.approx(cut.token_log_probs, abs=1e-5)
    translations = [each for each in limited.translate([" ".join(["Hund"] * 40)]) if not each.truncated]
    for translation in translations:
        (score,) = limited.score([translation.source], [translation.ids])
        assert translation.log_prob == pytest.approx(score.log_prob, abs=1e-4)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative"])
def test_other_positions_have_no_limit(toy: Toy, positions: str) -> None:
    model = untrained(toy.tokenizers, positions=positions, max_positions=11)
    config = DecodingConfig(beam_size=1, max_length_factor=0.0, max_length_constant=3)
    (translation,) = Translator(model, toy.tokenizers, config).translate([" ".join(["Hund"] * 400)])
    assert not translation.source_truncated and len(translation.ids) > 0


def test_padding_and_the_start_symbol_are_never_generated(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    model = untrained(toy.tokenizers)
    layer = model.output
    fond = _Stub(layer, lambda hidden: layer(hidden).index_fill(1, torch.tensor([PAD_ID, BOS_ID]), 1e4))
    monkeypatch.setattr(model, "output", fond)
    for translation in Translator(model, toy.tokenizers, DecodingConfig(beam_size=3)).translate(toy.sources[:5]):
        assert len(translation.ids) > 0 and not {PAD_ID, BOS_ID, EOS_ID} & set(translation.ids)
