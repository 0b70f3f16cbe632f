"""Several languages in one model: whoever loads it names them once, or each text names its own."""

import json
from pathlib import Path

import pytest
from harness import TAGS, Toy, assert_same, write_run

import translate
from translate.config.languages import Languages
from translate.data.batching import EncodedPair
from translate.decoding import Request
from translate.decoding.loading import load_own_translator, load_translator
from translate.decoding.output.formats import CorpusScore, format_translations, score_records
from translate.decoding.translation import count_conditions
from translate.errors import InputError
from translate.runs.run import open_run

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.fixture(params=list(TAGS))
def both(request: pytest.FixtureRequest, two_ways: dict[str, Toy]) -> Toy:
    """The run with one kind of tags."""
    return two_ways[request.param]


def test_a_language_is_named_when_a_run_is_loaded_or_later(both: Toy) -> None:
    lines = both.sources[:3]
    loaded = translate.load(both.path, engine="translate")
    assert "de → en, en → de" in repr(loaded)
    to_english = loaded.translate(lines, to="en")
    assert_same(translate.load(both.path, engine="translate", to="en").translate(lines), to_english)
    assert_same(loaded.translate([Request(line, from_="de") for line in lines]), to_english)
    assert {each.direction for each in to_english} == {("de", "en")}
    toward = translate.load(both.path, engine="translate", to="de")
    assert_same(toward.translate([Request(line, to="en") for line in lines]), to_english)
    for code in ("de", "deu_Latn"):
        assert_same(toward.translate([Request(line, from_=code) for line in lines]), to_english)
        assert_same(toward.translate(lines, from_=code), to_english)
    with pytest.raises(InputError, match="translates to en, de: .*to="):
        loaded.translate(lines)
    with pytest.raises(InputError, match="translates to en, de: 'fr' is not one of them"):
        translate.load(both.path, to="fr")


@pytest.mark.parametrize("engine", ["translate", "ctranslate2"])
def test_a_tag_within_a_translation_never_comes_out(both: Toy, engine: str) -> None:
    """It is left out of texts, words and alignments, also before a translation is complete, and counted."""
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="an extra is not installed")
    loaded = translate.load(both.path, engine=engine, to="en", from_="de")
    tag = open_run(both.path).config.data.language_tag.format("de")
    partial: list[str] = []
    lines = [Request(both.sources[0], prefix=tag), both.sources[0]]
    on_partial = None if engine == "ctranslate2" else lambda line, piece, text: partial.append(text)
    found = [*loaded.align(loaded.translate_stream(lines, on_partial=on_partial))]
    for each in found:
        assert each.text and tag not in " ".join([each.text, *each.tokens, *partial])
        assert [word.text for word in each.words] == each.text.split()
        assert len(each.token_log_probs) == len(each.ids) + 1 and "0-" in (each.alignment or "")
    assert [each.flags & {"tagged"} for each in found] == [{"tagged"}, set()]
    assert ", 1 with the tag of a language left out" in str(count_conditions(found))


def test_a_run_is_its_own_reverse(both: Toy) -> None:
    """The other direction's log-probability of the source ranks each line's beam, whichever way the line goes."""
    settings = {"n_best": 3, "beam_size": 3, "precision": "fp32"}
    reranked = load_translator(both.path, reverse=both.path, options=settings | {"reverse_weight": 0.5}).translator
    plain = load_own_translator(both.path, options=settings).translator
    lines = [Request(both.sources[0], to="en"), Request(both.references[1], to="de")]
    for before, found in zip(plain.translate(lines), reranked.translate(lines), strict=True):
        back = translate.Translator(plain.engine, both.tokenizers, plain.config, languages=plain.languages)
        expected = {}
        for each in (before, *before.alternatives):
            source, target = both.tokenizers.source.encode(each.source), each.text
            (given,) = back.toward(to=found.direction.source).score([target], [source])
            penalty = each.log_prob / each.score
            expected[each.text] = each.score + 0.5 * given.log_prob / penalty
        assert {each.text: pytest.approx(each.score, abs=1e-3) for each in (found, *found.alternatives)} == expected
    assert reranked.reverse is not None and reranked.reverse.model is reranked.model, "the weights are loaded once"


def test_a_reverse_of_several_sources_and_one_target(toy: Toy, tmp_path: Path) -> None:
    """Only the reverse needs the language of a text, which is named at loading or later."""

    def make(*names: str) -> Path:
        codes = (dict(zip(("source_language", "target_language"), name.split("-"), strict=True)) for name in names)
        train = [{"kind": "text", "source": "a", "target": "b", **each} for each in codes]
        data = toy.config.data.model_validate({"train": train})
        config = toy.config.model_copy(update={"data": data})
        return write_run(tmp_path / " ".join(names), config, toy.tokenizers, toy.model)

    many, reverse, line = make("de-en", "fr-en"), make("en-de"), toy.sources[0]
    expected = translate.load(toy.path, reverse=reverse).translate(line).score
    assert translate.load(toy.path, reverse=make("eng_Latn-deu_Latn")).translate(line).score == pytest.approx(expected)
    loaded = translate.load(many, reverse=reverse)
    german = translate.load(many, reverse=reverse, from_="de")
    for found in (german.translate(line), german.translate(Request(line, to="en")), german.translate(line, to="en")):
        assert found.score == pytest.approx(expected)
    assert loaded.translate(line, from_="de").score == pytest.approx(expected)
    for wrong in (Request(line), Request(line, from_="fr")):
        with pytest.raises(InputError, match="en → (und|fr)"):
            loaded.translate(wrong)


