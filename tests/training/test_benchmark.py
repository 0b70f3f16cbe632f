"""benchmarks/train.py runs: each of its engines, with the smallest turn."""

import functools
import importlib.util
import json
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROOT = Path(__file__).resolve().parents[2]


def pipe_of_threads() -> tuple[Any, ...]:
    """A pipe between threads: its far end stays open when the caller, who is in the same process, closes it."""
    there, back = SimpleQueue[Any](), SimpleQueue[Any]()
    return tuple(
        SimpleNamespace(send=out.put, recv=into.get, close=lambda: None) for out, into in ((there, back), (back, there))
    )


def test_every_engine_makes_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("benchmark_train", ROOT / "benchmarks" / "train.py")
    assert spec is not None and spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    for side in ("de", "en"):
        lines = (ROOT / "data" / f"train.{side}").read_text(encoding="utf-8").splitlines(keepends=True)[:300]
        (tmp_path / f"train.{side}").write_text("".join(lines), encoding="utf-8")
    sizes = {"tokenizer.vocab_size": 700, "model.num_encoder_layers": 1, "model.num_decoder_layers": 1}
    monkeypatch.setattr(benchmark, "SETTINGS", {**benchmark.SETTINGS, **sizes})
    monkeypatch.setattr(benchmark, "LAYERS", 1)
    monkeypatch.setattr(benchmark, "measure_peak", functools.partial(benchmark.measure_peak, size=64))
    # Threads start faster than processes, and the layers stay uncompiled, which another test tries.
    context = SimpleNamespace(Pipe=pipe_of_threads, Process=threading.Thread)
    monkeypatch.setattr(benchmark.multiprocessing, "get_context", lambda method: context)
    monkeypatch.setattr("translate.training.setup.compile_layers", lambda model: None)
    options = ["--batch-tokens", "100", "--steps", "1", "--turns", "1", "--warmup", "1", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["train.py", str(tmp_path), *options, "--json", str(tmp_path / "report.json")])
    torch.manual_seed(1)
    benchmark.main()
    report, said = json.loads((tmp_path / "report.json").read_text()), capsys.readouterr().out
    has_transformers = importlib.util.find_spec("transformers") is not None
    assert report.keys() == {name for name in benchmark.ENGINES if has_transformers or "huggingface" not in name}
    for name, numbers in report.items():
        assert numbers["rates"][0] > 0 and len(numbers["losses"]) == 2 and all(loss > 1 for loss in numbers["losses"])
        assert f"\n{name} " in said
