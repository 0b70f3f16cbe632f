"""XLIFF 1.2, 2.0 and 2.1: fills the targets of texts without a translation, and copies every other byte.

The parser's tree says what the file means, and the positions of the tags say where. A tree that is written again would
lose white space, CDATA sections and the quotation marks of attributes.
"""

import html
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from translate.config.data import Direction
from translate.config.languages import UNKNOWN
from translate.data.bilingual.xml_units import (
    LANGUAGE_KEYS,
    MACHINE,
    XliffText,
    inherited_attributes,
    lost_spaces,
    placeholder_of,
    segments_of,
    xliff_texts,
)
from translate.documents.catalog import tag_items
from translate.documents.interface import finish_label, remove_accelerator
from translate.documents.segments import Item, Reading, Segment, Syntax, Written
from translate.errors import InputError, as_input_error
from translate.language_codes import find_language, standard_code

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_TARGET_KEYS = {"file": "target-language", "xliff": "trgLang"}
_PAIRS = {"bpt": "ept", "bx": "ex", "sc": "ec", "sm": "em"}  # codes at the beginning and at the end of a part
_ELEMENTS = {"g", "pc", "mrk"}  # around a part
_MAX_DEPTH = 15  # of these elements; what is within more of them is copied
_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML cannot contain
_MARKUP = re.compile(r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""", re.DOTALL)
_ATTRIBUTE = re.compile(r"""\s([^\s=/>]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_ENCODING = re.compile(r"""<\?xml[^>]*?\sencoding\s*=\s*["'](?!utf-?8["'])([^"']*)""", re.IGNORECASE)


def _encode(text: str) -> list[str]:
    characters = _INVALID.sub("\N{REPLACEMENT CHARACTER}", text)
    return ["&#13;" if each == "\r" else html.escape(each, quote=False) for each in characters]


Edit = tuple[int, int, str]  # a part of the file, and what replaces it
_XML = Syntax(html.unescape, _encode)


class _Place(NamedTuple):
    """Where an element is in the file, and what holds within it."""

    start: int
    content: int  # after the start tag
    inherited: dict[str, str]  # attributes
    names_languages: Any  # the element around it that does, or could
    ends: list[int]  # before the end tag, and after it


class _File(NamedTuple):
    text: str
    places: dict[Any, _Place]  # by element
    texts: list[XliffText]

    def segment(self, element: Any) -> Segment:
        """A segment of a source."""
        items = self._items(element, lost_spaces(element))
        if not len(element):
            items = _text_items(remove_accelerator(element.text or "")[0])
        return Segment(self.places[element].content, items, _XML)

    def finish(self, element: Any, raw: str) -> str:
        """The translation of a segment as its source is written.

        Raises:
            InputError: It lacks words, placeholders or inline elements.
        """
        source = html.unescape("".join(item.raw for item in self._items(element, set())))
        text = finish_label(source, html.unescape(raw))
        return raw if len(element) else "".join(_encode(text))

    def _items(self, element: Any, spaced: Container[Any], depth: int = 0) -> list[Item]:
        """The content of an element. Codes are paired within the same element, so they surround whole elements."""
        items = _text_items(element.text)
        for child in element:
            start, content, *_, ends = self.places[child]
            raw, pair_id = self.text[start : ends[1]], child.get("rid") or child.get("startRef") or child.get("id")
            is_copied = child.get("mtype") == "protected" or child.get("translate") == "no" or depth == _MAX_DEPTH
            if child.tag in _ELEMENTS and not is_copied and content < ends[0]:
                items.append(Item("open", self.text[start:content], f"{start}"))
                items += self._items(child, spaced, depth + 1)
                items.append(Item("close", self.text[slice(*ends)], f"{start}"))
            elif child.tag in (*_PAIRS, *_PAIRS.values()):
                tag = f"{_PAIRS.get(child.tag, child.tag)} {pair_id} {self.places[element].start}"
                items.append(Item("open" if child.tag in _PAIRS else "close", raw, tag))
            else:
                is_word = child.tag in _ELEMENTS and content < ends[0] or placeholder_of(child)
                items.append(Item("placeholder" if is_word else "point", raw))
            items += [Item("space", "")] * (child in spaced)
            items += _text_items(child.tail)
        return items


def fill_xliff(text: str, *, again: bool = False, direction: Direction | None = None) -> Reading:
    """Find the texts of a file that are not translated.

    Args:
        again: Whether texts that nobody has reviewed are translated again.
        direction: The languages of the translations; None: those of the file.

    Raises:
        InputError: The file is not XLIFF in UTF-8, or has no text in these languages.
    """
    file, counts, chosen = _read(text), Counter[str](), list[XliffText]()
    given = direction or Direction(UNKNOWN, UNKNOWN)
    for each in file.texts:
        pairs = [pair for pair in zip(each.codes, given, strict=True) if pair[0] and pair[1] != UNKNOWN]
        is_other = not all(find_language(code, [known], or_wider=True) for code, known in pairs)
        counts["in other languages" if is_other else each.state] += 1
        chosen += [each] * (not is_other and each.state in ("untranslated", *["unreviewed"] * again))
    if file.texts and counts["in other languages"] == len(file.texts):
        found = ", ".join(dict.fromkeys("-".join(filter(None, each.codes)) for each in file.texts))
        raise InputError(f"the file translates {found}, and the model {given}: choose another run or other languages")
    segments = [file.segment(source) for each in chosen for source in segments_of(each.source)]

    def write(translated: Sequence[str]) -> Written:
        edits, made, unnamed, problems = list[Edit](), iter(translated), dict[Any, None](), list[str]()
        for each in chosen:
            raws = [(segment, next(made)) for segment in segments_of(each.source)]
            try:
                new = [file.finish(segment, raw) for segment, raw in raws]
            except InputError as error:
                line = text.count("\n", 0, file.places[each.source].start) + 1
                problems.append(f"line {line}: {''.join(each.source.itertext())!r:.60} is not filled: {error}")
                continue
            edits += _edits(file, each, new)
            counts.update({"filled": 1, each.state: -1})
            if not each.codes[1] and given.target != UNKNOWN:
                unnamed[file.places[each.element].names_languages] = None
        code = standard_code(given.target)
        edits += (_tag_edit(file, element, {_TARGET_KEYS[element.tag]: code}) for element in unnamed)
        parts, position = list[str](), 0
        for start, end, raw in sorted(edits):
            parts += [text[position:start], raw]
            position = end
        entries = {"filled": counts["filled"], **+counts}
        return Written("".join([*parts, text[position:]]), segments, entries, problems)

    return Reading(segments, write)


def _edits(file: _File, each: XliffText, new: Sequence[str]) -> Iterator[Edit]:
    """The target, which follows the source with its indentation, and the mark of a machine."""
    text, source = file.text, file.places[each.source]
    parts, position = list[str](), source.content
    for segment, raw in zip(segments_of(each.source), new, strict=True):
        parts += [text[position : file.places[segment].content], raw]
        position = file.places[segment].ends[0]
    parts.append(text[position : source.ends[0]])
    if each.target is None:
        start = end = max(file.places[side].ends[1] for side in each.element if side.tag in ("source", "seg-source"))
        before = text[max(source.start - 200, 0) : source.start]
        indent, space = before[len(before.rstrip()) :], each.source.get(_SPACE)
        tag = re.sub(r"(?:seg-)?source\b.*", "target", text[source.start : source.content], flags=re.DOTALL)
        tag += f' xml:space="{space}">' if space else ">"
    else:
        start, content, *_, (_, end) = file.places[each.target]
        indent, tag = "", re.sub("/?>$", ">", text[start:content])
    mark, is_new = MACHINE[each.element.tag], each.element.tag == "segment"
    tag = tag if is_new else _with_attributes(tag, mark)
    yield start, end, f"{indent}{tag}{''.join(parts)}</{tag[1:-1].split()[0]}>"
    if is_new:
        yield _tag_edit(file, each.element, mark)


def _tag_edit(file: _File, element: Any, attributes: Mapping[str, str]) -> Edit:
    start, content, *_ = file.places[element]
    return start, content, _with_attributes(file.text[start:content], attributes)


def _with_attributes(tag: str, attributes: Mapping[str, str]) -> str:
    """A start tag with these attributes after its others."""
    kept = _ATTRIBUTE.sub(lambda match: "" if match[1] in attributes else match[0], tag)
    end = len(kept) - 1 - kept.endswith("/>")
    return kept[:end] + "".join(f' {key}="{value}"' for key, value in attributes.items()) + kept[end:]


def _text_items(text: str | None) -> list[Item]:
    """The items of a text, which may be HTML."""
    return [item._replace(raw="".join(_encode(item.raw))) for item in tag_items(text or "")]


def _read(text: str) -> _File:
    """Parse a file, and find the tags of its elements in it."""
    if encoding := _ENCODING.match(text):
        hint = "convert the file, and change its first line"
        raise InputError(f"line 1: encoding={encoding[1]!r}, where UTF-8 is needed: {hint}")
    from defusedxml import DTDForbidden
    from defusedxml.ElementTree import fromstring

    with as_input_error("cannot be read as XLIFF"):
        try:
            root = fromstring(text, forbid_dtd=True)
        except DTDForbidden as error:
            problem = "the file has a document type declaration, whose entities could expand without limit"
            raise InputError(f"{problem}: remove <!DOCTYPE …>") from error
        elements, places = root.iter(), dict[Any, _Place]()
        opened = [_Place(0, 0, {}, root, [])]
        for match in _MARKUP.finditer(text):
            if match[0][1] in "!?":
                continue
            if match[0][1] != "/":
                element, outer = next(elements), opened[-1]
                element.tag = element.tag.rpartition("}")[2]  # without its namespace
                inherited = inherited_attributes(element, outer.inherited)
                holder = element if element.tag == "file" and "srcLang" not in inherited else outer.names_languages
                places[element] = _Place(*match.span(), inherited, holder, [])
                opened.append(places[element])
            if match[0][1] == "/" or match[0].endswith("/>"):
                opened.pop().ends[:] = match.start() if match[0][1] == "/" else match.end(), match.end()
        if root.tag != "xliff":
            raise InputError(f"the file is not XLIFF: its root element is <{root.tag}>, not <xliff>")
        units = [element for element in root.iter() if element.tag in LANGUAGE_KEYS]
        return _File(text, places, [each for unit in units for each in xliff_texts(unit, places[unit].inherited)])
