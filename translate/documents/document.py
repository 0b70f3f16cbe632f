"""Translates the text of a document and keeps everything else: its segments, their sentences, and a report."""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from translate.config.data import Direction
from translate.config.languages import UNKNOWN
from translate.decoding import ConditionCounts, Translation, Translator, count_conditions
from translate.decoding.request import OnFinished, ignore_progress
from translate.decoding.sentences import is_sentence, split_sentences
from translate.documents.catalog import fill_catalog
from translate.documents.html import name_language, read_attributes, read_html
from translate.documents.lines import read_subtitles, read_text
from translate.documents.markdown import read_markdown
from translate.documents.segments import (
    Layout,
    Reading,
    Segment,
    Written,
    WrittenMarkup,
    divide_messages,
    lay_out,
    markup_of,
    replace_segments,
)
from translate.documents.transfer import (
    Sentence,
    SourceWord,
    Weights,
    diagonal,
    join_words,
    placeholders_between,
    without_placeholders,
    write_translation,
)
from translate.documents.xliff import fill_xliff
from translate.errors import InputError
from translate.files import XLIFF_SUFFIXES, check_is_text, text_suffix
from translate.placeholders import have_same_placeholders, is_replaced

DocumentFormat = Literal["text", "paragraphs", "markdown", "html", "srt", "vtt", "po", "xliff"]
Reader = Callable[[str], Iterator[Segment]]
Open = Callable[[str], Reading]
Divide = Callable[[str], list[str]]  # into sentences


_NUMBER = re.compile(r"\d+")


def _replacing(read: Reader) -> Callable[..., Reading]:
    """Opens a document with one text, whose segments are replaced."""

    def open_text(text: str, **_: object) -> Reading:
        segments = list(read(text))

        def write(translated: Sequence[str]) -> Written:
            written = replace_segments(text, segments, translated)
            return Written(written, read(written))

        return Reading(segments, write)

    return open_text


class FormatReader(NamedTuple):
    """How a format is recognized, read and written."""

    extensions: tuple[str, ...]
    open: Callable[..., Reading]  # what is translated in a text, perhaps by `again` and `direction`
    open_attributes: Open | None = None  # the same of text within markup
    is_bilingual: bool = False
    """Whether a document has source texts and places for their translations, as a catalog has.

    Those that have none yet are filled, or, with `again`, those whose translation is marked for review too.
    """


FORMATS: dict[DocumentFormat, FormatReader] = {
    "text": FormatReader((".txt",), _replacing(functools.partial(read_text, by_line=True))),
    "paragraphs": FormatReader((), _replacing(functools.partial(read_text, by_line=False))),
    "markdown": FormatReader((".md", ".markdown"), _replacing(read_markdown)),
    "html": FormatReader((".html", ".htm", ".xhtml"), _replacing(read_html), _replacing(read_attributes)),
    "srt": FormatReader((".srt",), _replacing(functools.partial(read_subtitles, has_entities=False))),
    "vtt": FormatReader((".vtt",), _replacing(functools.partial(read_subtitles, has_entities=True))),
    "po": FormatReader((".po", ".pot"), fill_catalog, is_bilingual=True),
    "xliff": FormatReader(XLIFF_SUFFIXES, fill_xliff, is_bilingual=True),
}
EXTENSIONS = {extension: name for name, known in FORMATS.items() for extension in known.extensions}
"""The format of a document, by the extension of its file name."""


class DocumentTranslation(NamedTuple):
    """A translated document and a report on it."""

    text: str
    counts: Counter[str]  # segments and sentences with words; tags and placeholders within segments
    problems: list[str]  # markup that was lost or doubled, with its line in the source; what could not be filled
    conditions: ConditionCounts  # of the sentences' translations
    entries: Counter[str]  # of a bilingual document: how many are filled, were translated before, and so on

    def __str__(self) -> str:
        entries = ", ".join(f"{number:,} {name}" for name, number in self.entries.items())
        counts = (f"{number} {name if number != 1 else name[:-1]}" for name, number in self.counts.items())
        lost = f" ({len(self.problems)} lost or doubled)" if self.problems and not self.entries else ""
        return f"{entries and f'{entries}; '}{', '.join(counts)}{lost}; {self.conditions.conditions}"


