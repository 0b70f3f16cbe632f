"""Placeholders: the parts of a text that its translation must contain too, such as `%s`, `{name}`, `<b>` and URLs.

This is the one definition, for corpora, decoding, documents and evaluation. A text is read in linear time.
"""

import re
from collections import Counter
from collections.abc import Callable

_LETTER = r"[^\W\d_]"
# Conversions of printf, which take the arguments in order. Other letters belong to strftime or to a program. `%1` is
# Qt's, except before a precision or a conversion that ends the word.
_WIDTH = r"(?:[2-9]|[1-9]\d++|1(?=\.\d|[sdiuf](?![^\W\d_]|%))|\*(?:\d++\$)?)?(?:\.(?:\d++|\*(?:\d++\$)?))?"
_DIRECTIVE = rf"(?!-[A-Za-z])[-+#0']*+{_WIDTH}(?:(?:hh?|ll?|I64|I32|[Lqjzt])?[sdiuxXofFgGeEc@]|<PRI\w++>)"
# Letters may follow `%s`, `%d`, `%@` and a width, and units may follow any directive: `%ige` is a word.
_END = rf"(?:(?<=[sd@>])|(?<=[\d*.][iufgxX])|(?!{_LETTER})|(?=(?:px|pt|m?s|x|[kKMGT]i?B|[kMG]?Hz)(?!{_LETTER})))"
# Emoji without a variation selector: those that are shown as pictures, hearts and faces, but no ornaments and arrows.
_SHOWN = "⌚⌛⏩-⏬⏰⏳◽◾☔☕☹☺♈-♓♿⚓⚡⚪⚫⚽⚾⛄⛅⛎⛔⛪⛲⛳⛵⛺⛽✅✊✋✨❌❎❓-❕❗❤➕-➗➰➿⬛⬜⭐⭕"
_PICTURE = (
    rf"(?:[\U0001f1e6-\U0001f1ff]{{2}}|[0-9\#*]\ufe0f?\u20e3|(?:[©®\u203c-\u3299](?=[\ufe0f\U0001f3fb-\U0001f3ff])"
    rf"|[{_SHOWN}🀄🃏🆎-🉑🌀-🙏🚀-🛿🟠-🟰🤌-🧿🩰-🫿])[\ufe0f\U0001f3fb-\U0001f3ff]*+[\U000e0020-\U000e007f]*+)"
)
_LATIN = r"A-Za-z\d_\u00c0-\u024f"  # an address ends before a quotation mark, an ellipsis and a character of Chinese
_IN_URL = rf"\([{_LATIN}\#$%+/=@~.,;:!?*&-]*+\)|[(.,;:!?*]*+(?:[{_LATIN}\#$%+/=@~-]|&(?!(?:[lg]t|quot|nbsp);))"
_ATTRIBUTE = r"""\s++[\w:.-]++\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=]++)"""
_BRACES = r"\{\ ?(?:[\w.@$-]|\[\w*+\])*+(?:,\s?\w++(?:,\s?[^{}\n]{1,60})?)?(?:![rsa])?(?::[^{}\n]{0,40})?\ ?\}"
_KINDS = rf"""
    (?P<percentage>\d[ \u00a0\u202f]?%(?!{_DIRECTIVE}(?!{_LETTER}) | [%\d] | \(\w++\)))  # which is text
  | (?P<address>(?:(?:https?|ftps?|file)://|www\.)(?:{_IN_URL}|\{{\{{?[\w.-]*+\}}?\}})++
    | (?<![{_LATIN}.+-])[{_LATIN}.+-]++@[{_LATIN}-]++(?:\.[{_LATIN}-]++)++)
  | (?P<tag></?(?P<element>[A-Za-z][\w:.-]*+)(?P<complete>(?:{_ATTRIBUTE})*+\s*+/?>))
  | (?P<entity>&(?!amp;)(?:[A-Za-z]\w{{1,31}}|\#\d{{1,7}}|\#[xX][0-9a-fA-F]{{1,6}});)
  | (?P<emoji>{_PICTURE}(?:\u200d(?:{_PICTURE}|[\u2600-\u27bf]))*+)
  | (?P<name>\{{\{{[^{{}}\n]{{1,80}}\}}\}} | \$\{{[^{{}}\n]{{1,80}}\}} | [%\#]?{_BRACES} | \$\(\w++\)
    | \$t\([^()\n]{{1,80}}\) | (?<![\w$])\$(?:[A-Z][A-Z\d_]++\$(?!\w)|[A-Za-z_]\w*+)
    | %[A-Z_][A-Z\d_]{{2,}}+% | %(?!{_DIRECTIVE}%)[A-Za-z][A-Za-z\d_]{{2,}}+%(?![\w%])
    | %(?:\(\w++\)[-+\#0\ ]*+\d*+(?:\.\d++)?[a-zA-Z] | <(?!PRI)\w++>[-+0]*+\d*+(?:\.\d++)?[sdiufgeExXob](?!{_LETTER})))
  | (?P<directive>%(?P<number>\d++\$)?{_DIRECTIVE}{_END})
  | (?P<other>%% | %L?\d{{1,2}}(?!\d) | %[-_^\#0EOL:]?[A-Za-z](?!{_LETTER}))
  | (?P<message>\{{\s*+\w++\s*+,\s*+(?:plural|select|selectordinal)\s*+,(?:\s*+offset:\d++)?)
"""
_IN_TEXT = re.compile(_KINDS, re.VERBOSE)
# In a message of ICU, the names of its branches, `#` and all braces are placeholders; the rest of a branch is text.
_IN_MESSAGE = re.compile(r"(?P<open>(?<![^\s{},])[^\s{},]++\s*+\{|\{)|(?P<close>\})")
_IN_BRANCH = re.compile(rf"{_KINDS} | (?P<open>\{{) | (?P<close>\}}) | (?P<count>\#)", re.VERBOSE)
_SIGN = re.compile(r"[%{$<@&\u231a-\u2b55\U0001f000-\U0001faff]|://|www\.|\ufe0f|\u20e3")
MARKUP = ("tag", "entity")
"""The kinds of placeholders that a program does not replace with text."""
TAGS = "a b big body br code dd dl dt em font h1 h2 h3 html i li ol p pre qt small span strong sub sup td tr tt u ul"
"""Elements of HTML and Pango, which need no end to be placeholders; `<name>` may be text."""
_KNOWN = {*TAGS.split(), "hr", "img", "s", "wbr"}


