"""The one way to open input files: it reports what is wrong with a file, and never waits for a pipe.

Within a command, every file that is opened here is remembered, so `atomic.open_output` never replaces an input.
"""

import contextlib
import glob
import json
import logging
import os
import re
import stat
import sys
from collections.abc import Collection, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, TypeVar

from translate.errors import InputError, RunError

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_BYTES = 2**26  # of a file that is read as a whole

_SAVE = "not text: save its text as plain text, HTML or CSV"
_DECOMPRESS = "compressed: decompress it, or compress it with gzip instead"
_CONVERT = "UTF-16 or UTF-32: convert it, for example with iconv -f utf-16 -t utf-8"
_NOT_UTF8 = {  # by the first bytes: what a file is, and what to do
    b"%PDF-1.": f"a PDF file, {_SAVE}",
    b"PK\x03\x04": f"a Word, Excel or other zip file, {_SAVE}",
    b"\xd0\xcf\x11\xe0": f"an old Word, Excel or PowerPoint file, {_SAVE}",
    b"{\\rtf1": f"an RTF file, {_SAVE}",
    b"\x1f\x8b": "compressed with gzip: decompress it; a text of lines may keep it, with a name that ends in .gz",
    **dict.fromkeys((b"BZh91AY&SY", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"), _DECOMPRESS),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"), _CONVERT),
}

_TOOLKIT = {
    ".json": "json2po", ".jsonl": "json2po", ".arb": "arb2po", ".yaml": "yaml2po", ".yml": "yaml2po", ".ini": "ini2po",
    ".toml": "toml2po", ".properties": "prop2po", ".php": "php2po", ".ftl": "fluent2po", ".resx": "resx2po",
    ".idml": "idml2po", ".dtd": "dtd2po", ".rc": "rc2po",
}  # fmt: skip
XLIFF_SUFFIXES = (".xlf", ".xlf2", ".xliff", ".sdlxliff", ".mxliff", ".mqxliff", ".txlf")
_FILL = "decode --document fills in what is not translated"
_XCODE = "xcodebuild -exportLocalizations exports it as XLIFF"
_OFFICE = "save it as HTML, with LibreOffice for example, and translate that as a document"
STRUCTURED = {
    **{suffix: f"{program} of the Translate Toolkit converts it to PO" for suffix, program in _TOOLKIT.items()},
    **dict.fromkeys((".po", ".pot", *XLIFF_SUFFIXES), _FILL),
    **dict.fromkeys((".strings", ".stringsdict", ".xcstrings", ".storyboard", ".xib"), _XCODE),
    **dict.fromkeys((".docx", ".doc", ".odt", ".rtf", ".epub", ".xlsx", ".xls", ".ods", ".pptx", ".odp"), _OFFICE),
    **dict.fromkeys((".csv", ".tsv"), "write the column with the text into a file of its own"),
    **dict.fromkeys((".json5", ".jsonc"), "write it as JSON, which json2po converts to PO"),
    ".mo": "msgunfmt converts it to PO",
    ".pdf": "pdftotext converts it to text",
    ".tmx": "it is a translation memory: train on it, as a corpus of kind tmx",
    ".ts": "lconvert converts Qt's translations to PO, and xgettext extracts the strings of a program",
    ".xml": "android2po converts Android's strings to PO, and po4a other XML",
}
"""By the ending of a name: how a file whose lines are not text becomes a document or text."""

_STANDARD_INPUT = (-1, 0)  # its device and inode if it is a pipe
_inputs: dict[tuple[int, int], str] | None = None  # by device and inode; None: outside of a command
_folders: dict[Path, os.stat_result] | None = None  # from `remember_folder`; None: outside of a command


