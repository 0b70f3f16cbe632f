"""Command lines that cannot be: exit code 2, the option or file and its value by name, and nothing done.

What is wrong with configs, corpora and lines is in `test_bad_input.py`.
"""

import gzip
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, get_args, get_origin

import pytest
from harness import commands, in_order
from harness import run_command as translate

from translate.config.decoding import DecodingConfig

FILES = {"a.de": "Hund\n" * 3, "a.en": "dog\n" * 3, "b.en": "dog\n", "empty": "", "a.docx": ""}
FILES |= {"old/provenance.json": ""}

# In the working directory are these files, and a copy of a run, which trains and tests on sets `first` and `second`.
ROWS: dict[str, list[str]] = {
    # Commands and options
    "decode": ["'run'"],
    "decode run --xyzzy": ["--xyzzy"],
    "tokenizer train a.de": ["'--output'"],
    "serve run --port 99999": ["'--port': it ", "65535"],
    "serve run --cors-origin example.org": ["--cors-origin example.org: ", "https://"],
    "export run out": ["'--to'"],
    # init
    "init a.de": ["a.de", "translations", ".tmx"],
    "init a.de a.en --name x/y": ["--name", "'x/y'"],
    **{f"init a.de a.en --minutes {given}": ["--minutes"] for given in ("0", "-5", "nan", "1e+09")},
    "init a.de a.en": ["a.de, a.en", "1 of 3 pairs", "2 repeating", "1,000", "translate import"],
    "export run out --to ctrnslate2": ["'--to'", "'ctrnslate2'", "'ctranslate2', 'huggingface'"],
    # eval
    "eval": ["--hypotheses"],
    "eval run --reference a.en": ["--source", "--reference"],
    "eval run --source a.de --reference a.en --set first": ["--set"],
    "eval run --source a.de --reference a.en --reference b.en": ["a.de has 3 lines", "b.en has 1"],
    "eval --hypotheses a.en --reference a.en --reference b.en": ["a.en has 3 lines", "b.en has 1"],
    "eval run --to en": ["--to", "--source"],
    "eval --hypotheses=~/gone --reference a.en": [f"{Path.home()}/gone: no such file"],  # left to us by bash
    "eval --hypotheses a.en": ["--hypotheses", "--reference"],
    # decode
    "decode run --document a.de --format jsonl": ["--format jsonl", "--document"],
    "decode run --document a.de --resume": ["--resume", "--document"],
    "decode run --document latin.html": ["latin.html, line 2", "byte 4", "0xff"],
    "decode run --interactive --resume": ["--resume", "--interactive"],
    "decode run a.de -o out --engine ctranslate2 --resume": ["--resume", "--engine ctranslate2"],
    "decode run pipe -o out --resume": ["pipe", "once"],
    "score run - -": ["standard input", "once"],
    "decode run --device cuda:99": ["device = cuda:99"],
    "decode run --n-best 3": ["decoding.n_best = 3", "decoding.beam_size = 2"],  # the run's own beam size
    "decode run --top-p 0.9": ["--top-p needs --search sample"],
    "decode run --search sample --beam-size 4": ["--beam-size needs --search beam"],
    "decode run --mbr-candidates 5 --mbr none": ["--mbr-candidates needs --mbr"],
    "decode run --reverse-weight 0.2": ["--reverse-weight needs --reverse"],
    "decode run --interactive a.de": ["FILE", "--interactive"],
    "decode run --interactive --require a.de": ["--require", "--interactive"],
    "decode run --ensemble learnt": ["learnt", "tokenizer"],
    **{f"decode run --engine ctranslate2 --{name} a.de": [f"--{name}"] for name in ("prefix", "require", "forbid")},
    "decode run --engine ctranslate2 --ensemble run": ["ctranslate2", "ensemble"],
    "decode run --engine ctranslate2 --search sample": ["ctranslate2", "decoding.search = 'sample'"],
    "decode run --document a.html.gz --document-format html": ["a.html.gz: ", "gzip: decompress it"],
    "decode run a.de --precision int8 --terminology a.tsv": ["--terminology", "--precision int8"],
    "decode run a.de --to fr": ["en", "'fr'"],
    "decode both a.de": ["en, de", "--to"],
    "decode both a.de --to en --from en": ["en", "--to", "--from"],
    "decode both a.de --to en --reverse run": ["run", "de → en", "both", "en → de"],
    # score, average
    "score run a.de a.en --engine ctranslate2": ["--engine"],
    "score run a.de a.en --precision int8": ["--precision int8"],
    "average run": ["training.keep_last"],
    # compare
    "compare run": ["run", "two"],
    "compare run a.en": ["first, second", "--set"],
    "compare a.en b.en": ["--source", "--reference"],
    "compare a.en run --set second": ["a.en", "3", "second", "1"],
    "compare run a.en --set first --output a.en": ["--output a.en"],
    "compare run a.en --set first --output c.png": ["--output c.png"],
    "compare a.en ./a.en --source a.de --reference a.en": ["twice"],
    # export, import
    "export run a.de --to ctranslate2": ["a.de", "folder"],
    # distill, backtranslate
    "distill run -o out --source a.de --nearest-reference bleu": ["--nearest-reference", "--source"],
    "distill run -o out --nearest-reference bleu --beam-size 1": ["--nearest-reference", "--n-best"],
    "distill run -o old": ["--output old", "provenance.json"],
    "distill run -o run/checkpoints": ["--output run/checkpoints/corpus.jsonl"],
    "backtranslate run a.en -o out": ["a.en", "en", "run", "de"],
    # show
    "show attention run": ["'sentence'"],
    "show alignments run --source a.de --reference a.en --layer 9": ["alignment_layer = 9", "-1 is the last"],
    "show alignments run --source a.de --reference a.en --first 4": ["--first 4", "a.de", "3"],
    # clean
    "clean demo": ["'OUT'"],
    "clean demo out --rule near": ["--rule near", "near_repeated"],
    "clean demo out data.train=[]": ["data.train"],
    "clean demo old": ["old", "empty"],
    "clean demo out data.train.0.source=gone.de": ["data.train.0.source", "gone.de"],
    'clean demo out data.train={"kind":"json","path":"a.de","source_column":"s","target_column":"t","streaming":true}': [  # noqa: E501
        "data.train.0.streaming = true",
        "data.train.0.streaming=false",
    ],
    # tokenizer
    "tokenizer train a.de -o x.model": ["tokenizer.vocab_size = 8000"],
    # serve
    **{f"serve run --host {host}": [f"--host {host}", "TRANSLATE_TOKEN"] for host in ("0.0.0.0", "::", "example.org")},
    **{f"serve run --port 0 --token={token}": ["--token"] for token in ("", "grün")},
    "serve run --host 192.0.2.1 --token x": ["--host 192.0.2.1 --port 8000"],  # an address of no machine
}


