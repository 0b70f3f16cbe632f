"""README and docs cannot rot: their commands are run, their links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from torch.distributed.run import get_args_parser as torchrun_parser
from typer.testing import CliRunner

from translate.cli import app
from translate.config import load_config

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# A training of the README, made short, and all that is done with its run.
SHORT = [
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "model.d_model=16",
    "model.d_ff=16",
    "training.max_steps=2",
    "training.validate_every=2",
    "decoding.beam_size=2",
    "decoding.max_length_factor=0.5",
    "decoding.max_length_constant=5",
    "evaluation.bootstrap_samples=10",
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {words[1] for words in commands() if words[0] == "make"}
    assert {"demo", "test"} <= targets
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


def test_a_model_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's config and commands, one after the other, and then its Python."""
    for name, first, last in (("train", 0, 400), ("valid", 400, 410), ("news", 410, 420)):
        for side in ("de", "en"):
            lines = (ROOT / "data" / f"train.{side}").read_text(encoding="utf-8").split("\n")[first:last]
            (tmp_path / f"{name}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    translated = [words for words in commands() if words[0] == "translate" and "multi30k-local" not in " ".join(words)]
    assert [words[1] for words in translated].count("train") == 2
    for _, *words in translated:
        redirected = words[words.index(">") + 1] if ">" in words else None
        words = words[: words.index(">")] if redirected else words
        if words[0] in ("check", "train"):
            words = [*words[:2], *SHORT, *words[2:]]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{words}: {result.output}"
        if redirected:
            Path(redirected).write_text(result.stdout, encoding="utf-8")
    assert (tmp_path / "output.en").read_text(encoding="utf-8").count("\n") == 10
    for code in blocks("python"):
        exec(code, globals())


def test_torchrun_hands_on_what_the_documents_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parser takes any beginning of its own options' names, which must not be one of ours."""
    monkeypatch.chdir(ROOT)
    subcommands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8").replace("\\\n", " ")
    jobs = [shlex.split(line, comments=True) for line in re.findall(r"^torchrun .*$", text, re.MULTILINE)]
    assert {job[job.index("translate") + 1] for job in jobs} == {"train", "decode"}
    for _, *words in jobs:
        read = torchrun_parser().parse_args(words)
        command, *ours = words[words.index("translate") + 1 :]
        assert (read.module, read.training_script, read.training_script_args) == (True, "translate", [command, *ours])
        found = subcommands[command].make_context(command, list(ours)).params
        if command == "train":
            load_config(found["config"], found["overrides"])
            assert (found["run"] is not None) == ("--run-dir" in ours)


def test_links_lead_somewhere() -> None:
    for document in (ROOT / "README.md",):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_tests_named_by_the_contracts_exist() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", README))
    assert len(named) >= 6
    assert all((ROOT / name).is_file() for name in named)
