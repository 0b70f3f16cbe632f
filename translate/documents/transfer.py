"""Markup from a text to its translation: each piece comes to the words that are aligned to the words that it was at.

A pair goes around the run of translated words that has the greatest sum of (share of attention inside the pair - 1/2),
within the run of the pair around it. There is always such a run, so no pair is lost, and none comes twice.
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from translate.documents.segments import Layout, Node, Segment

Weights = Sequence[Sequence[float]]  # by word of the translation, shares of the words of the source

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


class _Place(NamedTuple):
    """A place in the translation: before a character of a word, or behind its last."""

    word: int
    character: int


def diagonal(target: str, source: str) -> Weights:
    """The alignment of a translation in the order of its source, for want of a better one."""
    num_targets, num_sources = len(target.split()), len(source.split())
    rows = [[0.0] * num_sources for _ in range(num_targets)]
    for place, row in enumerate(rows if num_sources else []):
        row[place * num_sources // num_targets] = 1.0
    return rows


def write_translation(segment: Segment, layout: Layout, sentences: Sequence[TranslatedSentence]) -> str:
    """The segment as its format writes it, with the translations of its sentences and all of its markup."""
    return _Transfer(segment, layout, sentences).write()


class _Transfer:
    def __init__(self, segment: Segment, layout: Layout, sentences: Sequence[TranslatedSentence]) -> None:
        self.segment, self.layout = segment, layout
        self.sources: list[_Word] = []
        self.targets: list[str] = []
        self.weights: list[dict[int, float]] = []
        self.ends: list[tuple[int, int]] = []  # of the sentences: in the plain text, and in the targets
        self.first_target: list[int] = []
        for source, target, weights in sentences:
            first, targets = len(self.sources), target.split()
            self.first_target.append(len(self.targets))
            for match in re.finditer(r"\S+", source.text):
                self.sources.append(_Word(match[0], source.offsets[match.start() : match.end()]))
            self.weights += [{first + number: weight for number, weight in enumerate(row)} for row in weights]
            self.targets += targets
            self.ends.append((source.end, len(self.targets)))
        self.names = {layout.text[name.start : name.end]: name for name in layout.names}
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
        for number, target in enumerate(self.targets):
            for match in re.finditer(r"\d+", target):
                name = self.names.get(match[0])
                sources = [place for place, word in enumerate(self.sources) if name and name.start in word.offsets]
                if name is not None and name not in copied and sources:
                    copied.add(name)
                    self.replaced[_Place(number, match.start())] = name
                    self.weights[number] = dict.fromkeys(sources, 1.0)
        return copied

    def _place_pair(self, pair: Node, number: int) -> None:
        inside = [place for place, word in enumerate(self.sources) if word.end > pair.start and word.start < pair.end]
        low, high = self.runs[pair.parent] if pair.parent else (0, len(self.targets) - 1)
        scores = []
        for row in self.weights[low : high + 1]:
            share = sum(row.get(place, 0.0) for place in inside) / max(sum(row.values()), 1e-9)
            scores.append(share - 0.5)
        siblings = [run for node, run in self.runs.items() if node.parent is pair.parent]
        taken = {word - low for first, last in siblings for word in range(first, last + 1)}
        first, last = _best_run(scores, taken) or max(
            ((first - low, last - low) for first, last in siblings),
            key=lambda run: (sum(scores[run[0] : run[1] + 1]), run),
        )
        run = self.runs[pair] = low + first, low + last
        start = end = None
        if inside:
            start = self._same_place(inside[0], run[0], pair.start)
            end = self._same_place(inside[-1], run[1], pair.end)
        text, target = self.layout.text[pair.start : pair.end].strip() or "x", self.targets[run[1]]
        if start is None:
            start = _Place(run[0], 0 if not text[0].isalnum() else _leading(self.targets[run[0]]))
        if end is None:
            end = _Place(run[1], len(target) if not text[-1].isalnum() else _trailing(target))
        if pair.parent:
            start, end = (
                min(max(place, self.bounds[pair.parent][0]), self.bounds[pair.parent][1]) for place in (start, end)
            )
        self.bounds[pair] = start, max(start, end)
        self.inserted[start].append(((1, 2 * pair.depth + 1, number), pair.raw))
        self.inserted[max(start, end)].append(((0, -2 * pair.depth - 1, -number), pair.close))

    def _same_place(self, source: int, target: int, offset: int) -> _Place | None:
        """The same place in a word that was not translated."""
        word, text = self.sources[source], self.targets[target]
        is_same = len(word.text) == len(text) and word.text.casefold() == text.casefold()
        return _Place(target, bisect.bisect_left(word.offsets, offset)) if is_same else None

    def _place_mark(self, mark: Node, number: int) -> None:
        """Place what stood between two words, or between a word and its punctuation."""
        text = self.layout.text
        left, right = text[: mark.start][-1:] or " ", text[mark.end : mark.end + 1] or " "
        sentence = min(bisect.bisect_left(self.ends, (mark.start,)), len(self.ends) - 1)
        low, high = self.first_target[sentence], self.ends[sentence][1] - 1
        begin = self.ends[sentence - 1][0] if sentence else 0
        before = [place for place, word in enumerate(self.sources) if begin <= word.start < mark.start]
        behind = [place for place, word in enumerate(self.sources) if word.end > mark.end]
        behind = [place for place in behind if self.sources[place].start < self.ends[sentence][0]]
        is_behind = bool(before) and (left != " " or right == " " or not right.isalnum())
        place: _Place | None = None
        if low > high:  # the sentence has an empty translation
            low = high = min(low, len(self.targets) - 1)
        if before and behind:
            anchor = before[-1] if is_behind else behind[0]
            target = max(range(low, high + 1), key=lambda word: (self.weights[word].get(anchor, 0.0), -word))
            place = self._same_place(anchor, target, mark.start) if left != " " or right != " " else None
        else:
            target = high if before else low
        word = self.targets[target]
        if place is None and is_behind:
            ends_inside = left.isalnum() or not (right.isalnum() or right == " ")
            place = _Place(target, _trailing(word) if ends_inside else len(word))
        elif place is None:
            place = _Place(target, _leading(word) if right.isalnum() else 0)
        if mark.parent:
            place = min(max(place, self.bounds[mark.parent][0]), self.bounds[mark.parent][1])
        word = self.targets[place.word]
        raw = mark.raw
        if place.character and word[place.character - 1].isalnum() and not left.isalnum():
            raw = " " + raw
        if word[place.character : place.character + 1].isalnum() and not right.isalnum():
            raw += " "
        depth = 2 * mark.depth
        self.inserted[place].append(((0, -depth, number) if is_behind else (1, depth, number), raw))

    def _place_breaks(self) -> dict[int, str]:
        """Divide the translation into lines of about the lengths that the source's lines have; by first word."""
        breaks: dict[int, str] = {}
        lengths = [len(word) + 1 for word in self.targets]
        for node in self.layout.nodes:
            if node.kind != "break":
                continue
            sentence = min(bisect.bisect_left(self.ends, (node.start,)), len(self.ends) - 1)
            end, last = self.ends[sentence]
            begin, first = self.ends[sentence - 1] if sentence else (0, 0)
            if node.start == end:
                word = last
            else:
                wanted = (node.start - begin) / max(end - begin, 1) * sum(lengths[first:last])
                gaps = range(first + 1, last)
                word = min(gaps, key=lambda gap: abs(sum(lengths[first:gap]) - wanted), default=0)
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
