"""Gettext catalogs, PO and MO: their entries, their languages, and the source text that each plural form translates."""

import ast
import functools
import gettext
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polib  # type: ignore[import-untyped]

from translate.config.data import Direction, TableCorpus
from translate.config.languages import UNKNOWN
from translate.data.text import open_bytes
from translate.errors import InputError
from translate.language_codes import find_language, language_named
from translate.placeholders import have_same_placeholders

STRING = r'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(rf"\s*(?:#.*|(?:#~\s*)?(?:msg(?:ctxt|id|id_plural|str(?:\[\d\])?)\s+)?{STRING}\s*)?")  # of PO
_MAGIC = b"\xde\x12\x04\x95", b"\x95\x04\x12\xde"  # of MO
_LOCALE = re.compile(r"([\w-]+)(?:\.[\w-]+)?(?:@(\w+))?")  # de_DE.UTF-8, sr@latin
_IN_NAME = re.compile(r"(?:.*\.|.*-(?=[a-z]+_[A-Z]))?([A-Za-z]{2}(?:[_@-].*)?|[a-z]{3}_[A-Z].*)")  # app is a code too
_LOCALE_OF_PROGRAMS = "C", "POSIX"  # which have no language
_SCRIPTS = {"latin": "_Latn", "cyrillic": "_Cyrl"}
_CREDITS = {"translator-credits", "translator_credits", "NAME OF TRANSLATORS", "EMAIL OF TRANSLATORS"}
_OFTEN = 5  # msgfmt wants a form for so many of the numbers up to 1000 to contain the number
_UNSPACED = re.compile(r"^([^\S\n]*#(?:~\|?+|[.,:|])?+)(?=\S)", re.MULTILINE)  # comments such as #,fuzzy
# Escapes of bytes, such as \303\244, which are not the end of another escape.
_BYTES = re.compile(r"(\\[^a0-7x])|(?:\\(?:a|[0-3]?[0-7]{1,2}|x[\dA-Fa-f]{2}))++")


class Catalog(NamedTuple):
    """The entries of a catalog and its header."""

    name: str  # in errors
    entries: list[Any]  # polib's, without the header
    header: dict[str, str]
    num_unread: int = 0  # of an MO file: entries whose text depends on the machine

    def languages(self, path: Path | None = None) -> Direction:
        """The languages, or UNKNOWN: of the header, or else of a path such as po/de.po or de/LC_MESSAGES/app.po.

        Raises:
            InputError: The header names a language that is not known.
        """
        fields = (self.header.get(field, "").strip() for field in ("X-Source-Language", "Language"))
        source, target = ("" if name in _LOCALE_OF_PROGRAMS else name for name in fields)
        if unknown := [name for name in (source, target) if name and not _language(name)]:
            problem = f"its header names the language {unknown[0]!r}, not a code such as de or pt_BR: correct it"
            raise InputError(f"{self.name}: {problem}")
        team = re.search(r"<(\w+)@li\.org>", self.header.get("Language-Team", ""))
        names = [target, team[1] if team else ""]
        if path is not None:
            stem = path.name.removesuffix(".gz").rpartition(".")[0]
            found = map(_IN_NAME.fullmatch, [stem, *reversed(path.absolute().parts[-3:-1])])
            names += [match[1] for match in found if match]
        return Direction(_language(source) or "en", next(filter(None, map(_language, names)), UNKNOWN))

    def forms(self, entry: Any) -> tuple[str, list[str], list[str]]:
        """An entry's state, and the text and the translation of each of its forms: of one, or of each plural form.

        The form of the number 1 translates the singular, and the others the plural. If it is the form of other numbers
        too, such as 21, or of all, it translates the singular only if that has the same placeholders: "one file" would
        be wrong.

        Raises:
            InputError: The header has no rule for plural forms, or one that cannot be evaluated.
        """
        sources = [entry.msgid]
        if entry.msgid_plural:
            try:
                num_forms, singular, is_often = _plural_forms(self.header.get("Plural-Forms", ""))
            except (ValueError, ArithmeticError, RecursionError) as error:
                problem = f"Plural-Forms in the header should say which plural forms the language has ({error})"
                raise InputError(f"{self.name}: {problem}; msginit writes a header that does") from error
            both = entry.msgid, entry.msgid_plural
            is_right = num_forms > 1 and (not is_often or have_same_placeholders(*both))
            sources = [both[not (is_right and form == singular)] for form in range(num_forms)]
        targets = [entry.msgstr or entry.msgstr_plural.get(form, "") for form in range(len(sources))]
        is_fuzzy = "fuzzy" in entry.flags and any(targets)
        states = {"obsolete": entry.obsolete, "credits": not _CREDITS.isdisjoint([entry.msgid, entry.msgctxt])}
        states |= {"fuzzy": is_fuzzy, "untranslated": not all(targets), "translated": True}
        return next(state for state, is_true in states.items() if is_true), sources, targets