class FileError(InputError):
    """A file cannot be read.

    Args:
        reason: Completes the message, after the file's name.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class MissingFileError(FileError):
    """There is no such file."""


@contextlib.contextmanager
def protect_inputs() -> Iterator[None]:
    """A context for one command that forbids outputs to files that it read, and to folders that replaced its own."""
    global _inputs, _folders
    before, _inputs, _folders = (_inputs, _folders), {}, {}
    try:
        yield
    finally:
        _inputs, _folders = before


def remember_input(file: int | Path, name: str) -> None:
    """Remember a file as an input of this command, by its descriptor or its path.

    Raises:
        InputError: Standard output is the same file: a command that appends to its input would never end.
    """
    identity = _identity(file)
    if _inputs is None or identity is None:
        return
    _inputs[identity] = name
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard output is closed, or is not a file
        if _identity(sys.stdout.fileno()) == identity:
            raise InputError(f"standard output is the file {name}, which this command reads; choose another file")


def open_standard_input() -> BinaryIO:
    """The bytes of standard input.

    Raises:
        InputError: It is closed, this command has opened it before, or standard output is the same file.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed: name a file")
    if _inputs is not None:
        if _STANDARD_INPUT in _inputs:
            raise InputError("standard input can be read only once: name a file for all but one input")
        _inputs[_STANDARD_INPUT] = "standard input"
    remember_input(0, "standard input")
    return sys.stdin.buffer


def check_output(path: Path, option: str = "") -> None:
    """Check that a file to write is not an input of this command, under whatever name.

    Raises:
        InputError: It is.
    """
    if _inputs and (name := _inputs.get(_identity(path) or (0, 0))):
        alias = "" if name == str(path) else f", as {name}"
        problem = f"this command reads that file{alias}, which would be lost; name another"
        raise InputError(f"{option} {path}: {problem}".strip())


def remember_folder(path: Path) -> None:
    """Within a command, write into a folder only as long as it is the same one: another may take its place."""
    if _folders is not None:
        _folders[path.absolute()] = path.stat()


def check_same_folders(path: Path) -> None:
    """Check that a path to write leads through no folder that has replaced a remembered one.

    Raises:
        RunError: It does.
    """
    remembered = _folders or {}
    for folder in filter(remembered.__contains__, path.absolute().parents):
        if not (folder.exists() and os.path.samestat(folder.stat(), remembered[folder])):
            raise RunError(f"{folder}: was moved or replaced after this command had opened it, so nothing is written")


def open_input(path: Path, *, may_be_pipe: bool = False) -> BufferedReader:
    """Open a file to read its bytes.

    Raises:
        FileError: It is a folder, a device or a pipe, or cannot be read.
        MissingFileError: There is no such file.
    """
    require_file(path, may_be_pipe=may_be_pipe)
    try:
        file = path.open("rb")
    except OSError as error:
        raise FileError(path, f"cannot be read ({error.strerror or error})") from error
    remember_input(file.fileno(), str(path))
    return file


def read_input(path: Path, *, at_most: int = MOST_BYTES, may_be_pipe: bool = False) -> bytes:
    """Read the bytes of a file that is read as a whole; see `open_input`.

    Raises:
        FileError: It cannot be read, has more than `at_most` bytes, or does not fit into memory.
        MissingFileError: There is no such file.
    """
    with open_input(path, may_be_pipe=may_be_pipe) as file:
        try:
            size = os.fstat(file.fileno()).st_size  # of a pipe 0
            content = b"" if size > at_most else file.read(size or at_most + 1)
        except (OSError, MemoryError) as error:
            raise FileError(path, f"cannot be read ({getattr(error, 'strerror', None) or 'out of memory'})") from error
    if max(size, len(content)) > at_most:
        raise FileError(path, f"has more than {at_most / 2**20:,.0f} MiB, so it is not such a file")
    return content


def check_is_text(path: Path | None) -> None:
    """Check that a file is not one of `STRUCTURED`, whose names and signs would be translated as text.

    Raises:
        InputError: It is, judging by its name. A `.ts` with text is Tsonga.
    """
    suffix = "" if path is None else text_suffix(path)
    if path is None or suffix not in STRUCTURED:
        return
    if suffix == ".ts" and path.is_file():
        with open_input(path) as file:
            if not re.search(rb"[<{;]", file.read(4096)):
                return
    raise InputError(f"{path}: lines of a {suffix} file are not text; {STRUCTURED[suffix]}")


def describe_binary(beginning: bytes) -> str:
    """What a file is if it is not UTF-8 text, and what to do; empty if its first bytes do not show this."""
    return next((f"is {kind}" for first, kind in _NOT_UTF8.items() if beginning.startswith(first)), "")


