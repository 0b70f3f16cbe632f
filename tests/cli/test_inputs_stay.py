"""No command replaces a file that it reads, whatever made it read the file: an option, a config, its base, or a run."""

import shutil
from pathlib import Path

import pytest
from harness import commands, run_command, succeed

from translate import files

OUTPUTS = {"--output", "--alignments", "--pharaoh"}  # options that name a file to write

# A call of each command that has such an option; OUT is the file. In it, RUN is a run and base.yaml the base of a.yaml.
CALLS = [
    "decode RUN in.de --prefix prefix --require require --terminology terms.tsv --forbid forbid --output OUT",
    "decode RUN in.de --output other --alignments OUT",
    "decode RUN page.html --document --output OUT",
    "score RUN in.de in.en --output OUT",
    "compare a.en b.en --source in.de --reference in.en --output OUT",
    "compare RUN one.en --set second --output OUT",
    "tokenizer train in.de in.en --vocab-size 300 --output OUT",
    "show attention RUN Hund --output OUT",
    "show masks RUN Hund Katze --output OUT",
    "show positions a.yaml --output OUT",
    "show curves RUN --output OUT",
    "show alignments RUN --source in.de --reference in.en --output OUT",
    "show alignments RUN --source in.de --reference in.en --output other.html --pharaoh OUT",
]
TEXTS = {
    "in.de": "Ein Hund.\nZwei.\n",
    "in.en": "A dog.\nTwo.\n",
    "a.en": "A dog.\nOne.\n",
    "b.en": "The dog.\nTwo.\n",
    "prefix": "A\n\n",
    "require": "\n\n",
    "terms.tsv": "Hund\tdog\n",
    "forbid": "cat\n",
    "page.html": "<p>Hund</p>\n",
    "base.yaml": "model: {d_model: 8, num_heads: 2}\n",
    "a.yaml": "extends: base.yaml\n",
}


@pytest.fixture
def place(tmp_path: Path, corpus: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the corpora and the run, since a command that fails this test would overwrite them."""
    shutil.copytree(corpus, tmp_path / "place")
    for name, text in TEXTS.items():
        (tmp_path / "place" / name).write_text(text, encoding="utf-8")
    config = tmp_path / "place" / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(corpus), str(tmp_path / "place")))
    checksums = (config.parent / "SHA256SUMS").read_text().splitlines(keepends=True)
    (config.parent / "SHA256SUMS").write_text("".join(line for line in checksums if "config.yaml" not in line))
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def test_every_command_that_writes_a_file_is_tried() -> None:
    known = {(" ".join(each.split()[: 1 + each.startswith(("show", "tokenizer"))]), each.split()[-2]) for each in CALLS}
    folders = {("backtranslate", "--output"), ("distill", "--output")}  # which must not exist yet
    options = {(name, each) for name, command in commands().items() for param in command.params for each in param.opts}
    assert {(name, each) for name, each in options if each in OUTPUTS} == known | folders


@pytest.mark.parametrize("call", CALLS)
def test_no_input_is_replaced(place: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    remember = files.remember_input

    def note(file: int | Path, name: str) -> None:
        read.add(name)
        remember(file, name)

    monkeypatch.setattr(files, "remember_input", note)
    arguments = [{"RUN": "run"}.get(each, each) for each in call.split()]
    result = succeed(*(each.replace("OUT", "new.html") for each in arguments))
    inputs = {path.resolve() for path in map(Path, read) if path.is_file()}
    inputs = {path for path in inputs if path.is_relative_to(place) and not path.is_relative_to(place / "run")}
    assert inputs or "RUN" in call, "nothing was noted"
    for path in inputs:
        before = path.read_bytes()
        result = run_command(*(each.replace("OUT", f"./{path.relative_to(place)}") for each in arguments))
        assert result.exit_code == 2 and path.name in result.stderr, (path, result.output)
        assert path.read_bytes() == before


def test_an_output_is_checked_before_the_run_is_loaded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.decoding.loading.load_translator", None)
    result = run_command("decode", "run", "page.html", "--document", "--output", "page.html")
    assert result.exit_code == 2 and "page.html: this command reads that file" in result.stderr
