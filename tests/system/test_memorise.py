"""Fifty real sentence pairs, learnt by heart: BLEU 100, through the files and commands that a user has."""

import json
from pathlib import Path
from typing import Any

from harness import corpus_lines, write_lines

CONFIG = """
data:
  train: [{kind: text, source: fifty.de, target: fifty.en}]
  test: {fifty: {kind: text, source: fifty.de, target: fifty.en}}
tokenizer: {vocab_size: 420}
model: {d_model: 64, num_heads: 4, d_ff: 128, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.0}
training:
  {max_steps: 150, batch_tokens: 4000, schedule: inverse_sqrt, learning_rate: 0.005, warmup_steps: 50,
   label_smoothing: 0.0, precision: fp32, device: cpu, validate_every: 150}
decoding: {device: cpu}
"""


def test_memorises_fifty_pairs(trainings: Any, tmp_path: Path) -> None:
    for side in ("de", "en"):
        write_lines(tmp_path / f"fifty.{side}", corpus_lines(f"train.{side}")[:50])
    (tmp_path / "fifty.yaml").write_text(CONFIG, encoding="utf-8")
    run = tmp_path / "run"
    trainings.command("train", str(tmp_path / "fifty.yaml"), "--run", str(run))
    evaluated = trainings.command("eval", str(run))
    report = json.loads((run / "evaluation" / "fifty" / "report.json").read_text(encoding="utf-8"))
    scores = {metric["name"]: metric["score"] for metric in report["metrics"]}
    assert round(scores["BLEU"], 6) == 100.0, evaluated
    assert scores["TER"] == 0.0
    assert (run / "evaluation" / "fifty" / "hypotheses.txt").read_text(encoding="utf-8") == (
        tmp_path / "fifty.en"
    ).read_text(encoding="utf-8")