def read_json(path: Path, shape: type[T]) -> T:
    """Read a JSON file as a type that pydantic supports, such as a dataclass or `dict[str, str]`; see `read_input`.

    Raises:
        FileError: It cannot be read, is not JSON, or has another shape; the message names the field.
        MissingFileError: There is no such file.
    """
    return parse_json(read_input(path), shape, path=path)


def parse_json(content: bytes, shape: type[T], *, path: Path) -> T:
    """The content of a JSON file as such a type; see `read_json`."""
    from pydantic import TypeAdapter, ValidationError  # only here: importing it takes as long as `--help`

    try:
        # Not by pydantic's own reader, which refuses the escapes of names that are not UTF-8; see `text_bytes`.
        return TypeAdapter(shape).validate_python(json.loads(content))
    except (ValueError, RecursionError) as error:
        problem = f"it is not JSON: {error}"
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            problem = ": ".join([*(".".join(map(str, first["loc"])),) * bool(first["loc"]), first["msg"]])
        raise FileError(path, f"is damaged: {problem}; copy it again from its source") from error


def require_file(path: Path, *, may_be_pipe: bool = False) -> None:
    """Check that a path is a file, and remember it as an input.

    Raises:
        FileError: It is something else, or cannot be reached.
        MissingFileError: There is no such file.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        link = f"; it is a link to {os.readlink(path)}" if path.is_symlink() else ""
        raise MissingFileError(path, f"no such file{link}") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise FileError(path, f"cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if stat.S_ISDIR(mode):
        raise FileError(path, "is a folder, but a file is needed")
    if not (stat.S_ISREG(mode) or (stat.S_ISFIFO(mode) and may_be_pipe)):
        raise FileError(path, "is a device or a pipe, which can be read only once; write its content to a file first")
    remember_input(path, str(path))


def find_files(path: Path, suffixes: Collection[str]) -> list[Path]:
    """The files that a path means, by name: itself, what it matches if it is a pattern, or all in it if it is a folder.

    A `.mo` beside the `.po` that it was compiled from has the same text, and is left out.

    Args:
        suffixes: Of the files in a folder, and in its folders, that are meant; they may have `.gz` after them.

    Raises:
        FileError: There are none.
    """
    if not path.is_dir() and (path.exists() or not glob.has_magic(str(path))):
        return [path]
    found = glob.iglob(f"{glob.escape(str(path))}/**" if path.is_dir() else str(path), recursive=True)
    files = sorted(each for each in map(Path, found) if each.is_file())
    if path.is_dir():
        files = [each for each in files if text_suffix(each) in suffixes]
    compiled = {each.with_suffix(".mo") for each in files if each.suffix == ".po"}.intersection(files)
    if compiled:
        logger.info(f"{path}: left out: .mo beside a .po of the same name ({len(compiled):,})")
    files = [each for each in files if each not in compiled]
    if not files:
        problem = f"is a folder without a file that ends in {', '.join(suffixes)}"
        raise FileError(path, problem if path.is_dir() else "matches no file")
    return files


def text_suffix(path: Path) -> str:
    """The ending of a file's name in lower case, without `.gz`, which says that the file is compressed."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def require_name(name: object, *, place: str) -> str:
    """Check a name that a file, the `place`, gives before a path is made of it.

    Raises:
        InputError: It is a path, or is not a name at all.
    """
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
        raise InputError(f"{place}: {ascii(name)[:100]} should be a name of letters, digits, '.', '-' and '_'")
    return name


def require_utf8(path: Path, *, place: str) -> None:
    """Check a path that a config will keep, and `place`, the key that has it.

    Raises:
        InputError: It has bytes that are not UTF-8.
    """
    if any("\udc80" <= character <= "\udcff" for character in str(path)):
        raise InputError(f"{place} = {str(path)!r}: a run cannot keep a path that is not UTF-8; rename it")


def _identity(file: int | Path) -> tuple[int, int] | None:
    """The device and inode of a regular file; None for anything else, and for what does not exist."""
    try:
        state = os.stat(file)
    except (OSError, ValueError):
        return None
    return (state.st_dev, state.st_ino) if stat.S_ISREG(state.st_mode) else None
