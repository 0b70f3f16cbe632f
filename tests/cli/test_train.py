"""`translate train`: a run from a config, continued, and profiled."""

import json
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from sacrebleu.tokenizers import tokenizer_ja_mecab
from typer.testing import Result

from translate.runs.verify import verify_run
from translate.training import StoppedBySignal

Translate = Callable[..., Result]


def test_train(trained: Result, corpus: Path) -> None:
    assert trained.exit_code == 0 and trained.stdout == ""
    assert f"Next: translate eval {corpus / 'run'}" in trained.stderr and "ended after 3 steps" in trained.stderr
    assert json.loads((corpus / "run" / "run.json").read_text())["command"][0] == "translate"


def test_train_and_resume(translate: Translate, corpus: Path, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    result = translate("train", corpus / "tiny.yaml", "training.max_steps=4", "--run", copy, "--resume")
    assert result.exit_code == 0, result.stderr
    assert "Going on from step 3" in result.stderr and "ended after 4 steps" in result.stderr


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


def test_a_run_that_has_ended_says_how_it_can_be_extended(translate: Translate, copied: Path) -> None:
    result = translate("train", copied, "--resume")
    assert result.exit_code == 0
    assert "The training has ended there; training.max_steps=N, with a larger N, extends it\n" in result.stderr
    assert "has ended there" not in translate("train", copied, "--resume", "training.max_steps=4").stderr


@pytest.mark.parametrize("named", [[], ["--run", "elsewhere/../copy"], ["--run-dir", "copy/"]])
def test_a_run_is_continued_from_its_own_config(
    translate: Translate, copied: Path, monkeypatch: pytest.MonkeyPatch, named: list[str]
) -> None:
    """From another folder than that of the first start, so that its relative paths are not found by chance."""
    (copied.parent / "elsewhere").mkdir()
    monkeypatch.chdir(copied.parent)
    result = translate("train", "copy", *named, "--resume", "training.max_steps=5")
    assert result.exit_code == 0, result.stderr
    assert "Going on from step 3" in result.stderr and "ended after 5 steps" in result.stderr
    result = translate("train", "copy", "--resume", "training.max_steps=6", "training.save_every=2")
    assert "Going on from step 5" in result.stderr and "max_steps: 6" in (copied / "config.yaml").read_text()
    assert not (copied.parent / "runs").exists()


def test_a_run_that_is_continued_by_itself_equals_the_one_by_its_config(
    translate: Translate, corpus: Path, copied: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    translate("train", copied, "training.max_steps=6", "--resume")
    translate("train", corpus / "tiny.yaml", "training.max_steps=6", "--run", other, "--resume")
    same = [(run / "checkpoints" / "best.safetensors").read_bytes() for run in (copied, other)]
    assert same[0] == same[1] and (copied / "config.yaml").read_bytes() == (other / "config.yaml").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "copy is a run: continue it with `translate train copy --resume`\n"),
        (["training.max_steps=9"], "copy is a run: continue it with `translate train copy --resume`\n"),
        (
            ["--run", "new", "--resume"],
            "copy is a run, and --run new is another: leave out --run to continue it, or begin a new run with its"
            " settings: translate train copy/config.yaml --run new\n",
        ),
        (["--resume", "model.d_model=16"], "copy was begun with other settings, so it cannot be continued with "),
        (["--resume", "data.train.0.source=no.de"], "data.train.0.source = no.de: no such file (command line); "),
    ],
)
def test_what_a_run_in_place_of_a_config_refuses(
    translate: Translate, copied: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(copied.parent)
    before = (copied / "config.yaml").read_bytes()
    result = translate("train", "copy", *arguments)
    assert result.exit_code == 2 and result.stderr.startswith(f"translate: {message}")
    assert (copied / "config.yaml").read_bytes() == before and not Path("new").exists()


def test_a_run_comes_before_a_preset_of_its_name(
    translate: Translate, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copied.parent)
    copied.rename("demo")
    result = translate("train", "demo")
    assert (result.exit_code, result.stderr) == (
        2,
        "translate: demo is a run: continue it with `translate train demo --resume`; the preset is demo.yaml\n",
    )
    assert "name: tiny\n" in Path("demo/config.yaml").read_text()
    assert translate("config", "show", "demo").stdout.startswith("name: tiny ")
    assert translate("config", "show", "demo.yaml").stdout.startswith("name: demo ")
    Path("multi30k").mkdir()  # a folder that is no run
    assert translate("config", "show", "multi30k").stdout.startswith("name: multi30k ")


@pytest.mark.parametrize("machines", [1, 2])
def test_an_interrupted_training_says_how_to_continue(
    translate: Translate, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machines: int
) -> None:
    """The run needs no config once it is saved; before that the command is the same one with --resume."""
    command = ["train", str(corpus / "tiny.yaml"), "--run", str(tmp_path / "a run")]
    monkeypatch.setattr("sys.argv", ["translate", *command])

    def told(stop: KeyboardInterrupt) -> str:
        def train(*arguments: object, **options: object) -> None:
            if machines > 1:
                for name, value in {"WORLD_SIZE": "16", "GROUP_WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "8"}.items():
                    monkeypatch.setenv(name, value)
                monkeypatch.setenv("MASTER_ADDR", "node1")
            raise stop

        monkeypatch.setattr("translate.training.train", train)
        return translate(*command).stderr.splitlines()[-1]

    start = "translate"
    if machines > 1:
        start = "torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint node1 --nproc-per-node 8 -m -- translate"
    saved = told(StoppedBySignal(signal.SIGINT, step=3))
    assert saved.endswith(f", and saved. Continue with: {start} train '{tmp_path}/a run' --resume")
    if machines == 1:
        again = f"{shlex.join(['translate', *command])} --resume"
        assert told(KeyboardInterrupt()) == f"translate: interrupted. Begin again or continue with: {again}"


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


def test_what_no_validation_could_search_with(translate: Translate, corpus: Path, tmp_path: Path) -> None:
    for command in (["train", "--run", tmp_path / "run"], ["check"]):
        result = translate(command[0], corpus / "tiny.yaml", "decoding.alignment_layer=3", *command[1:])
        assert result.exit_code == 2 and "translate: decoding.alignment_layer = 3: " in result.stderr
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
