"""Markup from a text to its translation: each piece comes to the words that are aligned to the words that it was at.

A pair goes around the run of translated words that has the greatest sum of (share of attention inside the pair - 1/2),
within the run of the pair around it. There is always such a run, so no pair is lost, and none comes twice.
"""

import bisect
import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from translate.documents.segments import Layout, Node, Segment

Weights = Sequence[Mapping[int, float]]  # by word of the translation, of words of the source; others have none

_PUNCTUATION_FIRST, _PUNCTUATION_LAST = re.compile(r"^\W*"), re.compile(r"\W*$")


class Source(NamedTuple):
    """A sentence as the model reads it."""

    text: str
    offsets: list[int]  # of each character in the segment's plain text
    end: int  # of the sentence there
    is_cut: bool = False  # names were left out

    @classmethod
    def between(cls, text: str, start: int, end: int) -> "Source":
        """A part of a plain text without the spaces around it."""
        start, end = start + len(text[start:end]) - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())
        return cls(text[start:end], list(range(start, end)), end)

    def without(self, names: Sequence[Node]) -> "Source":
        """The sentence without these names, and without the spaces that are left over."""
        inside = {offset for name in names for offset in range(name.start, name.end)}
        kept: list[tuple[str, int]] = []
        for character, offset in zip(self.text, self.offsets, strict=True):
            is_after_name = kept and offset - 1 in inside
            if offset in inside or (character == " " and (not kept or kept[-1][0] == " ")):
                continue
            if is_after_name and kept[-1][0] == " " and character in ",.;:!?)":
                kept.pop()
            kept.append((character, offset))
        while kept and kept[-1][0] == " ":
            kept.pop()
        return Source(
            "".join(character for character, _ in kept), [offset for _, offset in kept], self.end, is_cut=True
        )


class TranslatedSentence(NamedTuple):
    """A sentence, its translation, and how their words are aligned."""

    source: Source
    target: str
    weights: Weights


class _Word(NamedTuple):
    """A word of the source."""

    text: str
    offsets: list[int]  # of each character in the segment's plain text

    @property
    def start(self) -> int:
        return self.offsets[0]

    @property
    def end(self) -> int:
        return self.offsets[-1] + 1


class _Span(NamedTuple):
    """A sentence: its place in the segment's plain text, and the words of its translation."""

    begin: int
    end: int
    first: int
    last: int  # behind the last word


class _Place(NamedTuple):
    """A place in the translation: before a character of a word, or behind its last."""

    word: int
    character: int


