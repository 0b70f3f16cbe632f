"""Each row of docs/bad-input.md: its exit code, and its quoted words in the message, in order.

Pipes, closed streams and signals are in `tests/system/test_streams.py`.
"""

import gzip
import json
import lzma
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from harness import corpus_lines, flip_a_bit, in_order
from harness import run_command as translate
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("no_shape_checks")

Work = Callable[..., Result]
Files = dict[str, str | bytes]
Change = Callable[[Path], object]  # of a run

GERMAN = "Ein Hund läuft.\nZwei Männer kochen.\nDie Straße ist grün.\n"
ENGLISH = "A dog runs.\nTwo men cook.\nThe street is green.\n"
LATIN = "Hund\nGröße\n".encode("latin-1")


CUT_GZIP = gzip.compress(GERMAN.encode() * 1000)[:-10]
UTF_16, UTF_32 = b"\xff\xfe" + GERMAN.encode("utf-16-le"), b"\xff\xfe\0\0" + GERMAN.encode("utf-32-le")
BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9))])
LIMITS = ["data.max_source_tokens=90", "data.max_target_tokens=90"]


class Place(NamedTuple):
    """The folder of one test, which it works in, and what is there."""

    folder: Path
    corpus: Path
    run: Path

    def write(self, name: str, content: str | bytes) -> str:
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name


