"""The engine gives the Translator's translations, from a model that is converted once."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config
from translate.decoding import Request, Translator
from translate.decoding import translator as translator_module
from translate.decoding.engines import ctranslate2 as engine
from translate.decoding.engines.ctranslate2 import load_engine
from translate.decoding.engines.ctranslate2_conversion import convert_run
from translate.decoding.loading import load_translator
from translate.decoding.request import SearchInput
from translate.errors import InputError, RunError
from translate.fingerprint import fingerprint
from translate.runs.checksums import read_checksums, write_checksums
from translate.runs.loading import build_model

Toy = Any  # conftest.py's: test modules cannot import each other
SaveRun = Callable[..., None]

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")


def settings(**options: object) -> DecodingConfig:
    return DecodingConfig.model_validate({"device": "cpu", "workers": 2, "precision": "fp32"} | options)


def load(path: Path, config: DecodingConfig, **options: Any) -> Translator:
    """A translator that uses CTranslate2, or fails."""
    given = config.model_dump() | {"engine": "ctranslate2"}
    return load_engine(path, options=given, **options).translator


@pytest.mark.parametrize(("beam_size", "length_penalty"), [(1, 0.6), (2, 0.0), (5, 0.6), (5, 1.3)])
def test_translations_are_the_translators(toy: Toy, beam_size: int, length_penalty: float) -> None:
    """All of them, and those of lines without words too."""
    lines = ["", *toy.sources[:20], "   ", *toy.sources[20:], "日本"]
    config = settings(beam_size=beam_size, length_penalty=length_penalty, look_ahead_lines=11)
    theirs = load(toy.path, config).translate(lines)
    ours = Translator(toy.model, toy.tokenizers, config).translate(lines)
    assert [translation.source for translation in theirs] == lines
    same = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine.text == other.text]
    assert len(same) == len(lines)
    for mine, other in same:
        assert (other.ids, other.truncated, other.source_truncated) == (mine.ids, mine.truncated, mine.source_truncated)
        assert (other.log_prob, other.score) == pytest.approx((mine.log_prob, mine.score), abs=1e-3)


def test_the_toy_language_is_learnt(toy: Toy) -> None:
    """Else the comparisons would compare noise."""
    translations = load(toy.path, settings()).translate(toy.sources)
    right = sum(t.text == reference for t, reference in zip(translations, toy.references, strict=True))
    assert right > len(toy.references) / 2


@pytest.mark.parametrize("beam_size", [1, 4])
def test_maximum_lengths_are_each_lines_own(toy: Toy, beam_size: int) -> None:
    config = settings(beam_size=beam_size, max_length_factor=0.4, max_length_constant=1)
    theirs = load(toy.path, config).translate(toy.sources)
    ours = Translator(toy.model, toy.tokenizers, config).translate(toy.sources)
    assert any(translation.truncated for translation in theirs)
    assert len({len(translation.ids) for translation in theirs if translation.truncated}) > 3
    assert [translation.truncated for translation in theirs] == [translation.truncated for translation in ours]
    assert [each.ids for each in theirs] == [each.ids for each in ours]


def test_sources_are_cut_to_learned_positions(toy: Toy, tmp_path: Path, save_run: SaveRun) -> None:
    model_config = toy.config.model.model_copy(update={"positions": "learned", "max_positions": 13})
    config = toy.config.model_copy(update={"model": model_config})
    data = config.data.model_copy(update={"max_source_tokens": 12, "max_target_tokens": 12})
    config = Config.model_validate(config.model_copy(update={"data": data}).model_dump())
    model = build_model(config, toy.tokenizers).eval()
    save_run(tmp_path / "run", config, toy.tokenizers, model)
    lines = ["Hund " * 30, "Haus"]
    for long, flags in (("truncate", {"source_truncated"}), ("split", {"split"})):
        given = settings(beam_size=1, long=long)
        theirs = load(tmp_path / "run", given).translate(lines)
        ours = Translator(model, toy.tokenizers, given).translate(lines)
        assert [each.flags & {"source_truncated", "split"} for each in theirs] == [flags, frozenset()]
        assert [each.text for each in theirs] == [each.text for each in ours]
        assert [len(each.pieces) for each in theirs] == [len(each.pieces) for each in ours]
    with pytest.raises(
        InputError, match=r"^line 1: the source has \d+ tokens, and the limit is 12 \(decoding.max_source_tokens"
    ):
        load(tmp_path / "run", settings(long="error")).translate(lines)


def test_what_the_exported_table_is_too_short_for_is_ours(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source of more positions, or one whose translation may have more."""
    searched: list[list[str]] = []
    real = Translator._search

    def search(self: Translator, inputs: list[SearchInput], *others: Any) -> Any:
        searched.append([each.source for each in inputs])
        return real(self, inputs, *others)

    monkeypatch.setattr(engine, "max_positions", lambda config: 41)
    monkeypatch.setattr(Translator, "_search", search)
    lines = ["Hund", "Hund " * 21, "", "Hund " * 12, "Haus"]  # 2 tokens each
    config = settings(beam_size=1)
    texts = [each.text for each in load(toy.path, config).translate(lines)]
    assert searched == [["Hund " * 21, "", "Hund " * 12]]
    assert texts == [each.text for each in Translator(toy.model, toy.tokenizers, config).translate(lines)]


