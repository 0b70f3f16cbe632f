"""Lines of text: split where `wc -l` splits, and each way in which a file can be bad names the file and the place."""

import bz2
import gzip
import io
import lzma
from pathlib import Path

import pytest

from translate.data.text import iterate_lines, read_lines, require_unchanged, stream_lines
from translate.errors import InputError


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def failure(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_lines(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb", ["a\r", "b"]),
        (b"a\rb\rc", ["a\rb\rc"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ],
)
def test_lines(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    assert read_lines(write(tmp_path / "a.txt", data)) == lines
    assert read_lines(write(tmp_path / "a.txt.gz", gzip.compress(data))) == lines
    assert read_lines(write(tmp_path / "b.txt.gz", gzip.compress(data[:1]) + gzip.compress(data[1:]))) == lines
    assert list(iterate_lines(io.BytesIO(data), "standard input")) == lines


def test_a_stream_is_read_as_it_comes() -> None:
    lines = iterate_lines(io.BytesIO(b"good\n\xff\n"), "standard input")
    assert next(lines) == "good"
    with pytest.raises(InputError, match=r"^standard input, line 2: byte 1 .*0xff"):
        next(lines)


@pytest.mark.parametrize(
    ("data", "place", "fix"),
    [
        ("eins\nzwölf\n".encode("latin1"), ", line 2: byte 3 of the line (0xf6)", "iconv -f latin1 -t utf-8"),
        (b"eins\nzw\0ei\n", ", line 2: byte 3 of the line is NUL", "iconv -f utf-16 -t utf-8"),
        ("eins\n".encode("utf-16-le"), ", line 1: byte 2 of the line is NUL", "iconv -f utf-16 -t utf-8"),
        *(
            ("\ufeffeins\n".encode(encoding), ": is UTF-16 or UTF-32:", "iconv -f utf-16 -t utf-8")
            for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
        ),
    ],
)
def test_other_encodings_are_named_with_the_place_and_the_fix(
    tmp_path: Path, data: bytes, place: str, fix: str
) -> None:
    path = write(tmp_path / "a.de", data)
    message = failure(path)
    assert message.startswith(f"{path}{place}") and message.endswith(fix)


def test_a_catalog_is_converted_with_its_header(tmp_path: Path) -> None:
    assert failure(write(tmp_path / "a.po", b"\xff")).endswith("msgconv --to-code=UTF-8")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("compressed:", bz2.compress(b"eins")),
        ("compressed:", lzma.compress(b"eins")),
        ("compressed:", bytes.fromhex("28b52ffd0458290000") + b"eins\n"),
        ("a Word, Excel or other zip file", b"PK\x03\x04"),
        ("a PDF file", b"%PDF-1.4\n%"),
        ("an RTF file", rb"{\rtf1\ansi Hund}"),
        ("an old Word, Excel or PowerPoint file", bytes.fromhex("d0cf11e0a1b11ae1")),
    ],
)
def test_what_is_not_text_is_named(tmp_path: Path, kind: str, data: bytes) -> None:
    for file in (write(tmp_path / "a.de", data), write(tmp_path / "a.gz", gzip.compress(data))):
        assert failure(file).startswith(f"{file}: is {kind}")


def test_text_that_names_a_format_is_text(tmp_path: Path) -> None:
    for line in ("GIF89a ist ein Format", "%PDF- beginnt jede Datei", "PK und RIFF", "SQLite format 3"):
        assert read_lines(write(tmp_path / "a.de", f"{line}\n".encode())) == [line]


def test_unreadable_files(tmp_path: Path) -> None:
    whole = gzip.compress(b"a line of text\n" * 97)
    wrong_sum = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    wrong_data = whole[:13] + b"\xff\xff" + whole[15:]
    damaged = [whole[:-11], whole[:5], b"plain text\n", wrong_data, wrong_sum, whole + b"more"]
    cases = [
        (write(tmp_path / "file", b"") / "below", "no such file"),
        *((write(tmp_path / f"{number}.gz", data), "is named .gz") for number, data in enumerate(damaged)),
        (write(tmp_path / "named.de", whole), "is compressed with gzip"),
    ]
    for path, message in cases:
        assert failure(path).startswith(f"{path}: {message}")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.de", b"line\n" * 100_000)
    lines = stream_lines(path)
    next(lines)
    with path.open("ab") as file:
        file.write(b"one more\n")
    message = f"^{path}: changed while it was read"
    with pytest.raises(InputError, match=message):
        list(lines)
    with pytest.raises(InputError, match=message), require_unchanged(path):
        (tmp_path / "other").write_bytes(b"line\n" * 100_000)
        (tmp_path / "other").replace(path)
