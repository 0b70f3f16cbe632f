"""A tiny run with every file that a run can have but those of other packages."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.model import Transformer
from translate.runs.checkpoint import WEIGHTS_PREFIX, add_prefix, write_checkpoint
from translate.runs.directory import Checkpoint, RunDirectory, create_run
from translate.runs.loading import build_model, get_parameters
from translate.runs.progress import Progress

LINES = ["Ein Hund läuft.", "Zwei Hunde schlafen im Gras.", "Die Straße ist grün."]
COMMAND = ["translate", "train", "größe.yaml"]

TinyConfig = Callable[..., Config]
Save = Callable[..., None]


def make_config(**model: object) -> Config:
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return Config.model_validate(
        {
            "name": "tiny",
            "tokenizer": {"vocab_size": 290},
            "model": {**sizes, **model},
            "decoding": {"beam_size": 2, "max_length_factor": 0.0, "max_length_constant": 4, "device": "cpu"},
        }
    )


@pytest.fixture(scope="session")
def tiny_config() -> TinyConfig:
    """A small config, with some of its model changed."""
    return make_config


@pytest.fixture(scope="session")
def config() -> Config:
    return make_config()


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return LINES


@pytest.fixture(scope="session")
def command() -> list[str]:
    return COMMAND


@pytest.fixture(scope="session")
def tokenizers(config: Config) -> Tokenizers:
    return prepare_tokenizers(config.tokenizer, LINES, LINES)


@pytest.fixture(scope="session")
def save() -> Save:
    """Writes a model's weights as a checkpoint; with what a resumed training needs, as far as `verify` looks."""

    def save(
        run: RunDirectory,
        model: Transformer,
        which: Checkpoint,
        step: int,
        *,
        prefix: str = WEIGHTS_PREFIX,
        **progress: object,
    ) -> None:
        weights = get_parameters(model)
        tensors, metadata = add_prefix(weights, prefix), {"step": str(step)}
        if which == "last":
            for entry in ("exp_avg", "exp_avg_sq"):
                tensors |= {f"optimizer.{name}/{entry}": torch.zeros_like(weight) for name, weight in weights.items()}
            tensors |= {f"optimizer.{name}/step": torch.tensor(float(step)) for name in weights}
            metadata["progress"] = Progress("data", step=step, **progress).to_json()  # type: ignore[arg-type]
        write_checkpoint(run, which, tensors, metadata)

    return save


@pytest.fixture
def model(config: Config, tokenizers: Tokenizers) -> Transformer:
    return build_model(config, tokenizers).eval()


@pytest.fixture
def run(tmp_path: Path, config: Config, tokenizers: Tokenizers, model: Transformer, save: Save) -> RunDirectory:
    """With a best checkpoint of step 7."""
    run = create_run(tmp_path / "runs" / "tiny", config=config, tokenizers=tokenizers, command=COMMAND)
    save(run, model, "best", 7)
    return run


@pytest.fixture
def whole_run(run: RunDirectory, model: Transformer, save: Save) -> RunDirectory:
    """With the checkpoints of a training that was resumed, and metrics too."""
    save(run, model, "last", 7)
    save(run, model, "last", 9)
    run.metrics.write_text('{"kind": "train", "step": 5}\n{"kind": "train", "step": 9}\n')
    return run