def format_of_file(path: Path | None) -> DocumentFormat:
    """The format that belongs to a file's extension.

    Raises:
        InputError: The extension is missing or unknown.
    """
    if path is not None and (suffix := text_suffix(path)) in EXTENSIONS:
        return EXTENSIONS[suffix]
    check_is_text(path)
    where = "standard input" if path is None or str(path) == "-" else str(path)
    raise InputError(f"{where}: unknown document format; choose a document format: {', '.join(FORMATS)}")


def translate_documents(
    texts: Sequence[str],
    document_format: DocumentFormat,
    translate: Callable[[Sequence[str]], Iterable[Translation]],
    align: Callable[[Sequence[Translation]], Iterable[Weights]] | None = None,
    direction: Direction | None = None,
    *,
    by_sentence: bool = True,
    again: bool = False,
) -> list[DocumentTranslation]:
    """Translate the text of documents, with the sentences of all in one call, and copy everything else.

    Args:
        translate: Translates sentences, whole; called for the text, and for attributes if there are any, and for each
            again if translations lose placeholders.
        align: Aligns the words of translations whose sentences have markup; None aligns them in order.
        direction: The languages: where sentences end, and the attribute `lang` of HTML; None: it is not changed.
        by_sentence: Whether segments are divided into sentences.
        again: Whether the translations of a bilingual document that are marked for review are made again.

    Raises:
        InputError: The extra `documents` is not installed, and the format needs it; or the document is damaged.
    """
    mark, known = "\ufeff", FORMATS[document_format]
    divide = functools.partial(split_sentences, language=direction.source if direction else UNKNOWN)
    translate_texts = functools.partial(_translate_texts, divide=divide if by_sentence else lambda text: [text])
    documents = [
        DocumentTranslation(text.removeprefix(mark), Counter(), [], ConditionCounts(), Counter()) for text in texts
    ]
    if known.open_attributes is not None:
        documents = translate_texts(documents, known.open_attributes, translate, None)
    open_text = functools.partial(known.open, again=again, direction=direction)
    documents = translate_texts(documents, open_text, translate, align)
    if document_format == "html" and direction is not None and direction.target != UNKNOWN:
        documents = [document._replace(text=name_language(document.text, direction)) for document in documents]
    marks = (mark * text.startswith(mark) for text in texts)
    return [document._replace(text=mark + document.text) for document, mark in zip(documents, marks, strict=True)]


def _translate_texts(
    documents: Sequence[DocumentTranslation],
    open_text: Open,
    translate: Callable[[Sequence[str]], Iterable[Translation]],
    align: Callable[[Sequence[Translation]], Iterable[Weights]] | None,
    divide: Divide,
) -> list[DocumentTranslation]:
    """Translate what a reader finds in documents, and add it to their reports."""
    pages = [_Page(document, open_text(document.text), divide) for document in documents]
    wanted = [sentence for page in pages for sentence in page.wanted]
    for is_last in (False, True):  # what loses its placeholders is translated again, without them
        left = [sentence for sentence in wanted if sentence.made is None]
        for sentence in left if is_last else ():
            sentence.words, sentence.placeholders = without_placeholders(sentence), []
        lines = list(map(_line, left))
        for sentence, made in zip(left, translate(lines) if lines else [], strict=True):
            _accept(sentence, made)
    if align is not None:
        to_align = [sentence for sentence in wanted if sentence.layout.markup]
        for sentence, weights in zip(to_align, align([sentence.made for sentence in to_align]), strict=True):
            sentence.weights = weights
    return [page.write() for page in pages]


class _Page:
    """What a reader finds in a document."""

    def __init__(self, document: DocumentTranslation, reading: Reading, divide: Divide) -> None:
        self.document, self.write_document = document, reading.write
        self.divided = [list(divide_messages(segment)) for segment in reading.segments]
        self.segments = list(itertools.chain(*self.divided))
        self.layouts = [lay_out(segment) for segment in self.segments]
        self.sentences = [list(_read_sentences(layout, divide)) for layout in self.layouts]
        self.wanted = [found for found in itertools.chain(*self.sentences) if any(map(str.isalpha, found.text))]

    def write(self) -> DocumentTranslation:
        """The document with the translations of its sentences, and their report."""
        document = self.document
        document.conditions.update(count_conditions([sentence.made for sentence in self.wanted]))
        new = []
        for segment, layout, sentences in zip(self.segments, self.layouts, self.sentences, strict=True):
            is_same = all(sentence.target == sentence.text for sentence in sentences)
            new.append(segment.raw if is_same else write_translation(segment, layout, sentences))
        parts = iter(new)
        written = self.write_document(["".join(itertools.islice(parts, len(each))) for each in self.divided])
        old = list(map(markup_of, self.segments))
        is_placeholder = [is_one for found in old for _, is_one in found]
        document.counts.update(
            segments=len({id(sentence.layout) for sentence in self.wanted}),
            sentences=len(self.wanted),
            tags=is_placeholder.count(False),
            placeholders=is_placeholder.count(True),
        )
        document.entries.update(written.entries)
        found = [markup_of(part) for segment in written.segments for part in divide_messages(segment)]
        problems = _compare(document.text, self.segments, old, found)
        return document._replace(text=written.text, problems=[*document.problems, *written.problems, *problems])


