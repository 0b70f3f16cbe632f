"""A run that `translate train` itself has made, and the command in this process."""

import random
import shutil
from pathlib import Path

import pytest
from harness import make_two_ways, run_command, toy_sentences, without_shape_checks, write_lines
from typer.testing import Result

GERMAN = [
    "Ein Hund läuft durch den Schnee.",
    "Zwei Männer stehen am Herd und kochen.",
    "Die Straße ist grün und größer.",
    "Ein Mädchen klettert in ein Haus.",
    "Viele Büsche wachsen im Garten.",
]
ENGLISH = [
    "A dog runs through the snow.",
    "Two men stand at the stove and cook.",
    "The street is green and bigger.",
    "A girl climbs into a house.",
    "Many bushes grow in the garden.",
]
CONFIG = """\
data:
  train: [{kind: text, source: train.de, target: train.en}]
  validation: {kind: text, source: valid.de, target: valid.en}
  test: {first: {kind: text, source: valid.de, target: valid.en}, second: {kind: text, source: one.de, target: one.en}}
tokenizer: {vocab_size: 340}
model: {d_model: 8, num_heads: 2, d_ff: 16, num_encoder_layers: 1, num_decoder_layers: 1}
training: {max_steps: 3, validate_every: 2, log_every: 2, batch_tokens: 200, warmup_steps: 2, device: cpu, threads: 1}
decoding: {beam_size: 2, max_length_factor: 0.2, max_length_constant: 3, device: cpu}
evaluation: {bootstrap_samples: 10}
"""

LEARNT_CONFIG = """\
data:
  train: [{kind: text, source: toy.de, target: toy.en}]
  validation: {kind: text, source: new.de, target: new.en}
tokenizer: {vocab_size: 300}
model:
  {d_model: 32, num_heads: 4, d_ff: 64, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.0, norm: pre,
   positions: rotary}
training:
  {max_steps: 150, validate_every: 150, batch_tokens: 600, schedule: linear, learning_rate: 0.01, warmup_steps: 20,
   label_smoothing: 0.0, precision: fp32, device: cpu, threads: 1}
decoding: {beam_size: 4, device: cpu}
"""


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    for name, number in [("train", 5), ("valid", 3), ("one", 1)]:
        write_lines(directory / f"{name}.de", GERMAN[:number])
        write_lines(directory / f"{name}.en", ENGLISH[:number])
    (directory / "tiny.yaml").write_text(CONFIG)
    return directory


@pytest.fixture(scope="session")
def trained(corpus: Path) -> Result:
    return run_command("train", corpus / "tiny.yaml", "--run", corpus / "run")


@pytest.fixture(scope="session")
def run(trained: Result, corpus: Path) -> Path:
    assert trained.exit_code == 0, trained.output
    return corpus / "run"


@pytest.fixture
def copied(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run, in another working directory, so that its relative paths are not found by chance."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(run, tmp_path / "copy"))


@pytest.fixture(scope="session")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt a toy language word by word, so that its translations end by themselves and differ.

    Beside it, new.de and new.en: 12 pairs.
    """
    directory = tmp_path_factory.mktemp("learnt")
    draw = random.Random(1)
    for name, number in [("toy", 600), ("new", 12)]:
        for language, lines in zip(("de", "en"), toy_sentences(number, longest=5, draw=draw), strict=True):
            write_lines(directory / f"{name}.{language}", lines)
    (directory / "learnt.yaml").write_text(LEARNT_CONFIG)
    with without_shape_checks():
        result = run_command("train", directory / "learnt.yaml", "--run", directory / "run")
    assert result.exit_code == 0, result.output
    return directory / "run"


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from German to English and back, which has learnt nothing; each source has the tag of the target."""
    test = {"toy": {"kind": "text", "source": "toy.de", "target": "toy.en", "both_directions": True}}
    folder = tmp_path_factory.mktemp("both")
    return make_two_ways(folder, ["source"], num_steps=0, data={"test": test})["source"].path
