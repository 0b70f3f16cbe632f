"""A document in, the same document with translated text out: segments, sentences, and a count of what passed."""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from translate.decoding import ConditionCounts, Translation, count_conditions
from translate.decoding.splitting import split_sentences
from translate.documents.html import read_html
from translate.documents.lines import read_subtitles, read_text
from translate.documents.markdown import read_markdown
from translate.documents.segments import Layout, Segment, lay_out
from translate.documents.transfer import (
    Sentence,
    SourceWord,
    Weights,
    diagonal,
    join_words,
    names_between,
    without_names,
    write_translation,
)
from translate.errors import InputError

DocumentFormat = Literal["text", "paragraphs", "markdown", "html", "srt", "vtt"]
FORMAT_BY_EXTENSION: dict[str, DocumentFormat] = {
    ".txt": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".srt": "srt",
    ".vtt": "vtt",
}


class DocumentTranslation(NamedTuple):
    """A translated document, and what passed through."""

    text: str
    segments: int  # that have words
    sentences: int
    tags: int  # pieces of markup within segments; the rest of the document is never touched
    placeholders: int  # placeholders, addresses and code within segments
    problems: list[str]  # markup that the document has no longer, or more often: the line of the source, and what
    conditions: ConditionCounts  # of the sentences' translations

    def __str__(self) -> str:
        parts = [(self.segments, "segments"), (self.sentences, "sentences")]
        parts += [(self.tags, "tags"), (self.placeholders, "placeholders")]
        lost = f" ({len(self.problems)} lost or doubled)" if self.problems else ""
        passed = ", ".join(f"{number} {name if number != 1 else name[:-1]}" for number, name in parts)
        return f"{passed}{lost}; {self.conditions.conditions}"


def format_of_file(path: Path | None) -> DocumentFormat:
    """The format that a file's extension tells.

    Raises:
        InputError: It tells none.
    """
    suffix = path.suffix.lower() if path is not None else ""
    if suffix not in FORMAT_BY_EXTENSION:
        name = "standard input" if path is None or str(path) == "-" else str(path)
        raise InputError(
            f"{name}: no format follows from its name (known extensions: {', '.join(FORMAT_BY_EXTENSION)}); give"
            f" --document-format with one of {', '.join(get_args(DocumentFormat))}"
        )
    return FORMAT_BY_EXTENSION[suffix]


READERS: dict[DocumentFormat, Callable[[str], Iterator[Segment]]] = {
    "text": functools.partial(read_text, by_line=True),
    "paragraphs": functools.partial(read_text, by_line=False),
    "markdown": read_markdown,
    "html": read_html,
    "srt": functools.partial(read_subtitles, has_entities=False),
    "vtt": functools.partial(read_subtitles, has_entities=True),
}


def translate_document(
    text: str,
    document_format: DocumentFormat,
    translate: Callable[[Sequence[str]], Iterable[Translation]],
    align: Callable[[Sequence[Translation]], Iterable[Weights]] | None = None,
) -> DocumentTranslation:
    """Translate the text of a document, and leave everything else as it is.

    Args:
        translate: Translates sentences; it is called once.
        align: Aligns the words of translations whose sentences have markup; None: in their order.

    Raises:
        InputError: The extra `documents` is not installed, and the format needs it.
    """
    byte_order_mark = "\ufeff" * text.startswith("\ufeff")
    text = text.removeprefix(byte_order_mark)
    segments = list(READERS[document_format](text))
    layouts = [lay_out(segment) for segment in segments]
    sentences = [list(_read_sentences(layout)) for layout in layouts]
    wanted = [sentence for each in sentences for sentence in each if any(map(str.isalpha, sentence.text))]
    forms = [[each.words, *([without_names(each)] if each.names else [])] for each in wanted]
    translations = iter(list(translate([join_words(form) for each in forms for form in each])))
    made = [
        _choose(sentence, each, list(itertools.islice(translations, len(each))))
        for sentence, each in zip(wanted, forms, strict=True)
    ]
    if align is not None:
        to_align = [pair for pair in zip(wanted, made, strict=True) if pair[0].layout.markup]
        weights = align([translation for _, translation in to_align])
        for (sentence, _), found in zip(to_align, weights, strict=True):
            sentence.weights = found
    parts, position = [], 0
    for segment, layout, each in zip(segments, layouts, sentences, strict=True):
        is_same = all(sentence.target == sentence.text for sentence in each)
        parts += [text[position : segment.start], segment.raw if is_same else write_translation(segment, layout, each)]
        position = segment.start + len(segment.raw)
    written = "".join([*parts, text[position:]])
    markup = [is_name for layout in layouts for _, is_name in layout.written]
    return DocumentTranslation(
        byte_order_mark + written,
        segments=len({id(sentence.layout) for sentence in wanted}),
        sentences=len(wanted),
        tags=markup.count(False),
        placeholders=markup.count(True),
        problems=_compare(text, segments, layouts, list(map(lay_out, READERS[document_format](written)))),
        conditions=count_conditions(made),
    )


def _read_sentences(layout: Layout) -> Iterator[Sentence]:
    read, names, end = list(layout.text), layout.names, 0
    for name in names:  # behind a number a full stop may end no sentence
        read[name.start : name.end] = "X" * (name.end - name.start)
    for text in split_sentences("".join(read)):
        start, end = end, end + len(text)
        found = re.finditer(r"\S+", layout.text[start:end])
        words = [SourceWord(match[0], start + match.start(), start + match.end()) for match in found]
        if words:
            whole, inside = join_words(words), names_between(names, start, end)
            yield Sentence(layout, words, inside, words[-1].end, whole, diagonal(whole, whole))


def _choose(sentence: Sentence, forms: Sequence[list[SourceWord]], translations: Sequence[Translation]) -> Translation:
    """Take the translation with names if each of their numbers is there once; else the one without them.

    Models that have learnt from enough text copy numbers. For others a sentence without its names is easier.
    """
    counts = Counter(re.findall(r"\d+", translations[0].text))
    is_complete = all(counts[sentence.layout.text[name.start : name.end]] == 1 for name in sentence.names)
    chosen = translations[0 if is_complete else 1]
    sentence.words = forms[0 if is_complete else 1]
    sentence.target = _end_like(sentence.text, chosen.text)
    sentence.weights = diagonal(chosen.text, chosen.source)
    return chosen


def _end_like(source: str, target: str) -> str:
    """The translation of a title or a cell without the full stop that models of sentences add."""
    is_sentence = re.search(r"[.!?…。！？]\W*$", source[-20:])
    return target[:-1] if re.search(r"\w\.$", target) and not is_sentence else target


def _compare(text: str, segments: Sequence[Segment], before: Sequence[Layout], after: Sequence[Layout]) -> list[str]:
    """What markup the translated document has less or more often than its source."""
    old, new = ([layout.written for layout in layouts] for layouts in (before, after))
    is_same = len(old) == len(new)  # an empty translation leaves no segment
    if not is_same:
        segments, old, new = segments[:1], [list(itertools.chain(*old))], [list(itertools.chain(*new))]
    problems = []
    for segment, wanted, found in zip(segments, map(Counter, old), map(Counter, new), strict=is_same):
        wrong = [f"{raw!r} is lost" for raw, _ in (wanted - found).elements()]
        wrong += [f"{raw!r} is there once more" for raw, _ in (found - wanted).elements()]
        if wrong:
            where = f"line {text.count(chr(10), 0, segment.start) + 1}" if is_same else "the document"
            problems += [f"{where}: {each}" for each in wrong]
    return problems
