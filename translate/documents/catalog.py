"""Gettext catalogs as documents: fills what is not translated in a PO file, and copies every other byte."""

import re
from collections import Counter
from collections.abc import Sequence, Set
from itertools import accumulate, islice
from typing import Any, NamedTuple

import polib  # type: ignore[import-untyped]

from translate.config.data import Direction
from translate.config.languages import UNKNOWN
from translate.data.bilingual.catalogs import STRING, parse_catalog
from translate.documents.html import HTML, fold_untouched, read_tag
from translate.documents.interface import end_like, finish_label, has_words, remove_accelerator
from translate.documents.lines import read_text
from translate.documents.segments import Item, Reading, Segment, Written, replace_segments
from translate.errors import InputError
from translate.language_codes import find_language
from translate.placeholders import match_placeholders, replace_placeholders

_TARGETS = re.compile(rf"^[^\S\n]*msgstr(?:\[\d\])?\s*{STRING}(?:\s*(?:msgstr\[\d\]\s*)?{STRING})*", re.MULTILINE)
_NUMBERED = {"c-format", "objc-format", "php-format"}  # take %2$s for the second argument
_NUMBER = re.compile(r"%(\d+)\$")


class _Form(NamedTuple):
    """A text to translate, which is a source or the source of a plural form."""

    source: str
    plain: str  # without its accelerator, and with numbers in directives: the second %s is %2$s
    segments: list[Segment]  # of `plain`
    words: Set[str]  # of the catalog

    def finish(self, translated: Sequence[str], flags: Sequence[str]) -> str:
        """The translation as the source is written.

        Raises:
            InputError: Something is missing, or msgfmt would refuse it.
        """
        ends = [end_like(segment.raw, new) for segment, new in zip(self.segments, translated, strict=True)]
        if not all(has_words(segment.raw) <= has_words(new) for segment, new in zip(self.segments, ends, strict=True)):
            raise InputError("a part of the translation has no words")
        text = replace_segments(self.plain, self.segments, ends)
        if not _NUMBER.search(self.source):
            numbers = [int(number) for number in _NUMBER.findall(text)]
            if numbers == sorted(numbers):
                text = _NUMBER.sub("%", text)
            elif _NUMBERED.isdisjoint(flags) or "%" in re.sub(r"%%|%\d+\$", "", text):
                raise InputError("the placeholders of the translation are in another order")
        return finish_label(self.source, text, flags=flags, words=self.words)


class _Gap(NamedTuple):
    """An entry to fill: where it is in the document, and the forms to translate, by number."""

    entry: Any
    block: Segment
    state: str
    forms: dict[int, _Form]

    def write(self, targets: dict[int, str]) -> str:
        """The entry with more translations, marked as fuzzy."""
        newline = "\r\n" if "\r\n" in self.block.raw else "\n"
        plural = {form: target for form, target in self.entry.msgstr_plural.items() if target} | targets
        filled = polib.POEntry(msgstr_plural=plural) if self.entry.msgid_plural else polib.POEntry(msgstr=plural[0])
        strings = str(filled).partition("\n")[2].strip().replace("\n", newline)  # without the msgid
        strings = re.sub(r"[\0-\x08\x0e-\x1f\x7f]", lambda match: f"\\{ord(match[0]):03o}", strings)
        block = re.sub(r"^#\|.*\n", "", self.block.raw, flags=re.MULTILINE)
        if "fuzzy" not in self.entry.flags:
            old, new = (r"^[^\S\n]*#,", "#, fuzzy,") if self.entry.flags else (r"^(?=\s*msg)", f"#, fuzzy{newline}")
            block = re.sub(old, new, block, count=1, flags=re.MULTILINE)
        return _TARGETS.sub(lambda match: strings, block, count=1)


