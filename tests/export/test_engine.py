"""The engine gives the Translator's translations, from a model that is converted once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config
from translate.decoding import Translator
from translate.errors import InputError, RunError
from translate.export import CTranslate2Translator, engine
from translate.export.ctranslate2 import convert_run
from translate.fingerprint import fingerprint
from translate.runs.checksums import read_checksums, write_checksums
from translate.runs.loading import build_model

Toy = Any  # conftest.py's: test modules cannot import each other
SaveRun = Callable[..., None]

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")


def settings(**options: object) -> DecodingConfig:
    return DecodingConfig.model_validate({"device": "cpu", "workers": 2} | options)


@pytest.mark.parametrize(("beam_size", "length_penalty"), [(1, 0.6), (2, 0.0), (5, 0.6), (5, 1.3)])
def test_translations_are_the_translators(toy: Toy, beam_size: int, length_penalty: float) -> None:
    """All of them, and those of lines without words too."""
    lines = ["", *toy.sources[:20], "   ", *toy.sources[20:], "日本"]
    config = settings(beam_size=beam_size, length_penalty=length_penalty, look_ahead_lines=11)
    theirs = CTranslate2Translator(toy.path, config).translate(lines)
    ours = Translator(toy.model, toy.tokenizers, config).translate(lines)
    assert [translation.source for translation in theirs] == lines
    same = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine.text == other.text]
    assert len(same) == len(lines)
    for mine, other in same:
        assert (other.ids, other.truncated, other.source_truncated) == (mine.ids, mine.truncated, mine.source_truncated)
        assert (other.log_prob, other.score) == pytest.approx((mine.log_prob, mine.score), abs=1e-3)


def test_the_toy_language_is_learnt(toy: Toy) -> None:
    """Else the comparisons would compare noise."""
    translations = CTranslate2Translator(toy.path, settings()).translate(toy.sources)
    right = sum(t.text == reference for t, reference in zip(translations, toy.references, strict=True))
    assert right > len(toy.references) / 2


@pytest.mark.parametrize("beam_size", [1, 4])
def test_maximum_lengths_are_each_lines_own(toy: Toy, beam_size: int) -> None:
    config = settings(beam_size=beam_size, max_length_factor=0.4, max_length_constant=1)
    theirs = CTranslate2Translator(toy.path, config).translate(toy.sources)
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
        theirs = CTranslate2Translator(tmp_path / "run", given).translate(lines)
        ours = Translator(model, toy.tokenizers, given).translate(lines)
        assert [each.flags & {"source_truncated", "split"} for each in theirs] == [flags, frozenset()]
        assert [each.text for each in theirs] == [each.text for each in ours]
        assert [len(each.pieces) for each in theirs] == [len(each.pieces) for each in ours]
    with pytest.raises(
        InputError, match=r"^line 1: the source has \d+ tokens, and the limit is 12 \(model.max_positions, less one"
    ):
        CTranslate2Translator(tmp_path / "run", settings(long="error")).translate(lines)


def test_a_sentence_longer_than_the_table_is_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "max_positions", lambda config: 41)
    translator = CTranslate2Translator(toy.path, settings(beam_size=1))
    shortest, longest = translator.translate(["Hund", "Hund " * 20])  # 2 tokens each
    assert len(shortest.ids) < len(longest.ids) <= 41
    message = r"^line 2: the source has 43 tokens with its end symbol, and the engine ctranslate2 has 41 positions; "
    with pytest.raises(InputError, match=message):
        translator.translate(["Hund", "Hund " * 21])


def test_n_best(toy: Toy) -> None:
    config = settings(beam_size=4, n_best=3)
    for translation in CTranslate2Translator(toy.path, config).translate(toy.sources[:5]):
        scores = [translation.score, *(other.score for other in translation.alternatives)]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)


def test_reads_no_further_than_the_window(toy: Toy) -> None:
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for line in toy.sources:
            taken += 1
            yield line

    stream = CTranslate2Translator(toy.path, settings(look_ahead_lines=3)).translate_stream(lines())
    next(stream)
    assert taken == 3


def test_progress_counts_each_line_once(toy: Toy) -> None:
    """Also a line that is searched twice, as one that reaches the maximum length of its own is."""
    told: list[int] = []
    config = settings(max_length_factor=0.5, max_length_constant=1)
    translator = CTranslate2Translator(toy.path, config)
    found = list(translator.translate_stream([*toy.sources, ""], on_finished=told.append))
    assert any(each.truncated for each in found) and told == [1] * len(found)


def test_int8_translates(toy: Toy) -> None:
    translations = CTranslate2Translator(toy.path, settings(precision="int8")).translate(toy.sources)
    assert sum(t.text == r for t, r in zip(translations, toy.references, strict=True)) > len(toy.references) / 2


def test_a_precision_that_is_not_here_is_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ctranslate2.Translator

    def without_bfloat16(*arguments: Any, **options: Any) -> Any:
        if options["compute_type"] == "bfloat16":
            raise ValueError("Requested bfloat16 compute type, but the target device does not support it.")
        return real(*arguments, **options)

    monkeypatch.setattr(ctranslate2, "Translator", without_bfloat16)
    with pytest.raises(InputError, match="^device = cpu and precision = bf16: .* Requested bfloat16 compute type"):
        CTranslate2Translator(toy.path, settings(precision="bf16"))


def test_given_translations_are_refused(toy: Toy) -> None:
    with pytest.raises(InputError, match="cannot score or align given translations; use the engine translate"):
        CTranslate2Translator(toy.path, settings()).score(["Hund"], [[5]])


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
        ("shortlist", True),
    ],
)
def test_searches_that_ctranslate2_lacks_are_refused_by_name(toy: Toy, key: str, value: object) -> None:
    with pytest.raises(InputError, match=f"decoding.{key} = {value!r}"):
        CTranslate2Translator(toy.path, settings(**{key: value}))


def test_weights_that_are_not_finite(toy: Toy, tmp_path: Path, save_run: SaveRun) -> None:
    model = build_model(toy.config, toy.tokenizers)
    model.output.weight.data[5] = float("nan")
    save_run(tmp_path / "run", toy.config, toy.tokenizers, model)
    with pytest.raises(RunError, match="differ by up to nan"):
        CTranslate2Translator(tmp_path / "run", settings())
    assert list((tmp_path / "run" / "export").iterdir()) == []


def test_a_failing_search_names_the_conversion(toy: Toy, tmp_path: Path, save_run: SaveRun) -> None:
    """One that was edited, with its checksum."""
    save_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)
    folder = convert_run(tmp_path / "run", checkpoint="best")
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"add_source_bos": false', '"add_source_bos": -1'))
    write_checksums(folder, {**read_checksums(folder), config.name: fingerprint(config)})
    with pytest.raises(RunError) as caught:
        CTranslate2Translator(tmp_path / "run", settings()).translate(toy.sources[:1])
    message = str(caught.value)
    assert message.startswith("CTranslate2 cannot translate: ")
    assert message.endswith(f". Lower decoding.batch_tokens, or remove {folder}, and it is made again")
