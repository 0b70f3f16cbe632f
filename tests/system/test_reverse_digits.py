"""A small model learns to reverse unseen strings of digits, through the commands that a user types."""

import random
from pathlib import Path
from typing import Any

import pytest
from harness import write_lines

CONFIG = """
data:
  train: [{kind: text, source: train.in, target: train.out}]
  validation: {kind: text, source: validation.in, target: validation.out}
# One symbol per digit: nothing can be merged, so the model sees every position.
tokenizer: {vocab_size: 15, byte_fallback: false}
model:
  {d_model: 64, num_heads: 4, d_ff: 256, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.0, norm: pre}
training:
  {seed: 3, max_steps: 800, batch_tokens: 1000, optimizer: adamw, schedule: cosine, learning_rate: 0.005,
   warmup_steps: 100, label_smoothing: 0.0, max_gradient_norm: 1.0, precision: fp32, device: cpu,
   validate_every: 400, best_metric: loss, sample_translations: 0}
decoding: {beam_size: 2, device: cpu}
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_learns_to_reverse_digits(trainings: Any, tmp_path: Path) -> None:
    draw = random.Random(7)
    strings: dict[str, None] = {}
    while len(strings) < 8500:
        strings["".join(draw.choices("0123456789", k=draw.randint(5, 10)))] = None
    lines = list(strings)
    for name, part in (("train", lines[:8000]), ("validation", lines[8000:8100]), ("test", lines[8100:])):
        write_lines(tmp_path / f"{name}.in", part)
        write_lines(tmp_path / f"{name}.out", [line[::-1] for line in part])
    (tmp_path / "reverse.yaml").write_text(CONFIG, encoding="utf-8")
    run, output = str(tmp_path / "run"), tmp_path / "output"

    trainings.command("train", str(tmp_path / "reverse.yaml"), "--run", run)
    trainings.command("decode", run, str(tmp_path / "test.in"), "--output", str(output))

    translations = output.read_text(encoding="utf-8").splitlines()
    assert len(translations) == 400
    exact = sum(translation == line[::-1] for translation, line in zip(translations, lines[8100:], strict=True))
    assert exact >= 396, f"{exact} of 400 reversed"
