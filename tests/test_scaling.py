"""docs/scaling.md cannot rot: its commands are ones that there are, its numbers those of the program that it names."""

import importlib
import json
import math
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
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


@pytest.mark.parametrize("part", ["training", "profile", "decoding"])
def test_each_part_of_the_gpus_report_has_its_rows(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    """On the CPU, with tiny models and few tokens; a mode that fails is a row, and the others are measured."""
    monkeypatch.setitem(gpu.MODES, "not deterministic", {"training.freeze": ["decoder.7"]})
    monkeypatch.setattr("sys.argv", ["gpu.py", "--device", "cpu", "--scale", "tiny", "--part", part])
    gpu.main()
    rows = {row["case"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    models = ("transformer-base", "transformer-big", "multi30k")
    if part == "training":
        assert len(rows) == 7 and rows["a large product in bf16"]["numbers"]["TFLOP/s"] > 0.0
        for model in models:
            assert rows[f"{model}, eager"]["numbers"]["target tokens/s"] > 0.0
            assert "training.freeze = decoder.7" in rows[f"{model}, not deterministic"]["failed"]
    elif part == "profile":
        assert list(rows) == ["transformer-base, eager", "multi30k, eager"]
        for row in rows.values():
            shares = [value for name, value in row["numbers"].items() if name.startswith("share of ")]
            assert sum(shares) == pytest.approx(1.0) and len(shares) > 3
            assert row["numbers"]["kernels per step"] > 100
    else:
        assert list(rows) == [f"{model}, {case}" for model in models for case in ("greedy, bf16", "beam 4, bf16")]
        for row in rows.values():
            assert row["numbers"]["target tokens/s"] == pytest.approx(30 * row["numbers"]["lines/s"])


def test_a_part_that_takes_too_long_or_fails_is_a_row(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "gpu.json"
    common = ["gpu.py", "--device", "cpu", "--scale", "tiny", "--output", str(output)]
    monkeypatch.setattr("sys.argv", [*common, "--parts", "decoding", "clock", "--minutes", "0"])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code
    rows = json.loads(output.read_text("utf-8"))["rows"]
    assert [(row["part"], row["failed"]) for row in rows] == [
        (part, "stopped after 0 s") for part in ("decoding", "clock")
    ]
    assert "FAILED: stopped after 0 s" in capsys.readouterr().out


def test_kernels_are_counted_by_their_kinds(gpu: Any) -> None:
    """Names as CUDA's profiler shows them; those of flash attention have words of products too."""
    kinds = {
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t>>": "attention",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float>": "norms",
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT": "products",
        "sm80_xmma_gemm_bf16bf16_bf16f32": "products",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8>": "others",
        "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>": "optimizer",
    }
    assert {name: gpu.kind_of(name) for name in kinds} == kinds
