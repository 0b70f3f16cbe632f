"""Reads HTML: the text between block elements, and the tags in it. Tokens end where the HTML standard says.

Everything that is not translated is copied, so doctype, attributes, white space and errors stay as they are; a parser
that builds a tree would write a different document. Python's own parser builds none, but before 3.11.14 it takes a
minute for 100 KB of unfinished tags. Here each token is read once: an unfinished tag, comment or script extends to the
end of the document. The tests compare the tokens with html5lib's. CDATA sections end as in XML.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping

from translate.config.data import Direction
from translate.config.languages import UNKNOWN
from translate.documents.segments import Item, Segment, Syntax
from translate.language_codes import find_language, standard_code

# Text does not continue across these tags. All others without a hyphen are inline, as in browsers.
_BOUNDARIES = {
    "address", "article", "aside", "audio", "base", "blockquote", "body", "br", "button", "canvas", "caption",
    "center", "col", "colgroup", "dd", "details", "dialog", "dir", "div", "dl", "dt", "embed", "fieldset",
    "figcaption", "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head",
    "header", "hgroup", "hr", "html", "iframe", "input", "legend", "li", "link", "main", "map", "menu", "meta",
    "nav", "noscript", "object", "ol", "optgroup", "option", "p", "param", "picture", "pre", "script", "search",
    "section", "select", "source", "style", "summary", "table", "tbody", "td", "template", "textarea", "tfoot",
    "th", "thead", "title", "tr", "track", "ul", "video",
}  # fmt: skip
_PLACEHOLDERS = {"code", "kbd", "math", "samp", "tt", "var"}  # replace words
_SCRIPTS = {"sub", "sup"}
_RUBY = {"rt", "rp"}  # how a word is pronounced
_UNENDED = {"dd", "dt", "li", "option", "p", "rp", "rt", "td", "th", "tr"}  # end at the next of their kind
_POINTS = _SCRIPTS | _RUBY | {"svg"}  # belong to the adjacent word
_BLOCKS = {"canvas", "iframe", "noscript", "object", "pre", "script", "style", "template", "textarea"}
_UNTOUCHED = _PLACEHOLDERS | _POINTS | _BLOCKS
_LETTERS = re.compile(r"(?<!\w)(?:[A-Z][A-Za-z]?|[cdkm]m|[a-z])\Z")  # at the end of units and formulas
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_ONE_TAG = r"""</?[a-z][^\s/>]*+
      (?:[\s/]++ | [^\s/>][^\s/>=]*+ (?:\s*+=\s*+(?:"[^"]*+"?+ | '[^']*+'?+ | [^\s>]*+))?+)*+ >?"""
_OPENING = re.compile(rf"(?!</){_ONE_TAG}", re.VERBOSE | re.IGNORECASE)
_MARKUP = re.compile(
    rf"""<!--(?:-?>|.*?(?:--!?>|\Z))
    | <!\[CDATA\[.*?(?:\]\]>|\Z)
    | <(?P<raw>script|style|textarea|iframe|noembed|noframes|xmp)(?=[\s/>]).*?(?=</(?P=raw)[\s/>]|\Z)
    | {_ONE_TAG}
    | <[!?/][^>]*>?""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_ATTRIBUTE = re.compile(  # name, quotation mark if there is one, and value
    r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(["'])?+((?(2).*?|[^\s"'>][^\s>]*+))(?(2)\2))?+""", re.DOTALL
)
_SHOWN = {"alt", "title", "placeholder", "aria-label", "aria-description"}  # attributes that a reader sees or hears
_LABELLED = {"optgroup", "option", "track"}
_NAMES = {"link", "script", "style"}  # a title of these is a name

HTML = Syntax(html.unescape, lambda text: [html.escape(character, quote=False) for character in text])
_QUOTED = Syntax(html.unescape, lambda text: list(map(html.escape, text)))


def read_html(text: str) -> Iterator[Segment]:
    """The segments of a document, without scripts, code and elements marked translate="no"."""
    items: list[Item] = []
    start = position = 0
    for item in [*fold_untouched(read_items(text)), Item("point", "", "p")]:
        position += len(item.raw)
        if item.tag not in _BOUNDARIES and "-" not in item.tag:
            items += [item] * bool(item.raw)
            continue
        if items:
            yield Segment(start, items, HTML)
        items, start = [], position


def read_attributes(text: str) -> Iterator[Segment]:
    """The quoted attributes whose text a reader sees or hears, as segments, also of elements that are copied."""
    position = 0
    for item in fold_untouched(read_items(text)):
        attributes = _attributes_of(item.raw)
        about = {_value(attributes, key).rpartition(":")[2] for key in ("name", "property")}  # such as og:title
        for name, match in attributes.items() if not _is_untranslated(attributes) else ():
            is_shown = name in _SHOWN and item.tag not in _NAMES
            is_shown |= name == "label" and item.tag in _LABELLED
            is_shown |= name == "content" and item.tag == "meta" and bool(about & {"description", "title"})
            if is_shown and match[2] and match[3]:
                yield Segment(position + match.start(3), [Item("text", match[3])], _QUOTED)
        position += len(item.raw)


def name_language(text: str, direction: Direction) -> str:
    """Replace the source's language by the target's in the attributes `lang` of elements whose text is translated."""
    parts, target = list[str](), standard_code(direction.target)
    for raw, tag in ((item.raw, item.tag) for item in fold_untouched(read_items(text))):
        for name in ("lang", "xml:lang") if not _is_untouched(tag, raw) else ():
            attribute = _attributes_of(raw).get(name)
            is_any = tag == "html" and direction.source == UNKNOWN
            if attribute and attribute[3] and (is_any or find_language(attribute[3], direction[:1], or_wider=True)):
                raw = raw[: attribute.start(3)] + target + raw[attribute.end(3) :]
        parts.append(raw)
    return "".join(parts)


def _attributes_of(raw: str) -> dict[str, re.Match[str]]:
    """The attributes of the tag at the beginning of `raw`, by name. Of an attribute given twice, the first counts."""
    attributes: dict[str, re.Match[str]] = {}
    if (tag := _TAG.match(raw)) and (opening := _OPENING.match(raw)):
        for match in _ATTRIBUTE.finditer(raw, tag.end(), opening.end()):
            attributes.setdefault(match[1].lower(), match)
    return attributes


def _value(attributes: Mapping[str, re.Match[str]], name: str) -> str:
    return (attributes[name][3] or "").lower() if name in attributes else ""


def _is_untranslated(attributes: Mapping[str, re.Match[str]]) -> bool:
    return _value(attributes, "translate") == "no" or "notranslate" in _value(attributes, "class").split()


def _is_untouched(tag: str, raw: str) -> bool:
    return tag in _UNTOUCHED or _is_untranslated(_attributes_of(raw))


def read_tag(raw: str) -> Item:
    """Read a tag as an item; anything else, such as a comment, is point markup."""
    match = _TAG.match(raw)
    if match is None:
        return Item("point", raw)
    tag = match[2].lower()
    if match[1]:
        return Item("close", raw, tag)
    is_closed = raw.endswith("/>") and not any(  # by a slash that is not the end of a value: <a href=../>
        not value[2] and value.end(3) == len(raw) - 1 for value in _attributes_of(raw).values()
    )
    return Item("point" if tag in _VOID or is_closed else "open", raw, tag)


def fold_untouched(items: Iterable[Item]) -> list[Item]:
    """Merge each element that is not translated into one item, and each unit or formula, such as m² and CO₂.

    A subscript or superscript after a longer word is a note.
    """
    folded: list[Item] = []
    element: list[Item] = []
    opened: list[str] = []  # tags of the element, and of the blocks that are open inside it
    for item in items:
        if element and _ends_before(item, opened):
            folded.append(_fold(element, folded))
            element, opened = [], []
        if not element and not (item.kind == "open" and _is_untouched(item.tag, item.raw)):
            folded.append(item)
            continue
        element.append(item)
        if item.kind == "open" and (not opened or item.tag == opened[0] or item.tag in _BOUNDARIES):
            opened.append(item.tag)
        elif item.kind == "close" and item.tag in opened:
            while opened.pop() != item.tag:
                pass
        if not opened:
            folded.append(_fold(element, folded))
            element = []
    if element:
        folded.append(_fold(element, folded))
    return folded


def _ends_before(item: Item, opened: list[str]) -> bool:
    """Whether this tag ends an element whose own end tag is missing; what it ends inside of that leaves `opened`."""
    if item.kind == "open":
        if item.tag in _UNENDED and item.tag == opened[-1]:
            opened.pop()
        return not opened
    is_stray = item.tag == "p" and opened[0] in _BOUNDARIES  # for browsers an empty paragraph
    return item.kind == "close" and item.tag in _BOUNDARIES | {"ruby"} and item.tag not in opened and not is_stray


def _fold(element: list[Item], before: list[Item]) -> Item:
    tag, raw = element[0].tag, "".join(item.raw for item in element)
    letters = _LETTERS.search(before[-1].raw) if tag in _SCRIPTS and before and before[-1].kind == "text" else None
    if letters is not None:
        before[-1] = Item("text", before[-1].raw[: letters.start()])
        return Item("placeholder", letters[0] + raw, tag)
    return Item("point" if tag in _POINTS else "placeholder", raw, tag)


def read_items(text: str) -> Iterator[Item]:
    """Divide a document into its tags and other markup, and the text between them."""
    position = 0
    for markup in _MARKUP.finditer(text):
        yield Item("text", text[position : markup.start()])
        yield read_tag(markup[0])
        position = markup.end()
    yield Item("text", text[position:])
