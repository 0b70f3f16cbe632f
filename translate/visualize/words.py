"""Where words are in a text of any script, with spaces between words or without."""

import re
import unicodedata


def find_words(text: str, pattern: str) -> list[tuple[int, int]]:
    """Start and end of each word.

    Args:
        pattern: A regular expression for the kinds of a word's characters.
    """
    return [word.span() for word in re.finditer(pattern, character_kinds(text))]


def character_kinds(text: str) -> str:
    """The kind of each character, as one letter.

    It is the first letter of the character's Unicode category, such as L for letters, M for marks on letters, N for
    digits, P for punctuation, S for symbols and Z for spaces. But H is a Chinese or Japanese character, which is a word
    by itself, and - is a hyphen.
    """
    return "".join(map(_kind, text))


def _kind(character: str) -> str:
    kind = unicodedata.category(character)[0]
    if kind == "L" and "\u3040" <= character <= "\u9fff":
        return "H"
    return "-" if character == "-" else kind