def match_placeholders(text: str) -> list[re.Match[str]]:
    """Find the placeholders of a text; the `lastgroup` of a match is its kind.

    They are format directives of printf, Python, Qt and strftime, variables, messages of ICU, tags of XML, entities,
    URLs, e-mail addresses and emoji. A percent sign after a number is text, and so is the tag of an element that is
    unknown and has no start or no end, such as `<none>`.
    """
    found: list[re.Match[str]] = []
    patterns, position = [_IN_TEXT], 0 if _SIGN.search(text) else len(text)
    while match := patterns[-1].search(text, position):
        position = match.end()
        match match.lastgroup:
            case "message":
                patterns.append(_IN_MESSAGE)
            case "open":
                patterns.append(_IN_BRANCH)
            case "close":
                patterns.pop()
        if match.lastgroup != "percentage":
            found.append(match)
    tags = {(match["element"], match[0].startswith("</")) for match in found if match.lastgroup == "tag"}
    known = _KNOWN | {element for element, is_end in tags if (element, not is_end) in tags}
    return [
        match for match in found if match.lastgroup != "tag" or match["complete"] != ">" or match["element"] in known
    ]


def replace_placeholders(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    """A text with what the function gives for each placeholder in its place."""
    parts, position = list[str](), 0
    for match in match_placeholders(text):
        parts += [text[position : match.start()], replace(match)]
        position = match.end()
    return "".join([*parts, text[position:]])


def is_replaced(text: str) -> bool:
    """Whether a text consists of placeholders for which a program or a reader puts other text."""
    return text != "" and not replace_placeholders(text, lambda match: match[0] * (match.lastgroup in MARKUP))


def find_placeholders(text: str) -> list[str]:
    """The placeholders of a text, in order; see `match_placeholders`."""
    return [match[0] for match in match_placeholders(text)]


def have_same_placeholders(source: str, target: str) -> bool:
    """Whether two texts have the same placeholders, equally often.

    Their order is free, but for directives of printf without a position: the second `%s` is equal to `%2$s`. White
    space, the variation selector of an emoji and the slash at the end of a tag or a URL make no difference.
    """
    return _count_placeholders(source) == _count_placeholders(target)


def _count_placeholders(text: str) -> Counter[str]:
    counts, place = Counter[str](), 0
    for match in match_placeholders(text):
        written = "".join(match[0].replace("\ufe0f", "").split()).rstrip("/>")
        if match.lastgroup == "directive" and match["number"] is None:
            place += 1
            written = f"%{place}${written[1:]}"
        counts[written] += 1
    return counts
