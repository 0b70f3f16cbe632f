"""Moves the markup of a text to its translation: to the words that are aligned to the marked ones.

A translated word scores the share of its attention that is inside a pair of tags, minus 1/2. The pair goes around the
run of words with the greatest sum of scores, within the run of the pair around it. There is always such a run, so no
pair is lost or duplicated.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, filterfalse, islice
from typing import Any, NamedTuple

from translate.documents.segments import Layout, Markup, Segment

_NUMBER = re.compile(r"\d+")
Weights = Sequence[Mapping[int, float]]  # for each word of the translation: weights of source words, if not zero


class SourceWord(NamedTuple):
    """A word that the model reads and its position in the segment's plain text."""

    text: str
    start: int
    end: int


@dataclass
class Sentence:
    """A sentence of a segment, its translation, and their word alignment."""

    layout: Layout
    words: list[SourceWord]
    placeholders: Sequence[Markup]  # that are numbers in the words
    end: int  # in the plain text
    target: str
    weights: Weights
    made: Any = None  # the `Translation`; None: not yet

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return join_words(self.words)

    @property
    def raws(self) -> dict[str, str]:
        """The placeholders as the document writes them, by their numbers."""
        return {self.layout.text[mark.start : mark.end]: mark.raw for mark in self.placeholders}


def join_words(words: Sequence[SourceWord]) -> str:
    """Words with spaces between them."""
    return " ".join(word.text for word in words)


def placeholders_between(placeholders: Sequence[Markup], start: int, end: int) -> Sequence[Markup]:
    """Select the placeholders in a part of the plain text; `placeholders` must be in the order of the text."""
    first, last = (bisect_left(placeholders, place, key=lambda markup: markup.start) for place in (start, end))
    return placeholders[first:last]


def without_placeholders(sentence: Sentence) -> list[SourceWord]:
    """The words of a sentence without its placeholders; punctuation that remains joins the word before it."""
    words: list[SourceWord] = []
    for word in sentence.words:
        text = word.text
        inside = placeholders_between(sentence.placeholders, word.start, word.end)
        for placeholder in reversed(inside):
            text = text[: placeholder.start - word.start] + text[placeholder.end - word.start :]
        if words and inside and inside[0].start == word.start:
            rest = text.lstrip(",.;:!?)")
            words[-1] = words[-1]._replace(text=words[-1].text + text[: len(text) - len(rest)])
            text = rest
        words += [word._replace(text=text)] * bool(text)
    return words


