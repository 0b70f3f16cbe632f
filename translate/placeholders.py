"""Placeholders: the parts of a text that its translation must contain too, such as `%s`, `{name}`, `<b>` and URLs.

This is the one definition, for corpora, decoding, documents and evaluation. A text is read in linear time.
"""

import re
from collections import Counter

_LETTER = r"[^\W\d_]"
# Conversions of printf, which take the arguments in order. Other letters belong to strftime or to a program.
_DIRECTIVE = r"[-+#0']*+(?:[2-9]|[1-9]\d++|\*)?(?:\.(?:\d++|\*))?(?:hh?|ll?|[Lqjzt])?[sdiuxXofFgGeEc@]"
_PICTURE = (
    r"(?:[\U0001f1e6-\U0001f1ff]{2}|[0-9\#*]\ufe0f?\u20e3|[©®\u203c-\u3299]\ufe0f"
    r"|[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f000-\U0001faff]"
    r"[\ufe0f\U0001f3fb-\U0001f3ff]*+[\U000e0020-\U000e007f]*+)"
)
_ATTRIBUTE = r"""\s++[\w:.-]++\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=]++)"""
_BRACES = r"\{\ ?(?:[\w.@$-]|\[\w*+\])*+(?:,\s?\w++(?:,\s?[^{}\n]{1,60})?)?(?:![rsa])?(?::[^{}\n]{0,40})?\ ?\}"
_KINDS = rf"""
    (?P<percentage>\d[ \u00a0\u202f]?%(?!{_DIRECTIVE}(?!{_LETTER}) | [%\d] | \(\w++\)))  # which is text
  | (?P<address>(?:(?:https?|ftps?|file)://|www\.)[^\s<>"')\]]*[^\s<>"')\].,;:!?]
    | (?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++)
  | (?P<tag></?(?P<element>[A-Za-z][\w:.-]*+)(?P<complete>(?:{_ATTRIBUTE})*+\s*+/?>))
  | (?P<entity>&(?!amp;)(?:[A-Za-z]\w{{1,31}}|\#\d{{1,7}}|\#[xX][0-9a-fA-F]{{1,6}});)
  | (?P<emoji>{_PICTURE}(?:\u200d{_PICTURE})*+)
  | (?P<name>\{{\{{[^{{}}\n]{{1,80}}\}}\}} | \$\{{[^{{}}\n]{{1,80}}\}} | [%\#]?{_BRACES} | \$\(\w++\)
    | (?<![\w$])\$[A-Za-z_]\w*+ | %[A-Z_][A-Z\d_]{{2,}}+% | %\(\w++\)[-+\#0\ ]*+\d*+(?:\.\d++)?[a-zA-Z])
  | (?P<directive>%(?P<number>\d++\$)?{_DIRECTIVE}(?:(?<=[sdiufgxX@])|(?!{_LETTER})))
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
_UNPAIRED = {"br", "hr", "img", "li", "p", "wbr"}  # elements of HTML without an end tag


def match_placeholders(text: str) -> list[re.Match[str]]:
    """Find the placeholders of a text; the `lastgroup` of a match is its kind.

    They are format directives of printf, Python, Qt and strftime, variables, messages of ICU, tags of XML, entities,
    URLs, e-mail addresses and emoji. A percent sign after a number is text, and so is an element without an end, such
    as `<none>`.
    """
    found: list[re.Match[str]] = []
    if not _SIGN.search(text):
        return found
    patterns, position = [_IN_TEXT], 0
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
    ended = _UNPAIRED | {match["element"] for match in found if match[0].startswith("</")}
    return [
        match for match in found if match.lastgroup != "tag" or match["complete"] != ">" or match["element"] in ended
    ]


def is_replaced(text: str) -> bool:
    """Whether a text consists of placeholders for which a program or a reader puts other text."""
    return text != "" and text == "".join(
        match[0] for match in match_placeholders(text) if match.lastgroup not in MARKUP
    )


def find_placeholders(text: str) -> list[str]:
    """The placeholders of a text, in order; see `match_placeholders`."""
    return [match[0] for match in match_placeholders(text)]


def have_same_placeholders(source: str, target: str) -> bool:
    """Whether two texts have the same placeholders, equally often.

    Their order is free, but for directives of printf without a position: the second `%s` is equal to `%2$s`. Emoji may
    be without a variation selector, and a tag may have a space before its end.
    """
    return _count_placeholders(source) == _count_placeholders(target)


def _count_placeholders(text: str) -> Counter[str]:
    counts, place = Counter[str](), 0
    for match in match_placeholders(text):
        written = match[0]
        match match.lastgroup:
            case "directive" if match["number"] is None:
                place += 1
                written = f"%{place}${written[1:]}"
            case "emoji":
                written = written.replace("\ufe0f", "")
            case "tag":
                written = re.sub(r"\s*/?>$", ">", written)
            case "open":
                written = "".join(written.split())
        counts[written] += 1
    return counts
