"""Files are opened in one way, which never waits for a pipe; what a command has read, it does not replace."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from translate.atomic import open_output
from translate.errors import InputError
from translate.files import FileError, check_output, open_input, protect_inputs, read_input, read_json, remember_input


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a").write_text("text\n")
    return tmp_path / "a"


def test_an_input_is_not_replaced_under_any_name(file: Path) -> None:
    folder = file.parent
    (folder / "link").symlink_to("a")
    os.link(file, folder / "other name")
    with protect_inputs():
        assert read_input(file) == b"text\n"
        for name in ("a", "link", "other name", f"../{folder.name}/a"):
            with pytest.raises(InputError, match=f"{name}: this command reads"), open_output(folder / name):
                pass
        with open_output(folder / "new") as output:
            output.write(b"new")
        with pytest.raises(InputError, match="^--output .*a: "):
            check_output(file, "--output")
    with open_output(file) as output:  # outside of a command, a program knows what it does
        output.write(b"new")


def test_standard_input_and_output_are_files_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with file.open("r+") as opened, protect_inputs():
        monkeypatch.setattr("sys.stdout", opened)
        with pytest.raises(InputError, match=str(file)), open_input(file):
            pass
        monkeypatch.undo()
        remember_input(opened.fileno(), "standard input")
        with pytest.raises(InputError, match="a: .*as standard input"):
            check_output(file)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", "no such file$"),
        ("link", "no such file; it is a link to nothing$"),
        ("", "is a folder"),
        ("pipe", "is a .*pipe"),
        ("/dev/zero", "is a device"),
    ],
)
def test_only_files_are_opened(file: Path, name: str, reason: str) -> None:
    os.mkfifo(file.parent / "pipe")
    (file.parent / "link").symlink_to("nothing")
    (file.parent / "nine").touch()
    with pytest.raises(FileError, match=reason), open_input(file.parent / name):
        pass


def test_a_file_of_another_kind_is_not_read_as_a_whole(file: Path) -> None:
    os.truncate(file, 2**40)
    with pytest.raises(FileError, match=f"{re.escape(str(file))}: .*64 MiB"):
        read_input(file)


@dataclass
class Record:
    name: str
    steps: list[int]


@pytest.mark.parametrize(
    ("text", "named"),
    [("{", "JSON"), ('{"name": "a"}', "steps"), ('{"name": "a", "steps": [1, "x"]}', "steps.1"), ("[" * 10**5, "JSON")],
)
def test_json_has_the_shape_that_was_written(file: Path, text: str, named: str) -> None:
    file.write_text('{"name": "a", "steps": [1]}')
    assert read_json(file, Record) == Record("a", [1])
    file.write_text(text)
    with pytest.raises(FileError, match=f"a: is damaged: .*{named}"):
        read_json(file, Record)