def diagonal(target: str, source: str) -> Weights:
    """Align a translation as if it kept the word order of its source; used if there is no better alignment."""
    num_targets, num_sources = len(target.split()), len(source.split())
    return [{place * num_sources // num_targets: 1.0} if num_sources else {} for place in range(num_targets)]


def write_translation(segment: Segment, layout: Layout, sentences: Sequence[Sentence]) -> str:
    """Write a segment in its format, with the translations of its sentences and all of its markup."""
    before, after = ("".join(item.raw for item in edge) for edge in (layout.before, layout.after))
    if not any(sentence.target.split() for sentence in sentences):
        return before + "".join(markup.raw + markup.close for markup in layout.markup) + after
    return before + _Transfer(segment, layout, sentences).write() + after


class _Transfer:
    """Words are numbered within the segment; a place is a character index in the joined translation."""

    def __init__(self, segment: Segment, layout: Layout, sentences: Sequence[Sentence]) -> None:
        self.syntax, self.layout, self.sentences = segment.syntax, layout, sentences
        self.sources = [word for sentence in sentences for word in sentence.words]
        self.targets = [word for sentence in sentences for word in sentence.target.split()]
        self.text = " ".join(self.targets)
        self.starts = [0, *accumulate(len(word) + 1 for word in self.targets)]
        self.sentence_ends = [sentence.end for sentence in sentences]
        self.source_spans = _spans([len(sentence.words) for sentence in sentences])
        self.target_spans = _spans([len(sentence.target.split()) for sentence in sentences])
        self.weights = [
            {span.start + place: weight for place, weight in row.items()}
            for span, sentence in zip(self.source_spans, sentences, strict=True)
            for row in sentence.weights
        ]
        # By paired markup that has been placed; None is the whole text. All lists are sorted.
        self.runs: dict[Markup | None, range] = {None: range(len(self.targets))}
        self.bounds: dict[Markup | None, tuple[int, int]] = {None: (0, len(self.text))}
        self.free: dict[Markup | None, list[int]] = {None: list(range(len(self.targets)))}  # not in a pair inside it
        self.taken: dict[tuple[Markup | None, int], range] = {}  # runs by the pair around them and by word
        self.inner: dict[Markup | None, list[tuple[int, int]]] = defaultdict(list)  # bounds of the pairs inside
        self.links: dict[int, list[tuple[int, float]]] = defaultdict(list)  # words and weights, by source word
        self.copied: dict[int, Markup] = {}  # placeholders by word
        self.inserted: dict[int, list[tuple[int, int, str]]] = defaultdict(list)  # by place

    def write(self) -> str:
        characters = [*self.syntax.encode(self.text), ""]
        self._write_breaks(characters)
        copied = self._write_placeholders(characters)
        self.totals = [max(sum(row.values()), 1e-9) for row in self.weights]
        for word, row in enumerate(self.weights):
            for source, weight in row.items():
                self.links[source].append((word, weight))
        self.best_targets = {source: max(links, key=lambda link: link[1])[0] for source, links in self.links.items()}
        for number, markup in enumerate(self.layout.markup):
            if markup.kind == "paired":
                self._place_paired(markup, number)
        self.ends = {pair: [0, *accumulate((end for _, end in inner), max)] for pair, inner in self.inner.items()}
        for number, markup in enumerate(self.layout.markup):
            if markup.kind != "paired" and markup not in copied:
                self._place_point(markup, number)
        for place, inserted in self.inserted.items():
            characters[place] = "".join(raw for *_, raw in sorted(inserted)) + characters[place]
        return "".join(characters)

    def _sentence_at(self, offset: int) -> int:
        return min(bisect_left(self.sentence_ends, offset), len(self.sentence_ends) - 1)

    def _write_breaks(self, characters: list[str]) -> None:
        """Divide the translation into lines about as long as the source's lines."""
        lines = {0}  # first words
        for offset, raw in self.layout.breaks:
            sentence = self._sentence_at(offset)
            end, words = self.sentence_ends[sentence], self.target_spans[sentence]
            begin = self.sources[self.source_spans[sentence].start].start
            share = (offset - begin) / max(end - begin, 1)
            wanted = self.starts[words.start] + share * (self.starts[words.stop] - self.starts[words.start])
            word = bisect_left(self.starts, wanted)
            word -= word > 0 and wanted - self.starts[word - 1] <= self.starts[word] - wanted
            if share < 1:  # within a sentence
                word = min(max(word, words.start + 1), words.stop - 1)
            if 0 < word < len(self.targets) and word not in lines:
                lines.add(word)
                characters[self.starts[word] - 1] = raw
        for word in lines:
            if match := self.syntax.unsafe.match(self.targets[word]):
                place = self.starts[word] + match.end() - 1
                characters[place] = f"\\{self.text[place]}"

    def _write_placeholders(self, characters: list[str]) -> set[Markup]:
        """Write the placeholders whose numbers were copied, and align the numbers."""
        copied = set()
        for sentence, targets in zip(self.sentences, self.target_spans, strict=True):
            missing = {self.layout.text[markup.start : markup.end]: markup for markup in sentence.placeholders}
            for match in _NUMBER.finditer(self.text, self.starts[targets.start], self.starts[targets.stop]):
                placeholder = missing.pop(match[0], None)
                if placeholder is not None:
                    copied.add(placeholder)
                    characters[match.start() : match.end()] = [placeholder.raw, *[""] * (len(match[0]) - 1)]
                    source = bisect_right(self.sources, placeholder.start, key=lambda word: word.start) - 1
                    word = bisect_right(self.starts, match.start()) - 1
                    self.weights[word] = {source: 1.0}
                    self.copied[word] = placeholder
        return copied

    def _place_paired(self, pair: Markup, number: int) -> None:
        """Place a pair around the words that are aligned to those inside it."""
        first = bisect_right(self.sources, pair.start, key=lambda word: word.end)
        inside = range(first, bisect_left(self.sources, pair.end, key=lambda word: word.start))
        around = self.runs[pair.parent]
        sentences = [self.target_spans[self._sentence_at(self.sources[word].end)] for word in (inside[0], inside[-1])]
        words = range(max(around.start, sentences[0].start), min(around.stop, sentences[1].stop)) or around
        shares: dict[int, float] = defaultdict(float)  # of the attention that is inside the pair
        for source in inside:
            for word, weight in self.links[source]:
                if word in words:
                    shares[word] += weight / self.totals[word]

        def is_outside(word: int) -> bool:  # a placeholder outside of the pair stays so: a link is not in another
            return not pair.start <= self.copied.get(word, pair).start < pair.end

        free = self.free[pair.parent]
        # The best run begins and ends with linked words. If none of them is free, any other word does.
        linked = range(min(shares, default=0), max(shares, default=-1) + 1)
        others = chain(filterfalse(is_outside, _between(free, words)), _between(free, words))
        candidates = [*_between(free, linked), *islice(others, 1)]
        run = _best_run({word: shares[word] - 0.5 - len(self.targets) * is_outside(word) for word in candidates})
        if run:
            place = bisect_left(free, run.start)
            del free[place : place + len(run)]
            self.taken |= {(pair.parent, word): run for word in run}
        else:
            run = self.taken[pair.parent, max(shares, key=lambda word: (shares[word], -word), default=words.start)]
        self.runs[pair], self.free[pair] = run, list(run)
        text = self.layout.text[pair.start : pair.end].strip()
        start = self._edges(run[0], without_punctuation=text[0].isalnum())[0]
        end = self._edges(run[-1], without_punctuation=text[-1].isalnum())[1]
        start = self._within(pair.parent, start)
        end = self._within(pair.parent, max(start, end))
        self.bounds[pair] = start, end
        insort(self.inner[pair.parent], (start, end))
        self.inserted[start].append((2 * pair.depth + 2, number, pair.raw))
        self.inserted[end].append((-2 * pair.depth - 2, -number, pair.close))

    def _place_point(self, point: Markup, number: int) -> None:
        """Place point markup, or a placeholder whose number is missing, next to the translation of its neighbour."""
        left = self.layout.text[max(point.start - 1, 0) : point.start] or " "
        right = self.layout.text[point.end : point.end + 1] or " "
        sentence = self._sentence_at(point.start)
        sources, targets = self.source_spans[sentence], self.target_spans[sentence]
        before = bisect_left(self.sources, point.start, sources.start, sources.stop, key=lambda word: word.start) - 1
        after = bisect_right(self.sources, point.end, sources.start, sources.stop, key=lambda word: word.end)
        is_after = before in sources and (left != " " or not right.isalnum())
        anchor = before if is_after else after
        if not targets:  # the sentence has an empty translation
            target = min(targets.start, len(self.targets) - 1)
        elif before in sources and after in sources:
            target = self.best_targets.get(anchor, targets.start)
        else:
            target = targets[-1] if before in sources else targets[0]
        is_inside = right.isalnum() if not is_after else left.isalnum() or not (right.isalnum() or right == " ")
        place = self._within(point.parent, self._edges(target, without_punctuation=is_inside)[is_after])
        if point.kind == "placeholder":  # it stays outside of pairs that it was outside of
            begun = bisect_left(self.inner[point.parent], (place,))
            place = max(place, self.ends.get(point.parent, [0])[begun])
        space_before = " " * (self.text[max(place - 1, 0) : place].isalnum() and not left.isalnum())
        space_after = " " * (self.text[place : place + 1].isalnum() and (point.is_spaced or not right.isalnum()))
        rank = -2 * point.depth - 1 if is_after else 2 * point.depth + 1
        self.inserted[place].append((rank, number, f"{space_before}{point.raw}{space_after}"))

    def _edges(self, word: int, *, without_punctuation: bool) -> tuple[int, int]:
        """The places where a translated word begins and ends."""
        match = re.search(r"\w(.*\w)?", self.targets[word]) if without_punctuation else None
        start, end = match.span() if match else (0, len(self.targets[word]))
        return self.starts[word] + start, self.starts[word] + end

    def _within(self, pair: Markup | None, place: int) -> int:
        return min(max(place, self.bounds[pair][0]), self.bounds[pair][1])


def _spans(lengths: Sequence[int]) -> list[range]:
    return [range(end - length, end) for length, end in zip(lengths, accumulate(lengths), strict=True)]


def _between(words: list[int], part: range) -> Iterator[int]:
    """The words of a sorted list that are in a part of the translation."""
    return map(words.__getitem__, range(bisect_left(words, part.start), bisect_left(words, part.stop)))


def _best_run(scores: Mapping[int, float]) -> range:
    """The run of adjacent words with the greatest sum of scores; empty if there are no words."""
    best, best_total = range(0), 0.0
    start, total = 0, 0.0
    for word, score in scores.items():
        if total <= 0 or word - 1 not in scores:
            start, total = word, 0.0
        total += score
        if not best or total > best_total:
            best, best_total = range(start, word + 1), total
    return best
