"""A document in, the same document with translated text out: segments, sentences, and a count of what passed."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from translate.decoding import ConditionCounts, Translation, count_conditions
from translate.decoding.splitting import split_sentences
from translate.documents.segments import Layout, Segment, lay_out
from translate.documents.transfer import Source, TranslatedSentence, Weights, diagonal, write_translation
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


def read_segments(text: str, document_format: DocumentFormat) -> Iterator[Segment]:
    """The parts of a document that may be translated, in order.

    Raises:
        InputError: The extra `documents` is not installed, and the format needs it.
    """
    match document_format:
        case "text" | "paragraphs":
            from translate.documents.lines import read_text

            return read_text(text, by_line=document_format == "text")
        case "srt" | "vtt":
            from translate.documents.lines import read_subtitles

            return read_subtitles(text, document_format)
        case "markdown":
            from translate.documents.markdown import read_markdown

            return read_markdown(text)
        case "html":
            from translate.documents.html import read_html

            return read_html(text)


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
    segments = list(read_segments(text, document_format))
    layouts = [lay_out(segment) for segment in segments]
    sentences = [_read_sentences(layout) for layout in layouts]
    translations = iter(list(translate([form.text for each in sentences for one in each for form in one.forms])))
    chosen = [[_choose(one, [next(translations) for _ in one.forms]) for one in each] for each in sentences]
    made = [translation for each in chosen for _, translation in each if translation is not None]
    to_align = [
        translation
        for layout, each in zip(layouts, chosen, strict=True)
        for _, translation in (each if layout.written else [])
        if translation is not None
    ]
    weights = iter(align(to_align) if align is not None else map(_in_order, to_align))
    parts, position = [], 0
    for segment, layout, each in zip(segments, layouts, chosen, strict=True):
        translated = []
        for source, translation in each:
            if translation is None:
                found, target = diagonal(source.text, source.text), source.text
            else:
                found = next(weights) if layout.written else []
                target = _end_like(source.text, translation.text)
            translated.append(TranslatedSentence(source, target, found))
        is_same = all(part.target == part.source.text and not part.source.is_cut for part in translated)
        parts += [
            text[position : segment.start],
            segment.raw if is_same else write_translation(segment, layout, translated),
        ]
        position = segment.start + len(segment.raw)
    written = "".join([*parts, text[position:]])
    markup = [is_name for layout in layouts for _, is_name in layout.written]
    return DocumentTranslation(
        written,
        segments=sum(any(one.forms for one in each) for each in sentences),
        sentences=len(made),
        tags=markup.count(False),
        placeholders=markup.count(True),
        problems=_compare(text, segments, layouts, list(map(lay_out, read_segments(written, document_format)))),
        conditions=count_conditions(made),
    )


class _Sentence(NamedTuple):
    whole: Source
    forms: list[Source]  # to translate: with a number for each name, and without them; none where there is no word
    numbers: list[str]


def _read_sentences(layout: Layout) -> list[_Sentence]:
    sentences, start = [], 0
    read = layout.text
    for name in layout.names:  # behind a number a full stop may end no sentence
        read = read[: name.start] + "X" * (name.end - name.start) + read[name.end :]
    for text in split_sentences(read):
        whole = Source.between(layout.text, start, start + len(text))
        names = [name for name in layout.names if start <= name.start < start + len(text)]
        start += len(text)
        forms = [whole, *([whole.without(names)] if names else [])] if any(map(str.isalpha, whole.text)) else []
        if whole.text:
            sentences.append(_Sentence(whole, forms, [layout.text[name.start : name.end] for name in names]))
    return sentences


def _choose(sentence: _Sentence, translations: Sequence[Translation]) -> tuple[Source, Translation | None]:
    """The translation with names if each of their numbers is there once; else the one without them.

    Models that have learnt from enough text copy numbers. For others a sentence without its names is easier.
    """
    if not translations:
        return sentence.whole, None
    counts = Counter(re.findall(r"\d+", translations[0].text))
    is_complete = all(counts[number] == 1 for number in sentence.numbers)
    return (sentence.forms[0], translations[0]) if is_complete else (sentence.forms[1], translations[1])


def _end_like(source: str, target: str) -> str:
    """The translation of a title or a cell without the full stop that models of sentences add."""
    is_sentence = re.search(r"[.!?…。！？]\W*$", source)
    return target[:-1] if re.search(r"\w\.$", target) and not is_sentence else target


def _in_order(translation: Translation) -> Weights:
    return diagonal(translation.text, translation.source)


def _compare(text: str, segments: Sequence[Segment], before: Sequence[Layout], after: Sequence[Layout]) -> list[str]:
    """What markup the translated document has less or more often than its source."""
    is_same = len(before) == len(after)  # an empty translation leaves no segment
    if not is_same:
        segments, before, after = segments[:1], [_joined(before)], [_joined(after)]
    problems = []
    for segment, old, new in zip(segments, before, after, strict=is_same):
        wanted, found = Counter(old.written), Counter(new.written)
        where = f"line {text.count(chr(10), 0, segment.start) + 1}" if is_same else "the document"
        problems += [f"{where}: {raw!r} is lost" for raw, _ in (wanted - found).elements()]
        problems += [f"{where}: {raw!r} is there once more" for raw, _ in (found - wanted).elements()]
    return problems


def _joined(layouts: Sequence[Layout]) -> Layout:
    return Layout("", "", [node for layout in layouts for node in layout.nodes], "")