@pytest.fixture(autouse=True)
def _place(run: Path, learnt: Path, both: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").symlink_to(run)
    Path("learnt").symlink_to(learnt)
    Path("both").symlink_to(both)
    for name, content in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(content)
    Path("latin.html").write_bytes(b"<p>ok\n<p>\xff")
    Path("a.html.gz").write_bytes(gzip.compress(b"<p>ok"))
    os.mkfifo("pipe")


@pytest.mark.parametrize("line", ROWS)
def test_what_is_refused(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    if line.startswith("backtranslate"):
        monkeypatch.setattr("translate.decoding.synthetic.is_other_side", lambda *lines: True)
    before = sorted(Path().rglob("*"))
    result = translate(*line.split(" "), stdin=b"Hund\n")
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    message, words = result.stderr.lower(), [word.lower() for word in ROWS[line]]  # versions of typer differ in case
    assert in_order(message, "translate: ", *words), message
    assert sorted(Path().rglob("*")) == before


AT_ONCE = [  # what is wrong is found before torch is imported, which takes a second
    *("init gone.de gone.en", "init a.de", "init a.de a.de", "init a.de a.en --name run", "init a.de b.en"),
    *("train none", "train run", "train demo --run run", "train demo model.d_modle=8", "train demo model.d_model=x"),
    *("train demo data.validation={kind:text,source:gone.de,target:gone.en}", "check none", "check demo model.x=1"),
    *("clean none out", "clean demo a.de", "clean demo out --rule x", "clean demo out data.train=[]", "decode none"),
    *("decode run --beam-size 0", "decode run gone.de", "decode run --checkpoint bset", "decode run --ensemble none"),
    *("decode run --prefix gone.de a.de", "decode old", "decode both", "decode run --to fr", "score both a.de a.en"),
    *("score none a.de a.en", "score run gone.de a.en", "eval none", "eval run --set none", "eval run --beam-size 0"),
    *("eval run --source gone.de --reference a.en", "eval both --source a.de --reference a.en", "eval run --seed 3"),
    *("eval run --to en", "compare run none", "compare run old", "serve none", "serve run old", "verify none"),
    *("serve run --beam-size 0", "average none", "tune-decode none", "tune-decode run --set none", "runs none"),
    *("distill none -o out", "distill both -o out", "backtranslate none a.en -o out", "backtranslate both a.en -o out"),
    *("import opus run", "export none out --to onnx", "export run old --to onnx", "info none"),
    *("info old", "show attention none Hund", "show attention both Hund", "show positions none"),
    *("show curves run none", "show masks none Hund", "tokenizer encode none"),
]


@pytest.mark.system
def test_what_is_refused_at_once() -> None:
    """In one new process: whether torch is imported, after each command. The package alone imports nothing slow."""
    code = (
        "import sys, translate\nprint('pydantic' in sys.modules or 'numpy' in sys.modules)\n"
        "from translate.cli import app\n"
        "for line in sys.argv[1:]:\n"
        "    try:\n        app(line.split(' '), prog_name='translate')\n"
        "    except SystemExit as end:\n        print(end.code, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, *AT_ONCE]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    is_slow, *ends = result.stdout.splitlines()
    assert is_slow == "False"
    found = dict(zip(AT_ONCE, ends, strict=True))
    assert {line: end for line, end in found.items() if end != "2 False"} == {}, result.stderr


PACKAGES = {
    "decode run --engine ctranslate2": ("ctranslate2", "ctranslate2>="),
    "serve run --port 0": ("uvicorn", "uvicorn"),
}


@pytest.mark.parametrize("line", PACKAGES)
def test_a_missing_package_comes_with_its_command(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    package, requirement = PACKAGES[line]
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith("translate.server.")]:
        monkeypatch.delitem(sys.modules, name)  # other tests have imported them with the package
    result = translate(*line.split())
    assert result.exit_code == 2 and in_order(result.stderr, "pip install", requirement), result.stderr


def test_every_option_that_is_a_number_has_bounds() -> None:
    """Or is a key of `decoding`, which has them."""
    numbers = 0
    functions = {name: command.callback for name, command in commands().items() if command.callback}
    for name, function in functions.items():
        for option in inspect.signature(function).parameters.values():
            kind, *notes = get_args(option.annotation) if get_origin(option.annotation) is Annotated else [None]
            if {int, float} & {kind, *get_args(kind)} and option.name not in DecodingConfig.model_fields:
                numbers += 1
                assert None not in (notes[-1].min, notes[-1].max), f"{name} {option.name}"
    assert numbers > 10


def test_every_option_with_one_value_is_given_once() -> None:
    tried = 0
    for name, command in commands().items():
        for option in command.params:
            if option.param_type_name == "option" and not option.multiple and not option.is_eager:
                tried += 1
                once = [option.opts[-1], *([] if option.is_flag else ["1"])]
                result = translate(*name.split(), *once, *once)
                assert result.exit_code == 2 and in_order(result.stderr, option.opts[0], "several times"), result.stderr
    assert tried > 100
