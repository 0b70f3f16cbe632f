"""Translations and scores of given ones, their conditions, and how many lines have each condition."""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from translate.config.data import Direction
from translate.decoding.output.flags import FLAGS, flag_translation
from translate.decoding.output.words import WordConfidence, group_words, word_confidences
from translate.placeholders import have_same_placeholders


class Translation(NamedTuple):
    """The translation of one line, its scores and its condition. `str()` gives `text`; a notebook shows a table."""

    source: str
    text: str
    ids: list[int]  # subwords of `text`
    log_prob: float  # nats, of `ids` and the end symbol if the search reached it; `Translator.score` gives the same
    score: float  # the search ranked by it: log_prob with its penalties
    truncated: bool  # the search reached the maximum length before the end symbol
    source_truncated: bool  # the source was cut to the most tokens that the model takes
    token_log_probs: Sequence[float] = ()  # nats, of each id, and of the end symbol if the search reached it
    source_ids: Sequence[int] = ()  # subwords of `source`, as many as the model saw, without tags
    unmet: tuple[str, ...] = ()  # required phrases that the translation does not contain
    alternatives: tuple["Translation", ...] = ()  # the rest of the n-best list
    pieces: tuple["Translation", ...] = ()  # translations of the pieces of a source that was split
    alignment: str | None = None  # links between words in Pharaoh format; None: not computed
    tokens: Sequence[str] = ()  # `ids` as the vocabulary writes them
    source_tokens: Sequence[str] = ()  # `source_ids` likewise
    direction: Direction | None = None
    tagged: bool = False  # the model wrote the tag of a language, which was left out

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        others = f", {len(self.alternatives)} alternatives" if self.alternatives else ""
        flags = f", {', '.join(sorted(self.flags))}" if self.flags else ""
        return f"<Translation {self.text!r}, score {self.score:.3f}{others}{flags}>"

    def _repr_html_(self) -> str:
        """A table of the words and their probabilities, each below the source word that it aligns to."""
        facts = [f"score {self.score:.3f}", f"log-probability {self.log_prob:.3f} nats"]
        facts += [words.phrase for flag, words in FLAGS.items() if flag in self.flags]
        above: dict[int, str] = {}  # the source word by the word's number
        if self.alignment and not self.pieces:  # pieces count the words of the whole line
            words = group_words(self.source_tokens)
            links = (map(int, link.split("-")) for link in self.alignment.split())
            above = {target: words[source].text for source, target in links}
        columns = [
            (above.get(number, ""), word.text, f"{word.mean_probability:.2f}") for number, word in enumerate(self.words)
        ]
        rows = ("".join(f"<td>{_escape(cell)}</td>" for cell in row) for row in zip(*columns, strict=True))
        others = "".join(f"<li>{_escape(other.text)} ({other.score:.3f})</li>" for other in self.alternatives)
        return (
            f"<div>{_escape(self.source)} → <b>{_escape(self.text)}</b><div>{', '.join(facts)}</div>"
            f'<table>{"".join(f"<tr>{row}</tr>" for row in rows)}</table><ol start="2">{others}</ol></div>'
        )

    @property
    def words(self) -> list[WordConfidence]:
        """The words of the translation and their probabilities; empty without token log-probabilities."""
        parts = [part for part in self.parts if len(part.token_log_probs) >= len(part.tokens)]
        return [word for part in parts for word in word_confidences(part.tokens, part.token_log_probs)]

    @property
    def parts(self) -> tuple["Translation", ...]:
        """The translations that were searched separately: the pieces, or just this translation."""
        return self.pieces or (self,)

    @property
    def flags(self) -> frozenset[str]:
        """The conditions that a reader should know about, from `FLAGS`; a split line has those of all its pieces."""
        known = {name for name in ("truncated", "source_truncated", "unmet", "tagged") if getattr(self, name)}
        split = {"split"} if self.pieces else set()
        if self.text.strip() and not have_same_placeholders(self.source, self.text):
            known.add("placeholders")
        signs = (flag_translation(part.source, part.source_ids, part.text, part.ids) for part in self.parts)
        return frozenset(known | split).union(*signs)


def _escape(text: str) -> str:
    # HTML does not allow control characters, and byte fallback can generate any of them.
    return html.escape(re.sub("[\\0-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text))


class Score(NamedTuple):
    """The score of a given translation under the model."""

    log_prob: float  # nats, the end symbol included
    score: float  # log_prob divided by the length penalty
    token_log_probs: list[float]  # nats, of each subword and of the end symbol
    ids: list[int]  # subwords of the translation, as many as were scored
    flags: frozenset[str] = frozenset()  # source_truncated, target_truncated: cut to the most tokens that are taken


class ConditionCounts(Counter[str]):
    """The number of `lines`, and of lines with each flag of `Translation.flags`.

    Every translation without text is `empty`, including the translations of empty lines.
    """

    def watch(self, translations: Iterable[Translation]) -> Iterator[Translation]:
        """Yield the same translations and count them as they pass."""
        for translation in translations:
            empty = [] if translation.text else ["empty"]
            self.update(["lines", *empty, *(translation.flags - {"empty"})])
            yield translation

    def __str__(self) -> str:
        return f"{self['lines']:,} line{'s' * (self['lines'] != 1)}, {self.conditions}"

    @property
    def conditions(self) -> str:
        """The number of lines in each condition, without the total."""
        shown = [flag for flag in FLAGS if self[flag] or flag in ("empty", "truncated")]
        return ", ".join(f"{self[flag]} {FLAGS[flag].phrase}" for flag in shown)


def count_conditions(translations: Iterable[Translation]) -> ConditionCounts:
    """Count the conditions of all these translations."""
    counts = ConditionCounts()
    for _ in counts.watch(translations):
        pass
    return counts
