"""A comparison of systems as tables: in a page, and as text."""

import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher

from translate.evaluation.compare import Change, Comparison
from translate.evaluation.metrics import decimals
from translate.visualize.panels import Cell, Picture, Table

# Words, punctuation too, in kinds of characters: the first letters of their Unicode categories, such as L for letters,
# M for marks on letters, N for digits and Z for spaces; but a Chinese or Japanese character, a word by itself, is H.
_WORD = "HM*|[LMN]+|[^Z]"
_MARKED = (
    "Underlined in a translation: words that the reference does not have. Underlined in the reference: words that only"
    " one of the two translations has."
)
_SIGNIFICANCE = (
    "±: the 95 % bootstrap interval. Δ: the difference from {first}. p is the probability of a difference this large"
    " between systems of equal quality, by paired bootstrap and by approximate randomisation. A difference with p below"
    " 0.05 is usually called significant."
)


def comparison_picture(comparison: Comparison, *, test_set: str) -> Picture:
    """All tables of a comparison."""
    title = f"{', '.join(comparison.systems)} on {test_set}"
    return Picture(title, [f"{comparison.num_lines:,} lines."], list(comparison_tables(comparison)))


def comparison_tables(comparison: Comparison) -> Iterator[Table]:
    """Scores with their significance, scores by length, and the sentences that changed most."""
    first, *others = comparison.systems
    rows: list[list[Cell]] = []
    for name, scores in comparison.metrics.items():
        for system, score in zip(comparison.systems, scores, strict=True):
            digits = f".{decimals(name)}f"
            tests = (score.difference, f"+{digits}"), (score.bootstrap_p, ".4f"), (score.randomization_p, ".4f")
            shown = ["" if value is None else format(value, form) for value, form in tests]
            margin = "" if score.margin is None else f" ± {score.margin:{digits}}"
            rows.append([name, system, f"{score.value:{digits}}{margin}", *shown])
    header = ["", "System", "Score", "Δ", "p bootstrap", "p randomisation"]
    yield Table("Scores", header, rows, _SIGNIFICANCE.format(first=first))
    yield Table("Signatures", ["", "Signature"], list(comparison.signatures.items()))
    rows = [[name, f"{size:,}", *(f"{value:.1f}" for value in values)] for name, size, values in comparison.lengths]
    yield Table("chrF by reference length (words)", ["", "lines", *comparison.systems], rows)
    for name in others:
        rows = [
            [f"{change.line:,}", f"{change.difference:+.1f}", change.source, *_mark_differences(change)]
            for change in comparison.changes
            if change.system == name
        ]
        if rows:
            header = ["Line", "chrF", "Source", "Reference", first, name]
            yield Table(f"Sentences in which {name} differs most from {first}", header, rows, _MARKED)


def _mark_differences(change: Change) -> list[Cell]:
    """The reference and both translations with their differences marked.

    In the reference these are words that only one system has, in a translation words that the reference does not have.
    """
    texts = change.reference, change.first, change.other
    reference, *translations = ([text[start:end] for start, end in _find_words(text)] for text in texts)
    found: list[set[int]] = []  # by system: places of words of the reference that it has
    marked: list[set[int]] = []  # by system: places of its words that the reference does not have
    for words in translations:
        blocks = SequenceMatcher(None, reference, words, autojunk=False).get_matching_blocks()
        found.append({start + step for start, _, size in blocks for step in range(size)})
        marked.append(set(range(len(words))) - {start + step for _, start, size in blocks for step in range(size)})
    return [_mark(text, places) for text, places in zip(texts, [found[0] ^ found[1], *marked], strict=True)]


def _find_words(text: str) -> list[tuple[int, int]]:
    """Start and end of each word in a text of any script, with spaces between words or without."""
    return [word.span() for word in re.finditer(_WORD, "".join(map(_kind, text)))]


def _kind(character: str) -> str:
    kind = unicodedata.category(character)[0]
    return "H" if kind == "L" and "\u3040" <= character <= "\u9fff" else kind


def _mark(text: str, places: set[int]) -> Cell:
    parts, end = [], 0
    for place, (start, stop) in enumerate(_find_words(text)):
        if place in places:
            parts += [text[end:start], text[start:stop]]
            end = stop
    return (*parts, text[end:])