def test_a_reverse_that_does_not_go_back_is_refused(both: Toy, toy: Toy) -> None:
    with pytest.raises(InputError, match=f"{toy.path} translates de → en, but the reverse of {both.path} .* en → de"):
        translate.load(both.path, reverse=toy.path, to="en")
    assert translate.load(both.path, reverse=toy.path, to="de").reverse is not None
    assert load_translator(toy.path, reverse=both.path).translator.translate("Hund").text


def test_an_ensemble_has_the_tags_and_all_directions_of_the_first(
    two_ways: dict[str, Toy], toy: Toy, tmp_path: Path
) -> None:
    def make(name: str, run: Toy, **data: object) -> Path:
        config = run.config.model_copy(update={"data": run.config.data.model_copy(update=data)})
        return write_run(tmp_path / name, config, run.tokenizers, run.model)

    both, other_tags = two_ways["source"], two_ways["both"]
    one = make("one", both, train=both.config.data.train[:1])
    english = make("english", toy, source_language="en", target_language="de")
    imported = {"train": (), "languages": ("de", "en"), "source_language": "und"}
    for first, other in (
        (both.path, other_tags.path),
        (make("a", both, **imported), make("b", other_tags, **imported)),
        (toy.path, english),
        (toy.path, make("french", toy, target_language="fr")),
        (both.path, one),
    ):
        with pytest.raises(InputError, match=f"^{other} translates .* data.language_tags"):
            load_translator(first, ensemble=[other])
    load_translator(toy.path, ensemble=[make("unknown", toy, source_language="und", target_language="und")])
    assert load_translator(one, ensemble=[both.path]).translator.direction == ("de", "en")
    lines = [Request(both.sources[0], to="en"), Request(both.references[1], to="de")]
    options = {"precision": "fp32", "engine": "translate"}
    alone, together = (load_translator(both.path, options=options, ensemble=other) for other in ([], [both.path]))
    assert_same(together.translator.translate(lines), alone.translator.translate(lines))


def test_an_ensemble_looks_up_each_source_once(both: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 languages; MADLAD has 419, and a look-up for each pair of them would take seconds."""
    languages = ("de", "en", *(f"a{letter}{other}" for letter in "bcdefgh" for other in "stuv"))
    config = both.config.model_copy(update={"data": both.config.data.model_copy(update={"languages": languages})})
    path = write_run(tmp_path / "many", config, both.tokenizers, both.model)
    asked, targets_of = list[str](), Languages.targets_of

    def count(self: Languages, source: str) -> list[str]:
        asked.append(source)
        return targets_of(self, source)

    monkeypatch.setattr(Languages, "targets_of", count)
    load_translator(path, ensemble=[path], options={"engine": "translate"})
    assert len(asked) < 3 * len(languages)


def test_records_name_the_languages_only_where_there_is_a_choice(both: Toy, toy: Toy) -> None:
    for run, expected in ((both, {"source_language": "de", "target_language": "en"}), (toy, {})):
        translator = load_own_translator(run.path).translator.toward(to="en")
        found = translator.translate(run.sources[:1])
        (line,) = format_translations(found, translator, output_format="jsonl")
        (score,) = score_records(translator, [(run.sources[0], found[0].text)], CorpusScore())
        for record in (json.loads(line), score):
            assert {key: value for key, value in record.items() if "language" in key} == expected
        assert score["log_prob"] == pytest.approx(found[0].log_prob, abs=1e-4)


def test_tags_align_to_nothing(both: Toy) -> None:
    """Words are counted without them, and attention has no row and no column for them."""
    translator = load_own_translator(both.path).translator.toward(to="en")
    translation = translator.translate(both.sources[0])
    assert translation.alignment is not None
    links = [tuple(map(int, link.split("-"))) for link in translation.alignment.split()]
    assert {target for _, target in links} == set(range(len(translation.text.split())))
    assert {source for source, _ in links} <= set(range(len(both.sources[0].split())))
    pair = EncodedPair(list(translation.source_ids), translation.ids)
    (forced,) = translator.force([pair])
    assert forced.attention.shape == (len(pair.target) + 1, len(pair.source) + 1)
    assert forced.token_log_probs == pytest.approx(translation.token_log_probs, abs=1e-4)