@functools.lru_cache
def _plural_forms(rule: str) -> tuple[int, int, bool]:
    """The number of forms; the form of the number 1, and whether it is the form of many others."""
    match = re.search(r"nplurals\s*=\s*(\d\d?)\s*;\s*plural\s*=([^;]+)", rule)
    if match is None:
        raise ValueError(f"it is {rule!r}")
    form_of = gettext.c2py(match[2].strip())
    return int(match[1]), form_of(1), Counter(map(form_of, range(1001)))[form_of(1)] >= _OFTEN


def _language(name: str) -> str:
    """The code of a language that a header or a path names; empty if it is not known."""
    import langcodes  # takes 0.1 s

    match = _LOCALE.fullmatch(name)
    if match and langcodes.tag_is_valid(match[1]):
        return match[1] + _SCRIPTS.get(match[2], "")
    return language_named(name) or ""


def read_catalog(path: Path) -> Catalog:
    """The catalog in a PO or MO file, whose header names its charset.

    Raises:
        InputError: The file cannot be read, or is damaged; the message has the line.
    """
    with open_bytes(path) as stream:
        content = stream.read()
    if content.startswith(_MAGIC):
        order: Literal["little", "big"] = "little" if content.startswith(_MAGIC[0]) else "big"
        revision, num_unread = (int.from_bytes(content[place : place + 4], order) for place in (4, 36))
        return _catalog(str(path), polib.mofile(content))._replace(num_unread=num_unread if revision else 0)
    named = re.search(rb"charset=([\w.:+-]+)", content)
    charset = named[1].decode() if named and named[1] != b"CHARSET" else "utf-8"
    try:
        return parse_catalog(content.decode(charset).removeprefix("\ufeff"), str(path))
    except (UnicodeDecodeError, LookupError) as error:
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise InputError(f"{path}, line {line}: is not {charset}, the charset of the header; correct that") from error


class _Text(str):
    """Text that is not divided into lines at U+2028 and the like, which polib would do."""

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self.split("\n")


def parse_catalog(text: str, name: str) -> Catalog:
    """The catalog in the text of a PO file.

    Raises:
        InputError: The text is not PO; the message has the name and the line.
    """
    lines = text.split("\n")
    number = next((number for number, line in enumerate(lines, start=1) if not _LINE.fullmatch(line)), 0)
    try:
        spaced = _BYTES.sub(_write_escape, _UNSPACED.sub(r"\1 ", text))
        found = polib.pofile(_Text(spaced + "\n"), encoding="utf-8")  # never a path
    except OSError as error:
        number = number or int(*re.findall(r"line (\d+)", str(error)))
    if number:
        shown = f"{lines[number - 1].strip()!r:.80}"
        raise InputError(f"{name}, line {number}: is not PO, or something is missing before it: {shown}")
    return _catalog(name, found)


def _write_escape(match: re.Match[str]) -> str:
    """An escape as polib reads it. Those of bytes are characters of UTF-8."""
    return match[1] or polib.escape(ast.literal_eval(f"b'{match[0]}'").decode(errors="replace"))


def _catalog(name: str, found: Any) -> Catalog:
    return Catalog(name, found, {key.title(): value for key, value in found.metadata.items()})


def catalog_languages(path: Path) -> list[str]:
    """The codes of a catalog's languages, without regions; of unknown ones none."""
    codes = (code for code in read_catalog(path).languages(path) if code != UNKNOWN)
    return [re.split("[-_]", code.lower())[0] for code in codes]


def catalog_pairs(corpus: TableCorpus, left_out: Counter[str]) -> Iterator[tuple[str, str]]:
    """The translated texts of a catalog, one pair for each plural form.

    Args:
        left_out: Counts the entries that are left out, by the reason.

    Raises:
        InputError: As in `read_catalog`, or the languages are others.
    """
    catalog = read_catalog(corpus.path)
    own, wanted = catalog.languages(corpus.path), Direction(corpus.source_column, corpus.target_column)
    fits = [  # as it is, and the other way round
        all(code == UNKNOWN or find_language(one, [code]) for one, code in zip(way, own, strict=True))
        for way in (wanted, wanted[::-1])
    ]
    if not any(fits):
        raise InputError(f"{corpus.path}: the catalog is {own}, and the columns are {wanted}: name its languages")
    catalog = catalog._replace(header={"Plural-Forms": "nplurals=2; plural=n != 1", **catalog.header})  # gettext's
    left_out.update({"entries with <PRI…>": catalog.num_unread} if catalog.num_unread else {})
    for entry in catalog.entries:
        state, *forms = catalog.forms(entry)
        if state == "translated":
            yield from zip(*(forms if fits[0] else forms[::-1]), strict=True)
        else:
            left_out[f"{state} entries"] += 1
