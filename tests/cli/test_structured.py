"""Files whose lines are not text are refused by their names, wherever a text is read, and say what becomes of them."""

import gzip
from pathlib import Path

import pytest
from harness import run_command as translate

from translate.config.data import TextCorpus
from translate.data.corpora import read_corpus
from translate.documents.document import FORMATS, format_of_file
from translate.errors import InputError
from translate.files import STRUCTURED

NAMES = [
    ".json", ".jsonl", ".yaml", ".yml", ".properties", ".strings", ".stringsdict", ".xml", ".resx", ".xlsx", ".ods",
    ".docx", ".odt", ".pptx", ".pdf", ".ts", ".tmx", ".csv", ".tsv", ".arb", ".ftl", ".php", ".ini", ".mo",
    ".xcstrings", ".idml", ".json5",
]  # fmt: skip
CONTENT = '<TS>\nmsgid "_Open File"\n{"a": "b"}\n'
WAYS = ("decode RUN {}", "decode RUN {} --document-format text", "score RUN {} a.txt", "score RUN a.txt {}",
        "eval --hypotheses {} --reference a.txt", "decode RUN {} --resume --output out", "init {}",
        "decode RUN {} --document", "decode RUN {} --document-format markdown")  # fmt: skip


@pytest.mark.parametrize("suffix", [*NAMES, ".po", ".xlf", ".mqxliff"])
def test_a_file_that_is_not_text_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix.upper()}"
    path.write_text(CONTENT)
    text = tmp_path / "a.txt"
    text.write_text("a\n")
    for sides in ((path, text), (text, path)):
        with pytest.raises(InputError, match=rf"^data: {path}: .*{suffix}.*; .*{STRUCTURED[suffix][-20:]}$"):
            read_corpus(TextCorpus(source=sides[0], target=sides[1]), key="data")
    if not any(suffix in known.extensions for known in FORMATS.values()):
        with pytest.raises(InputError, match=f"^{path}: "):
            format_of_file(path)
        with pytest.raises(InputError, match=STRUCTURED[suffix]):
            format_of_file(tmp_path / f"missing{suffix}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("no_shape_checks")
def test_every_command_refuses_it(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a\n")
    for name in ("a.yaml", "b.ts", "c.strings.gz"):
        Path(name).write_bytes(gzip.compress(CONTENT.encode()) if name.endswith(".gz") else CONTENT.encode())
        result = translate(*way.replace("RUN", str(run)).format(name).split())
        assert result.exit_code == 2 and result.stdout == ""
        assert f"{name}: " in result.stderr and "Traceback" not in result.stderr
        assert STRUCTURED[Path(name.removesuffix(".gz")).suffix] in " ".join(result.stderr.split())
    assert not Path("out").exists()


@pytest.mark.usefixtures("no_shape_checks")
def test_plain_text_is_read_whatever_its_name(tmp_path: Path, run: Path) -> None:
    for name in ("a", "a.de", "a.b.c", "a.ts", "json", "a.md"):  # .ts is Tsonga
        (tmp_path / name).write_text("Ein Hund\n")
        assert translate("decode", run, tmp_path / name).exit_code == 0
    (tmp_path / "phrases.tsv").write_text("dog\n")
    assert translate("decode", run, tmp_path / "a", "--require", tmp_path / "phrases.tsv").exit_code == 0
    assert translate("decode", run, stdin=CONTENT.encode()).exit_code == 0
