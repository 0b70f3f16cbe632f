"""Whatever is combined in a training: stopped anywhere and continued, it ends as one that was never stopped."""

import contextlib
import random
import signal
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from harness import state_of, stream_digits
from trainings import Digits, records_of, run_training, stop_training

from translate.config.schema import Config
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# Each combination has one of the choices of each line. Validations, saves, log lines and epochs are out of step.
CHOICES = [
    ["training.optimizer=adam", "training.optimizer=adamw training.weight_decay=0.1", "training.optimizer=muon"],
    ["training.precision=fp32", "training.precision=bf16", "training.precision=fp16"],
    [
        "",
        "training.lora_rank=3 training.lora_dropout=0.1 training.lora_targets=[query,key,feed_forward]",
        "training.lora_rank=2 training.freeze=[encoder]",
        "training.lora_rank=2 training.lora_targets=[output,embeddings]",
        "training.freeze=[embeddings]",
        "training.freeze=[encoder.0,embeddings]",
    ],
    ["", "training.ema_decay=0.9"],
    [
        "",
        "training.keep_last=2",
        "training.keep_last=3 training.average_kept=true",
        "training.keep_best=2 training.average_kept=true training.best_metric=loss",
    ],
    ["training.accumulate_batches=1", "training.accumulate_batches=2", "training.accumulate_batches=3"],
    ["training.batch_tokens=300", "training.batch_tokens=600", "training.batch_tokens=1100"],
    ["training.threads=1", "training.threads=2", "training.threads=3"],
    [
        "training.schedule=noam training.learning_rate=0.5",
        *(f"training.schedule={name}" for name in ("inverse_sqrt", "constant", "linear", "cosine", "wsd")),
    ],
    ["training.label_smoothing=0", "training.label_smoothing=0.1"],
    ["", "tokenizer.subword_sampling=0.1", "tokenizer.type=unigram tokenizer.subword_sampling=0.3"],
    ["training.batch_layout=padded", "training.batch_layout=packed"],
    ["", "training.r_drop=1"],
    ["", "training.max_gradient_norm=0.5"],
    ["", "training.patience=1", "training.max_epochs=2"],
    ["", "data.train.0.both_directions=true data.validation.both_directions=true", "data.train.0.augment.typos=0.5"],
    ["", "model.attention_dropout=0.1 model.activation_dropout=0.2 model.activation=swiglu"],
    [f"model.positions={name}" for name in ("sinusoidal", "learned", "rotary", "relative")],
    [
        "model.norm=pre model.embedding_norm=true",
        "model.norm=post",
        "model.norm=pre model.norm_kind=rms model.bias=false model.head_dim=6",
    ],
    ["model.tie_embeddings=all", "model.tie_embeddings=none model.output_bias=true tokenizer.vocabulary=separate"],
    [f"training.validate_every={number}" for number in (2, 3, 4)],
    [f"training.save_every={number}" for number in (2, 3, 50)],
    [f"training.log_every={number}" for number in (1, 3, 5)],
]


def draw_config(digits: Digits, draw: random.Random, *, base: Path) -> Config:
    """The config of some combination, drawn again until one can be configured; sometimes it fine-tunes the base run."""
    fixed = ("training.max_steps=8", "training.sample_translations=0", "decoding.beam_size=1")
    while True:
        drawn = " ".join(draw.choice(choices) for choices in CHOICES).split()
        if draw.random() < 0.3:  # its model and its tokenizer are the base's
            drawn = [key for key in drawn if key.startswith(("training.", "data."))]
            drawn.append(f"training.initialize_from={base}")
        with contextlib.suppress(InputError):
            return digits(*fixed, *drawn)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed >= 6)) for seed in range(30)])
def test_stopped_and_continued_is_never_stopped(
    digits: Digits, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Stopped twice, by a signal or a sudden death, in steps or in validations."""
    draw, whole, stopped = random.Random(seed), tmp_path / "whole", tmp_path / "stopped"
    if draw.random() < 0.3:
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
        stream_digits(tmp_path, segment_pairs=90)
    config = draw_config(digits, draw, base=straight)
    run_training(config, whole)
    expected = state_of(whole)
    moments = [("in_step", step + 1) for step in range(expected.progress["step"])]
    moments += [("in_validation", record["step"]) for record in records_of(whole, "validation")]
    for where, number in sorted(draw.sample(moments, 2), key=lambda moment: moment[::-1]):
        torch.manual_seed(99)  # whatever happened in between
        what: Any = draw.choice([signal.SIGTERM, KeyboardInterrupt])
        stop_training(config, stopped, what=what, **{where: number})
    run_training(config, stopped, resume=True)
    assert state_of(stopped) == expected