@pytest.fixture
def place(tmp_path: Path, corpus: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    os.mkfifo("pipe")
    return Place(tmp_path, corpus, run)


class Call:
    """A command line, whose further arguments may have spaces, standard input, and files by name.

    RUN is a run, TINY its config, CORPUS the folder of both, and COPY a copy of the run; `change` is given the copy.
    """

    def __init__(
        self,
        command: str,
        *more: str,
        stdin: bytes = b"Hund\n",
        files: Files | None = None,
        change: Change | None = None,
    ) -> None:
        self.words, self.stdin, self.files, self.change = [*command.split(), *more], stdin, files or {}, change

    def prepare(self, place: Place) -> list[str]:
        """Make the files, and return the arguments."""
        for name, content in self.files.items():
            place.write(name, content)
        paths = {"RUN": place.run, "TINY": place.corpus / "tiny.yaml", "CORPUS": place.corpus}
        if "COPY" in self.words:
            paths["COPY"] = Path(shutil.copytree(place.run, place.folder / "copy"))
        if self.change is not None:
            self.change(paths.get("COPY", place.run))
        return [re.sub("|".join(paths), lambda name: str(paths[name[0]]), word) for word in self.words]


def train(*overrides: str, files: Files | None = None) -> Call:
    return Call("train TINY --run new", *overrides, files=files)


def corpus_files(
    source: str | bytes, target: str | bytes = ENGLISH, name: str = "x.de", command: str = "train TINY --run new"
) -> Call:
    overrides = f"data.train.0.source={name}", "data.train.0.target=x.en"
    return Call(command, *overrides, files={name: source, "x.en": target})


def table(name: str, content: str | bytes, column: str = "de", *, streaming: bool = False) -> Call:
    kind, is_streaming = name.partition(".")[2].replace("jsonl", "json"), str(streaming).lower()
    corpus = f"kind: {kind}, path: {name}, source_column: {column}, target_column: en, streaming: {is_streaming}"
    return train(f"data.train=[{{{corpus}}}]", *(LIMITS if streaming else []), files={name: content})


def parquet(*german: str | None, english: str = "x") -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    file = pa.BufferOutputStream()
    parquet.write_table(pa.table({"de": pa.array(german, pa.string()), "en": [english] * len(german)}), file)
    return bytes(file.getvalue())


def lost(pattern: str) -> Change:
    """Files that a run lacks, or a folder."""

    def lose(run: Path) -> None:
        for path in run.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return lose


def changed(name: str, change: Callable[[bytes], bytes]) -> Change:
    return lambda run: (run / name).write_bytes(change((run / name).read_bytes()))


def piped(name: str) -> Change:
    """A pipe in the place of a file."""

    def replace(run: Path) -> None:
        (run / name).unlink()
        os.mkfifo(run / name)

    return replace


def other_tokenizer(content: bytes) -> bytes:
    """Sound in itself, and of the same size, but trained on other text."""
    from translate.config.schema import TokenizerConfig
    from translate.data.tokenizer import train_tokenizer

    return train_tokenizer(ENGLISH.split("\n") * 9, TokenizerConfig(vocab_size=290)).model_bytes


def mistype_progress(run: Path) -> None:
    from translate.runs.checkpoint import read_tensors, write_tensors

    for path in (run / "checkpoints").glob("[lp]*.safetensors"):
        tensors, metadata, _ = read_tensors(path)
        metadata["progress"] = metadata["progress"].replace('"metrics_bytes": ', '"metrics_bytes": -')
        write_tensors(path, tensors, metadata)


PAIR = "{kind: text, source: a.de, target: a.en}"
CONFIGS: dict[str, str | bytes] = {
    "config-key": "model: {d_modle: 8}",
    "config-type": "model: {d_model: many}",
    "config-bound": "training: {label_smoothing: 2}",
    "config-nan": "training: {learning_rate: .nan}",
    "config-huge-number": f"training: {{max_steps: {'9' * 26}}}",
    "config-agreement": "model: {d_model: 8, num_heads: 3}",
    "config-yaml": "model:\n  d_model: [1\n",
    "config-tab": "model:\n\td_model: 1\n",
    "config-twice": "model:\n  d_model: 8\n  d_model: 9\n",
    "config-nul": "name: a\0b",
    "config-not-utf8": "# YAML\n# ö".encode("latin-1"),
    "config-list": "- a",
    "config-bomb": BOMB,
    "config-endless": "data:\n  test: &a\n    b: *a",
    "config-deep": "[" * 5000,
    "config-languages": f"data: {{train: [{PAIR}, {PAIR.replace('text,', 'text, source_language: de,')}]}}",
    "config-directions": f"data: {{train: [{PAIR}], validation: {{a: {PAIR}, b: {PAIR}}}}}",
    "config-tag": "name: !!python/object/apply:os.system ['touch hacked']",
}
OVERRIDES = {
    "config-name": "name=../x",
    "override-key": "model.d_modle=1",
    "override-form": "model.d_model",
    "override-yaml": "model.d_model=[1",
    "override-bytes": "mod\udcffel.x=1",
    "override-deep": f"{'a.' * 5000}a=1",
    "override-index": f"data.train.{'9' * 5000}.weight=1",
    "override-number": f"training.warmup_steps={'9' * 400}",
    "override-device": "training.device=cuda:99999999999999999999",
}
TRAINED: dict[str, list[str]] = {
    "corpus-none": ["data.train=[]"],
    "corpus-missing": ["data.train.0.source=gone.de"],
    "corpus-language": ["data.test.first.target_language=fr"],
    "corpus-unnamed-language": ["data.train.0.source_language=fr", "data.train.0.target_language=en"],
    "corpus-folder": ["data.train.0.source=/"],
    "corpus-name-override": ["data.train.0.source=x\udcff.de"],
    "corpus-vocabulary": ["tokenizer.vocab_size=8000"],
    "corpus-vocabulary-small": ["tokenizer.vocab_size=20"],
    "corpus-vocabulary-huge": ["tokenizer.vocab_size=99999999999"],
    "stream-part": [
        "data.train=[{kind: hub, dataset: x, split: 'train[:9]', source_column: a, target_column: b, streaming: true}]"
    ],
    "stream-missing": [
        "data.train=[{kind: parquet, path: gone.parquet, source_column: a, target_column: b, streaming: true}]",
        *LIMITS,
    ],
    "steps-smaller-than-batches": ["training.batch_tokens=4096", "training.step_tokens=100"],
    "steps-smaller-than-pairs": ["training.batch_tokens=auto", "training.step_tokens=5"],
    "steps-said-twice": ["training.step_tokens=8192", "training.accumulate_batches=3"],
    "steps-minutes": ["training.save_every_minutes=0"],
    "batches-auto-sharded": ["training.batch_tokens=auto", "training.parallel=fsdp"],
}
CORPORA: dict[str, tuple[Any, ...]] = {  # source, target, name of the source's file
    "corpus-empty": ("", ""),
    "corpus-numbers": ("Ein Hund läuft.\nJa\nZwei Männer kochen.\nDie Straße ist grün.\n",),
    "corpus-not-utf8": (LATIN + b"x\n",),
    "corpus-nul": ("a\nb\0\nc\n",),
    "corpus-utf16": (UTF_16,),
    "corpus-utf32": (UTF_32,),
    "corpus-gzip-cut": (CUT_GZIP, ENGLISH, "x.de.gz"),
    "corpus-not-gzip": (GERMAN, ENGLISH, "x.de.gz"),
    "corpus-gzip-unnamed": (gzip.compress(GERMAN.encode()),),
    "corpus-compressed": (lzma.compress(GERMAN.encode()),),
    "corpus-word": (b"PK\x03\x04",),
    "corpus-filtered": (" \n  \n\n",),
}
ENTITIES = '<!DOCTYPE t [<!ENTITY a "aaa"><!ENTITY b "&a;&a;">]><tmx>&b;</tmx>'
UNIT = '<tu><tuv xml:lang="de"><seg>a</seg></tuv><tuv xml:lang="en"><seg>b</seg></tuv></tu>'
XLIFF = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">'
    "<file source-language='de' target-language='en'><body><trans-unit id='a'><source>Hund</source></trans-unit></body>"
    "</file></xliff>"
)
PO = r"""
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Language: en\n"
"X-Source-Language: de\n"

msgid "Hund"
msgstr ""
"""
PLURAL = PO + 'msgid "Tag"\nmsgid_plural "Tage"\nmsgstr[0] ""\nmsgstr[1] ""\n'
TABLES: dict[str, tuple[Any, ...]] = {  # file, content, column
    "corpus-csv-twice": ("a.csv", "de,en,de\na,b,c\n"),
    "corpus-json-twice": ("a.jsonl", '{"de": "a", "en": "b", "de": "c"}\n'),
    "corpus-json-null": ("a.jsonl", '{"de": "a", "en": "b"}\nnull\n'),
    "corpus-json-array": ("a.jsonl", '[{"de": "a", "en": "b"}]\n'),
    "corpus-json-line": ("a.jsonl", '{"de": "a", "en": "b"}\n{"de": \n'),
    "corpus-json-key": ("a.jsonl", '{"de": "a", "en": "b"}\n{"de": "c"}\n'),
    "corpus-json-column": ("a.jsonl", '{"de": "a", "en": "b"}\n', "fr"),
    "corpus-tmx-entity": ("a.tmx", ENTITIES),
    "corpus-tmx-language": ("a.tmx", f"<tmx>{UNIT}</tmx>", "fr"),
    "corpus-xliff-entity": ("a.xliff", ENTITIES.replace("tmx", "xliff")),
    "corpus-xliff-untranslated": ("a.xliff", XLIFF),
    "corpus-po-line": ("a.po", PO[:-2]),
    "corpus-po-language": ("a.po", PO.replace(": en", ": fr")),
    "corpus-po-code": ("a.po", PO.replace(": en", ": of the king")),
    "stream-column": ("a.parquet", parquet("a"), "fr"),
    "stream-null": ("a.parquet", parquet("a", None)),
    "stream-not-parquet": ("a.parquet", parquet("a")[:-9]),
    "stream-no-row": ("a.parquet", parquet()),
    "stream-filtered": ("a.parquet", parquet(*GERMAN.splitlines(), english="")),
}
INIT: dict[str, tuple[str, Files]] = {
    "init-name": ("x.de y.de", {"x.de": GERMAN, "y.de": GERMAN}),
    "init-language": (
        "x.de x.en",
        {"x.de": "\n".join(corpus_lines("train.de", step=2)), "x.en": "\n".join(corpus_lines("train.de")[:6000])},
    ),
    "init-unknown": ("x.txt y.txt", {"x.txt": GERMAN, "y.txt": ENGLISH}),
    "init-few": ("x.de x.en", {f"x.{name}": "\n".join(corpus_lines(f"train.{name}")[:40]) for name in ("de", "en")}),
    "init-long": ("x.de x.en", {"x.de": GERMAN.replace("\n", " ") * 1000, "x.en": ENGLISH.replace("\n", " ") * 1000}),
    "init-empty": ("x.de x.en", {"x.de": "", "x.en": ""}),
    "init-tmx": ("a.tmx --from de --to fr", {"a.tmx": f"<tmx>{UNIT}</tmx>"}),
    "init-exists": ("x.de x.en --name taken", {"x.de": GERMAN, "x.en": ENGLISH, "taken.yaml": ""}),
}
BEST, NOT_BEST = "checkpoints/best.safetensors", "checkpoints/[lp]*.safetensors"
CALLS: dict[str, Call] = {
    **{row: Call("config show bad.yaml", files={"bad.yaml": text}) for row, text in CONFIGS.items()},
    **{row: Call("config show bad.yaml", override, files={"bad.yaml": ""}) for row, override in OVERRIDES.items()},
    **{row: train(*overrides) for row, overrides in TRAINED.items()},
    **{row: corpus_files(*files) for row, files in CORPORA.items()},
    **{row: table(*file, streaming=row.startswith("stream")) for row, file in TABLES.items()},
    **{row: Call(f"init {command}", files=files) for row, (command, files) in INIT.items()},
    "config-folder": Call("config show /"),
    "config-preset": Call("train dmeo"),
    "command-unknown": Call("tran demo"),
    "option-unknown": Call("decode RUN --beam-sise 3"),
    "option-twice": Call("decode RUN --beam-size 4 --beam-size 1"),
    "option-type": Call("decode RUN --beam-size many"),
    "option-choice": Call("decode RUN --search middle"),
    "option-negative": Call("decode RUN --beam-size -1"),
    "option-huge": Call("decode RUN --max-length-constant 99999999999999999999"),
    "option-nan": Call("decode RUN --length-penalty nan"),
    "corpus-name": Call(
        "train d\udcff/bad.yaml --run new",
        files={
            "d\udcff/x.de": GERMAN,
            "d\udcff/bad.yaml": "data: {train: [{kind: text, source: x.de, target: /etc/hosts}]}",
        },
    ),
    "clean-name": Call("clean TINY new\udcff"),
    "corpus-pipe": train("data.train.0.source=pipe"),
    "corpus-tsv-name": train("data.train={kind: tsv, path: a.tsv, source_column: fr}", files={"a.tsv": "de\ten\nc\td"}),
    "corpus-tsv": train("data.train=[{kind: tsv, path: a.tsv}]", files={"a.tsv": "a\tb\nc"}),
    "lines-missing": Call("decode RUN gone.de"),
    "lines-folder": Call("decode RUN /"),
    "lines-device": Call("decode RUN /dev/null"),
    "lines-not-utf8": Call("decode RUN in.de -o out --alignments links", files={"in.de": LATIN}),
    "lines-stdin-not-utf8": Call("decode RUN", stdin=LATIN),
    "lines-stdin-twice": Call("decode RUN --prefix -"),
    "lines-nul": Call("decode RUN in.de", files={"in.de": "a\nHund\0\n"}),
    "lines-long-error": Call("decode RUN in.de --long error", files={"in.de": "Hund\n" + "Hund. " * 300}),
    "constraints-number": Call("decode RUN in.de -o out --prefix p", files={"in.de": "a\nb\n", "p": "a\n"}),
    "document-xliff": Call("decode RUN --document a.xlf", files={"a.xlf": XLIFF[:-3]}),
    "document-xliff-entity": Call("decode RUN --document a.xlf", files={"a.xlf": ENTITIES}),
    "document-po-line": Call("decode RUN --document a.po", files={"a.po": PO[:-2]}),
    "document-po-charset": Call("decode RUN --document a.po", files={"a.po": PO.replace("UTF-8", "CP1252")}),
    "document-po-language": Call("decode RUN --document a.po", files={"a.po": PO.replace(": en", ": fr")}),
    "document-po-plural": Call("decode RUN --document a.po", files={"a.po": PLURAL}),
    "lines-structured": Call("decode RUN app.json", files={"app.json": '{"a": "Hund"}'}),
    "constraints-columns": Call("decode RUN --terminology terms.tsv", files={"terms.tsv": "Hund\n"}),
    "score-numbers": Call("score RUN a.de a.en -o out", files={"a.de": "a\nb\nc\n", "a.en": "a\nb\n"}),
    "score-long-error": Call("score RUN a.de a.en --long error", files={"a.de": "Hund " * 400, "a.en": "a\n"}),
    "eval-empty": Call("eval --hypotheses h --reference h", files={"h": ""}),
    "tokenizer-text": Call("tokenizer train file -o x.model", files={"file": " \n"}),
    "tokenizer-model": Call("tokenizer encode file", files={"file": "text\n"}),
    "tokenizer-pipe": Call("tokenizer encode COPY", change=piped("tokenizer/joint.model")),
    "tokenizer-id": Call("tokenizer decode RUN", stdin=b"5 99999\n"[2:]),
    "output-input": Call("decode RUN in.de -o in.de", files={"in.de": "Hund\n"}),
    "output-twice": Call("decode RUN in.de -o out --alignments ./out", files={"in.de": "Hund\n"}),
    "output-run": Call(f"decode RUN -o RUN/{BEST}"),
    "output-no-folder": Call("decode RUN in.de -o gone/out", files={"in.de": "Hund\n"}),
    "output-folder": Call("decode RUN in.de -o /", files={"in.de": "Hund\n"}),
    "export-not-empty": Call("export RUN out --to ctranslate2", files={"out/file": "mine"}),
    "parts-stdin": Call("decode RUN --resume --output out"),
    "parts-others": Call("decode RUN a --resume --output out", files={"a": "Hund\n", "out.parts/0000000.part": "mine"}),
    "parts-device": Call("decode RUN a --resume --output /dev/null", files={"a": "Hund\n"}),
    "run-empty": Call("decode empty"),
    "run-file": Call("decode file", files={"file": ""}),
    "run-no-description": Call("decode COPY", change=lost("run.json")),
    "run-no-config": Call("decode COPY", change=lost("config.yaml")),
    "run-no-tokenizer": Call("decode COPY", change=lost("tokenizer")),
    "run-no-checkpoint": Call("decode COPY", change=lost("checkpoints")),
    "run-other-tokenizer": Call("decode COPY", change=changed("tokenizer/joint.model", other_tokenizer)),
    "run-cut-checkpoint": Call("decode COPY", change=changed(BEST, lambda content: content[:-5])),
    "run-format": Call(
        "decode COPY",
        change=changed("run.json", lambda text: text.replace(b'"format": 3', b'"format": Infinity')),
    ),
    "run-format-negative": Call(
        "decode COPY",
        change=changed("run.json", lambda text: text.replace(b'"format": 3', b'"format": -1')),
    ),
    "run-shape": Call(
        "decode COPY",
        change=changed("run.json", lambda text: text.replace(b'"versions": {', b'"versions": [], "x": {')),
    ),
    "run-pipe": Call("decode COPY", change=piped(BEST)),
    "run-resume-pipe": Call("train TINY --run COPY --resume", change=piped("log.txt")),
    "run-large": Call("show curves COPY", change=lambda run: os.truncate(run / "metrics.jsonl", 2**40)),
    "run-resume-link": Call(
        "train TINY --run COPY --resume",
        change=lambda run: (run / "profile").symlink_to(run.parent / "empty"),
    ),
    "run-exists": Call("train TINY --run RUN"),
    "run-among-files": Call("train TINY --run mine", files={"mine/config.yaml": "mine"}),
    "run-resume-lost": Call("train TINY --run COPY --resume", change=lost(NOT_BEST)),
    "run-resume-records": Call("train TINY --run COPY --resume", change=lost("checkpoints/*.safetensors")),
    "run-resume-languages": Call("train TINY data.source_language=en data.target_language=de --run COPY --resume"),
    "run-resume-corpora": Call(
        "train TINY data.train.0.source=CORPUS/valid.de data.train.0.target=CORPUS/valid.en --run COPY --resume"
    ),
    "check-key": Call("check TINY model.d_modle=1 --json"),
    "check-corpus": Call("check TINY data.train.0.source=gone.de --json"),
    "verify-missing": Call("verify none"),
    "verify-damaged": Call("verify COPY", change=lambda run: flip_a_bit(run / BEST)),
    "verify-half": Call("verify COPY", change=lost("tokenizer")),
    "verify-progress": Call("verify COPY", change=mistype_progress),
    "show-layer": Call("show attention RUN Hund --layer 1"),
    "show-head": Call("show attention RUN Hund --head 9"),
    "show-empty": Call("show attention RUN", ""),
    "show-word": Call("show attention RUN d\udcff"),
    "show-nothing": Call("show curves COPY", change=lost("metrics.jsonl")),
    "show-long": Call("show attention RUN --target dog", "Hund " * 3000),
    "show-alignments-long": Call(
        "show alignments RUN --source a.de --reference a.en", files={"a.de": "Hund " * 1700, "a.en": "dog " * 1700}
    ),
    "show-positions-length": Call("show positions transformer-base --length 2000"),
    "show-output": Call("show attention RUN Hund -o no/a.html"),
    "show-ending": Call("show attention RUN Hund -o a.gif"),
}
REPORTED = {"verify-damaged", "verify-half", "verify-progress"}  # by the report on standard output


