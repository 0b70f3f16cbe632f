"""Reads pairs from XML files whose units have a text in several languages: translation memories (TMX) and XLIFF.

XLIFF is read in its versions 1.2, 2.0 and 2.1. A file may be large, so it is read as a stream.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

from translate.config.data import TableCorpus
from translate.data.text import open_bytes
from translate.errors import InputError
from translate.language_codes import find_language
from translate.placeholders import is_replaced

_SHOWN_KEYS = "equiv-text", "equiv", "disp"  # how a code is shown
LANGUAGE_KEYS = {"trans-unit": ("source-language", "target-language"), "unit": ("srcLang", "trgLang")}
MACHINE = {
    "trans-unit": {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"},
    "segment": {"state": "translated", "subState": "translate:mt"},
}
"""How a machine's translation is marked: the target of a unit in XLIFF 1.2, and the segment itself in 2.x."""
_UNTRANSLATED = {"initial", "new", "needs-translation"}
_UNREVIEWED = {"leveraged-mt", "fuzzy-match", MACHINE["segment"]["subState"]}
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_INHERITED = {"translate", *chain(*LANGUAGE_KEYS.values())}  # by the elements within an element
_JUDGED_UNITS = 1000  # whose languages `init` chooses from
_READ_BYTES = 2**22
_CODES = {"bpt", "ept", "it", "ut", "ph", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp"}  # their content is markup
_POINTS = {"ph", "x"}  # codes that may be a placeholder, and otherwise separate words
_POINT = "\0"  # markup without text, which XML cannot contain; it separates words
_LOST_SPACE = re.compile(rf"(?<![\s(\[{{]){_POINT}+(?![\s{_POINT}.,;:!?)\]}}]|\Z)")

State = Literal["untranslatable", "untranslated", "partly translated", "unreviewed", "unapproved", "translated"]
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
        opened: list[tuple[Any, dict[str, str]]] = [([], {})]  # elements, with the attributes that hold within them
        for event, element in events:
            if event == "start":
                element.tag = element.tag.rpartition("}")[2]  # without its namespace
                opened.append((element, inherited_attributes(element, opened[-1][1])))
                continue
            _, inherited = opened.pop()
            if element.tag in ("tu", *LANGUAGE_KEYS):
                codes = (each for each in element.iter() if each.tag in _CODES)
                left_out["texts within codes (<sub>)"] += sum(len(code.findall("sub")) for code in codes)
                yield from _memory_unit(element) if element.tag == "tu" else _xliff_unit(element, inherited, left_out)
                del opened[-1][0][:]  # otherwise all units would stay in memory


def _memory_unit(unit: Any) -> Iterator[Unit]:
    texts = Unit()
    for variant in unit.findall("tuv[seg]"):
        code = variant.get(_LANGUAGE) or variant.get("lang") or ""
        texts.setdefault(code, []).append(_plain_text(variant.find("seg")))
    yield texts


def _xliff_unit(unit: Any, inherited: Mapping[str, str], left_out: Counter[str]) -> Iterator[Unit]:
    for text in xliff_texts(unit, inherited):
        if text.state != "translated":
            left_out[f"{text.state} texts"] += 1
            continue
        for pair in text.pairs:
            yield {code: [_plain_text(side)] for code, side in zip(text.codes, pair, strict=True)}


class XliffText(NamedTuple):
    """A text of a unit of XLIFF, and its translation."""

    element: Any  # the unit, or its segment in XLIFF 2.x
    source: Any
    target: Any  # None: there is none
    codes: list[str]  # of the two languages; "": it has no name
    state: State
    pairs: list[tuple[Any, Any]]  # its segments, each with its translation or None; or the whole text


def xliff_texts(unit: Any, inherited: Mapping[str, str]) -> Iterator[XliffText]:
    """The texts of a unit, with the attributes that hold for it."""
    data = {each.get("id"): each.text for each in unit.iterfind("originalData/data")}
    for placeholder in unit.iter("ph"):
        placeholder.set("disp", placeholder.get("disp") or data.get(placeholder.get("dataRef")) or "")
    for element in unit.findall("segment") or [unit]:
        sources, targets = [*element.findall("seg-source"), *element.findall("source")], element.findall("target")
        if sources and _plain_text(sources[0]):
            attributes = {**inherited, **unit.attrib, **element.attrib, **(targets[0].attrib if targets else {})}
            source, target = sources[0], targets[0] if targets else None
            codes = [inherited.get(key) or "" for key in LANGUAGE_KEYS[unit.tag]]
            if target is not None:
                codes[1] = target.get(_LANGUAGE) or codes[1]
            pairs = _pair_segments(source, target)
            found = {other is not None and _plain_text(other) != "" for one, other in pairs if _plain_text(one)}
            state = _state(attributes, has_target=True in found)
            if len(found) > 1 and state not in ("untranslatable", "untranslated"):
                state = "partly translated"
            yield XliffText(element, source, target, codes, state, pairs)


def _pair_segments(source: Any, target: Any) -> list[tuple[Any, Any]]:
    sources, targets = segments_of(source), [] if target is None else segments_of(target)
    names, found = ([segment.get("mid") for segment in side] for side in (sources, targets))
    if len({*names}) < len(names) or found != [name for name in names if name in found]:
        return [(source, target)]
    by_name = dict(zip(found, targets, strict=True))
    return [(segment, by_name.get(name)) for name, segment in zip(names, sources, strict=True)]


def segments_of(side: Any) -> list[Any]:
    """The marked segments of a text in XLIFF 1.2, or else all of it."""
    return [mark for mark in side.iter("mrk") if mark.get("mtype") == "seg"] or [side]


def inherited_attributes(element: Any, outer: Mapping[str, str]) -> dict[str, str]:
    """The attributes that hold within an element."""
    return {**outer, **{key: value for key, value in element.items() if key in _INHERITED}}


def _state(attributes: Mapping[str, str], *, has_target: bool) -> State:
    state, approved = attributes.get("state") or "", attributes.get("approved")
    if attributes.get("translate") == "no" or (approved == "yes" and not has_target):
        return "untranslatable"
    if not has_target or (state in _UNTRANSLATED and approved != "yes"):
        return "untranslated"
    origin = attributes.get("subState") or state or attributes.get("state-qualifier") or ""
    if approved != "yes" and (state.startswith("needs-") or origin in _UNREVIEWED):
        return "unreviewed"
    return "unapproved" if approved == "no" else "translated"


def _plain_text(side: Any) -> str:
    return _LOST_SPACE.sub(" ", "".join(text for _, text in _parts(side))).replace(_POINT, "").strip()  # of indentation


def lost_spaces(side: Any) -> set[Any]:
    """The codes without text in whose place the text has a space: they separate words."""
    points = [code for code, text in _parts(side) if text == _POINT]
    text = "".join(text for _, text in _parts(side))
    ends = {match.end() for match in _LOST_SPACE.finditer(text)}
    return {point for point, match in zip(points, re.finditer(_POINT, text), strict=True) if match.end() in ends}


def _parts(element: Any) -> Iterator[tuple[Any, str]]:
    """The parts of an element's text. A code has no text. A code that is a point may separate words."""
    if element.tag in _CODES:
        yield element, placeholder_of(element) or _POINT * (element.tag in _POINTS)
        return
    yield None, element.text or ""
    for child in element:
        yield from _parts(child)
        yield None, child.tail or ""


def placeholder_of(code: Any) -> str:
    """The placeholder that a code is; empty if it is none."""
    shown = (*map(code.get, _SHOWN_KEYS), "".join(code.itertext())) if code.tag in _POINTS else ()
    return next((each for each in shown if each and is_replaced(each)), "")
