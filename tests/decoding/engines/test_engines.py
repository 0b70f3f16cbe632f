"""Both engines against one table: each gives what a search of one line at a time gives, and names what it lacks."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import TAGS, MakeTranslator, Toy, assert_same, random_model, tiny_config, write_run

from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from translate.decoding import Request, Translation, Translator, ranking, translator
from translate.decoding.constraints.phrases import encode_phrase
from translate.decoding.engines.ctranslate2 import CTranslate2Engine, missing_settings
from translate.decoding.engines.engine import SearchJob
from translate.decoding.engines.own import OwnEngine
from translate.decoding.loading import load_translator
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SHORT = {"max_length_factor": 0.4, "max_length_constant": 3}
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 5},
    "beam, no length penalty": {"beam_size": 2, "length_penalty": 0.0},
    "beam, large length penalty": {"beam_size": 5, "length_penalty": 1.3},
    "n-best": {"beam_size": 4, "n_best": 3},
    # Many translations end with their prefix, and in the last step more of them end than CTranslate2 can give.
    "n-best, mean": {"beam_size": 5, "n_best": 5, "length_penalty_kind": "average", "length_penalty": 1.0},
    # Some prefixes are longer than their translations may be.
    "greedy, cut": {"beam_size": 1, **SHORT},
    "n-best, cut": {"beam_size": 4, "n_best": 4, **SHORT},
    "pieces": {"beam_size": 2, "max_source_tokens": 7},
    "cut sources": {"beam_size": 2, "max_source_tokens": 7, "long": "truncate"},
    # Only our own search has these.
    "minimum length": {"beam_size": 2, "min_length_factor": 0.5, "min_length_constant": 1},
    "repetition penalty": {"beam_size": 2, "repetition_penalty": 1.2},
    "sample": {"search": "sample", "n_best": 2, "temperature": 1.3, "seed": 7},
    "minimum Bayes risk": {"beam_size": 4, "mbr": "chrf"},
}


@pytest.fixture(params=["translate", "ctranslate2"])
def make(request: pytest.FixtureRequest, toy: Toy) -> MakeTranslator:
    """Makes a translator of the toy run, or of another, with one of the engines."""
    if request.param == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")

    def make(path: Path = toy.path, **settings: Any) -> Translator:
        options = {"engine": request.param, "device": "cpu", "workers": 2, "precision": "fp32", **settings}
        return load_translator(path, options=options).translator

    return make


@pytest.fixture(scope="module")
def lines(toy: Toy) -> list[str | Request]:
    """Sentences, lines without words, and lines that begin with a right or a wrong prefix, or with all of it."""
    begun: list[str | Request] = []
    for number, (source, reference) in enumerate(zip(toy.sources, toy.references, strict=True)):
        words, others = reference.split(), toy.references[number - 1].split()
        begun.append(Request(source, prefix=" ".join(words[: number % (len(words) + 1)])))
        begun.append(Request(source, prefix=" ".join(others[: number % 4])))
    return ["", *toy.sources[:3], "   ", *begun[:8], toy.sources[9], "日本"]


@pytest.fixture(scope="module")
def found_alone() -> dict[str, list[Translation]]:
    """What a search of one line at a time has found, which both engines are compared with."""
    return {}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_translation_depends_on_nothing_but_its_line(
    make: MakeTranslator,
    own: MakeTranslator,
    lines: list[str | Request],
    found_alone: dict[str, list[Translation]],
    name: str,
) -> None:
    """With other lines in the batch, in buffers of another size, in several workers; and with either engine."""
    settings = SEARCHES[name]
    alone = own(**settings)
    translator = make()
    if translator.config.engine == "ctranslate2" and (missing := missing_settings(alone.config)):
        with pytest.raises(InputError, match=missing[0]):
            make(**settings)
        with pytest.raises(InputError, match=missing[0]):
            translator.translate(lines, **settings)
        return
    if name not in found_alone:
        found_alone[name] = alone.translate(lines)
    expected = found_alone[name]
    assert any(each.truncated for each in expected) == ("max_length_factor" in settings)
    small = 45 * settings.get("beam_size", 2)  # two long sentences at once, or one and then another
    assert_same(translator.translate(lines, look_ahead_lines=7, batch_tokens=small, **settings), expected)
    assert_same(translator.translate(lines, **settings), expected)


@pytest.mark.parametrize("name", ["greedy", "n-best, mean", "n-best, cut", "pieces"])
@pytest.mark.parametrize("kind", TAGS)
def test_one_batch_may_mix_languages(
    make: MakeTranslator,
    two_ways: dict[str, Toy],
    found_alone: dict[str, list[Translation]],
    kind: str,
    name: str,
) -> None:
    """And gives what a search of one line at a time gives, with tags on either side, of which none is translated."""
    toy, settings = two_ways[kind], SEARCHES[name]
    translator = make(toy.path)
    lines: list[Request] = [Request("", to="de"), Request("Hund " * 9, to="en")]
    for source, reference in zip(toy.sources[:5], toy.references, strict=False):
        lines += [Request(source, to="en"), Request(reference, to="de", from_="en")]
    lines.append(Request(toy.sources[0], toy.references[1].split()[0], to="en"))
    if (cached := f"{kind} {name}") not in found_alone:
        config = translator.config.model_copy(update={"engine": "translate", "workers": 1, "batch_tokens": 1})
        alone = Translator(toy.model, toy.tokenizers, config, languages=translator.languages)
        found_alone[cached] = alone.translate(lines, **settings)
    expected = found_alone[cached]
    found = [
        translator.translate(lines, **settings, **batches)
        for batches in ({}, {"look_ahead_lines": 5, "batch_tokens": 200})
    ]
    if kind != "source" and translator.config.engine == "ctranslate2":  # finds no empty translation after a tag
        found = [[each._replace(alternatives=()) for each in several] for several in found]
        expected = [each._replace(alternatives=()) for each in expected]
    for several in found:
        assert_same(several, expected)
    assert {each.direction for each in expected} == {("de", "en"), ("en", "de")}
    for each in expected:
        assert not {"▁" + TAGS[kind].format(code) for code in ("de", "en")} & {*each.tokens, *each.source_tokens}
    if "max_length_factor" not in settings and "max_source_tokens" not in settings:
        wanted = [line for pair in zip(toy.references[:5], toy.sources, strict=False) for line in pair]
        right = [each.text == reference for each, reference in zip(expected[2:], wanted, strict=False)]
        assert sum(right[::2]) > 2 and sum(right[1::2]) > 2, "it has learnt both directions"


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("kind", TAGS)
def test_tags_are_not_scored(make: MakeTranslator, two_ways: dict[str, Toy], kind: str, beam_size: int) -> None:
    """By one forward pass of the model over ids with tags that are put together here."""
    toy = two_ways[kind]
    (found,) = make(toy.path, beam_size=beam_size).translate([toy.references[0]], to="de")
    tags = {side: TAGS[kind].format(code) for side, code in {"source": "de", "target": "de", "both": "en"}.items()}
    before = [] if kind == "target" else toy.tokenizers.source.encode(tags[kind])
    start = [] if kind == "source" else toy.tokenizers.source.encode(TAGS[kind].format("de"))
    source_ids = torch.tensor([[*before, *toy.tokenizers.source.encode(toy.references[0]), EOS_ID]])
    with torch.no_grad():
        log_probs = toy.model(source_ids, torch.tensor([[BOS_ID, *start, *found.ids]]))[0].log_softmax(dim=1)
    expected = [float(row[token]) for row, token in zip(log_probs[len(start) :], [*found.ids, EOS_ID], strict=True)]
    assert list(found.token_log_probs) == pytest.approx(expected, abs=1e-4)
    assert found.log_prob == pytest.approx(sum(expected), abs=1e-4)
    assert len(before) + len(start) == (2 if kind == "both" else 1)


def test_the_toy_language_is_learnt(toy: Toy, make: MakeTranslator) -> None:
    """Otherwise the comparisons would compare noise."""
    translations = make().translate(toy.sources)
    right = sum(each.text == reference for each, reference in zip(translations, toy.references, strict=True))
    assert right > len(toy.sources) / 4
    assert len({len(each.ids) for each in translations}) >= 5


def test_beam_1_is_greedy(toy: Toy, make: MakeTranslator) -> None:
    """By an independent loop over whole forward passes."""
    for translation in make(beam_size=1).translate(toy.sources[:12]):
        assert not translation.truncated
        source_ids = torch.tensor([[*toy.tokenizers.source.encode(translation.source), EOS_ID]])
        ids, log_prob = [BOS_ID], 0.0
        for _ in range(len(translation.ids) + 1):
            with torch.no_grad():
                log_probs = toy.model(source_ids, torch.tensor([ids]))[0, -1].log_softmax(dim=0)
            log_probs[[PAD_ID, BOS_ID]] = -torch.inf
            ids.append(int(log_probs.argmax()))
            log_prob += float(log_probs[ids[-1]])
        assert ids[1:] == [*translation.ids, EOS_ID]
        assert translation.log_prob == pytest.approx(log_prob, abs=1e-4)


@pytest.mark.parametrize("settings", [{}, {"n_best": 2}, {"beam_size": 1}, {"patience": 1, "max_source_tokens": 7}])
def test_lines_with_placeholders_choose_from_the_whole_beam(
    toy: Toy, make: MakeTranslator, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Here `green` stands for a placeholder that a translation should not contain. Other lines are as without it."""
    plain = make(**settings)
    size = plain.config.beam_size
    beams = [[first, *first.alternatives] for first in plain.translate(toy.sources, n_best=size)]
    off = plain.translate(toy.sources, keep_placeholders="off")
    monkeypatch.setattr(ranking, "find_placeholders", lambda source: ["grün"] * source.count("grün"))
    for module in (ranking, translator):
        monkeypatch.setattr(module, "have_same_placeholders", lambda _, text: "green" not in text)
    monkeypatch.setattr(translator, "encode_placeholders", lambda *_: [])  # the second search is as the first
    found = plain.translate(toy.sources)
    for beam, one, other in zip(beams, found, off, strict=True):
        if "grün" not in one.source or size == 1:
            assert_same([one], [other])
        elif not one.pieces:
            kept, lost = ([each for each in beam if ("green" in each.text) == is_lost] for is_lost in (False, True))
            wanted = [each._replace(alternatives=()) for each in [*kept, *lost]]
            entries = [one._replace(alternatives=()), *one.alternatives]
            assert_same(entries, wanted[: len(entries)])
            assert len(entries) == min(len(wanted), settings.get("n_best", 1))
    changed = [one.text != other.text for one, other in zip(found, off, strict=True)]
    assert any(changed) == (size > 1) and not all(changed)