@pytest.mark.parametrize("row_id", CALLS)
def test_what_is_wrong_is_named(bad_input_rows: dict[str, Any], place: Place, row_id: str) -> None:
    """In one paragraph, and nothing is left behind."""
    row = bad_input_rows[row_id]
    call = CALLS[row_id]
    arguments, before = call.prepare(place), sorted(place.folder.rglob("*"))
    result = translate(*arguments, stdin=call.stdin)
    assert result.exit_code == row.exit_code, result.stderr
    assert row.exit_code in (1, 2) and row.words
    message, other = (result.stdout, result.stderr) if row_id in REPORTED else (result.stderr, result.stdout)
    assert row_id in REPORTED or message.splitlines()[-1].startswith("translate: ")
    assert row_id == "lines-stdin-not-utf8" or other == ""
    assert in_order(message, *row.words), message
    assert "Traceback" not in message and len(message) < 2000
    new = [path for path in sorted(place.folder.rglob("*")) if path not in before and "new" not in path.parts]
    assert new == [] or row_id.startswith("run-resume"), "left behind"


# What looks bad and is handled

PLAIN = "Ein Hund läuft.\nDie Straße ist grün.\n"
LONG = "Ein Hund läuft durch den Schnee. " * 40


@pytest.fixture
def work(place: Place) -> Work:
    """Does what a command does with files of these contents, which are written before; by default decode."""

    def do(content: str | bytes, *options: Any, name: str = "in.de", command: str = "decode") -> Result:
        return translate(command, place.run, place.write(name, content), *options)

    return do


