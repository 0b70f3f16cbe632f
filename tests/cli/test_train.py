"""`translate train`: a run from a config, continued, and profiled."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sacrebleu.tokenizers import tokenizer_ja_mecab
from typer.testing import Result

from translate.runs.verify import verify_run

Translate = Callable[..., Result]


def test_train(trained: Result, corpus: Path) -> None:
    assert trained.exit_code == 0 and trained.stdout == ""
    assert f"Next: translate eval {corpus / 'run'}" in trained.stderr and "ended after 3 steps" in trained.stderr
    assert json.loads((corpus / "run" / "run.json").read_text())["command"][0] == "translate"


def test_train_refuses_an_existing_run(translate: Translate, corpus: Path, run: Path) -> None:
    result = translate("train", corpus / "tiny.yaml", "--run", run)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"translate: {run} already holds a run: continue it with --resume")


def test_train_and_resume(translate: Translate, corpus: Path, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    result = translate("train", corpus / "tiny.yaml", "training.max_steps=4", "--run", copy, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "going on from step 3" in result.stderr and "ended after 4 steps" in result.stderr


def test_train_without_its_data(translate: Translate, corpus: Path, tmp_path: Path) -> None:
    result = translate("train", corpus / "tiny.yaml", "data.train.0.source=nowhere.de", "--run", tmp_path / "run")
    assert result.exit_code == 2 and not (tmp_path / "run").exists()
    assert "data.train.0.source = nowhere.de: no such file" in result.stderr


def test_profile(translate: Translate, corpus: Path) -> None:
    run = corpus / "profiled"
    result = translate(
        "train", corpus / "tiny.yaml", "training.max_steps=21", "data.validation=null", "--run", run, "--profile"
    )
    assert result.exit_code == 0, result.output
    assert "Profiling steps 11 to 20 after" in result.output
    assert (
        f"Profile of steps 11 to 20: {run / 'profile' / 'time.txt'}; {run / 'profile' / 'trace.json.gz'} is for"
        in result.output
    )
    assert "ended after 21 steps" in result.output
    assert {path.name for path in (run / "profile").iterdir()} == {"time.txt", "trace.json.gz"}


@pytest.mark.parametrize("command", ["train", "check", "eval"])
def test_a_bleu_tokenizer_that_is_not_installed(
    translate: Translate, corpus: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Found before any corpus is read; by `eval` before the first line is translated."""
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    if command == "eval":
        shutil.copytree(run, tmp_path / "copy")
        config = tmp_path / "copy" / "config.yaml"
        config.write_text(config.read_text().replace("bleu_tokenizer: 13a", "bleu_tokenizer: ja-mecab"))
        result = translate("eval", tmp_path / "copy")
    else:
        options = ["--run", tmp_path / "run"] if command == "train" else []
        result = translate(command, corpus / "tiny.yaml", "evaluation.bleu_tokenizer=ja-mecab", *options)
    assert result.exit_code == 2 and not (tmp_path / "run" / "config.yaml").exists()
    assert result.stderr.splitlines()[-1] == (
        "translate: evaluation.bleu_tokenizer = ja-mecab: its package is not installed; install it with"
        " pip install 'sacrebleu[ja]', or choose another tokenizer, such as 13a"
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "decoding.alignment_layer=3",
            "decoding.alignment_layer = 3: the decoder has the layers 0 to 0; -1 is the last",
        ),
        ("decoding.shortlist=true", "decoding.shortlist: none was loaded; make it with `translate shortlist RUN`"),
    ],
)
def test_what_no_validation_could_search_with(
    translate: Translate, corpus: Path, tmp_path: Path, override: str, message: str
) -> None:
    for command in (["train", "--run", tmp_path / "run"], ["check"]):
        result = translate(command[0], corpus / "tiny.yaml", override, *command[1:])
        assert result.exit_code == 2 and f"translate: {message}" in result.stderr
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_a_run_whose_name_is_not_utf8(
    translate: Translate, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is trained, read, verified and drawn, and so are files with such names."""
    run, source = tmp_path / "r\udcff", tmp_path / "s\udcff"
    shutil.copy(corpus / "valid.de", source)
    monkeypatch.setattr("sys.argv", ["translate", "train", str(run)])
    page = tmp_path / "c\udcff.html"
    commands = [
        ["train", corpus / "tiny.yaml", "--run", run],
        ["decode", run, source, "--output", tmp_path / "o\udcff"],
        ["show", "curves", run, "--output", page],
    ]
    for command in commands:
        result = translate(*command)
        assert result.exit_code == 0, result.output
    assert not verify_run(run).unsound
    assert json.loads((run / "run.json").read_text())["command"] == ["translate", "train", str(run)]
    assert "r\\udcff" in page.read_text()
