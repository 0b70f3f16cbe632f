"""Each program of benchmarks/ runs: with its smallest turn, and prints its table."""

import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from harness import make_toy, toy_sentences, write_lines

from translate.model.precision import choose_precision

ROOT = Path(__file__).resolve().parents[2]
SMALL = "training.max_steps=1 training.validate_every=1 tokenizer.vocab_size=290 model.d_model=8 model.num_heads=2"
SMALL += " model.d_ff=8 training.device=cpu training.threads=1 decoding.device=cpu"

ENGINES = ["ours fp32", "tutorial fp32", "huggingface fp32"]  # of train.py; none is compiled
if choose_precision("auto", torch.device("cpu")) == "bf16":  # elsewhere a step in bf16 takes minutes
    ENGINES += ["ours bf16", "huggingface bf16 malloc"]

DECODERS = [
    "auto int8",
    "ours fp32",
    "ctranslate2 alone int8, patience 2",
    "huggingface fp32",
    "onnx fp32",
]

TURNS = {  # arguments, and words of the output
    "decode.py": (
        "run --source toy/val.de --reference toy/val.en --repeats 1 --threads 1 --beam-sizes 1"
        f" --engines {shlex.join(DECODERS)}",
        [f"{name}  " for name in DECODERS],
    ),
    "large_corpus.py": ("large --pairs 20", ["20 pairs", "config.yaml"]),
    "on_paper.py": ("", ["transformer-base", "transformer-big"]),
    "recipes.py": (f"toy out --seeds 1 --only fast --override {SMALL}", ["fast"]),
    "serve.py": ("run --source toy/val.de --requests 20 --clients 1 --only load,memory", ["lines"]),
    "gpu.py": ("--device cpu --scale tiny", ["multi30k, eager", "beam 4, bf16", "validation BLEU", "skipped"]),
    "step.py": (
        f"toy --steps 1 --override {SMALL}",
        ["bf16, auto", "fp32, packed", "matrix products", "The products alone"],
    ),
    "student.py": (
        f"toy students --seeds 1 --teachers 1 --steps 1 --to en --override {SMALL} tokenizer.vocab_size=320",
        ["| de to en | validation |"],
    ),
    "time_to_quality.py": (
        f"toy timed --minutes 0.001 --turns 1 --seconds 0.1 --threads 1 --override {SMALL}",
        ["| ours | ", "| marian | ", "| tutorial | "],
    ),
    "train.py": (
        f"words --batch-tokens 64 --steps 1 --turns 1 --warmup 1 --threads 1 --engines {shlex.join(ENGINES)}",
        ENGINES,
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a toy corpus named as Multi30k's files, and a corpus of 9,000 words."""
    folder = tmp_path_factory.mktemp("benchmarks")
    make_toy(folder / "run", num_steps=20)
    draw = random.Random(1)
    (folder / "toy").mkdir()
    for name, number in (("train", 200), ("val", 12), ("test_2016_flickr", 12)):
        for language, lines in zip(("de", "en"), toy_sentences(number, longest=6, draw=draw), strict=True):
            write_lines(folder / "toy" / f"{name}.{language}", lines)
    (folder / "words").mkdir()
    for language in ("de", "en"):
        words = ["".join(draw.choices("abcdefghijklmnop", k=9)) for _ in range(9000)]
        write_lines(folder / "words" / f"train.{language}", [" ".join(words[at : at + 3]) for at in range(0, 9000, 3)])
    (folder / "timed").mkdir()  # only the speed of ours is measured
    (folder / "timed" / "speeds.json").write_text('{"marian": [60.0], "tutorial": [60.0]}')
    return folder


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TURNS)
def test_the_smallest_turn(place: Path, name: str) -> None:
    arguments, words = TURNS[name]
    result = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / name, *shlex.split(arguments)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    output = result.stdout + result.stderr
    assert "Traceback" not in output, output[-3000:]
    assert result.returncode == 0, output[-3000:]
    assert all(word in output for word in words), output[-3000:]


def test_every_benchmark_has_its_turn() -> None:
    programs = {path.name for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text("utf-8")}
    assert programs == set(TURNS)