def as_plain(content: str | bytes, name: str = "in.de") -> Callable[[Work], Result]:
    """Gives what plain text gives."""

    def check(work: Work) -> Result:
        expected, found = work(PLAIN), work(content, name=name)
        assert found.stdout_bytes == expected.stdout_bytes and found.stdout_bytes.count(b"\n") == 2
        return found

    return check


def in_one_line(separators: str) -> Callable[[Work], Result]:
    """No line ends at these."""

    def check(work: Work) -> Result:
        records = work(f"Hund{separators}Haus\nHund Haus\n", "--format", "jsonl")
        first, second = map(json.loads, records.stdout_bytes.decode().rstrip("\n").split("\n"))
        assert first["source"] == f"Hund{separators}Haus" and len(first["translation"].splitlines()) <= 1
        assert second["source"] == "Hund Haus"
        return records

    return check


def check_lines(content: str, *options: str) -> Callable[[Work], Result]:
    """As many lines out as in; a line of white space is empty."""

    def check(work: Work) -> Result:
        found = work(content, *options)
        assert found.stdout_bytes.count(b"\n") == content.count("\n")
        assert content.strip() or found.stdout_bytes == b"\n" * content.count("\n")
        return found

    return check


def check_long(*options: str) -> Callable[[Work], Result]:
    def check(work: Work) -> Result:
        record = json.loads(work(f"{LONG}\n", "--format", "jsonl", *options).stdout)
        pieces = record["pieces"]
        assert record["source"] == LONG
        if options:
            assert "source_truncated" in record["flags"] and pieces == [] and len(record["source_tokens"]) == 256
        else:
            assert "split" in record["flags"] and "".join(piece["source"] for piece in pieces) == LONG
            assert all(piece["source"].endswith(". ") for piece in pieces) and len(pieces) > 2
            assert record["translation"].split() == [word for piece in pieces for word in piece["translation"].split()]
        return work(f"{LONG}\n", *options)

    return check