def fill_catalog(text: str, *, again: bool = False, direction: Direction | None = None) -> Reading:
    """Find the texts of a PO file that are not translated.

    Args:
        again: Whether fuzzy translations are made again.
        direction: The languages of the translations; None: those of the catalog.

    Raises:
        InputError: The text is not PO in UTF-8, or has other languages; or its header has no rule for plural forms.
    """
    catalog, counts, gaps = parse_catalog(text, "the catalog"), Counter({"filled": 0}), list[_Gap]()
    charset = catalog.header.get("Content-Type", "").rpartition("charset=")[2]
    if charset.lower() not in ("utf-8", "utf8"):
        raise InputError(
            f"the catalog: its header names the charset {charset!r}, and translations need UTF-8: msgconv"
            " --to-code=UTF-8 converts it, and msginit makes a catalog of a template (.pot)"
        )
    pairs = zip(catalog.languages(), direction or (), strict=False)
    if any(UNKNOWN not in pair and not find_language(pair[0], pair[1:], or_wider=True) for pair in pairs):
        raise InputError(
            f"the catalog: it translates {catalog.languages()}, and the model {direction}: choose another run or other"
            " languages, or correct the header (Language, X-Source-Language)"
        )
    texts = " ".join(f"{entry.msgid} {entry.msgid_plural}" for entry in catalog.entries)
    words = {word.strip("_") for word in re.findall(r"\w+", texts.lower())}
    lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    starts = [lines[max(entry.linenum - 1, 0)] for entry in catalog.entries]
    for entry, start, end in zip(catalog.entries, starts, [*starts[1:], len(text)], strict=False):
        state, sources, targets = catalog.forms(entry)
        counts[state] += 1
        if state in ("untranslated", *["fuzzy"] * again):
            missing = [form for form, target in enumerate(targets) if state == "fuzzy" or not target]
            forms = {form: _read_form(sources[form], words) for form in missing}
            gaps.append(_Gap(entry, Segment(start, [Item("text", text[start:end])]), state, forms))

    def write(translated: Sequence[str]) -> Written:
        made, blocks, problems = iter(translated), list[str](), list[str]()
        for gap in gaps:
            new = {number: list(islice(made, len(form.segments))) for number, form in gap.forms.items()}
            try:
                targets = {number: form.finish(new[number], gap.entry.flags) for number, form in gap.forms.items()}
                blocks.append(gap.write(targets))
                counts.update({"filled": 1, gap.state: -1})
            except InputError as error:
                blocks.append(gap.block.raw)
                problems.append(f"line {gap.entry.linenum or 1}: {gap.entry.msgid!r:.60} is not filled: {error}")
        return Written(replace_segments(text, [gap.block for gap in gaps], blocks), segments, +counts, problems)

    each_form = [(gap.block.start, form) for gap in gaps for form in gap.forms.values()]
    segments = [segment._replace(start=place) for place, form in each_form for segment in form.segments]
    return Reading(segments, write)


def _read_form(source: str, words: Set[str]) -> _Form:
    """Divide a source into lines, or into paragraphs if a line continues the one before it."""
    numbered = source
    directives = [match for match in match_placeholders(source) if match.lastgroup == "directive"]
    if len(directives) > 1 and not any(match["number"] or "*" in match[0] for match in directives):
        places = {match.start(): f"%{place}${match[0][1:]}" for place, match in enumerate(directives, start=1)}
        numbered = replace_placeholders(source, lambda match: places.get(match.start(), match[0]))
    plain = remove_accelerator(numbered, words)[0]
    is_wrapped = any(match[1].islower() for match in re.finditer(r"[\w,;]\n([^\W\d_])", plain))
    segments = [one._replace(items=tag_items(one.raw)) for one in read_text(plain, by_line=not is_wrapped)]
    segments = [one._replace(syntax=HTML) if len(one.items) > 1 else one for one in segments]
    return _Form(source, plain, segments, words)


def tag_items(raw: str) -> list[Item]:
    """The tags of a text, and the text between them."""
    items, position = list[Item](), 0
    for match in match_placeholders(raw):
        if match.lastgroup == "tag":
            items += [Item("text", raw[position : match.start()]), tag := read_tag(match[0])]
            items += [Item("space", "")] * (tag.tag in ("br", "p"))
            position = match.end()
    return [item for item in fold_untouched([*items, Item("text", raw[position:])]) if item.raw or item.kind == "space"]
