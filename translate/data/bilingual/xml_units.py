"""Reads pairs from XML files whose units have a text in several languages: translation memories (TMX) and XLIFF.

XLIFF is read in its versions 1.2, 2.0 and 2.1. A file may be large, so it is read as a stream.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from translate.config.data import TableCorpus
from translate.data.text import open_bytes
from translate.errors import InputError
from translate.language_codes import find_language
from translate.placeholders import is_replaced

XLIFF_SUFFIXES = (".xlf", ".xliff", ".sdlxliff", ".mxliff")
SHOWN_KEYS = "equiv-text", "equiv", "disp"  # how a code is shown
LANGUAGE_KEYS = ("source-language", "srcLang"), ("target-language", "trgLang")  # of XLIFF 1.2 and 2.x
MACHINE = {"1": {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}}
MACHINE |= {"2": {"state": "translated", "subState": "translate:mt"}}
"""By the version of XLIFF: the attributes of a machine translation."""
_UNTRANSLATED = {"initial", "new", "needs-translation"}
_UNREVIEWED = {"leveraged-mt", "fuzzy-match", MACHINE["2"]["subState"]}
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_JUDGED_UNITS = 1000  # whose languages `init` chooses from
_READ_BYTES = 2**22
_CODES = {"bpt", "ept", "it", "ut", "ph", "x", "bx", "ex", "sc", "ec", "sm", "em"}  # their content is markup
POINTS = {"ph", "x"}  # codes that may be a placeholder, and otherwise separate words
_POINT = "\0"  # markup without text, which XML cannot contain; it separates words
_LOST_SPACE = re.compile(rf"(?<![\s(\[{{]){_POINT}+(?![\s{_POINT}.,;:!?)\]}}]|\Z)")

Unit = dict[str, list[str]]  # texts by the code of their language


def unit_pairs(corpus: TableCorpus, counts: Counter[str]) -> Iterator[tuple[str, str]]:
    """The pairs of a file in the languages that are the corpus's columns.

    Args:
        counts: Of the texts that are left out, by the reason.

    Raises:
        InputError: No unit has both languages.
    """
    wanted = corpus.source_column, corpus.target_column
    names = " and ".join(map(repr, wanted))
    languages, left_out, num_pairs = dict[str, None](), Counter[str](), 0
    for unit in _read_units(corpus.path, left_out):
        languages |= dict.fromkeys(unit)
        chosen = [find_language(code, unit) for code in wanted]
        if chosen[0] is not None and chosen[1] is not None:
            num_pairs += 1
            source, target = unit[chosen[0]][0], unit[chosen[1]][0]
            if sum(map(len, unit.values())) > len(wanted):
                fitting = [unit[own] for own in unit if any(find_language(code, [own]) for code in wanted)]
                others = len({*chain(*fitting)} - {source, target})
                left_out["other texts in these languages, after the first with the nearest code"] += others
            yield source, target
        else:
            left_out[f"units without both {names}"] += 1
    if not num_pairs:
        has = f"has {', '.join(languages)}" if languages else "has no text"
        counted = "".join(f"; {what}: {count:,}" for what, count in left_out.items() if count)
        raise InputError(f"{corpus.path}: no unit has both {names}; the file {has}{counted}")
    counts.update(left_out)


def unit_languages(path: Path) -> list[str]:
    """The languages of a file without their regions, as the first units have them."""
    codes = chain.from_iterable(islice(_read_units(path, Counter()), _JUDGED_UNITS))
    return list(dict.fromkeys(re.split("[-_]", code.lower())[0] for code in codes))


def _read_units(path: Path, left_out: Counter[str]) -> Iterator[Unit]:
    """The texts of each unit, or of each segment of it, without markup; what is left out is counted."""
    from defusedxml.ElementTree import iterparse  # refuses entities, which could expand without limit

    with open_bytes(path) as stream:
        # For each read, expat begins an unfinished tag from its start, so small reads of a long one would take hours.
        events = iterparse(SimpleNamespace(read=lambda _: stream.read(_READ_BYTES)), events=("start", "end"))
        opened = list[Any]()
        for event, element in events:
            if event == "start":
                element.tag = element.tag.rpartition("}")[2]  # without its namespace
                opened.append(element)
                continue
            opened.pop()
            if element.tag in _READERS:
                codes = (each for each in element.iter() if each.tag in _CODES)
                left_out["texts within codes (<sub>)"] += sum(len(code.findall("sub")) for code in codes)
                yield from _READERS[element.tag](element, opened, left_out)
                for parent in opened[-1:]:
                    del parent[:]  # otherwise all units would stay in memory


def _read_memory_unit(unit: Any, _opened: Sequence[Any], _left_out: Counter[str]) -> Iterator[Unit]:
    """The texts of a unit of a TMX."""
    texts = Unit()
    for variant in unit.findall("tuv[seg]"):
        code = variant.get(_LANGUAGE) or variant.get("lang") or ""
        texts.setdefault(code, []).append(_plain_text(variant.find("seg")))
    yield texts


def _read_xliff_unit(unit: Any, opened: Sequence[Any], left_out: Counter[str]) -> Iterator[Unit]:
    """The texts of the segments of a unit. In XLIFF 1.2 these are marks, if both sides have the same ones."""
    inherited = {key: value for element in (*opened, unit) for key, value in element.items()}
    data = {each.get("id"): each.text for each in unit.iterfind("originalData/data")}
    for placeholder in unit.iter("ph"):
        placeholder.text = placeholder.text or data.get(placeholder.get("dataRef"))
    for segment in unit.findall("segment") or [unit]:
        source, target = ([*segment.findall(tag), *segment.findall(other)][:1] for tag, other in _SIDES)
        if not source:
            continue
        attributes = inherited | segment.attrib | (target[0].attrib if target else {})
        state = translation_state(attributes, has_target=any(map(_plain_text, target)))
        if state != "translated":
            left_out[f"{state} texts"] += 1
            continue
        keys = zip(source + target, LANGUAGE_KEYS, strict=True)
        codes = [next(filter(None, (side.get(_LANGUAGE), *map(attributes.get, names))), "") for side, names in keys]
        marks = [[each for each in side[0].iter("mrk") if each.get("mtype") == "seg"] for side in (source, target)]
        ids = [[mark.get("mid") for mark in side] for side in marks]
        if ids[0] != ids[1] or len({*ids[0]}) < len(ids[0]):
            marks = []
        for pair in zip(*marks, strict=True) if any(marks) else [source + target]:
            texts = Unit()
            for code, side in zip(codes, pair, strict=True):
                texts.setdefault(code, []).append(_plain_text(side))
            yield texts


_SIDES = ("seg-source", "source"), ("target", "-")
_READERS = {"tu": _read_memory_unit, "trans-unit": _read_xliff_unit, "unit": _read_xliff_unit}


def translation_state(
    attributes: Mapping[str, str], *, has_target: bool
) -> Literal["untranslatable", "untranslated", "unreviewed", "unapproved", "translated"]:
    """Whether a text of XLIFF has a translation, and whether a person has seen it.

    Args:
        attributes: Those of the target, and of the elements around it, from its file on.
        has_target: Whether there is a target with text.
    """
    state = attributes.get("state") or ""
    approved = attributes.get("approved")
    if attributes.get("translate") == "no" or (approved == "yes" and not has_target):
        return "untranslatable"
    if approved == "yes":
        return "translated"
    if not has_target or state in _UNTRANSLATED:
        return "untranslated"
    origin = attributes.get("subState") or state or attributes.get("state-qualifier") or ""
    if state.startswith("needs-") or origin in _UNREVIEWED:
        return "unreviewed"
    return "unapproved" if approved == "no" else "translated"


def _plain_text(side: Any) -> str:
    return _LOST_SPACE.sub(" ", _text(side)).replace(_POINT, "").strip()  # of indentation


def _text(element: Any) -> str:
    """The text of an element; codes have none, and of those, only points may separate words."""
    inner = [(_text(child), child.tail or "") for child in element]
    text = "".join([element.text or "", *chain(*inner)])
    if element.tag == "cp":  # a character that XML cannot contain
        return read_character(element.get("hex") or "")
    if element.tag in _CODES:
        shown = filter(None, (*map(element.get, SHOWN_KEYS), text)) if element.tag in POINTS else ()
        is_placeholder = next(filter(is_replaced, shown), "")
        return is_placeholder or _POINT * (element.tag in POINTS)
    return text or _POINT


def read_character(digits: str) -> str:
    """The character that an element `cp` names by its hexadecimal digits; one that text cannot have is U+FFFD."""
    number = int(digits, 16) if re.fullmatch("[0-9A-Fa-f]{1,6}", digits) else 0xD800
    return "\N{REPLACEMENT CHARACTER}" if number in range(0xD800, 0xE000) or number > sys.maxunicode else chr(number)
