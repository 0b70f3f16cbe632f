"""Text of interfaces: short strings without a full stop, in which a colon, an accelerator and a tag mean something.

`File`, `_File`, `File:` and `File…` are four strings; a name or a code is its own translation; and `Text Editor` is in
another language than `Texteditor`. So fewer pairs are faults than among sentences.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from translate.placeholders import match_placeholders, replace_placeholders
from translate.trigrams import FEW_PAIRS

_SHORT = 40  # characters. Of 31,000 strings of 80 programs, 72 % are that short and do not end like a sentence
_SENTENCE_END = re.compile(r"(?<![.])[.!?。！？।]\W*\Z")
_STOP = re.compile(r"(?<![.])[.]\Z")
_WORD = re.compile(r"[^\W\d_]+")
BREAKS = re.compile("[\r\n\0]+")
"""What cells of tables may contain, and lines of text files may not."""
_SENTENCE_WORDS = 3  # at least, in small letters: a name, a formula or a list of codes has fewer
_QUOTES = dict.fromkeys(map(ord, "\"'`´‘’‚‛“”„‟«»‹›"), "'")


def is_interface(*sides: Sequence[str]) -> bool:
    """Whether most lines of a corpus are short and have no full stop at the end; False if it has few lines."""
    strings = [_is_short(line) for side in sides for line in side]
    return 2 * sum(strings) > len(strings) >= 2 * FEW_PAIRS


def hash_strings(strings: Sequence[str], *, is_near: bool) -> NDArray[np.int64]:
    """Hashes of strings with single spaces; near ones do not depend on the kind of quotes and on a final full stop."""
    keys = (" ".join(string.split()) for string in strings)
    if is_near:
        keys = (_STOP.sub("", unicodedata.normalize("NFKC", key).translate(_QUOTES)) for key in keys)
    return np.fromiter(map(hash, keys), np.int64)  # of an empty one 0


def find_copies(sources: Sequence[str], is_equal: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The positions of pairs whose sides are equal because nobody translated them.

    Labels, names and codes of up to three words, such as `OK`, `Export` and `HTTP/2`, often are their own translations.
    Up to one pair in twenty may be such a label: first those with a word, as `%d:%02d` has none, evenly spaced over
    them. The others count as copies, and so does what ends like a sentence.
    """
    equal = np.flatnonzero(is_equal)
    strings = map(sources.__getitem__, equal.tolist())
    labels = equal[np.fromiter((_is_short(string) and len(string.split()) <= 3 for string in strings), np.bool_)]
    has_word = np.fromiter((any(len(word) > 1 for word in _words(sources[label])) for label in labels), np.bool_)
    copies, num_left = equal, len(sources) // 20
    for group in (labels[has_word], labels[~has_word]):
        num_kept = min(len(group), num_left)
        copies = np.setdiff1d(copies, group[np.arange(num_kept) * len(group) // max(1, num_kept)])
        num_left -= num_kept
    return copies


def is_untranslated(source: str, _: str) -> bool:
    """Whether a string that equals its translation reads like a sentence; of a few words, `find_copies` has said so."""
    words = source.split()
    return len(words) <= 3 or sum(word.isalpha() and word.islower() for word in words) >= _SENTENCE_WORDS


def has_other_tags(source: str, target: str) -> bool:
    """Whether the tags of a string are not those of its translation, in whatever order; an address may be another."""
    return _tags(source) != _tags(target)


def own_words(line: str, other: str) -> str:
    """The words of a line that the other side does not have, which show its language, without placeholders."""
    known = {word.casefold() for word in _words(other)}
    return " ".join(word for word in _words(line) if word.casefold() not in known)


def _is_short(string: str) -> bool:
    return len(string) <= _SHORT and not _SENTENCE_END.search(string)


def _tags(text: str) -> Counter[tuple[str, bool]]:
    tags = (match for match in match_placeholders(text) if match.lastgroup == "tag")
    return Counter((match["element"], match[0].startswith("</")) for match in tags)


def _words(text: str) -> list[str]:
    return _WORD.findall(replace_placeholders(text, lambda match: " "))
