"""Scalars by the YAML 1.2 core schema's tables; errors with their place."""

import math
from pathlib import Path
from typing import Any

import pytest

from translate.config.yaml import dump_scalar, dump_yaml, parse_yaml, read_yaml
from translate.errors import InputError


def parsed(text: str) -> Any:
    return parse_yaml(text, path=None, key="key")[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 0.0001),
        (".5", 0.5),
        ("+.5", 0.5),
        ("-1.", -1.0),
        ("1.0E3", 1000.0),
        ("1e-9", 1e-9),
        ("1_000.5", 1000.5),
        ("-.inf", -math.inf),
        ("1e400", math.inf),
    ],
)
def test_a_float_needs_no_dot_and_no_sign(text: str, value: float) -> None:
    assert parsed(text) == value
    assert type(parsed(text)) is float


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("100_000", 100_000),
        ("010", 10),
        ("08", 8),
        ("1E3", 1000),
        ("2e5", 200_000),
        ("10e-1", 1),
    ],
)
def test_a_whole_number_without_dot_is_an_integer(text: str, value: int) -> None:
    assert parsed(text) == value
    assert type(parsed(text)) is int


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "yes",
        "off",
        "y",
        "N",
        "12:30",
        "1:2:3.5",
        "2024-01-01",
        "0x1f",
        "0o17",
        "0b1",
        "=",
        "<<",
        "e5",
        "1e",
        ".",
    ],
)
def test_yaml_1_1_traps_stay_text(text: str) -> None:
    assert parsed(text) == text


@pytest.mark.parametrize(("text", "value"), [("", None), ("~", None), ("null", None), ("True", True), ("false", False)])
def test_null_and_booleans(text: str, value: bool | None) -> None:
    assert parsed(text) is value


def test_keys_are_always_text() -> None:
    assert parsed("{1: a, true: b, null: c, no: d}") == {"1": "a", "true": "b", "null": "c", "no": "d"}


def test_an_alias_is_a_copy() -> None:
    first, second = parsed("[&pair {source: a}, *pair]")
    assert first == second == {"source": "a"}
    assert first is not second


def test_origins_say_the_line_of_each_key(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("model:\n  d_model: 4\ndata:\n  train:\n    - kind: text\n      source: ä\n")
    document = read_yaml(path)
    assert document.origins["data.train.0.source"].position == f"{path}:6:7"
    lines = {key: str(origin) for key, origin in document.origins.items()}
    assert {key: int(text.rpartition(":")[2]) for key, text in lines.items()} == {
        "model": 1,
        "model.d_model": 2,
        "data": 3,
        "data.train": 4,
        "data.train.0": 5,
        "data.train.0.kind": 5,
        "data.train.0.source": 6,
    }
    assert document.origins["model"].path == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "c.yaml:3:1: the key 'a' is given twice (first in c.yaml:1)"),
        ("s:\n  a: 1\n  a: 1", "c.yaml:3:3: the key 'a' is given twice (first in c.yaml:2)"),
        ("s:\n\ta: 1", "c.yaml:2:1: not valid YAML: while scanning for the next token, found character '\\t'"),
        ("a: 1\nb: [1", "c.yaml:2:6: not valid YAML: while parsing a flow sequence"),
        ("a: 1\nb: *c", "c.yaml:2:4: not valid YAML: found undefined alias 'c'"),
        ("a: 1\n--- \nb: 1", "c.yaml:2:1: not valid YAML: expected a single document"),
        ("a: 1\nb: c\x01", "c.yaml:2:5: not valid YAML: the character '\\x01'"),
        (
            "x:\n  a: &a\n    b: *a",
            "c.yaml: nested too deeply, or an alias of a value that contains it",
        ),
        ("model.d_model: 3", "c.yaml:1:1: the key 'model.d_model' has a dot"),
        ("a: 1\n[b]: 2", "c.yaml:2:1: a key must be a word"),
        ("a: !!timestamp 2024-01-01", "c.yaml:1:4: the tag 'tag:yaml.org,2002:timestamp' has no meaning in a config"),
        ("a: !!set {b}", "c.yaml:1:4: the tag 'tag:yaml.org,2002:set' has no meaning in a config"),
        ("a: !!int b", "c.yaml:1:4: 'b' is no valid int"),
        ("a: !!bool maybe", "c.yaml:1:4: 'maybe' is no valid bool"),
        ('a: "\\ud800"', "c.yaml:1:4: '\\ud800' is no valid str"),
        ('a: "\\UFFFFFFFF"', "c.yaml:1:7: not valid YAML: this escape is no character of Unicode"),
        ('a: "\\U00110000"', "c.yaml:1:7: not valid YAML: this escape is no character of Unicode"),
        ('"\\ud800": 1', "c.yaml:1:1: a key must be a word"),
        ('a: {"\\0": 1}', "c.yaml:1:5: a key must be a word"),
        ("[" * 5000, "c.yaml: nested too deeply"),
        ("- a", "c.yaml: a config is a mapping of keys to values, not a list"),
        ("a", "c.yaml: a config is a mapping of keys to values, not one value"),
    ],
)
def test_errors_name_file_line_and_column(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_yaml(Path("c.yaml"))
    assert str(caught.value).startswith(message)


def test_aliases_cannot_explode(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    (tmp_path / "c.yaml").write_text("\n".join(rows))
    with pytest.raises(InputError, match="more than 100000 values"):
        read_yaml(tmp_path / "c.yaml")


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"a: \xff")
    with pytest.raises(InputError, match=r"c\.yaml:1: byte 4 of the line \(0xff\) is not UTF-8"):
        read_yaml(tmp_path / "c.yaml")
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "none.yaml")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_yaml(tmp_path / "c.yaml").values == {"a": 1}


TEXTS = [
    "no",
    "1e-4",
    "010",
    "2024-01-01",
    "",
    "ä 😀",
    "a: b # c",
    "two\nlines",
    "tab\t",
    " x ",
    "null",
    "'\"",
    "\x07",
    "-",
]
NUMBERS = [1e-9, 0.1 + 0.2, 1e300, 5e-324, 200_000, -0.0, True, None]


@pytest.mark.parametrize("value", [*TEXTS, *NUMBERS, [], {}])
def test_what_is_dumped_reads_back_exactly(value: Any) -> None:
    assert "\n" not in dump_scalar(value)
    for text in (dump_scalar(value), dump_yaml(value)):
        assert repr(parsed(text)) == repr(value)
    assert parsed(dump_yaml({"key": [value]})) == {"key": [value]}


def test_keys_with_dots_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("model.dropout: [1]\ntraining: {a.b: 2}")
    document = read_yaml(tmp_path / "space.yaml", dotted_keys=True)
    assert document.values == {"model.dropout": [1], "training": {"a.b": 2}}
    assert document.origins["training.a.b"].position.endswith("space.yaml:2:12")
