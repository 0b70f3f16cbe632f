"""docs/scaling.md cannot rot: its commands are ones that there are, its numbers those of the program that it names."""

import functools
import importlib
import math
import re
import runpy
import shlex
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.main import get_command

from translate.cli import app
from translate.config.load import load_config, override_config

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def on_paper() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "on_paper.py"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("gpu")


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```", DOCUMENT, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines]


def test_the_commands_are_ones_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.run import get_args_parser

    group: Any = get_command(app)
    assert len(commands()) > 8
    for words in commands():
        if words[0] == "torchrun":
            started = get_args_parser().parse_args(words[1:])
            assert (started.module, started.training_script) == (True, "translate")
            monkeypatch.setenv("WORLD_SIZE", "2")  # so that a run that is not there is no error yet
            words = words[words.index("translate") :]
            assert started.training_script_args == words[1:], "torchrun takes one of our options for its own"
        program, name, *arguments = words
        assert program == "translate"
        command = group.get_command(None, name)
        values = command.make_context(name, list(arguments)).params
        if name in ("train", "check"):
            load_config(Path(values["config"]).stem, values["overrides"] or [])
            assert name == "check" or (values["run"] is not None) == ("--run-dir" in arguments)


def test_the_numbers_are_those_of_the_program(on_paper: dict[str, Any]) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", DOCUMENT, flags=re.MULTILINE | re.DOTALL)
    assert shown == f"{on_paper['report']()}\n"


def test_operations_of_a_small_model_by_hand(on_paper: dict[str, Any]) -> None:
    """Two encoder layers and one decoder layer, width 6, inside 10, 11 subwords, sentences of 4.

    A layer of the encoder: 4 · 36 for the projections, 2 · 60 inside, 2 · 4 · 6 for scores and means: 312. The
    decoder's: 8 · 36 + 2 · 60 + 2 · 24 at the sources, half of that at its own side: 480. The output layer: 66.
    """
    sizes = {"model.d_model": 6, "model.num_heads": 2, "model.d_ff": 10, "tokenizer.vocab_size": 11}
    layers = {"model.num_encoder_layers": 2, "model.num_decoder_layers": 1}
    config = override_config(load_config("transformer-base").config, sizes | layers)
    assert on_paper["flops_per_target_token"](config, length=4) == 6 * (2 * 312 + 480 + 66)


def test_the_formula_of_the_document(on_paper: dict[str, Any]) -> None:
    assert "6 · (N · (12 d² + 4 d f + 5 n d) + V d)" in DOCUMENT
    for preset in ("transformer-base", "transformer-big"):
        config = load_config(preset).config
        layers, d, f = config.model.num_encoder_layers, config.model.d_model, config.model.d_ff
        formula = 6 * (layers * (12 * d * d + 4 * d * f + 5 * 30 * d) + config.tokenizer.vocab_size * d)
        assert math.isclose(on_paper["flops_per_target_token"](config), formula)


def test_the_report_has_a_row_for_each_way(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the CPU, with a tiny model and few tokens; a mode that fails is reported, and the others are measured."""
    sizes = {"model.d_model": 6, "model.num_heads": 2, "model.d_ff": 10, "tokenizer.vocab_size": 37}
    sizes |= {"model.num_encoder_layers": 1, "model.num_decoder_layers": 1, "training.precision": "fp32"}
    tiny = override_config(load_config("transformer-base").config, sizes)
    monkeypatch.setattr(gpu, "PRESETS", ["transformer-big"])
    monkeypatch.setattr(gpu, "load_config", lambda preset: types.SimpleNamespace(config=tiny))
    monkeypatch.setattr(gpu, "look_for_gpu", lambda: torch.device("cpu"))
    monkeypatch.setattr(gpu, "LENGTH", 11)
    monkeypatch.setattr(gpu, "SEARCHES", dict([*gpu.SEARCHES.items()][:1]))
    monkeypatch.setattr(gpu, "matrix_flops", lambda device: 1e9)
    monkeypatch.setattr(
        gpu, "MODES", {"as it is": {}, "odd": {"training.lora_rank": 3, "training.freeze": ["decoder.7"]}}
    )
    measure = gpu.measure_training
    monkeypatch.setattr(gpu, "measure_training", lambda *given, **_: measure(*given, tokens=60, num_batches=2, steps=1))
    monkeypatch.setattr(gpu, "measure_decoding", functools.partial(gpu.measure_decoding, lines=5))
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    gpu.main()
    lines = capsys.readouterr().out.splitlines()
    trained, odd, *_ = [line for line in lines if line.startswith("transformer-big")]
    assert re.fullmatch(r"transformer-big +as it is +[\d,]+ +[\d.]+% +\S+( GiB)?  fp32, padded, \d+ ms.*", trained)
    assert "failed: training.freeze = decoder.7" in odd
    assert sum("on paper" in line for line in lines) == 2
    assert sum(line.endswith(" lines/s") for line in lines) == 2 * len(gpu.SEARCHES)
