"""Scalars by the YAML 1.2 core schema; errors with their place; what is written reads back."""

import math
from pathlib import Path
from typing import Any

import pytest
from harness import in_order

from translate.config.yaml import dump_scalar, dump_yaml, parse_yaml, read_yaml
from translate.errors import InputError


def parsed(text: str) -> Any:
    return parse_yaml(text, path=None, key="key")[0]


FLOATS = {"1e-4": 0.0001, ".5": 0.5, "+.5": 0.5, "-1.": -1.0, "1.0E3": 1000.0, "1e-9": 1e-9, "1_000.5": 1000.5}
FLOATS |= {"-.inf": -math.inf, "1e400": math.inf}
INTEGERS = {"12": 12, "-3": -3, "100_000": 100_000, "010": 10, "08": 8, "1E3": 1000, "2e5": 200_000, "10e-1": 1}
OTHERS = {"": None, "~": None, "null": None, "True": True, "false": False}
TEXTS = ["no", "on", "yes", "off", "y", "N", "12:30", "1:2:3.5", "2024-01-01", "0x1f", "0o17", "0b1", "=", "<<"]
TEXTS += ["e5", "1e", "."]  # some of them are numbers, dates or booleans in YAML 1.1


@pytest.mark.parametrize(
    ("text", "value"), [*{**FLOATS, **INTEGERS, **OTHERS}.items(), *((text, text) for text in TEXTS)]
)
def test_scalars(text: str, value: Any) -> None:
    assert parsed(text) == value and type(parsed(text)) is type(value)


def test_keys_are_always_text_and_an_alias_is_a_copy() -> None:
    assert parsed("{1: a, true: b, null: c, no: d}") == {"1": "a", "true": "b", "null": "c", "no": "d"}
    first, second = parsed("[&pair {source: a}, *pair]")
    assert first == second == {"source": "a"} and first is not second


def test_origins_say_the_line_of_each_key(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("model:\n  d_model: 4\ndata:\n  train:\n    - kind: text\n      source: ä\n")
    origins = read_yaml(path).origins
    assert str(origins["data.train.0.source"]) == f"{path}:6" and origins["model"].path == path
    lines = {key: int(str(origin).rpartition(":")[2]) for key, origin in origins.items()}
    assert [lines[f"data{key}"] for key in ("", ".train", ".train.0", ".train.0.kind")] == [3, 4, 5, 5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: *c", ["c.yaml:2: ", "'c'"]),
        ("a: 1\n--- \nb: 1", ["c.yaml:2: ", "single document"]),
        ("model.d_model: 3", ["c.yaml:1: ", "'model.d_model'", "dot"]),
        ("a: 1\n[b]: 2", ["c.yaml:2: "]),
        ("a: !!int b", ["c.yaml:1: ", "'b'", "int"]),
        ('a: "\\ud800"', ["c.yaml:1: ", "'\\ud800'"]),
        ('a: {"\\0": 1}', ["c.yaml:1: "]),
        ("a", ["c.yaml: ", "one value"]),
    ],
)
def test_errors_name_file_and_line(
    text: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_yaml(Path("c.yaml"))
    assert str(caught.value).startswith(words[0]) and in_order(str(caught.value), *words)


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_yaml(tmp_path / "c.yaml").values == {"a": 1}


AWKWARD = [
    "no",
    "5{\x85l",
    "1e-4",
    "010",
    "2024-01-01",
    "",
    "ä 😀",
    "a: b # c",
    "two\nlines",
    "a\u2028b\t",
    " x ",
    "'\"",
]
NUMBERS = [1e-9, 0.1 + 0.2, 1e300, 5e-324, 200_000, -0.0, True, None]


@pytest.mark.parametrize("value", [*AWKWARD, "\x07", "-", *NUMBERS, [], {}])
def test_what_is_written_reads_back_exactly(value: Any) -> None:
    assert "\n" not in dump_scalar(value)
    for text in (dump_scalar(value), dump_yaml(value)):
        assert repr(parsed(text)) == repr(value)
    assert parsed(dump_yaml({"😀": [value]})) == {"😀": [value]}


@pytest.mark.parametrize("text", ["a #2", "#2", "3 # a", "[a] # b", "'a' #"])
def test_a_value_has_no_comment(text: str) -> None:
    assert parsed(f" {text} ") == text and parsed("'a #2'") == "a #2" and parsed("a#2") == "a#2"


def test_keys_with_dots_where_they_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("model.dropout: [1]\ntraining: {a.b: 2}")
    document = read_yaml(tmp_path / "space.yaml", dotted_keys=True)
    assert document.values == {"model.dropout": [1], "training": {"a.b": 2}}
    assert document.origins["training.a.b"].line == 2
