"""`translate train`: a run from a config, started and continued."""

import json
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest
from harness import in_order, succeed
from harness import run_command as translate
from sacrebleu.tokenizers import tokenizer_ja_mecab
from typer.testing import Result

from translate.runs.verify import verify_run
from translate.training import StoppedBySignal


def test_train(trained: Result, corpus: Path) -> None:
    assert trained.exit_code == 0 and trained.stdout == ""
    assert in_order(trained.stderr, "3 steps", f"translate eval {corpus / 'run'}")
    assert json.loads((corpus / "run" / "run.json").read_text())["command"][0] == "translate"


def test_a_run_is_continued_by_itself_and_by_its_config_alike(corpus: Path, copied: Path, tmp_path: Path) -> None:
    """Where it has ended, it says how it is extended."""
    before = (copied / "config.yaml").read_bytes(), (copied / "metrics.jsonl").read_bytes()
    assert in_order((ended := succeed("train", copied, "--resume")).stderr, "already ended", "training.max_steps=N")
    fewer = translate("train", copied, "--resume", "training.max_steps=2")
    assert fewer.exit_code == 2 and in_order(fewer.stderr, "3 steps", "training.max_steps = 2")
    assert ((copied / "config.yaml").read_bytes(), (copied / "metrics.jsonl").read_bytes()) == before
    assert "BLEU" not in ended.stderr
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    steps = ["training.max_steps=6", "--resume"]
    Path("elsewhere").mkdir()
    for command in (
        [corpus / "tiny.yaml", "--run", other],
        ["./copy", "--run-dir", "elsewhere/../copy", "training.save_every=1000"],
    ):
        result = succeed("train", *command, *steps)
        assert in_order(result.stderr, "step 3", "6 steps"), result.stderr
        assert "training.max_steps=N" not in result.stderr
    same = [(run / "checkpoints" / "best.safetensors").read_bytes() for run in (copied, other)]
    assert same[0] == same[1] and (copied / "config.yaml").read_bytes() == (other / "config.yaml").read_bytes()
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["./copy", "translate train ./copy --resume"]),
        (["training.max_steps=9"], ["./copy", "translate train ./copy --resume"]),
        (["--run", "new", "--resume"], ["copy", "--run new", "translate train copy/config.yaml --run new"]),
        (["--resume", "model.d_model=16"], ["copy", "model.d_model"]),
        (["--resume", "data.train.0.source=no.de"], ["data.train.0.source = no.de", "command line"]),
    ],
)
def test_what_a_run_in_place_of_a_config_refuses(copied: Path, arguments: list[str], words: list[str]) -> None:
    before = (copied / "config.yaml").read_bytes()
    result = translate("train", "./copy", *arguments)
    assert result.exit_code == 2 and in_order(result.stderr, "translate: ", *words), result.stderr
    assert (copied / "config.yaml").read_bytes() == before and not Path("new").exists()


def test_a_run_with_the_name_of_a_preset_is_a_path(copied: Path) -> None:
    copied.rename("demo")
    result = translate("train", "./demo")
    assert result.exit_code == 2 and "translate train ./demo --resume" in result.stderr
    result = translate("train", "demo", "--resume")
    assert result.exit_code == 2 and in_order(result.stderr, "train ./demo --resume", "--run runs/demo")
    for name, config in {"demo": "demo", "./demo": "tiny"}.items():
        shown = translate("config", "show", name)
        assert shown.stdout.startswith(f"name: {config} ")
        assert ("demo is the preset; for what is here, write ./demo" in shown.stderr) == (name == "demo")


def test_an_interrupted_training_says_how_to_continue(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run needs no config once it is saved; before that the command is the same one with --resume."""
    command = ["train", str(corpus / "tiny.yaml"), "--run", str(tmp_path / "a run")]
    monkeypatch.setattr("sys.argv", ["translate", *command])

    def last_line(stop: KeyboardInterrupt) -> str:
        def train(*arguments: object, **options: object) -> None:
            raise stop

        monkeypatch.setattr("translate.training.train", train)
        return translate(*command).stderr.splitlines()[-1]

    assert last_line(KeyboardInterrupt()).endswith(f": {shlex.join(['translate', *command])} --resume")
    stop = StoppedBySignal(signal.SIGINT, step=3)
    assert last_line(stop).endswith(f": translate train '{tmp_path}/a run' --resume")


def test_what_no_validation_could_use(corpus: Path, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found before any corpus is read; by `eval` before the first line is translated."""
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    config = copied / "config.yaml"
    config.write_text(config.read_text().replace("bleu_tokenizer: 13a", "bleu_tokenizer: ja-mecab"))
    given = [corpus / "tiny.yaml", "evaluation.bleu_tokenizer=ja-mecab"]
    for command in (["train", *given, "--run", "new"], ["check", *given], ["eval", copied]):
        result = translate(*command)
        assert result.exit_code == 2 and not Path("new/config.yaml").exists()
        assert in_order(result.stderr, "translate: ", "bleu_tokenizer = ja-mecab", "pip install 'sacrebleu[ja]'")


def test_a_run_whose_name_is_not_utf8(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is trained, read, verified and drawn, and so are files with such names."""
    run, source, page = tmp_path / "r\udcff", tmp_path / "s\udcff", tmp_path / "c\udcff.html"
    shutil.copy(corpus / "valid.de", source)
    monkeypatch.setattr("sys.argv", ["translate", "train", str(run)])
    for command in (
        ["train", corpus / "tiny.yaml", "--run", run],
        ["decode", run, source, "--output", tmp_path / "o\udcff"],
        ["show", "curves", run, "--output", page],
        ["export", run, "--to", "ctranslate2", tmp_path / "e\udcff"],
    ):
        succeed(*command)
    assert not verify_run(run).unsound
    assert json.loads((run / "run.json").read_text())["command"] == ["translate", "train", str(run)]
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.usefixtures("no_shape_checks")
def test_errors_of_the_check_end_it_before_anything_is_written(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    """In the words of `check`; an option trains all the same."""
    monkeypatch.chdir(tmp_path)
    for language in ("de", "en"):
        lines = (corpus / f"train.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / f"leaked.{language}").write_text("".join(lines * 20), encoding="utf-8", newline="\n")
    leaked = f"data.test={{leaked: {{kind: text, source: {tmp_path}/leaked.de, target: {tmp_path}/leaked.en}}}}"
    given = [corpus / "tiny.yaml", leaked, "training.max_steps=1", "--run", "new"]
    report = translate("check", *given[:3]).stdout
    finding = report[report.index("  error  ") : report.index("  warning")]
    assert in_order(finding, "data.test.leaked", "→ ", "line 1 ")
    result = translate("train", *given)
    assert result.exit_code == 2 and finding in result.stderr, result.output
    assert in_order(result.stderr.splitlines()[-1], "translate: Not ready", "1 error", "--ignore-errors")
    assert not list(tmp_path.rglob("run.json"))
    assert finding in succeed("train", *given, "--ignore-errors").stderr
    assert re.sub(r"(?m)^\S+ ", "", Path("new/log.txt").read_text()).count(finding) == 1
    assert "Data and settings" not in translate("train", "./new", "--resume", "training.max_steps=2").stderr
