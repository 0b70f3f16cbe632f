"""A tiny task that a tiny model learns in seconds: digits, reversed."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from translate.config import Config, load_config

Write = Callable[..., Config]


def write_reversed_digits(directory: Path, name: str, *, num_pairs: int, seed: int) -> None:
    draw = random.Random(seed)
    sources = ["".join(draw.choices("0123456789", k=draw.randint(2, 7))) for _ in range(num_pairs)]
    (directory / f"{name}.in").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    (directory / f"{name}.out").write_text("".join(f"{line[::-1]}\n" for line in sources), encoding="utf-8")


@pytest.fixture
def digits(tmp_path: Path) -> Write:
    """A function that gives the config of the task, with overrides; its files are in tmp_path."""
    write_reversed_digits(tmp_path, "train", num_pairs=211, seed=1)
    write_reversed_digits(tmp_path, "validation", num_pairs=23, seed=2)
    (tmp_path / "digits.yaml").write_text(
        """
data:
  train: [{kind: text, source: train.in, target: train.out}]
  validation: {kind: text, source: validation.in, target: validation.out}
  test: {held_out: {kind: text, source: validation.in, target: validation.out}}
tokenizer: {vocab_size: 40, byte_fallback: false}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.1, norm: pre}
training:
  {max_steps: 12, batch_tokens: 300, schedule: constant, learning_rate: 0.005, warmup_steps: 3, precision: fp32,
   device: cpu, validate_every: 6, save_every: 4, log_every: 5, sample_translations: 1}
decoding: {beam_size: 2, max_length_factor: 1.0, max_length_constant: 3, device: cpu}
""",
        encoding="utf-8",
    )

    def load(*overrides: str) -> Config:
        return load_config(str(tmp_path / "digits.yaml"), overrides, require_files=True).config

    return load