def check_score(work: Work) -> Result:
    Path("long.en").write_text("dog " * 400 + "\n")
    found = work("Hund " * 400 + "\n", "long.en", command="score")
    record = json.loads(found.stdout)
    assert record["flags"] == ["source_truncated", "target_truncated"] and len(record["tokens"]) == 257
    return found


def check_device(work: Work) -> Result:
    found = work(PLAIN, "-o", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and not Path("/dev/null.part").exists()
    return found


def check_link(work: Work) -> Result:
    Path("link").symlink_to("real")
    expected = work(PLAIN)
    found = work(PLAIN, "-o", "link")
    assert Path("link").is_symlink() and Path("real").read_bytes() == expected.stdout_bytes
    return found


CHARACTERS = (
    "👩\u200d👩\u200d👧 🏳️\u200d🌈\n" + "e\u0301o\u0308" * 9 + "\n\u05e9\u05dc\u05d5\u202e\n\ue000\U0010fffd\n?!…\n"
)
HANDLED: dict[str, Callable[[Work], Result]] = {
    "lines-gzip": as_plain(gzip.compress(PLAIN.encode()), name="in.gz"),
    "lines-empty": check_lines(""),
    "lines-crlf": as_plain(PLAIN.replace("\n", "\r\n")),
    "lines-cr": in_one_line("\r"),
    "lines-separators": in_one_line("\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"),
    "lines-bom": as_plain(f"\ufeff{PLAIN}"),
    "lines-no-newline": as_plain(PLAIN.removesuffix("\n")),
    "lines-spaces": check_lines("   \n\t\u3000\n"),
    "lines-characters": check_lines(CHARACTERS),
    "lines-long": check_long(),
    "lines-long-truncate": check_long("--long", "truncate"),
    "lines-100000": check_lines("x" * 100_000 + "\nHund\n", "--beam-size", "1", "--max-length-factor", "0"),
    "score-long": check_score,
    "output-device": check_device,
    "output-link": check_link,
}


@pytest.mark.parametrize("row_id", HANDLED)
def test_what_is_handled(work: Work, bad_input_rows: dict[str, Any], row_id: str) -> None:
    row = bad_input_rows[row_id]
    result = HANDLED[row_id](work)
    assert result.exit_code == row.exit_code == 0, result.stderr
    assert in_order(result.stderr, *row.words), result.stderr


@pytest.mark.parametrize("row_id", ["corpus-one-pair", "corpus-long-line", "corpus-huge-line"])
def test_corpora_that_are_handled(bad_input_rows: dict[str, Any], place: Place, row_id: str) -> None:
    size = 2_000_000 if row_id == "corpus-huge-line" else 100_000
    more, vocab_size = ("", 290) if row_id == "corpus-one-pair" else ("x" * size + "\n", 340)
    number = 1 if row_id == "corpus-one-pair" else None
    overrides = [f"tokenizer.vocab_size={vocab_size}", "training.max_steps=1", "--run", "run"]
    for side, language in (("source", "de"), ("target", "en")):
        lines = (place.corpus / f"train.{language}").read_text(encoding="utf-8").splitlines(keepends=True)[:number]
        overrides.append(f"data.train.0.{side}={place.write(f'a.{language}', ''.join([*lines, more]))}")
    result = translate("train", place.corpus / "tiny.yaml", *overrides)
    row = bad_input_rows[row_id]
    assert result.exit_code == row.exit_code == 0, result.stderr
    assert in_order(result.stderr, *row.words), result.stderr


def test_every_row_of_the_page_has_a_test(bad_input_rows: dict[str, Any]) -> None:
    streams = (Path(__file__).parents[1] / "system" / "test_streams.py").read_text(encoding="utf-8")
    in_processes = set(re.findall(r'"([a-z]+(?:-[a-z0-9]+)+)"', streams))
    here = {*CALLS, *HANDLED, "corpus-one-pair", "corpus-long-line", "corpus-huge-line"}
    assert len(bad_input_rows) > 100
    assert bad_input_rows.keys() <= here | in_processes and here <= bad_input_rows.keys()