def word_weights(
    translator: Translator, translations: Sequence[Translation], *, on_finished: OnFinished = ignore_progress
) -> Iterator[Weights]:
    """Yield the word alignment of each translation: the cross-attention between its words and those of its source.

    End symbols are left out. If the tokenizer's words are not those between spaces, for instance because it normalizes
    the text, the words are aligned in order.
    """
    for translation, attention in translator.attend(translations, on_finished=on_finished):
        rows, num_sources = attention.rows, attention.num_sources
        is_same = (num_sources, len(rows)) == (len(translation.source.split()), len(translation.text.split()))
        yield rows if is_same else diagonal(translation.text, translation.source)


def _read_sentences(layout: Layout, divide: Divide) -> Iterator[Sentence]:
    read, end = list(layout.text), 0
    placeholders = [markup for markup in layout.markup if markup.kind == "placeholder"]
    for placeholder in placeholders:  # a full stop after a number might not end the sentence
        read[placeholder.start : placeholder.end] = "W" * (placeholder.end - placeholder.start)
    for text in divide("".join(read)):
        start, end = end, end + len(text)
        found = re.finditer(r"\S+", layout.text[start:end])
        words = [SourceWord(match[0], start + match.start(), start + match.end()) for match in found]
        if words:
            whole, inside = join_words(words), placeholders_between(placeholders, start, end)
            yield Sentence(layout, words, inside, words[-1].end, whole, diagonal(whole, whole))


def _line(sentence: Sentence) -> str:
    """What the model reads: placeholders that are markup or have a space are numbers, and so are a hundred of them."""
    raws = sentence.raws if len(sentence.raws) < 100 else {}
    plain = {number: raw for number, raw in raws.items() if is_replaced(raw) and len(raw.split()) == 1}
    return _NUMBER.sub(lambda match: plain.get(match[0], match[0]), sentence.text)


def _accept(sentence: Sentence, made: Translation) -> None:
    """Give a sentence its translation, with numbers for its placeholders, if that contains each of them once."""
    text, raws = made.text, sentence.raws
    if raws:
        numbers = {raw: iter([number for number in raws if raws[number] == raw]) for raw in {*raws.values()}}
        longest_first = "|".join(map(re.escape, sorted(numbers, key=len, reverse=True)))
        text = re.sub(longest_first, lambda match: next(numbers[match[0]], match[0]), text)
        found = Counter(_NUMBER.findall(text))
        if not have_same_placeholders(made.source, made.text) or any(found[number] != 1 for number in raws):
            return
    sentence.made, sentence.target = made, _end_like(sentence.text, text)
    sentence.weights = diagonal(made.text, made.source)


def _end_like(source: str, target: str) -> str:
    """Remove the full stop that a model trained on sentences adds to the translation of a title or a cell."""
    return target[:-1] if re.search(r"\w\.$", target) and not is_sentence(source) else target


def _compare(text: str, segments: Sequence[Segment], old: list[WrittenMarkup], new: list[WrittenMarkup]) -> list[str]:
    """Describe the markup that the translated document lost or duplicated."""
    is_same = len(old) == len(new)  # an empty translation leaves no segment
    if not is_same:
        segments, old, new = segments[:1], [list(itertools.chain(*old))], [list(itertools.chain(*new))]
    problems = []
    for segment, wanted, found in zip(segments, map(Counter, old), map(Counter, new), strict=is_same):
        wrong = [f"{raw!r} is lost" for raw, _ in (wanted - found).elements()]
        wrong += [f"{raw!r} is doubled" for raw, _ in (found - wanted).elements()]
        if wrong:
            where = f"line {text.count(chr(10), 0, segment.start) + 1}" if is_same else "the document"
            problems += [f"{where}: {problem}" for problem in wrong]
    return problems
