"""What goes wrong, as docs/bad-input.md says: its exit codes and its words are what is expected here.

What is handled is in `test_bad_input_handled.py`, and pipes and closed streams are in `tests/system/test_streams.py`.
"""

import bz2
import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import Result

Translate = Callable[..., Result]

GERMAN = "Ein Hund läuft.\nZwei Männer kochen.\nDie Straße ist grün.\n"
ENGLISH = "A dog runs.\nTwo men cook.\nThe street is green.\n"
LATIN = "Hund\nGröße\n".encode("latin-1")
CUT_GZIP = gzip.compress(GERMAN.encode() * 1000)[:-10]
BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9))])


class Place:
    """A folder of one test, which it works in, and what is there."""

    def __init__(self, folder: Path, corpus: Path, run: Path) -> None:
        self.folder, self.corpus, self.run = folder, corpus, run

    def write(self, name: str, content: str | bytes) -> str:
        (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def copy_run(self, *, without: str | None = None) -> Path:
        copy = self.folder / "copy"
        shutil.copytree(self.run, copy)
        if without is not None:
            gone = copy / without
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        return copy


class Call(NamedTuple):
    """A command line, and its standard input."""

    arguments: list[Any]
    stdin: bytes = b"Hund\n"


@pytest.fixture
def place(tmp_path: Path, corpus: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, corpus, run)


def config(text: str | bytes, *overrides: str) -> Callable[[Place], Call]:
    return lambda place: Call(["config", "show", place.write("bad.yaml", text), *overrides])


def corpus_files(source: str | bytes, target: str | bytes = ENGLISH, name: str = "x.de") -> Callable[[Place], Call]:
    def call(place: Place) -> Call:
        files = place.write(name, source), place.write("x.en", target)
        overrides = [f"data.train.0.{side}={file}" for side, file in zip(("source", "target"), files, strict=True)]
        return Call(["train", place.corpus / "tiny.yaml", *overrides, "--run", "new"])

    return call


def train(*overrides: str, directory: str = "new") -> Callable[[Place], Call]:
    return lambda place: Call(["train", place.corpus / "tiny.yaml", *overrides, "--run", directory])


def json_corpus(text: str, column: str = "de") -> Callable[[Place], Call]:
    def call(place: Place) -> Call:
        path = place.write("a.jsonl", text)
        corpus = f"{{kind: json, path: {path}, source_column: {column}, target_column: en}}"
        return train(f"data.train=[{corpus}]")(place)

    return call


def streamed(kind: str, content: str | bytes, column: str = "de") -> Callable[[Place], Call]:
    def call(place: Place) -> Call:
        path = place.write(f"a.{kind}", content)
        corpus = f"{{kind: {kind}, path: {path}, source_column: {column}, target_column: en, streaming: true}}"
        limits = ["data.max_source_tokens=90", "data.max_target_tokens=90"]
        return train(f"data.train=[{corpus.replace('kind: jsonl', 'kind: json')}]", *limits)(place)

    return call


def parquet(*german: str | None, english: str = "x") -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    file = pa.BufferOutputStream()
    parquet.write_table(pa.table({"de": pa.array(german, pa.string()), "en": [english] * len(german)}), file)
    return bytes(file.getvalue())


def folder_not_utf8(place: Place) -> Call:
    Path("d\udcff").mkdir()
    place.write("d\udcff/x.de", GERMAN)
    place.write("d\udcff/bad.yaml", "data: {train: [{kind: text, source: x.de, target: /etc/hosts}]}")
    return Call(["train", "d\udcff/bad.yaml", "--run", "new"])


def tsv_corpus(place: Place) -> Call:
    return train(f"data.train=[{{kind: tsv, path: {place.write('a.tsv', 'a' + chr(9) + 'b' + chr(10) + 'c')}}}]")(place)


def csv_corpus(place: Place) -> Call:
    path = place.write("a.csv", "de,en,de\na,b,c\n")
    return train(f"data.train=[{{kind: csv, path: {path}, source_column: de, target_column: en}}]")(place)


def pipe_corpus(place: Place) -> Call:
    os.mkfifo("pipe")
    return train("data.train.0.source=pipe")(place)


def decode(content: str | bytes, *options: Any, name: str = "in.de") -> Callable[[Place], Call]:
    return lambda place: Call(["decode", place.run, place.write(name, content), *options])


def decode_options(*options: Any) -> Callable[[Place], Call]:
    return lambda place: Call(["decode", place.run, *options])


def with_file(arguments: Callable[[Place, str], list[Any]], content: str | bytes) -> Callable[[Place], Call]:
    return lambda place: Call(arguments(place, place.write("file", content)))


def foreign_part(place: Place) -> Call:
    (place.folder / "out.parts").mkdir()
    place.write("out.parts/0000000.part", "mine")
    return decode("Hund\n", "--resume", "--output", "out")(place)


def foreign_folder(place: Place) -> Call:
    (place.folder / "mine").mkdir()
    place.write("mine/config.yaml", "name: mine")
    return train(directory="mine")(place)


def shown_text(place: Place) -> Call:
    file = place.write("text.html", GERMAN)
    return Call(["show", "alignments", place.run, "--source", file, "--reference", file, "--output", file])


def long_lines(place: Place) -> Call:
    source, target = place.write("a.de", "Hund " * 1700), place.write("a.en", "dog " * 1700)
    return Call(["show", "alignments", place.run, "--source", source, "--reference", target])


def score(source: str, target: str, *options: str) -> Callable[[Place], Call]:
    return lambda place: Call(["score", place.run, place.write("a.de", source), place.write("a.en", target), *options])


def half_run(without: str, *command: str) -> Callable[[Place], Call]:
    return lambda place: Call([*(command or ["decode"]), place.copy_run(without=without)])


def other_tokenizer(place: Place) -> Call:
    """Sound in itself, and of the same size, but trained on other text."""
    from translate.config.data import TokenizerConfig
    from translate.data.tokenizer import train_tokenizer

    copy = place.copy_run()
    text = (place.corpus / "train.en").read_text(encoding="utf-8").split("\n")
    tokenizer = train_tokenizer(text, TokenizerConfig(vocab_size=300))
    (copy / "tokenizer" / "joint.model").write_bytes(tokenizer.model_bytes)
    return Call(["decode", copy])


def cut_checkpoint(place: Place) -> Call:
    copy = place.copy_run()
    file = copy / "checkpoints" / "best.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    return Call(["decode", copy])


def pipe_for_tokenizer(place: Place) -> Call:
    file = place.copy_run() / "tokenizer" / "joint.model"
    file.unlink()
    os.mkfifo(file)
    return Call(["tokenizer", "encode", place.folder / "copy"])


def latin_check(place: Place) -> Call:
    arguments = corpus_files(LATIN + b"x\n")(place).arguments
    return Call(["check", *arguments[1 : arguments.index("--run")]])


def damaged_run(place: Place) -> Call:
    copy = place.copy_run()
    file = copy / "checkpoints" / "best.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return Call(["verify", copy])


def odd_format(place: Place) -> Call:
    copy = place.copy_run()
    description = copy / "run.json"
    description.write_text(description.read_text(encoding="utf-8").replace('"format": 3', '"format": Infinity'))
    return Call(["decode", copy])


def linked_profile(place: Place) -> Call:
    copy = place.copy_run()
    (place.folder / "elsewhere").mkdir()
    (copy / "profile").symlink_to(place.folder / "elsewhere")
    return Call(["train", place.corpus / "tiny.yaml", "--run", copy, "--resume", "--profile"])


def mistyped_progress(place: Place) -> Call:
    from translate.runs.checkpoint import read_tensors, write_tensors

    copy = place.copy_run()
    for path in (copy / "checkpoints").glob("[lp]*.safetensors"):
        tensors, metadata, _ = read_tensors(path)
        metadata["progress"] = metadata["progress"].replace('"metrics_bytes": ', '"metrics_bytes": -')
        write_tensors(path, tensors, metadata)
    return Call(["verify", copy])


def few_positions(place: Place) -> Call:
    from translate.config.load import read_resolved_config
    from translate.data.tokenizer import load_tokenizers
    from translate.runs.checkpoint import add_prefix, write_tensors
    from translate.runs.directory import create_run
    from translate.runs.loading import build_model, get_parameters

    given = read_resolved_config(place.run / "config.yaml")
    values = given.model_dump()
    values["model"] |= {"positions": "learned", "max_positions": 32}
    values["data"] |= {"max_source_tokens": 31, "max_target_tokens": 31}
    config, tokenizers = type(given).model_validate(values), load_tokenizers(place.run / "tokenizer")
    run = create_run(place.folder / "learned", config=config, tokenizers=tokenizers, command=["translate", "train"])
    weights = get_parameters(build_model(config, tokenizers))
    write_tensors(run.checkpoint("best"), add_prefix(weights, "model."), {"step": "1"})
    return Call(["show", "attention", run.path, "Hund " * 40])


def show(*options: str, sentence: str = "Hund") -> Callable[[Place], Call]:
    return lambda place: Call(["show", "attention", place.run, sentence, *options])


def check(*arguments: str) -> Callable[[Place], Call]:
    return lambda place: Call(["check", place.corpus / "tiny.yaml", *arguments])


def resume(*overrides: str) -> Callable[[Place], Call]:
    return lambda place: Call(["train", place.corpus / "tiny.yaml", *overrides, "--run", place.copy_run(), "--resume"])


def empty_run(command: str) -> Callable[[Place], Call]:
    def call(place: Place) -> Call:
        Path("empty").mkdir()
        return Call([command, "empty"])

    return call


def full_export(place: Place) -> Call:
    Path("out").mkdir()
    place.write("out/file", "")
    return Call(["export", place.run, "out", "--to", "ctranslate2"])


CALLS: dict[str, Callable[[Place], Call]] = {
    "config-key": config("model: {d_modle: 8}"),
    "config-section": config("modle: {d_model: 8}"),
    "config-type": config("model: {d_model: many}"),
    "config-bound": config("training: {label_smoothing: 2}"),
    "config-nan": config("training: {learning_rate: .nan}"),
    "config-huge-number": config(f"training: {{max_steps: {'9' * 26}}}"),
    "config-agreement": config("model: {d_model: 8, num_heads: 3}"),
    "config-yaml": config("model:\n  d_model: [1\n"),
    "config-tab": config("model:\n\td_model: 1\n"),
    "config-twice": config("model:\n  d_model: 8\n  d_model: 9\n"),
    "config-nul": config("name: a\0b"),
    "config-not-utf8": config("# YAML\n# ö".encode("latin-1")),
    "config-list": config("- a"),
    "config-bomb": config(BOMB),
    "config-escape": config('name: "\\UFFFFFFFF"'),
    "config-surrogate": config('"\\ud800": 1'),
    "config-endless": config("data:\n  test: &a\n    b: *a"),
    "config-deep": config("[" * 5000),
    "config-tag": config("name: !!python/object/apply:os.system ['touch hacked']"),
    "config-folder": lambda place: Call(["config", "show", place.folder]),
    "config-preset": lambda place: Call(["train", "dmeo"]),
    "config-name": config("", "name=../x"),
    "override-key": config("", "model.d_modle=1"),
    "override-form": config("", "model.d_model"),
    "override-yaml": config("", "model.d_model=[1"),
    "override-bytes": config("", "mod\udcffel.x=1"),
    "override-deep": config("", f"{'a.' * 5000}a=1"),
    "override-index": config("", f"data.train.{'9' * 5000}.weight=1"),
    "override-number": config("", f"training.warmup_steps={'9' * 400}"),
    "override-device": config("", "training.device=cuda:99999999999999999999"),
    "command-unknown": lambda place: Call(["tran", "demo"]),
    "option-unknown": decode_options("--beam-sise", "3"),
    "option-type": decode_options("--beam-size", "many"),
    "option-choice": decode_options("--search", "middle"),
    "option-negative": decode_options("--beam-size", "-1"),
    "option-huge": decode_options("--max-length-constant", "9" * 20),
    "option-nan": decode_options("--length-penalty", "nan"),
    "corpus-none": train("data.train=[]"),
    "corpus-missing": train("data.train.0.source=gone.de"),
    "corpus-folder": train("data.train.0.source=/"),
    "corpus-empty": corpus_files("", ""),
    "corpus-numbers": corpus_files("Ein Hund läuft.\nJa\nZwei Männer kochen.\nDie Straße ist grün.\n"),
    "corpus-not-utf8": corpus_files(LATIN + b"x\n"),
    "corpus-nul": corpus_files("a\nb\0\nc\n"),
    "corpus-utf16": corpus_files(b"\xff\xfe" + GERMAN.encode("utf-16-le")),
    "corpus-gzip-cut": corpus_files(CUT_GZIP, name="x.de.gz"),
    "corpus-not-gzip": corpus_files(GERMAN, name="x.de.gz"),
    "corpus-gzip-unnamed": corpus_files(gzip.compress(GERMAN.encode())),
    "corpus-compressed": corpus_files(lzma.compress(GERMAN.encode())),
    "corpus-utf32": corpus_files(b"\xff\xfe\0\0" + GERMAN.encode("utf-32-le")),
    "corpus-csv-twice": csv_corpus,
    "corpus-json-twice": json_corpus('{"de": "a", "en": "b", "de": "c"}\n'),
    "corpus-json-null": json_corpus('[null, {"de": "a", "en": "b"}]'),
    "corpus-name": folder_not_utf8,
    "corpus-name-override": train("data.train.0.source=x\udcff.de"),
    "corpus-pipe": pipe_corpus,
    "corpus-tsv": tsv_corpus,
    "corpus-json-line": json_corpus('{"de": "a", "en": "b"}\n{"de": \n'),
    "corpus-json-key": json_corpus('{"de": "a", "en": "b"}\n{"de": "c"}\n'),
    "corpus-json-column": json_corpus('{"de": "a", "en": "b"}\n', column="fr"),
    "corpus-filtered": corpus_files(" \n  \n\n"),
    "corpus-vocabulary": train("tokenizer.vocab_size=8000"),
    "corpus-vocabulary-small": train("tokenizer.vocab_size=20"),
    "corpus-vocabulary-huge": train("tokenizer.vocab_size=99999999999"),
    "stream-csv": streamed("csv", "de,en\na,b\n"),
    "stream-part": train(
        "data.train=[{kind: hub, dataset: x, split: 'train[:9]', source_column: a, target_column: b, streaming: true}]"
    ),
    "stream-missing": train(
        "data.train=[{kind: parquet, path: gone.parquet, source_column: a, target_column: b, streaming: true}]",
        "data.max_source_tokens=90",
        "data.max_target_tokens=90",
    ),
    "stream-array": streamed("jsonl", '[{"de": "a", "en": "b"}]\n'),
    "stream-json-line": streamed("jsonl", '{"de": "a", "en": "b"}\n{"de": \n'),
    "stream-column": streamed("parquet", parquet("a"), column="fr"),
    "stream-json-twice": streamed("jsonl", '{"de": "a", "en": "b", "de": "c"}\n'),
    "stream-null": streamed("parquet", parquet("a", None)),
    "stream-not-parquet": streamed("parquet", parquet("a")[:-9]),
    "stream-no-row": streamed("parquet", parquet()),
    "stream-filtered": streamed("parquet", parquet(*GERMAN.splitlines(), english="")),
    "lines-missing": decode_options("gone.de"),
    "lines-folder": decode_options("/"),
    "lines-device": decode_options("/dev/null"),
    "lines-not-utf8": decode(LATIN),
    "lines-stdin-not-utf8": lambda place: Call(["decode", place.run], stdin=LATIN),
    "lines-nul": decode("a\nHund\0\n"),
    "lines-utf16": decode(b"\xff\xfe" + "Hund\n".encode("utf-16-le")),
    "lines-gzip-cut": decode(CUT_GZIP, name="in.gz"),
    "lines-not-gzip": decode("Hund\n", name="in.gz"),
    "lines-gzip-unnamed": decode(gzip.compress(b"Hund\n")),
    "lines-compressed": decode(bz2.compress(b"Hund\n")),
    "lines-long-error": decode("Hund\n" + "Hund. " * 300, "--long", "error"),
    "constraints-number": lambda place: decode("a\nb\n", "--prefix", place.write("p", "a\n"))(place),
    "constraints-columns": lambda place: decode("a\n", "--terminology", place.write("terms.tsv", "Hund\n"))(place),
    "score-numbers": score("a\nb\nc\n", "a\nb\n"),
    "score-long-error": score("Hund " * 400, "a\n", "--long", "error"),
    "eval-numbers": lambda place: Call(
        ["eval", "--hypotheses", place.write("h", "a\nb\n"), "--reference", place.write("r", "a\nb\nc\n")]
    ),
    "eval-empty": with_file(lambda _, file: ["eval", "--hypotheses", file, "--reference", file], ""),
    "eval-set": lambda place: Call(["eval", place.run, "--set", "third"]),
    "tokenizer-text": with_file(lambda _, file: ["tokenizer", "train", file, "-o", "x.model"], " \n"),
    "tokenizer-model": with_file(lambda _, file: ["tokenizer", "encode", file], "text\n"),
    "tokenizer-pipe": pipe_for_tokenizer,
    "tokenizer-id": lambda place: Call(["tokenizer", "decode", place.run], stdin=b"5 99999\n"[2:]),
    "tokenizer-digits": lambda place: Call(["tokenizer", "decode", place.run], stdin=b"9" * 6000),
    "output-input": decode("Hund\n", "-o", "in.de"),
    "output-twice": decode("Hund\n", "-o", "out", "--alignments", "out"),
    "output-run": lambda place: Call(["decode", place.run, "-o", place.run / "checkpoints" / "best.safetensors"]),
    "output-tokenizer-input": with_file(lambda _, file: ["tokenizer", "train", file, "-o", file], GERMAN),
    "output-no-folder": decode("Hund\n", "-o", "gone/out"),
    "output-tokenizer-no-folder": with_file(lambda _, file: ["tokenizer", "train", file, "-o", "gone/m"], GERMAN),
    "output-folder": decode("Hund\n", "-o", "/"),
    "export-not-empty": full_export,
    "steps-smaller-than-batches": train("training.batch_tokens=4096", "training.step_tokens=100"),
    "steps-smaller-than-pairs": train("training.batch_tokens=auto", "training.step_tokens=5"),
    "steps-said-twice": train("training.step_tokens=8192", "training.accumulate_batches=3"),
    "batches-auto-sharded": train("training.batch_tokens=auto", "training.parallel=fsdp"),
    "parts-stdin": decode_options("--resume", "--output", "out"),
    "parts-others": foreign_part,
    "parts-device": decode("Hund\n", "--resume", "--output", "/dev/null"),
    "run-missing": lambda place: Call(["decode", "none"]),
    "run-empty": empty_run("decode"),
    "run-file": with_file(lambda _, file: ["decode", file], ""),
    "run-no-description": half_run("run.json"),
    "run-no-config": half_run("config.yaml"),
    "run-no-tokenizer": half_run("tokenizer"),
    "run-no-checkpoint": half_run("checkpoints"),
    "run-other-tokenizer": other_tokenizer,
    "run-cut-checkpoint": cut_checkpoint,
    "run-format": odd_format,
    "run-resume-link": linked_profile,
    "run-exists": lambda place: Call(["train", place.corpus / "tiny.yaml", "--run", place.run]),
    "run-among-files": foreign_folder,
    "run-unnamed": lambda place: train(directory="")(place),
    "run-over-file": lambda place: train(directory=place.write("file", ""))(place),
    "run-resume-languages": resume("data.source_language=en", "data.target_language=de"),
    "run-resume-corpora": lambda place: resume(
        f"data.train.0.source={place.corpus / 'valid.de'}", f"data.train.0.target={place.corpus / 'valid.en'}"
    )(place),
    "check-preset": lambda place: Call(["check", "dmeo"]),
    "check-key": check("model.d_modle=1", "--json"),
    "check-corpus": check("data.train.0.source=gone.de", "--json"),
    "check-not-utf8": latin_check,
    "check-vocabulary": check("tokenizer.vocab_size=8000"),
    "verify-missing": lambda place: Call(["verify", "none"]),
    "verify-empty": empty_run("verify"),
    "verify-file": with_file(lambda _, file: ["verify", file], ""),
    "verify-no-description": half_run("run.json", "verify"),
    "verify-damaged": damaged_run,
    "verify-half": half_run("tokenizer", "verify"),
    "verify-progress": mistyped_progress,
    "show-layer": show("--layer", "1"),
    "show-head": show("--head", "9"),
    "show-empty": show(sentence=""),
    "show-positions": few_positions,
    "show-nothing": half_run("metrics.jsonl", "show", "curves"),
    "show-long": show("--target", "dog", sentence="Hund " * 3000),
    "show-masks-long": lambda place: Call(["show", "masks", place.run, "Hund " * 3000, "--target", "dog " * 3000]),
    "show-alignments-long": long_lines,
    "show-positions-length": lambda _: Call(["show", "positions", "transformer-base", "--length", "2000"]),
    "show-config-input": lambda place: Call(
        ["show", "positions", place.write("a.yaml", "{}"), "-o", "./a.yaml", "--format", "html"]
    ),
    "show-validation": lambda place: Call(
        ["show", "embeddings", place.run, "-o", place.corpus / "valid.de", "--format", "html"]
    ),
    "show-output": show("-o", "no/a.html"),
    "show-input": shown_text,
    "show-ending": show("-o", "a.gif"),
}
REPORTED = {"verify-damaged", "verify-half", "verify-progress"}  # the report says it, on standard output


@pytest.mark.parametrize("row_id", CALLS)
def test_what_is_wrong_is_told(translate: Translate, bad_input_rows: dict[str, Any], place: Place, row_id: str) -> None:
    """The exit code and the words of the table, in one paragraph, and nothing is left behind."""
    row = bad_input_rows[row_id]
    call = CALLS[row_id](place)
    before = sorted(place.folder.rglob("*"))
    result = translate(*call.arguments, stdin=call.stdin)
    assert result.exit_code == row.exit_code, result.stderr
    assert row.exit_code in (1, 2) and row.words
    if row_id in REPORTED:
        said, other = result.stdout, result.stderr
    else:
        said, other = result.stderr, result.stdout
        assert said.splitlines()[-1].startswith("translate: ")
    assert row_id == "lines-stdin-not-utf8" or other == ""
    position = 0
    for words in row.words:
        assert words in said[position:], said
        position = said.index(words, position) + len(words)
    assert "Traceback" not in said and len(said) < 2000
    new = [path for path in sorted(place.folder.rglob("*")) if path not in before and "new" not in path.parts]
    assert new == [] or row_id.startswith("run-resume"), "left behind"
