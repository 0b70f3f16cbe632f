"""`translate import`: an imported run is a run like any other, but there is no training of it to continue."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from harness import run_command as translate

from translate.runs.run import open_run

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")


def test_an_imported_run_is_a_run(make_opus: Callable[..., Path], german: list[str], tmp_path: Path) -> None:
    folder, run = make_opus(tmp_path / "opus"), tmp_path / "runs" / "opus"
    result = translate("import", folder, run, "decoding.device=cpu")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Model: de → en, " in result.stderr and "it gives the same numbers. Next: translate decode" in result.stderr
    assert json.loads(translate("info", run, "--json").stdout)["max_steps"] is None
    again = translate("import", folder, run)
    assert again.exit_code == 2 and "is not an empty folder" in again.stderr

    source, target = tmp_path / "a.de", tmp_path / "a.en"
    source.write_text("".join(f"{line}\n" for line in german[:3]))
    decoded = translate("decode", run, source, "--output", target)
    assert decoded.exit_code == 0 and len(target.read_text().splitlines()) == 3
    greedy = ("decode", run, source, "--beam-size", "1", "--precision", "fp32", "--engine")
    assert translate(*greedy, "translate").stdout == translate(*greedy, "ctranslate2").stdout
    scored = translate("score", run, source, target)
    assert scored.exit_code == 0 and len(scored.stdout.splitlines()) >= 3
    assert "  BLEU " in translate("eval", run, "--source", source, "--reference", target).stdout
    picture = tmp_path / "attention.html"
    assert translate("show", "attention", run, german[0], "--output", picture).exit_code == 0 and picture.stat().st_size
    verified = translate("verify", run)
    assert verified.exit_code == 0 and "sound: every file is as it was written" in verified.stdout + verified.stderr
    for to in ("ctranslate2", "huggingface"):
        assert translate("export", run, tmp_path / to, "--to", to).exit_code == 0
        assert translate("export", run, tmp_path / "x", "--to", to, "--checkpoint", "last").exit_code == 2

    narrow = translate("import", folder, tmp_path / "narrow", "--precision", "bf16")
    assert narrow.exit_code == 0 and "it gives the same numbers before rounding to bf16" in narrow.stderr
    exact, rounded = (open_run(each).load_model().model.parameters() for each in (run, tmp_path / "narrow"))
    assert all(torch.equal(one.bfloat16().float(), other) for one, other in zip(exact, rounded, strict=True))
    sizes = [(each / "checkpoints" / "best.safetensors").stat().st_size for each in (run, tmp_path / "narrow")]
    assert 1.8 < sizes[0] / sizes[1] < 2.0
    assert translate("export", tmp_path / "narrow", tmp_path / "out", "--to", "huggingface").exit_code == 0

    resumed = translate("train", run, "--resume")
    assert resumed.exit_code == 2
    assert f"training.initialize_from={run}" in resumed.stderr.replace("\n", "")
    assert "has no training to continue" in resumed.stderr.replace("\n", " ")
    assert json.loads((run / "run.json").read_text())["imported"]["source"] == str(folder)
