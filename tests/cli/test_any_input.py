"""Whatever it is given, a command ends with a result or with a paragraph, and changes no file but those it was told to.

Hypothesis makes the cases of each kind of docs/bad-input.md: some of them here, ten thousand in the slow tier.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import run_command as translate
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from typer.testing import Result

from translate.config.data import TableCorpus
from translate.config.schema import Config
from translate.data.corpora import read_corpus
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("no_shape_checks")

FEW, MANY = 8, 10_000
kinds = pytest.mark.parametrize(
    "num_cases", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(0)])]
)

SECTIONS = {name: list(getattr(field.annotation, "model_fields", {})) for name, field in Config.model_fields.items()}
KEYS = [f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys]
HOSTILE = ["auto", "cuda:99999999999999999999", "cuda:7", "../x", "\ud800", "\0", "-", "~", "13a", 0.9999999, 10**400]
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(HOSTILE)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def check_cases(strategy: st.SearchStrategy[Any], check: Callable[[Any], None], *, num_cases: int) -> None:
    """Check so many cases; the few of the fast tier are the same in each run."""
    configured = settings(
        max_examples=num_cases,
        deadline=None,
        database=None,
        derandomize=num_cases <= FEW,
        phases=[Phase.generate],  # making a failing case smaller can take longer than all of them
        suppress_health_check=list(HealthCheck),
    )
    configured(given(strategy)(check))()


def check_ended(result: Result, *codes: int) -> None:
    assert result.exit_code in codes, result.output[-2000:]
    assert "Traceback" not in result.output
    assert result.exit_code == 0 or result.output.strip(), "an exit code without a word"


@kinds
def test_configs(tmp_path: Path, num_cases: int) -> None:
    """Keys with values of every kind, and a good config with some of its bytes replaced."""
    path = tmp_path / "any.yaml"
    good = b'model:\n  d_model: 8  # small\n  num_heads: [2]\ntraining: {max_steps: 3, device: cpu}\nname: "\\u00e4"\n'
    keys = st.sampled_from([*SECTIONS, "extends", "kind"])
    section = st.dictionaries(st.sampled_from([key for keys in SECTIONS.values() for key in keys]), VALUES, max_size=4)
    documents = st.dictionaries(keys, section | VALUES, max_size=4)
    words = st.sampled_from([b"\\U", b"\\ud800", b"&a [*a]", b"9" * 5000, b".inf", b"!!", b"<<: *b"]) | st.binary(
        max_size=8
    )
    cuts = st.tuples(st.integers(0, len(good)), st.integers(0, 9), words)

    def check(case: Any) -> None:
        if isinstance(case, dict):
            content = json.dumps(case).encode()
        else:
            place, length, word = case
            content = good[:place] + word + good[place + length :]
        path.write_bytes(content)
        check_ended(translate("config", "show", path), 0, 2)
        assert path.read_bytes() == content

    check_cases(documents | cuts, check, num_cases=num_cases)


@kinds
def test_json_cells(tmp_path: Path, num_cases: int) -> None:
    """Text comes out unchanged, and all else is refused."""
    path = tmp_path / "any.json"
    corpus = TableCorpus(kind="json", path=path, source_column="de", target_column="en")
    row = st.fixed_dictionaries({"de": TEXT | VALUES, "en": TEXT})

    def read() -> list[tuple[str, str]] | None:
        try:
            pairs = read_corpus(corpus, key="data.train.0")
        except InputError as error:
            assert str(error).startswith("data.train.0: ")
            return None
        return list(zip(pairs.sources, pairs.targets, strict=True))

    def is_text(cell: Any) -> bool:
        return isinstance(cell, str) and not any("\ud800" <= character <= "\udfff" for character in cell)

    def check(rows: list[Any]) -> None:
        is_good = bool(rows) and all(isinstance(row, dict) and all(map(is_text, row.values())) for row in rows)
        expected = [(row["de"], row["en"]) for row in rows] if is_good else None
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        assert read() == expected

    check_cases(st.lists(row | st.none(), max_size=4), check, num_cases=num_cases)


@kinds
def test_lines(run: Path, num_cases: int) -> None:
    """Any bytes are text, with a line out for each line in, or are refused."""

    def check(content: bytes) -> None:
        result = translate("tokenizer", "encode", run, stdin=content)
        check_ended(result, 0, 2)
        if result.exit_code == 0:
            assert result.stdout_bytes.count(b"\n") == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))

    check_cases(st.binary(max_size=60) | TEXT.map(str.encode), check, num_cases=num_cases)


NAMES = ["a.de", "b.en", "link", "new", "new.part", "folder", "folder/new", "new.html", "new.align", "run/config.yaml"]
NAMES += ["run/checkpoints/best.safetensors", "run/metrics.jsonl", "run/out.txt", "gone/new"]
COMMANDS = [  # IN is read, OUT and BESIDE are written
    "decode run IN --output OUT",
    "decode run IN --output OUT --alignments BESIDE",
    "decode run IN --output OUT --resume",
    "score run IN b.en --output OUT",
    "tokenizer train IN --vocab-size 280 --output OUT",
    "show curves run --format html --output OUT",
    "show alignments run --source IN --reference b.en --format html --output OUT --pharaoh BESIDE",
    "show alignments run --source b.en --reference IN --format html --output OUT",
]


def contents(folder: Path) -> dict[str, bytes]:
    """The content of each file by its path, and where each link leads."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@kinds
