"""Where sentences end: after a mark such as a full stop, unless the text shows that the sentence goes on.

The words that decide are data, `sentences.json`: the short forms that Unicode's CLDR lists for a language, and our own.
The server's page splits text by the same data and the same rules, in `server/page/words.js`.
"""

import functools
import itertools
import json
import re
from pathlib import Path
from typing import NamedTuple

from translate.config.languages import UNKNOWN
from translate.language_codes import standard_code

DATA = Path(__file__).with_name("sentences.json")
ENDS, WIDE_ENDS = ".!?…؟۔։።", "。！？｡।॥။។៕།༎"  # no space need follow the second
_QUOTES, _CJK = r"\"'»«”“’‘›‹", "[々぀-ヿ㐀-鿿豈-﫿]"
_TAG = r"[a-zA-Z][^<>]{0,200}>"
_CLOSER = rf"[{_QUOTES})\]}}」』）》〉】〕]|[ \xa0\u202f](?:»(?!\w)|།)|</{_TAG}|\[\d{{1,3}}\]"
CLOSING = rf"(?:{_CLOSER})*"  # in French, a space precedes »
_MARK = re.compile(
    rf"(?<=[{ENDS}])(?:{_CLOSER}|[*_])*\s+(?!\s|[{ENDS}](?!\w))"  # not within ". . ."
    rf"|(?<=[{WIDE_ENDS}])(?![{WIDE_ENDS}]){CLOSING}\s*"
    rf"|(?:(?<={_CJK}[!?])|(?<=[!?]{{2}})|(?<=……)){CLOSING}(?=[「『（《〈【]?{_CJK})"
)
_WORD = re.compile(r"\w+")
_OPENING = re.compile(rf"(?:[{_QUOTES}„‚(\[{{¿¡#$€£+*_–—\s-]|<{_TAG})*")
_BORDER = re.compile(rf"[{_QUOTES}„‚()\[\]{{}}<>*/–—\s]|(?<=\.)-|-(?=[^\W\d_]{{2}})")  # Art.-Nr, but USB-C
_OPENED, _CLOSED = re.compile(r"(?:\{[^{}]{0,80}|</?[a-zA-Z][^<>]{0,200})\Z"), re.compile(r"[^{}<>]{0,200}[}>]")
_INITIAL = re.compile(r"[^\W\d_]|(?![ap]\.m)[a-z](?:\.[^\W\d_])+")  # J, z.B, e.g
_DOTTED = re.compile(r"[^\W\d_]{1,3}(?:\.[^\W\d_]{1,3})+")  # U.S, p.m, Ph.D
_ORDINAL = re.compile(r"(?:\d{1,2}\.)?\d{1,2}|\d{3}|[IVXLC]+")  # more digits are a year or an amount
_NUMBER = re.compile(r"\d\w*|[IVXLC]{2,}|[VX]")  # I is a word
_LONGEST = 24  # characters of a short form


class _Words(NamedTuple):
    """The words of a language that decide about the full stop after them or before them."""

    short_forms: frozenset[str]  # no sentence ends after these
    before_numbers: frozenset[str]  # in lower case: none ends between these and a number
    before_small: frozenset[str]  # short forms before a small letter only: usw, Max
    starters: frozenset[str]  # in lower case: they begin a sentence even after a short form
    has_ordinals: bool  # whether a full stop makes an ordinal of a number

    def precedes_numbers(self, word: str) -> bool:
        """Whether a word is a short form that precedes numbers, such as Fig or Bahnhofstr."""
        return word.lower() in self.before_numbers or word.endswith("str")


def is_sentence(text: str) -> bool:
    """Whether a text ends as a sentence does, unlike a title."""
    return bool(re.search(rf"[{ENDS}{WIDE_ENDS}]\W*$", text[-20:]))


def split_sentences(text: str, language: str = UNKNOWN) -> list[str]:
    """The sentences of a text, each with the spaces after it; joined they are the text. Each of several has a word."""
    bounds, words, has_capitals = [0], _read_words(language), text != text.lower()
    word = _WORD.search(text)
    for mark in _MARK.finditer(text):
        if word and word.start() < mark.start() and _ends_sentence(text, mark, words, has_capitals):
            word = _WORD.search(text, mark.end())
            bounds += [mark.end()] if word else []
    return [text[start:end] for start, end in itertools.pairwise([*bounds, len(text)])]


@functools.lru_cache(maxsize=1000)
def _read_words(language: str) -> _Words:
    """The words of a language; the short forms of German and English for one without a list."""
    content, code = json.loads(DATA.read_bytes()), standard_code(language).partition("-")[0]
    listed, ours = content["cldr"]["short_forms"], content["ours"]
    entries = listed.get(code) or listed["de"] + listed["en"]
    forms = {part.removesuffix(".") for entry in entries for part in re.split("[ -]", entry)}
    forms = {*ours["short_forms"], *(form for form in forms if form.lower() not in ours["words"])}
    return _Words(
        frozenset(forms),
        frozenset(form.lower() for form in forms.union(ours["before_numbers"])).difference(ours["before_small"]),
        frozenset(ours["before_small"]),
        frozenset(ours["starters"]),
        code in ours["ordinals"],
    )


def _ends_sentence(text: str, mark: re.Match[str], words: _Words, has_capitals: bool) -> bool:
    """Whether a sentence ends at a mark.

    None ends before a small letter ("usw. und"), unless the text has no capitals; within a placeholder or a tag; at the
    full stop of an initial ("J. Weber"), a short form ("Dr. Weber", "U.S. Army") or an ordinal ("3. Mai"), unless a
    word follows that begins a sentence ("Apple Inc. The"); between a short form and a number ("max. 10"); or after an
    item's number ("1. Open").
    """
    stop, begin = mark.start() - 1, _OPENING.match(text, mark.end()).end()  # type: ignore[union-attr]
    following = _WORD.match(text, begin)
    first = following[0] if following else " "
    is_small = first[0] != first[0].title()  # unlike a letter of a script without capitals
    is_within = _OPENED.search(text, max(0, stop - 200), mark.end()) and _CLOSED.match(text, mark.end())
    if is_within or (is_small and (has_capitals or text.endswith(("..", " .", "…"), 0, stop + 1))):
        return False
    last = _BORDER.split(text[max(0, stop - _LONGEST) : stop])[-1]
    if text[stop] != "." or not last or last.endswith("."):
        return True
    before = text[max(0, stop - len(last) - _LONGEST) : stop - len(last)].rstrip()
    is_started = first.lower() in words.starters and not is_small
    if _INITIAL.fullmatch(last):
        return is_started and last.isupper() and not before.endswith(".")  # "Vitamin C. It", but "z. B. Sie"
    if _NUMBER.fullmatch(first) and words.precedes_numbers(last):
        return False
    if _ORDINAL.fullmatch(last):
        if before.endswith(".") and words.precedes_numbers(_BORDER.split(before[:-1])[-1]):
            return True  # the number of a page or a figure
        is_item = not before or not (before[-1].isalnum() or before[-1] == ",")
        return not is_item and (is_started or not words.has_ordinals)
    is_short = _DOTTED.fullmatch(last) or not words.short_forms.isdisjoint((last, last.lower()))
    return is_started or not is_short or (last in words.before_small and not is_small)
