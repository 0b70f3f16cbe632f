"""What `auto` means, and when a run is converted for CTranslate2."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Toy, write_run

from translate.cli.terminal.parts import load_for_parts
from translate.config.decoding import DecodingConfig
from translate.decoding import Request, Translator, loading
from translate.decoding.engines.ctranslate2_conversion import convert_model
from translate.decoding.loading import load_own_translator, load_translator, resolve_auto
from translate.errors import InputError, RunError
from translate.runs.run import open_run

pytestmark = pytest.mark.usefixtures("no_shape_checks")

needs_ctranslate2 = pytest.mark.skipif(
    loading.importlib.util.find_spec("ctranslate2") is None, reason="the extra `ctranslate2` is not installed"
)


@pytest.mark.parametrize(
    ("options", "installed", "bf16", "expected"),
    [
        ({}, True, True, ("ctranslate2", "fp32")),
        ({}, False, True, ("translate", "bf16")),
        ({}, False, False, ("translate", "fp32")),
        ({"mbr": "chrf"}, True, True, ("translate", "bf16")),
        ({"search": "sample"}, True, True, ("translate", "fp32")),
        ({"search": "sample", "precision": "bf16"}, True, True, ("translate", "bf16")),
        ({"precision": "int8"}, True, True, ("ctranslate2", "int8")),
        ({"engine": "translate"}, True, True, ("translate", "bf16")),
        ({"engine": "ctranslate2"}, False, True, ("ctranslate2", "fp32")),
        ({"device": "cuda"}, True, True, ("translate", "bf16")),
    ],
)
def test_auto(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], installed: bool, bf16: bool, expected: tuple[str, str]
) -> None:
    monkeypatch.setattr(loading, "choose_device", torch.device)
    monkeypatch.setattr(loading, "choose_precision", lambda name, device: "bf16" if bf16 else "fp32")
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: name if installed else None)
    config = resolve_auto(DecodingConfig.model_validate({"device": "cpu"} | options))
    assert (config.engine, config.precision) == expected


@pytest.mark.parametrize(
    ("options", "others", "named"),
    [
        ({}, ["ensemble"], "ensemble"),
        ({"engine": "ctranslate2", "mbr": "chrf"}, [], "decoding.mbr = 'chrf'"),
        ({"engine": "translate"}, [], "decoding.precision = 'int8'"),
    ],
)
def test_int8_without_ctranslate2_is_an_error(options: dict[str, str], others: list[str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        resolve_auto(DecodingConfig.model_validate({"device": "cpu", "precision": "int8"} | options), others=others)


@pytest.fixture
def run(toy: Toy, tmp_path: Path) -> Path:
    """A run that nothing was converted in."""
    return write_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)


def automatic(run: Path, **options: Any) -> Translator:
    given = {"precision": "auto", "workers": 2, "beam_size": 1} | options
    return load_translator(run, options=given).translator


def texts(translator: Translator, lines: list[Any], **options: Any) -> list[str]:
    return [each.text for each in translator.translate(lines, **options)]


@needs_ctranslate2
def test_a_run_is_converted_as_soon_as_it_pays(
    toy: Toy, run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="translate")
    monkeypatch.setattr(loading, "MANY_LINES", 20)
    expected = texts(load_own_translator(run, options={"beam_size": 1}).translator, toy.sources)
    translator = automatic(run)
    assert texts(translator, toy.sources[:19]) == expected[:19]
    assert caplog.messages == [] and not (run / "export").exists()
    for _ in range(2):
        assert texts(translator, toy.sources) == expected
    monkeypatch.setattr(loading, "FEW_LINES", 2)
    translator = automatic(run)
    for number in range(3):
        assert texts(translator, toy.sources[number : number + 1]) == [expected[number]]
        assert len(caplog.messages) == 1 + (number > 0)
    assert caplog.messages == ["Searching with CTranslate2 in fp32"] * 2  # one line for each translator that was loaded


@needs_ctranslate2
@pytest.mark.parametrize(("num_lines", "engine"), [(19, "translate"), (20, "ctranslate2")])
def test_all_parts_of_an_input_have_one_engine(
    toy: Toy, run: Path, monkeypatch: pytest.MonkeyPatch, num_lines: int, engine: str
) -> None:
    """Whichever blocks a process translates, and however few lines they have."""
    monkeypatch.setattr(loading, "MANY_LINES", 20)

    def load() -> Translator:
        return load_translator(run, options={"beam_size": 1, "workers": 1}, token_scores=False).translator

    translator, dependencies = load_for_parts(
        load, {"RUN": [open_run(run)]}, {}, checkpoint="best", num_lines=num_lines
    )
    assert dependencies["engine"] == engine
    for block in (toy.sources[:1], toy.sources[:19]):
        for found in translator.translate(block):
            assert math.isnan(found.score) is (engine == "ctranslate2")  # only CTranslate2 leaves it out


@needs_ctranslate2
def test_what_ctranslate2_lacks_our_own_search_has(toy: Toy, run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Options of a call, and constraints of single lines."""
    caplog.set_level("INFO", logger="translate")
    convert_model(open_run(run).load_model(), checkpoint="best")
    ours = load_own_translator(run, options={"workers": 2, "beam_size": 1}).translator
    translator = automatic(run)
    options = {"search": "sample", "seed": 3, "temperature": 1.3}
    assert translator.translate(toy.sources, **options) == ours.translate(toy.sources, **options)
    assert caplog.messages == []
    requests = [Request(line, required=("dog",) if number % 3 == 0 else ()) for number, line in enumerate(toy.sources)]
    assert texts(translator, requests, beam_size=2) == texts(ours, requests, beam_size=2)
    assert caplog.messages == ["Searching with CTranslate2 in fp32"]


@needs_ctranslate2
def test_where_the_conversion_cannot_be_kept_our_own_model_searches(
    toy: Toy, run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loading, "MANY_LINES", 1)
    (run / "export").write_text("in the way")
    translator = automatic(run)
    for _ in range(2):
        assert len(translator.translate(toy.sources[:3])) == 3
    (message,) = caplog.messages
    assert message.startswith("Searching without CTranslate2: ") and "export" in message
    with pytest.raises(RunError, match="export"):
        automatic(run, engine="ctranslate2")


@needs_ctranslate2
def test_what_is_watched_is_searched_by_our_own_model(toy: Toy, run: Path) -> None:
    """By CTranslate2 only if it is asked for by name: it tells nothing on the way."""
    told: list[str] = []
    for name, is_told in (("auto", True), ("ctranslate2", False)):
        translator = automatic(run, engine=name)
        assert translator.engine.prepare() == "ctranslate2"
        told.clear()
        (found,) = translator.translate_stream(toy.sources[:1], on_partial=lambda line, piece, text: told.append(text))
        assert bool(told) is is_told and (not told or told[-1] == found.text)