@pytest.mark.parametrize(
    "settings", [{}, {"beam_size": 2, "n_best": 2}, {"max_length_factor": 1.0, "max_length_constant": 1}]
)
def test_placeholders_that_no_hypothesis_keeps_are_required(
    toy: Toy, make: MakeTranslator, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Here `red` stands for the placeholder of a source with `grün`: then a request that requires it gives the same."""
    plain = make(**settings)
    beams = [[first, *first.alternatives] for first in plain.translate(toy.sources, n_best=plain.config.beam_size)]
    wide = 4 * plain.config.beam_size
    required = plain.translate(
        [Request(source, required=("red",)) for source in toy.sources], beam_size=wide, n_best=wide
    )
    for module in (ranking, translator):
        monkeypatch.setattr(module, "have_same_placeholders", lambda _, text: text.split().count("red") == 1)
    monkeypatch.setattr(ranking, "find_placeholders", lambda source: ["grün"] * source.count("grün"))
    monkeypatch.setattr(translator, "encode_placeholders", lambda target, _: [encode_phrase(target, "red")])
    num_required = 0
    for beam, one, strict in zip(beams, plain.translate(toy.sources), required, strict=True):
        kept = [each for each in beam if each.text.split().count("red") == 1]
        if "grün" in one.source and not one.pieces and not strict.pieces:
            found = [each for each in [strict, *strict.alternatives] if each.text.split().count("red") == 1]
            expected = [*kept, *found, beam[0]][0]
            assert (one.text, one.score) == (expected.text, pytest.approx(expected.score, abs=1e-4))
            num_required += bool(found and not kept)
    assert num_required > 3


@pytest.mark.parametrize("beam_size", [1, 5])
def test_a_translations_score_is_its_forced_score(toy: Toy, make: MakeTranslator, beam_size: int) -> None:
    """Of every entry of an n-best list; the first is the best alone, and all are distinct and sorted."""
    given = make(beam_size=beam_size, n_best=beam_size, length_penalty=0.9)
    lists = [(first, *first.alternatives) for first in given.translate(toy.sources[:23])]
    sizes = [len(entries) for entries in lists]
    assert max(sizes) == beam_size and sizes.count(beam_size) > 20  # of two with the same text, one is left
    best = given.translate(toy.sources[:23], n_best=1)
    assert_same([entries[0]._replace(alternatives=()) for entries in lists], best)
    for entries in lists:
        assert [each.score for each in entries] == sorted((each.score for each in entries), reverse=True)
        assert len({each.text for each in entries}) == len(entries)
        assert all(each.text == toy.tokenizers.target.decode(each.ids) for each in entries)
    translations = [each for entries in lists for each in entries]
    scores = given.score([each.source for each in translations], [each.ids for each in translations])
    for translation, score in zip(translations, scores, strict=True):
        assert translation.log_prob == pytest.approx(score.log_prob, abs=1e-4)
        assert translation.score == pytest.approx(score.score, abs=1e-4)
        assert translation.token_log_probs == pytest.approx(score.token_log_probs, abs=1e-4)
        assert len(score.token_log_probs) == len(translation.ids) + 1
        by_hand = translation.log_prob / ((6 + len(translation.ids)) / 6) ** 0.9
        assert translation.score == pytest.approx(by_hand, abs=1e-5)


@pytest.mark.parametrize("workers", [1, 3])
def test_progress_counts_each_line_once(toy: Toy, make: MakeTranslator, workers: int) -> None:
    """Also a line that is searched twice or translated in pieces; before the first translation is yielded.

    And each translation is told as soon as it is found, with numbers from 3.
    """
    lines = [*toy.sources[:19], "", "Hund " * 20]
    options = {"max_source_tokens": 15, "max_length_factor": 0.7, "max_length_constant": 1}
    told, lock = list[int](), threading.Lock()

    def count(num_lines: int) -> None:
        assert lock.acquire(blocking=False), "two threads at once"
        time.sleep(0.001)  # another thread would come in here
        told.append(num_lines)
        lock.release()

    translations: dict[int, Translation] = {}
    stream = make(workers=workers, **options).translate_stream(
        lines, first_number=3, on_finished=count, on_translated=translations.__setitem__
    )
    found = [next(stream)]
    assert told == [1] * 21, "the lines with words, and then the one without"
    found += stream
    assert any(each.truncated for each in found) and found[-1].pieces and sum(told) == 21
    assert translations == dict(enumerate(found, start=3))


def test_a_search_ends_with_what_its_check_raises(toy: Toy, make: MakeTranslator) -> None:
    """Which is called before each step, or before each batch of CTranslate2; a batch has one line here."""
    found, calls = dict[int, Translation](), list[int]()

    def check() -> None:
        calls.append(len(found))
        if len(calls) > 3:
            raise InterruptedError

    translator = make(workers=1, batch_tokens=1)
    with pytest.raises(InterruptedError):
        list(translator.translate_stream(toy.sources[:12], on_translated=found.__setitem__, check=check))
    assert len(calls) == 4 and len(found) <= 3


@pytest.mark.parametrize("beam_size", [1, 5])
def test_a_limit_far_above_the_translations(
    toy: Toy, make: MakeTranslator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beam_size: int
) -> None:
    """As T5 has. Even if the search can be cancelled, our own has few lines left, or those that a model never ends."""
    settings = {"beam_size": beam_size, "max_length_factor": 0.0, "max_length_constant": 200}
    endless = random_model(toy.tokenizers, output_bias=True).eval()
    with torch.no_grad():
        endless.output.bias[EOS_ID] = -99.0
    write_run(tmp_path / "run", tiny_config(model=endless.config.model_dump()), toy.tokenizers, endless)
    for path, model, lines in ((toy.path, toy.model, toy.sources[:12]), (tmp_path / "run", endless, toy.sources[:3])):
        translator, left = make(path, **settings), list[int]()
        expected = Translator(model, toy.tokenizers, translator.config).translate(lines)
        if is_theirs := isinstance(translator.engine, CTranslate2Engine):
            own = translator.engine.own

            def search(job: SearchJob, own: OwnEngine = own, left: list[int] = left) -> None:
                left.append(len(job.inputs))
                OwnEngine.search(own, job)

            monkeypatch.setattr(own, "search", search)
        assert_same(list(translator.translate_stream(lines, check=lambda: None)), expected)
        assert not is_theirs or (sum(left) < 6 if model is toy.model else sum(left) == 3)


@pytest.mark.parametrize("fond_of", [PAD_ID, BOS_ID])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_symbols_that_are_never_generated(
    toy: Toy, make: MakeTranslator, tmp_path: Path, beam_size: int, fond_of: int
) -> None:
    """Of a model that prefers padding or the start symbol to all else."""
    model = random_model(toy.tokenizers, output_bias=True).eval()
    with torch.no_grad():
        model.output.bias[fond_of] = 99.0
    config = tiny_config(model=model.config.model_dump())
    write_run(tmp_path / "run", config, toy.tokenizers, model)
    translator = make(tmp_path / "run", beam_size=beam_size)
    found = translator.translate(toy.sources[:5])
    assert not any({PAD_ID, BOS_ID, EOS_ID} & set(each.ids) for each in found)
    assert_same(found, Translator(model, toy.tokenizers, translator.config).translate(toy.sources[:5]))


@pytest.mark.parametrize(("long", "flag"), [("truncate", "source_truncated"), ("split", "split"), ("error", None)])
def test_sources_fit_into_learned_positions(
    toy: Toy, make: MakeTranslator, tmp_path: Path, long: str, flag: str | None
) -> None:
    shape = {"positions": "learned", "max_positions": 13}
    model = random_model(toy.tokenizers, **shape).eval()
    config = tiny_config(model=model.config.model_dump(), data={"max_source_tokens": 12, "max_target_tokens": 12})
    write_run(tmp_path / "run", config, toy.tokenizers, model)
    translator = make(tmp_path / "run", beam_size=1, long=long)
    lines = ["Hund " * 30, "Haus"]
    if flag is None:
        with pytest.raises(InputError, match=r"^line 1: .* 12 .*decoding.max_source_tokens"):
            translator.translate(lines)
        return
    found = translator.translate(lines)
    assert [each.flags & {"source_truncated", "split"} for each in found] == [{flag}, set()]
    assert_same(found, Translator(model, toy.tokenizers, translator.config).translate(lines))
