"""Records of a line: request, search inputs, translation and its conditions; and the buffers that read lines ahead."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from translate.config.data import Direction
from translate.decoding.constraints.terminology import Terminology
from translate.decoding.output.flags import flag_translation
from translate.decoding.output.words import WordConfidence, group_words, word_confidences

OnFinished = Callable[[int], object]
"""Receives the number of newly finished lines, to show progress; called from any thread, but never from two at once."""

BUFFER_CHARACTERS = 1_000_000  # a buffer of very long lines ends early

_DOUBTFUL = 0.5  # in a notebook the bar of a less probable word is orange


Item = TypeVar("Item", bound=tuple[Any, ...])


def ignore_progress(num_lines: int) -> None:
    """An `OnFinished` that does nothing."""


class Request(NamedTuple):
    """A line to translate, and the constraints on its translation.

    A line that is too long is translated in pieces. Its prefix then begins the first piece, and each term constrains
    the piece that contains the whole term. The required phrases do not constrain any piece, because it is not known
    which piece needs them; phrases that the whole translation does not contain are reported as unmet.
    """

    source: str
    prefix: str = ""  # the beginning of the translation
    required: tuple[str, ...] = ()  # words and phrases that the translation contains
    terminology: Terminology | None = None  # the translations of its terms are required too
    to: str | None = None  # the language of the translation; None: the translator's
    from_: str | None = None  # the language of the source; None: the translator's, if the model translates it so


def merge_phrases(required: Iterable[str], terms: Iterable[str]) -> list[str]:
    """The phrases that a line requires and those of its terms, each as often as it is in the one or in the other."""
    required = list(required)
    return [*required, *(Counter(terms) - Counter(required)).elements()]


def as_requests(lines: Any) -> Iterator[Request]:
    """Yield each line as a request; text is a request without constraints.

    Raises:
        TypeError: Something is neither a `str` nor a `Request`, or `lines` is a single one.
    """
    wanted = "translate() takes a str or a list of str"
    if isinstance(lines, str | Request | bytes | bytearray | Mapping) or not isinstance(lines, Iterable):
        raise TypeError(f"{wanted}, and this is {type(lines).__name__}: {lines!r:.80}")
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str | Request):
            raise TypeError(f"{wanted}, and item {number} of this one is {type(line).__name__}: {line!r:.80}")
        yield Request(line) if isinstance(line, str) else line


class SearchInput(NamedTuple):
    """The unit of search: a whole line, or one piece of a line that was split."""

    line: int  # number of the line in the whole input, from 0; it seeds sampling
    piece: int  # number of the piece within its line, from 0; it seeds sampling too
    source: str
    source_ids: list[int]  # with the tag of a language, and without special symbols
    source_truncated: bool  # tokens beyond the limit were cut off
    direction: Direction | None = None
    num_tags: int = 0  # tokens at the beginning of `source_ids` that are tags
    start_ids: Sequence[int] = ()  # the decoder begins with these after the start symbol: the tag of the target
    prefix_ids: Sequence[int] = ()  # token ids that the translation begins with
    phrases: Sequence[str] = ()  # phrases that the translation contains
    phrase_ids: Sequence[list[int]] = ()  # the same phrases as token ids

    @property
    def has_words(self) -> bool:
        """Whether there is something to translate; other inputs have no hypotheses."""
        return len(self.source_ids) > self.num_tags and not self.source.isspace()

    @property
    def is_free(self) -> bool:
        """Whether there is something to translate and no constraint on it, so that every engine can."""
        return self.has_words and not (self.prefix_ids or self.phrase_ids)


class Translation(NamedTuple):
    """The translation of one line, its scores and its condition. `str()` gives `text`; a notebook shows a picture."""

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

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        others = f", {len(self.alternatives)} alternatives" if self.alternatives else ""
        flags = f", {', '.join(sorted(self.flags))}" if self.flags else ""
        return f"<Translation {self.text!r}, score {self.score:.3f}{others}{flags}>"

    def _repr_html_(self) -> str:
        """Each word with its probability, below the source word that it aligns to.

        There are no scripts and no colours of text, so that it is readable in light and dark themes.
        """
        facts = [f"score {self.score:.3f}", f"log-probability {self.log_prob:.3f} nats"]
        facts += [flag.replace("_", " ") for flag in sorted(self.flags)]
        above: dict[int, str] = {}  # the source word by the word's number
        if self.alignment and not self.pieces:  # pieces count the words of the whole line
            words = group_words(self.source_tokens)
            links = (map(int, link.split("-")) for link in self.alignment.split())
            above = {target: words[source].text for source, target in links}
        columns = "".join(
            '<span style="display:inline-block;text-align:center;margin:4px 12px 0 0">'
            f'<small style="opacity:0.7">{_escape(above.get(number, ""))}&nbsp;</small><br/>{_escape(word.text)}'
            f'<div style="height:3px;width:{word.mean_probability:.0%};margin:auto;opacity:0.7;background:'
            f'{"currentColor" if word.mean_probability >= _DOUBTFUL else "#d97706"}"></div>'
            f"<small>{word.mean_probability:.2f}</small></span>"
            for number, word in enumerate(self.words)
        )
        others = "".join(f"<li>{_escape(each.text)} ({each.score:.3f})</li>" for each in self.alternatives)
        return (
            f"<div>{_escape(self.source)} → <b>{_escape(self.text)}</b>"
            f'<div style="opacity:0.7">{", ".join(facts)}</div><div>{columns}</div>'
            + (f'<ol start="2">{others}</ol></div>' if others else "</div>")
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
        """The conditions that a reader should know about: `flags.Flag`, truncated, source_truncated, unmet and split.

        A line that was split has the flags of all its pieces.
        """
        known = {name for name in ("truncated", "source_truncated", "unmet") if getattr(self, name)}
        split = {"split"} if self.pieces else set()
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


_CONDITIONS = {
    "repetitive": "repeat themselves",
    "length_ratio": "far longer or shorter than their source",
    "unspellable": "with characters that the vocabulary cannot spell",
    "unmet": "without a required phrase",
    "split": "too long and translated in pieces",
    "source_truncated": "too long and cut",
}


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
        text = f"{self['empty']} empty, {self['truncated']} cut at the maximum length"
        return text + "".join(f", {self[flag]} {words}" for flag, words in _CONDITIONS.items() if self[flag])


def count_conditions(translations: Iterable[Translation]) -> ConditionCounts:
    """Count the conditions of all these translations."""
    counts = ConditionCounts()
    for _ in counts.watch(translations):
        pass
    return counts


def read_buffers(items: Iterable[Item], *, max_items: int) -> Iterator[list[Item]]:
    """Yield the items, which begin with their source, in order and one buffer at a time.

    No item beyond the end of a buffer is read before the next buffer is asked for.

    Args:
        max_items: Items in a buffer; fewer if their sources have `BUFFER_CHARACTERS` characters together.
    """
    buffer: list[Item] = []
    characters = 0
    for item in items:
        buffer.append(item)
        characters += len(item[0])
        if len(buffer) == max_items or characters >= BUFFER_CHARACTERS:
            yield buffer
            buffer, characters = [], 0
    if buffer:
        yield buffer