def test_n_best(toy: Toy) -> None:
    config = settings(beam_size=4, n_best=3)
    for translation in load(toy.path, config).translate(toy.sources[:5]):
        scores = [translation.score, *(other.score for other in translation.alternatives)]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)


def test_reads_no_further_than_the_window(toy: Toy) -> None:
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in toy.sources:
            taken += 1
            yield line

    stream = load(toy.path, settings(look_ahead_lines=3)).translate_stream(lines())
    next(stream)
    assert taken == 3


def test_progress_counts_each_line_once(toy: Toy) -> None:
    """Also a line that is searched twice, as one that reaches the maximum length of its own is."""
    told: list[int] = []
    config = settings(max_length_factor=0.5, max_length_constant=1)
    translator = load(toy.path, config)
    found = list(translator.translate_stream([*toy.sources, ""], on_finished=told.append))
    assert any(each.truncated for each in found) and told == [1] * len(found)


def test_int8_translates(toy: Toy) -> None:
    """Also where the engine is auto and the lines are few: int8 is never another engine's."""
    given = {"device": "cpu", "precision": "int8"}
    translator = load_engine(toy.path, options=given).translator
    translations = translator.translate(toy.sources)
    assert [each.text for each in load(toy.path, settings(precision="int8")).translate(toy.sources)] == [
        each.text for each in translations
    ]
    with pytest.raises(InputError, match="search = 'sample'"):
        translator.with_options(search="sample")
    assert sum(t.text == r for t, r in zip(translations, toy.references, strict=True)) > len(toy.references) / 2


def test_a_precision_that_is_not_here_is_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ctranslate2.Translator

    def without_bfloat16(*arguments: Any, **options: Any) -> Any:
        if options["compute_type"] == "bfloat16":
            raise ValueError("Requested bfloat16 compute type, but the target device does not support it.")
        return real(*arguments, **options)

    monkeypatch.setattr(ctranslate2, "Translator", without_bfloat16)
    with pytest.raises(InputError, match="^device = cpu and precision = bf16: .* Requested bfloat16 compute type"):
        load(toy.path, settings(precision="bf16"))


def test_given_translations_are_scored_as_ever(toy: Toy) -> None:
    ours = Translator(toy.model, toy.tokenizers, settings())
    assert load(toy.path, settings()).score(["Hund"], [[5]]) == ours.score(["Hund"], [[5]])


@pytest.mark.parametrize("n_best", [1, 3])
def test_tokens_have_the_log_probabilities_that_ours_have(toy: Toy, n_best: int) -> None:
    """Of translations that were cut and of those that were not; none if nobody wants them."""
    for options in {"max_length_factor": 0.4, "max_length_constant": 1}, {}:
        config = settings(beam_size=4, n_best=n_best, **options)
        lines = ["", *toy.sources]
        ours = Translator(toy.model, toy.tokenizers, config).translate(lines)
        for mine, other in zip(ours, load(toy.path, config).translate(lines), strict=True):
            for one, theirs in zip((mine, *mine.alternatives), (other, *other.alternatives), strict=True):
                assert (theirs.ids, theirs.flags) == (one.ids, one.flags)
                assert theirs.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-4)
        assert not any(each.token_log_probs for each in load(toy.path, config, token_scores=False).translate(lines))


@pytest.mark.parametrize("options", [{}, {"max_length_factor": 0.4, "max_length_constant": 1}])
def test_greedy_search_without_scores_is_the_same(toy: Toy, options: dict[str, Any]) -> None:
    """It has no second look at what reached its own maximum: it is cut there."""
    config = settings(beam_size=1, **options)
    lines = ["", *toy.sources]
    ours = Translator(toy.model, toy.tokenizers, config).translate(lines)
    theirs = load(toy.path, config, token_scores=False).translate(lines)
    assert [(each.ids, each.text, each.truncated) for each in theirs] == [
        (each.ids, each.text, each.truncated) for each in ours
    ]
    assert any(each.truncated for each in theirs) == bool(options)
    assert all(math.isnan(each.score) for each in theirs[1:])


# prefixes