def diagonal(target: str, source: str) -> Weights:
    """The alignment of a translation in the order of its source, for want of a better one."""
    num_targets, num_sources = len(target.split()), len(source.split())
    return [{place * num_sources // num_targets: 1.0} if num_sources else {} for place in range(num_targets)]


def write_translation(segment: Segment, layout: Layout, sentences: Sequence[TranslatedSentence]) -> str:
    """The segment as its format writes it, with the translations of its sentences and all of its markup."""
    return _Transfer(segment, layout, sentences).write()


class _Transfer:
    def __init__(self, segment: Segment, layout: Layout, sentences: Sequence[TranslatedSentence]) -> None:
        self.segment, self.layout = segment, layout
        self.sources: list[_Word] = []
        self.targets: list[str] = []
        self.weights: list[dict[int, float]] = []
        self.spans: list[_Span] = []
        for source, target, weights in sentences:
            first, targets = len(self.sources), target.split()
            begin = self.spans[-1].end if self.spans else 0
            self.spans.append(_Span(begin, source.end, len(self.targets), len(self.targets) + len(targets)))
            for match in re.finditer(r"\S+", source.text):
                self.sources.append(_Word(match[0], source.offsets[match.start() : match.end()]))
            self.weights += [{first + number: weight for number, weight in row.items()} for row in weights]
            self.targets += targets
        self.runs: dict[Node, tuple[int, int]] = {}  # of words in the translation, the second inclusive
        self.bounds: dict[Node, tuple[_Place, _Place]] = {}
        self.inserted: dict[_Place, list[tuple[tuple[int, int, int], str]]] = defaultdict(list)
        self.replaced: dict[_Place, Node] = {}

    def write(self) -> str:
        layout = self.layout
        if not self.targets:
            return layout.before + "".join(raw for raw, _ in layout.written) + layout.after
        copied = self._find_names()
        for number, node in enumerate(layout.nodes):
            if node.kind == "pair":
                self._place_pair(node, number)
            elif node.kind == "mark" or (node.kind == "name" and node not in copied):
                self._place_mark(node, number)
        breaks = self._place_breaks()
        words = [self._write_word(word, is_first=word == 0 or word in breaks) for word in range(len(self.targets))]
        text = "".join(breaks.get(number, " " * (number > 0)) + word for number, word in enumerate(words))
        return layout.before + text + layout.after

    def _find_names(self) -> set[Node]:
        """Find the numbers that stand for names, and align their words to each other."""
        copied = set()
        at = {offset: place for place, word in enumerate(self.sources) for offset in word.offsets}
        words = {name: at[name.start] for name in self.layout.names if name.start in at}
        names = {self.layout.text[name.start : name.end]: name for name in words}
        for number, target in enumerate(self.targets):
            for match in re.finditer(r"\d+", target):
                name = names.get(match[0])
                if name is not None and name not in copied:
                    copied.add(name)
                    self.replaced[_Place(number, match.start())] = name
                    self.weights[number] = {words[name]: 1.0}
        return copied

    def _place_pair(self, pair: Node, number: int) -> None:
        """Place a pair around the words that are aligned to those inside it."""
        places = range(len(self.sources))
        first = bisect.bisect_right(places, pair.start, key=lambda place: self.sources[place].end)
        inside = range(first, bisect.bisect_left(places, pair.end, key=lambda place: self.sources[place].start))
        low, high = self.runs[pair.parent] if pair.parent else (0, len(self.targets) - 1)
        scores = [self._share(word, inside) - 0.5 for word in range(low, high + 1)]
        siblings = [(run[0] - low, run[1] - low) for node, run in self.runs.items() if node.parent is pair.parent]
        taken = {place for first, last in siblings for place in range(first, last + 1)}
        first, last = _best_run(scores, taken) or max(siblings, key=lambda run: (sum(scores[run[0] : run[1] + 1]), run))
        first, last = self.runs[pair] = low + first, low + last
        text, words = self.layout.text[pair.start : pair.end].strip(), self.targets
        start = self._same_place(inside[0], first, pair.start)
        end = self._same_place(inside[-1], last, pair.end)
        start = start or _Place(first, _leading(words[first]) if text[0].isalnum() else 0)
        end = end or _Place(last, _trailing(words[last]) if text[-1].isalnum() else len(words[last]))
        start, end = self._within(pair.parent, start), self._within(pair.parent, max(start, end))
        self.bounds[pair] = start, end
        self.inserted[start].append(((1, 2 * pair.depth + 1, number), pair.raw))
        self.inserted[end].append(((0, -2 * pair.depth - 1, -number), pair.close))

    def _share(self, word: int, inside: range) -> float:
        """The share of a translated word's attention that is on some words of the source."""
        weights = self.weights[word]
        return sum(weight for place, weight in weights.items() if place in inside) / max(sum(weights.values()), 1e-9)

    def _within(self, pair: Node | None, place: _Place) -> _Place:
        return min(max(place, self.bounds[pair][0]), self.bounds[pair][1]) if pair else place

    def _same_place(self, source: int, target: int, offset: int) -> _Place | None:
        """The same place in a word that was not translated."""
        word, text = self.sources[source], self.targets[target]
        is_same = len(word.text) == len(text) and word.text.casefold() == text.casefold()
        return _Place(target, bisect.bisect_left(word.offsets, offset)) if is_same else None

    def _span_at(self, offset: int) -> _Span:
        return next((span for span in self.spans if offset <= span.end), self.spans[-1])

    def _place_mark(self, mark: Node, number: int) -> None:
        """Place a mark, or a name without its number, at the word behind which or before which it stood."""
        left = self.layout.text[: mark.start][-1:] or " "
        right = self.layout.text[mark.end : mark.end + 1] or " "
        span = self._span_at(mark.start)
        places = [place for place, word in enumerate(self.sources) if span.begin <= word.start < span.end]
        before = [place for place in places if self.sources[place].start < mark.start]
        behind = [place for place in places if self.sources[place].end > mark.end]
        is_behind = bool(before) and (left != " " or not right.isalnum())
        place = None
        if span.first == span.last:  # the sentence has an empty translation
            target = min(span.first, len(self.targets) - 1)
        elif before and behind:
            anchor = before[-1] if is_behind else behind[0]
            words = range(span.first, span.last)
            target = max(words, key=lambda word: (self.weights[word].get(anchor, 0.0), -word))
            place = self._same_place(anchor, target, mark.start) if left + right != "  " else None
        else:
            target = span.last - 1 if before else span.first
        word = self.targets[target]
        if place is None and is_behind:
            is_inside = left.isalnum() or not (right.isalnum() or right == " ")  # before punctuation
            place = _Place(target, _trailing(word) if is_inside else len(word))
        place = place or _Place(target, _leading(word) if right.isalnum() else 0)
        place = self._within(mark.parent, place)
        word = self.targets[place.word]
        before_it, behind_it = word[: place.character][-1:], word[place.character : place.character + 1]
        space_before = " " * (before_it.isalnum() and not left.isalnum())
        space_behind = " " * (behind_it.isalnum() and not right.isalnum())
        order = (0, -2 * mark.depth, number) if is_behind else (1, 2 * mark.depth, number)
        self.inserted[place].append((order, f"{space_before}{mark.raw}{space_behind}"))

    def _place_breaks(self) -> dict[int, str]:
        """Divide the translation into lines of about the lengths that the source's lines have; by first word."""
        breaks: dict[int, str] = {}
        ends = [0, *itertools.accumulate(len(word) + 1 for word in self.targets)]  # in characters
        for node in self.layout.nodes:
            if node.kind != "break":
                continue
            span = self._span_at(node.start)
            share = (node.start - span.begin) / max(span.end - span.begin, 1)
            wanted = ends[span.first] + share * (ends[span.last] - ends[span.first])
            word = bisect.bisect_left(ends, wanted)
            if word > 0 and wanted - ends[word - 1] <= ends[word] - wanted:
                word -= 1
            if share < 1:  # within a sentence
                word = min(max(word, span.first + 1), span.last - 1)
            if 0 < word < len(self.targets):
                breaks.setdefault(word, node.raw)
        return breaks

    def _write_word(self, number: int, *, is_first: bool) -> str:
        word, segment = self.targets[number], self.segment
        characters = [segment.encode(character) for character in word]
        if is_first and segment.unsafe and (match := segment.unsafe.match(word)):
            characters[match.end() - 1] = "\\" + word[match.end() - 1]
        for place in range(len(word)):
            name = self.replaced.get(_Place(number, place))
            if name is not None:
                characters[place : place + name.end - name.start] = [name.raw, *[""] * (name.end - name.start - 1)]
        written = ""
        for place in range(len(word) + 1):
            written += "".join(raw for _, raw in sorted(self.inserted.get(_Place(number, place), ())))
            written += "".join(characters[place : place + 1])
        return written


def _best_run(scores: Sequence[float], taken: set[int]) -> tuple[int, int] | None:
    """The first and the last place of the run without taken places that has the greatest sum; None: all are taken."""
    best: tuple[float, int, int] | None = None
    total, start = 0.0, 0
    for place, score in enumerate(scores):
        if place in taken:
            total, start = 0.0, place + 1
            continue
        if total <= 0:
            total, start = 0.0, place
        total += score
        if best is None or total > best[0]:
            best = total, start, place
    return best and best[1:]


def _leading(word: str) -> int:
    """The number of punctuation marks before a word; 0 for one that has nothing else."""
    match = _PUNCTUATION_FIRST.match(word)
    return match.end() if match and match.end() < len(word) else 0


def _trailing(word: str) -> int:
    """The place behind a word and before its punctuation."""
    match = _PUNCTUATION_LAST.search(word)
    return match.start() if match and match.start() > 0 else len(word)
