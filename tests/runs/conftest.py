"""A tiny run with every file that a run can have, except those of other packages."""

import shutil
from pathlib import Path

import pytest
import torch
from harness import tiny_config, write_weights

from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.model import Transformer
from translate.runs.directory import RunDirectory, create_run
from translate.runs.weights import build_model

LINES = ["Ein Hund läuft.", "Zwei Hunde schlafen im Gras.", "Die Straße ist grün."]
COMMAND = ["translate", "train", "größe.yaml"]


@pytest.fixture(scope="session")
def config() -> Config:
    return tiny_config(tokenizer={"vocab_size": 290})


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return LINES


@pytest.fixture(scope="session")
def tokenizers(config: Config) -> Tokenizers:
    return prepare_tokenizers(config.tokenizer, LINES, LINES)


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