@pytest.fixture
def begun(toy: Toy) -> list[Request]:
    """Beginnings of the right translation, none and all of it among them, and of another sentence's."""
    requests = []
    for number, (source, reference) in enumerate(zip(toy.sources, toy.references, strict=True)):
        words, others = reference.split(), toy.references[number - 1].split()
        requests.append(Request(source, prefix=" ".join(words[: number % (len(words) + 1)])))
        requests.append(Request(source, prefix=" ".join(others[: number % 4])))
    return requests


@pytest.mark.parametrize(
    ("beam_size", "n_best", "options"),
    [
        (1, 1, {}),
        (2, 1, {}),
        # Many translations end with their prefix, and in the last step more of them end than CTranslate2 can give.
        (5, 5, {"length_penalty_kind": "average", "length_penalty": 1.0}),
        # Some prefixes are longer than their translations may be.
        (4, 4, {"max_length_factor": 0.4, "max_length_constant": 3}),
    ],
)
def test_prefixes(toy: Toy, begun: list[Request], beam_size: int, n_best: int, options: dict[str, Any]) -> None:
    """The same hypotheses in the same order, with the same scores and token log-probabilities."""
    config = settings(beam_size=beam_size, n_best=n_best, **options)
    theirs = load(toy.path, config).translate(begun)
    ours = Translator(toy.model, toy.tokenizers, config).translate(begun)
    for request, mine, other in zip(begun, ours, theirs, strict=True):
        assert mine.truncated or other.text.startswith(request.prefix)
        for one, another in zip((mine, *mine.alternatives), (other, *other.alternatives), strict=True):
            assert (another.ids, another.truncated) == (one.ids, one.truncated)
            assert another.token_log_probs == pytest.approx(one.token_log_probs, abs=1e-4)
            assert (another.log_prob, another.score) == pytest.approx((one.log_prob, one.score), abs=1e-3)
    assert any(mine.truncated for mine in ours) == ("max_length_factor" in options)


def test_greedy_search_with_prefixes_without_scores(toy: Toy, begun: list[Request]) -> None:
    for options in {}, {"max_length_factor": 0.4, "max_length_constant": 3}:
        config = settings(beam_size=1, **options)
        ours = Translator(toy.model, toy.tokenizers, config).translate(begun)
        theirs = load(toy.path, config, token_scores=False).translate(begun)
        assert [(each.ids, each.truncated) for each in theirs] == [(each.ids, each.truncated) for each in ours]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_lines_with_a_prefix_are_searched_by_ctranslate2(
    toy: Toy, begun: list[Request], monkeypatch: pytest.MonkeyPatch, beam_size: int
) -> None:
    """All of them in greedy search; with a beam but for those that may end there."""
    searched: list[SearchInput] = []
    real = Translator._search

    def search(self: Translator, inputs: list[SearchInput], *others: Any) -> Any:
        searched.extend(inputs)
        return real(self, inputs, *others)

    monkeypatch.setattr(Translator, "_search", search)
    found = load(toy.path, settings(beam_size=beam_size)).translate(begun)
    assert len(found) == len(begun)
    assert all(each.prefix_ids for each in searched)
    if beam_size == 1:
        assert searched == []
    else:
        assert 0 < len(searched) < sum(bool(request.prefix) for request in begun) / 2


# auto


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"options": {"search": "sample"}}, "decoding.search = 'sample'"),
        ({"options": {"precision": "bf16"}}, "decoding.precision = 'bf16'"),
        ({"forbidden": ["dog"]}, "forbidden"),
    ],
)
def test_why_many_lines_are_searched_by_ours_is_said_once(
    toy: Toy,
    options: dict[str, Any],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="translate")
    monkeypatch.setattr(translator_module, "MANY_LINES", 20)
    given = {"device": "cpu", "beam_size": 1} | options.get("options", {})
    translator = load_engine(toy.path, **options | {"options": given}).translator
    translator.translate(toy.sources[:19])
    assert caplog.messages == []
    for _ in range(2):
        translator.translate(toy.sources[:20])
    assert caplog.messages == [f"Searching with translate: CTranslate2 cannot search with {reason}"]


@pytest.fixture
def run(toy: Toy, tmp_path: Path, save_run: SaveRun) -> Path:
    """A run that nothing was converted in."""
    save_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)
    return tmp_path / "run"


def automatic(run: Path, **options: Any) -> Translator:
    given = {"precision": "auto", "workers": 2, "beam_size": 1} | options
    return load_engine(run, options=given).translator


