"""Terminology: a file says how terms are to be translated, and each line requires the translations of its terms.

A term is found as whole words, exactly as the file writes it; in scripts without spaces, such as those of Chinese,
Japanese and Thai, each letter counts as a word. The first letter of a term may differ in case where a sentence begins,
which is at the first word of the line and at the first word after one of . ! ? : …; there "der Hund" is also found as
"Der Hund". Inflected forms are separate terms, one line each, unless forms with the same stems count as the term, by
the stemmer of the source's language, in any case; but words in capitals, such as US, keep theirs, and terms with signs,
such as C++, have no forms. The line is read from left to right; of several terms at one place the longest is taken, and
reading continues after it.

Source: Porter 2001, Snowball: A language for stemming algorithms, https://snowballstem.org.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from translate.config.languages import UNKNOWN
from translate.data.text import read_lines
from translate.data.tokenizer import Tokenizer
from translate.decoding.constraints.phrases import encode_phrase, is_mark, is_word_character
from translate.errors import InputError
from translate.language_codes import language_name

_SENTENCE_ENDS = frozenset(".!?:…")
_WORD, _PHRASE = re.compile(r"\w+"), re.compile(r"\w+(?:[ -]\w+)*")


class Terminology:
    """Terms of the source language, and for each the phrase that translates it.

    Runs of white space count as one space, and letters with marks are the same however they are encoded (Unicode NFC).

    Args:
        language: Of the terms, whose stemmer finds their other forms; without one, none is found.
        with_forms: Whether another form of a term, such as "files" for "file", is translated like the term.

    Raises:
        ValueError: A term or a translation is empty.
        InputError: There is no stemmer for the language, and `with_forms` needs one.
    """

    def __init__(self, targets: Mapping[str, str], *, language: str = UNKNOWN, with_forms: bool = False) -> None:
        for source, target in targets.items():
            if not source.strip() or not target.strip():
                raise ValueError(f"a term and its translation must not be empty, as in {source!r}: {target!r}")
        self._targets = {_normalize(source): target for source, target in targets.items()}
        self.targets = frozenset(self._targets.values())
        self._at_beginning = {_uncapitalize(source): target for source, target in self._targets.items()}
        self._lengths = sorted({len(source) for source in self._targets}, reverse=True)
        self._with_forms, self._stem = with_forms, _load_stemmer(language)
        if with_forms and self._stem is None:
            name = f"{language_name(language)} ({language})"
            raise InputError(f"terminology: no stemmer knows {name}; list the other forms of terms in the file")

    def matches(self, source_line: str) -> list[str]:
        """The translations of the terms in a line, in the line's order; each as often as its term occurs."""
        return [target for target, _ in self._find(source_line, with_forms=self._with_forms)]

    def missed_forms(self, source_line: str) -> list[str]:
        """The words of a line that are another form of a term, and are not translated like it."""
        return [] if self._with_forms else [form for _, form in self._find(source_line, with_forms=True) if form]

    @functools.cached_property
    def _capitals(self) -> frozenset[str]:
        """The stems of the words in capitals, which only words with the same capitals have."""
        words = (word for source in self._targets for word in _WORD.findall(source) if word.isupper())
        return frozenset(word[: len(self._stem(word.lower()))] for word in words) if self._stem else frozenset()

    @functools.cached_property
    def _by_stems(self) -> dict[tuple[str, ...], list[str]]:
        """The terms with the same stems; computed late, because stemming many takes seconds."""
        by_stems: dict[tuple[str, ...], list[str]] = {}
        for source in self._targets if self._stem else ():
            if _PHRASE.fullmatch(source):
                by_stems.setdefault(self._stems(source), []).append(source)
        return by_stems

    @functools.cached_property
    def _phrases(self) -> list[re.Pattern[str]]:
        counts = sorted(set(map(len, self._by_stems)), reverse=True)
        return [re.compile(r"\w+" + r"[ -]\w+" * (count - 1)) for count in counts]

    def _stems(self, text: str) -> tuple[str, ...]:
        assert self._stem is not None
        stems = ((word, self._stem(word.lower())) for word in _WORD.findall(text))
        return tuple(word[: len(stem)] if word[: len(stem)] in self._capitals else stem for word, stem in stems)

    def _find(self, source_line: str, *, with_forms: bool) -> Iterator[tuple[str, str]]:
        """The translation of each term in a line, and the term's form there; empty: it is the term itself."""
        line = _normalize(source_line)
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
                    yield target, ""
                    end = position + len(text)
                    break
            else:
                for form in self._phrases if with_forms and _is_boundary(line, position) else ():
                    match = form.match(line, position)
                    sources = self._by_stems.get(self._stems(match[0])) if match else None
                    if match and sources and _is_boundary(line, match.end()):
                        written = match[0].lower()
                        yield self._targets[min(sources, key=lambda each: each.lower() != written)], match[0]
                        end = match.end()
                        break
            for character in line[position:end]:
                begins_sentence = not is_word_character(character) and (begins_sentence or character in _SENTENCE_ENDS)
            position = end


@functools.lru_cache(maxsize=4)
def _load_stemmer(language: str) -> Callable[[str], str] | None:
    """The Snowball stemmer of a language, for words in lower case; None: there is none."""
    import snowballstemmer

    name = language_name(language).partition(" ")[0].lower()  # norwegian for Norwegian Bokmål
    if name not in snowballstemmer.algorithms():
        return None
    stem: Callable[[str], str] = functools.lru_cache(maxsize=100_000)(snowballstemmer.stemmer(name).stemWord)
    return stem


def read_terminology(path: Path, *, language: str = UNKNOWN, with_forms: bool = False) -> Terminology:
    """Read a UTF-8 file with one term per line: source, tab, target. Empty lines and comments (`#`) are skipped.

    Args:
        language, with_forms: As in `Terminology`.

    Raises:
        InputError: The file cannot be read, a line is not a pair, or a term has two translations; or as `Terminology`.
    """
    lines = enumerate(read_lines(path), start=1)
    rows = ((number, line.split("\t")) for number, line in lines if line.strip() and not line.startswith("#"))
    try:
        return Terminology(collect_terms(rows), language=language, with_forms=with_forms)
    except ValueError as error:
        raise InputError(f"{path}, {error}") from error


def collect_terms(rows: Iterable[tuple[int, Sequence[str]]]) -> dict[str, str]:
    """The terms of rows, which have a term and its translation, each with the number of its line.

    Raises:
        ValueError: A row is not a pair, or a term has two translations; the message begins with the line.
    """
    terms: dict[str, str] = {}
    for number, row in rows:
        columns = [" ".join(column.split()) for column in row]
        if len(columns) != 2 or not all(columns):
            raise ValueError(f"line {number}: {row!r:.80} should be two columns, a term and its translation")
        source, target = _normalize(columns[0]), columns[1]
        if (earlier := terms.setdefault(source, target)) != target:
            problem = f"{source!r} is translated as {target!r}, but before as {earlier!r}; keep one of them"
            raise ValueError(f"line {number}: {problem}")
    return terms


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
