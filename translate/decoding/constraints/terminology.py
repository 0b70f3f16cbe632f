"""Terminology: a file says how terms are to be translated, and each line requires the translations of its terms.

A term is found as whole words, exactly as the file writes it; in scripts without spaces, such as those of Chinese,
Japanese and Thai, each letter counts as a word. The first letter of a term may differ in case where a sentence begins,
which is at the first word of the line and at the first word after one of . ! ? : …; there "der Hund" is also found as
"Der Hund". Inflected forms are separate terms, one line each. The line is read from left to right; of several terms at
one place the longest is taken, and reading continues after it.
"""

import functools
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from translate.data.text import read_lines
from translate.data.tokenizer import Tokenizer
from translate.decoding.constraints.phrases import encode_phrase, is_mark, is_word_character
from translate.errors import InputError

_SENTENCE_ENDS = frozenset(".!?:…")


class Terminology:
    """Terms of the source language, and for each the phrase that translates it.

    Runs of white space count as one space, and letters with marks are the same however they are encoded (Unicode NFC).

    Raises:
        ValueError: A term or a translation is empty.
    """

    def __init__(self, targets: Mapping[str, str]) -> None:
        for source, target in targets.items():
            if not source.strip() or not target.strip():
                raise ValueError(f"a term and its translation must not be empty, as in {source!r}: {target!r}")
        self._targets = {_normalize(source): target for source, target in targets.items()}
        self.targets = frozenset(self._targets.values())
        self._at_beginning = {_uncapitalize(source): target for source, target in self._targets.items()}
        self._lengths = sorted({len(source) for source in self._targets}, reverse=True)

    def matches(self, source_line: str) -> list[str]:
        """The translations of the terms in a line, in the line's order; each as often as its term occurs."""
        line = _normalize(source_line)
        found = []
        begins_sentence = True
        position = 0
        while position < len(line):
            end = position + 1
            for length in self._lengths if _is_boundary(line, position) else ():
                text = line[position : position + length]
                target = self._targets.get(text)
                if target is None and begins_sentence:
                    target = self._at_beginning.get(_uncapitalize(text))
                if target is not None and _is_boundary(line, position + len(text)):
                    found.append(target)
                    end = position + len(text)
                    break
            for character in line[position:end]:
                begins_sentence = not is_word_character(character) and (begins_sentence or character in _SENTENCE_ENDS)
            position = end
        return found


def read_terminology(path: Path) -> Terminology:
    """Read a UTF-8 file with one term per line: source, tab, target. Empty lines and comments (`#`) are skipped.

    Raises:
        InputError: The file cannot be read, a line is not a pair, or a term has two translations.
    """
    found: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [" ".join(column.split()) for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            raise InputError(f"{path}, line {number}: {line!r}: expected source, tab, target")
        source, target = _normalize(columns[0]), columns[1]
        earlier, its_number = found.setdefault(source, (target, number))
        if earlier != target:
            raise InputError(
                f"{path}, line {number}: {source!r} is translated as {target!r}, but in line {its_number} as"
                f" {earlier!r}; keep one of them"
            )
    return Terminology({source: target for source, (target, _) in found.items()})


@functools.lru_cache(maxsize=16)
def encode_terms(target: Tokenizer, terminology: Terminology) -> dict[str, list[int]]:
    """The ids of the translations of all terms, computed together: a term that cannot be spelled is an error at once.

    Raises:
        InputError: The vocabulary cannot spell a translation.
    """
    return {phrase: encode_phrase(target, phrase, place="terminology: ") for phrase in sorted(terminology.targets)}


def _normalize(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _uncapitalize(text: str) -> str:
    return text[:1].lower() + text[1:]


def _is_boundary(line: str, position: int) -> bool:
    """Whether no word continues across a position."""
    if position in (0, len(line)):
        return True
    return not is_mark(line[position]) and not all(map(is_word_character, line[position - 1 : position + 1]))