def test_a_run_is_converted_as_soon_as_it_pays(
    toy: Toy, run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="translate")
    monkeypatch.setattr(engine, "CONVERT_FROM", 20)
    expected = [
        each.text for each in Translator(toy.model, toy.tokenizers, settings(beam_size=1)).translate(toy.sources)
    ]
    translator = automatic(run)
    assert [each.text for each in translator.translate(toy.sources[:19])] == expected[:19]
    assert caplog.messages == [] and not (run / "export").exists()
    for _ in range(2):
        assert [each.text for each in translator.translate(toy.sources)] == expected
    assert [each.text for each in automatic(run).translate(toy.sources[:1])] == expected[:1]
    assert caplog.messages == ["Searching with CTranslate2 in fp32"] * 2  # one line for each translator that was loaded


def test_what_only_ours_can_is_ours(toy: Toy, run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Options of a call, and constraints of single lines."""
    caplog.set_level("INFO", logger="translate")
    convert_run(run, checkpoint="best")
    ours = load_translator(run, options={"workers": 2, "beam_size": 1}).translator
    translator = automatic(run)
    options = {"search": "sample", "seed": 3, "temperature": 1.3}
    assert translator.translate(toy.sources, **options) == ours.translate(toy.sources, **options)
    assert caplog.messages == []
    requests = [Request(line, required=("dog",) if number % 3 == 0 else ()) for number, line in enumerate(toy.sources)]
    found = translator.translate(requests, beam_size=2)
    assert [each.text for each in found] == [each.text for each in ours.translate(requests, beam_size=2)]
    assert all("dog" in each.text.split() for each in found[::3])
    with pytest.raises(InputError, match="the engine ctranslate2 has no phrases or terminology; use the engine auto"):
        load(run, settings()).translate(requests)
    with pytest.raises(
        InputError, match=r"cannot search with decoding.search = 'sample'; use the engine auto or translate"
    ):
        load(run, settings()).translate(toy.sources, search="sample")
    with pytest.raises(InputError, match="decoding.engine is fixed when a run is loaded"):
        translator.translate(toy.sources, engine="translate")


def test_where_the_conversion_cannot_be_kept_the_search_is_ours(
    toy: Toy, run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine, "CONVERT_FROM", 1)
    (run / "export").write_text("in the way")
    translator = automatic(run)
    for _ in range(2):
        assert len(translator.translate(toy.sources[:3])) == 3
    (message,) = caplog.messages
    assert message.startswith("Searching without CTranslate2: ") and "export" in message
    with pytest.raises(RunError, match="export"):
        load(run, settings())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("search", "sample"),
        ("coverage_penalty", 0.2),
        ("min_length_factor", 0.5),
        ("min_length_constant", 3),
        ("diversity_groups", 5),
        ("mbr", "chrf"),
        ("no_repeat_ngram", 3),
        ("repetition_penalty", 1.5),
    ],
)
def test_searches_that_ctranslate2_lacks_are_refused_by_name(toy: Toy, key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"decoding.{key} = {value!r}"):
        load(toy.path, settings(**{key: value}))


def test_weights_that_are_not_finite(toy: Toy, tmp_path: Path, save_run: SaveRun) -> None:
    model = build_model(toy.config, toy.tokenizers)
    model.output.weight.data[5] = float("nan")
    save_run(tmp_path / "run", toy.config, toy.tokenizers, model)
    with pytest.raises(RunError, match="differ by up to nan"):
        load(tmp_path / "run", settings())
    assert list((tmp_path / "run" / "export").iterdir()) == []


def test_a_failing_search_names_the_conversion(toy: Toy, tmp_path: Path, save_run: SaveRun) -> None:
    """One that was edited, with its checksum."""
    save_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)
    folder = convert_run(tmp_path / "run", checkpoint="best")
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"add_source_bos": false', '"add_source_bos": -1'))
    write_checksums(folder, {**read_checksums(folder), config.name: fingerprint(config)})
    with pytest.raises(RunError) as caught:
        load(tmp_path / "run", settings()).translate(toy.sources[:1])
    message = str(caught.value)
    assert message.startswith("CTranslate2 cannot translate: ")
    assert message.endswith(f". Lower decoding.batch_tokens, or remove {folder}, and it is made again")


def test_what_is_watched_is_searched_by_ours(toy: Toy, run: Path) -> None:
    """By CTranslate2 alone if it is asked for by name: it tells nothing on the way."""
    told: list[str] = []
    for name, is_told in (("auto", True), ("ctranslate2", False)):
        options = settings(beam_size=1, engine=name).model_dump()
        translator = load_engine(run, options=options).translator
        assert isinstance(translator, engine.CTranslate2Translator) and translator.convert()
        told.clear()
        (found,) = translator.translate_stream(toy.sources[:1], on_partial=lambda *given: told.append(given[2]))
        assert bool(told) is is_told and (not told or told[-1] == found.text)