def test_arrangements_of_files(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_cases: int) -> None:
    """Whichever files are named, only an output changes, and never one that is read, or one of the run."""
    folder = tmp_path / "case"

    def real(name: str) -> str:
        return Path(os.path.realpath(folder / name)).relative_to(folder.resolve()).as_posix()

    def check(case: tuple[str, str, str, str]) -> None:
        command, read, output, beside = case
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "folder").mkdir(parents=True)
        shutil.copytree(run, folder / "run")
        for file in ("a.de", "new.part", "folder/mine"):
            (folder / file).write_text("Ein Hund.\nDer Hund.\n")
        (folder / "b.en").write_text("A dog.\nThe dog.\n")
        (folder / "link").symlink_to("a.de")
        monkeypatch.chdir(folder)
        before = contents(folder)
        words = {"IN": read, "OUT": output, "BESIDE": beside}
        arguments = [words.get(word, word) for word in command.split()]
        result = translate(*arguments)
        check_ended(result, 0, 1, 2)
        after = contents(folder)
        written = {real(output), real(beside)} if "BESIDE" in command else {real(output)}
        if "alignments run" in command and "BESIDE" not in command:
            written.add(real(Path(output).with_suffix(".align").as_posix()))
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        allowed = {name for name in written if not name.startswith("run/") or name.startswith("run/out.")}
        allowed -= {real(words.get(word, word)) for word in command.split() if word in ("IN", "b.en")}
        assert changed <= allowed, (arguments, result.output)
        assert result.exit_code == 0 or changed < written or not changed, (arguments, result.output)

    name = st.sampled_from(NAMES)
    check_cases(st.tuples(st.sampled_from(COMMANDS), name, name, name), check, num_cases=num_cases)


RUN_FILES = ["run.json", "config.yaml", "metrics.jsonl", "SHA256SUMS", "tokenizer/joint.model"]
RUN_FILES += ["checkpoints/best.safetensors", "checkpoints/last.safetensors"]
WORDS = [b"Infinity", b"1e999", b"9" * 400, b"null", b"\0", b"[[[[", b"\xff", b"{}", b'"\\ud800"', b"-1", b""]


@kinds
def test_damaged_runs(run: Path, tmp_path: Path, num_cases: int) -> None:
    """A run with some bytes of a file replaced is not sound, and each command uses it or refuses it with a reason."""
    copy = tmp_path / "copy"
    commands = st.sampled_from([["decode"], ["verify"], ["show", "curves", "--output", "c.html"], ["eval"]])
    cuts = st.tuples(st.sampled_from(RUN_FILES), st.floats(0, 1), st.integers(0, 12), st.sampled_from(WORDS), commands)

    def check(cut: tuple[str, float, int, bytes, list[str]]) -> None:
        name, place, length, word, command = cut
        file = copy / name
        content = file.read_bytes()
        start = int(place * len(content))
        file.write_bytes(content[:start] + word + content[start + length :])
        words = [str(tmp_path / each) if each == "c.html" else each for each in command]
        result = translate(*words, copy, stdin=b"Hund\n")
        check_ended(result, 0, 1, 2)
        if command == ["verify"] and name != "metrics.jsonl" and file.read_bytes() != content:
            assert result.exit_code, result.output
        file.write_bytes(content)  # the next case damages another file, and needs no conversion that is there already

    shutil.copytree(run, copy)
    check_cases(cuts, check, num_cases=num_cases)
