"""The README and the pages of `docs/` cannot rot: tests run their commands and follow their links."""

import logging
import re
import shlex
from pathlib import Path

import pytest
from harness import corpus_lines, write_lines
from typer.testing import CliRunner

from translate.cli import app
from translate.config.load import load_config

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# Settings that make the README's training short.
SHORT = ["model.num_encoder_layers=1", "model.num_decoder_layers=1", "model.d_model=16", "model.d_ff=16"]
SHORT += ["training.batch_tokens=500", "training.max_steps=2", "training.validate_every=2"]
SHORT += ["decoding.beam_size=1", "decoding.max_length_factor=0.2", "decoding.max_length_constant=2"]
SHORT += ["evaluation.bootstrap_samples=10"]


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {words[1] for words in commands(README) if words[0] == "make"}
    assert {"demo", "test"} <= targets
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


@pytest.mark.usefixtures("quick")  # `init` tries several models
def test_commands_of_the_readme_and_of_the_pages_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's commands run one after the other, then those of two pages, then the Python code."""
    for name, first, last in (("train", 0, 6000), ("valid", 6000, 6010), ("news", 6010, 6020)):
        for side in ("de", "en"):
            write_lines(tmp_path / f"{name}.{side}", corpus_lines(f"train.{side}")[first:last])
    (tmp_path / "by-hand.yaml").write_text(blocks(read("config.md"), "yaml")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load_config("by-hand.yaml", require_files=True).config.data.test.keys() == {"news"}
    pages = [README, read("decoding.md"), read("pictures.md")]
    ours = [words for page in pages for words in commands(page) if words[0] == "translate"]
    assert [words[1] for words in ours[:3]] == ["init", "train", "serve"]
    ours = [words for words in ours if words[1] != "serve" and "multi30k-local" not in " ".join(words)]
    assert [words[1] for words in ours].count("train") == 2
    assert {words[1] for words in ours} >= {"check", "decode", "eval", "score", "show", "verify", "config"}
    for _, *words in ours:
        if words[0] in ("check", "train") and "--resume" not in words:  # a run has its own settings
            words = [*words[:2], *SHORT, *words[2:]]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{words}: {result.output}"
        assert words[0] != "check" or "tokenizer.vocab_size" not in result.output, "the vocabulary suits the text"
    assert (tmp_path / "output.en").read_text(encoding="utf-8").count("\n") == 10
    try:
        for page in (README, read("model.md"), read("python.md")):
            for code in blocks(page, "python"):
                exec(code, globals())
        assert (tmp_path / "attention.html").stat().st_size > 10_000
    finally:
        logging.getLogger("translate").setLevel(logging.NOTSET)  # a page shows how to change it


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_site_lists_every_page() -> None:
    pages = re.findall(
        r"^ +- .*: ([\w-]+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(pages) == {page.name for page in (ROOT / "docs").iterdir() if page.suffix in (".md", ".ipynb")}


def test_tests_named_by_the_contracts_exist() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py|tests/[\w/]+/)`", read("contracts.md")))
    assert len(named) >= 12
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
