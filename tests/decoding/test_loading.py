"""`translate.load`: from a run directory to typed translations, with settings and other runs."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import Toy, succeed, tiny_config, write_run
from safetensors import safe_open

import translate
from translate.data.tokenizer import Tokenizers
from translate.decoding import Translator
from translate.decoding.counterparts import COUNTERPARTS, Counterparts
from translate.decoding.engines.own import OwnEngine
from translate.decoding.loading import load_own_translator, resolve_auto
from translate.errors import InputError
from translate.runs import checkpoint
from translate.runs.weights import build_model


@pytest.fixture(scope="module")
def run(toy: Toy) -> Path:
    return toy.path


def write_other(path: Path, tokenizers: Tokenizers, **sections: dict[str, Any]) -> Path:
    """An untrained run."""
    config = tiny_config(**sections)
    return write_run(path, config, tokenizers, build_model(config, tokenizers))


def texts(translator: Translator, lines: list[str]) -> list[str]:
    return [translation.text for translation in translator.translate(lines)]


def test_the_translator_of_a_run(toy: Toy, run: Path) -> None:
    """As the model and its settings give it, in evaluation mode; the path may be text."""
    lines = toy.sources[:9]
    loaded = translate.load(str(run))
    assert isinstance(loaded, Translator) and loaded.config == resolve_auto(toy.config.decoding_settings())
    assert not any(module.training for module in loaded.model.modules())
    assert f"Translator {run}, de → en: " in repr(loaded)
    translations = loaded.translate(lines)
    assert texts(Translator(toy.model, toy.tokenizers, loaded.config), lines) == [each.text for each in translations]


@pytest.fixture
def opened(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Counter[str]]]:
    """A copy of the run, and how often each of its files is opened to read it."""
    copy, counts = Path(shutil.copytree(run, tmp_path / "run")), Counter[str]()

    def count(path: object, mode: str | None = "r") -> None:
        if isinstance(path, str | Path) and Path(path).is_relative_to(copy) and mode and mode[0] == "r":
            counts[str(Path(path).relative_to(copy))] += 1

    def open_tensors(path: Path, **options: Any) -> Any:
        count(path)
        return safe_open(path, **options)

    monkeypatch.setattr(checkpoint, "safe_open", open_tensors)  # which Python does not see
    _LISTENERS.append(count)
    yield copy, counts
    _LISTENERS.clear()


_LISTENERS: list[Callable[..., None]] = []
sys.addaudithook(lambda event, values: [hear(*values[:2]) for hear in _LISTENERS] if event == "open" else None)


@pytest.mark.parametrize("engine", ["translate", "ctranslate2"])
@pytest.mark.parametrize("command", ["load", "decode"])
def test_each_file_of_a_run_is_opened_once(opened: tuple[Path, Counter[str]], engine: str, command: str) -> None:
    """By the command's own check of its options too; with CTranslate2 before it is converted, and after."""
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    run, counts = opened
    for _ in range(2):
        counts.clear()
        if command == "load":
            translate.load(run, engine=engine).translate("Ein Hund.")
        else:
            succeed("decode", run, "--engine", engine, stdin=b"Ein Hund.\n")
        assert {"config.yaml", "run.json", "tokenizer/joint.model", "checkpoints/best.safetensors"} < counts.keys()
        assert set(counts.values()) == {1}, counts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beamsize": 3}, "^unknown key decoding.beamsize; did you mean decoding.beam_size\\?$"),
        ({"alignment_layer": 1}, "^decoding.alignment_layer = 1: the decoder has layers 0 to 0; -1 is the last$"),
        ({"forbidden": "dog"}, "^forbidden = 'dog': should be a list, such as \\['dog'\\]$"),
        ({"reverse": "nowhere"}, "^nowhere: no such run directory; "),
        ({"checkpoint": "last"}, "last.safetensors"),
    ],
)
def test_options_that_cannot_be(run: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        translate.load(run, **options)


def test_a_model_that_ctranslate2_cannot_express(toy: Toy, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COUNTERPARTS["activation"], toy.config.model.activation, Counterparts(None, None, None))
    loaded = translate.load(run, device="cpu")
    assert isinstance(loaded.engine, OwnEngine) and loaded.translate("Hund").text == "dog"
    for options in ({"engine": "ctranslate2"}, {"precision": "int8"}):
        with pytest.raises(InputError, match="model.activation = 'relu'"):
            translate.load(run, device="cpu", **options)


@pytest.fixture(scope="module")
def other_run(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of another shape, with no more positions than 9."""
    model = {"d_model": 16, "positions": "learned", "max_positions": 9}
    data = {"max_source_tokens": 8, "max_target_tokens": 8}
    return write_other(tmp_path_factory.mktemp("runs") / "other", toy.tokenizers, model=model, data=data)


def test_an_ensemble_of_a_run_with_itself_is_the_run_and_others_have_their_say(
    toy: Toy, run: Path, other_run: Path
) -> None:
    lines = toy.sources[:7]
    alone, together = (translate.load(run, ensemble=each).translate(lines) for each in ([], [other_run]))
    assert all(abs(one.log_prob - other.log_prob) > 1e-3 for one, other in zip(alone, together, strict=True))
    assert texts(translate.load(run, ensemble=[run, str(run)], precision="fp32"), lines) == texts(
        translate.load(run), lines
    )


def test_a_precision_is_that_of_all_models(toy: Toy, run: Path) -> None:
    """Without one, scores are computed in fp32."""
    translator = translate.load(run, engine="translate", precision="bf16", ensemble=[run])
    for model in translator.engine.models:
        assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    translator = load_own_translator(run).translator
    assert translator.config.precision == "fp32" and translator.model.output.weight.dtype == torch.float32
