"""A tiny run with every file that a run can have, except those of other packages."""

import shutil
from collections.abc import Callable
from pathlib import Path

import harness
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

Save = Callable[..., None]


@pytest.fixture(scope="session")
def config() -> Config:
    return harness.tiny_config(tokenizer={"vocab_size": 290})


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return LINES


@pytest.fixture(scope="session")
def tokenizers(config: Config) -> Tokenizers:
    return prepare_tokenizers(config.tokenizer, LINES, LINES)


def write_weights(
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


@pytest.fixture(scope="session")
def save() -> Save:
    """Writes a model's weights as a checkpoint; `last` with what a resumed training needs, as far as `verify` looks."""
    return write_weights


@pytest.fixture(scope="session")
def written(
    tmp_path_factory: pytest.TempPathFactory, config: Config, tokenizers: Tokenizers
) -> tuple[Path, Path, Transformer]:
    """A run with a best checkpoint of step 7; the same with all files of a resumed training; and their model."""
    folder = tmp_path_factory.mktemp("runs")
    run = create_run(folder / "tiny", config=config, tokenizers=tokenizers, command=COMMAND)
    with torch.random.fork_rng():
        torch.manual_seed(11)  # not the seed of the tests, which make models to tell apart from this one
        model = build_model(config, tokenizers).eval()
    write_weights(run, model, "best", 7)
    whole = RunDirectory(Path(shutil.copytree(run.path, folder / "whole")))
    write_weights(whole, model, "last", 7)
    write_weights(whole, model, "last", 9)
    whole.metrics.write_text('{"kind": "train", "step": 5}\n{"kind": "train", "step": 9}\n')
    return run.path, whole.path, model


@pytest.fixture
def model(written: tuple[Path, Path, Transformer]) -> Transformer:
    """The model of both runs; no test changes it."""
    return written[2]


@pytest.fixture
def run(tmp_path: Path, written: tuple[Path, Path, Transformer]) -> RunDirectory:
    """With a best checkpoint of step 7."""
    return RunDirectory(Path(shutil.copytree(written[0], tmp_path / "runs" / "tiny")))


@pytest.fixture
def whole_run(tmp_path: Path, written: tuple[Path, Path, Transformer]) -> RunDirectory:
    """With the checkpoints of a training that was resumed, and metrics too."""
    return RunDirectory(Path(shutil.copytree(written[1], tmp_path / "runs" / "tiny")))
