"""What goes into a translator and what comes out: a line with its wishes, and a translation with its condition."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from translate.decoding.constraints.terminology import Terminology
from translate.decoding.output.flags import flag_translation

_NO_PART_OF_A_LINE = re.compile("[\\0\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def one_line(text: str) -> str:
    """A generated text as a line: byte fallback can spell line breaks of all kinds, and a NUL, which no text has."""
    return _NO_PART_OF_A_LINE.sub(" ", text)


class Request(NamedTuple):
    """A line to translate, and what its translation must keep to.

    Of a line that is too long and so translated in pieces, the prefix begins the first and terms are required of the
    piece that they stand in; of the other phrases, which no piece is known to need, it is only said whether they are
    there.
    """

    source: str
    prefix: str = ""  # the translation begins so
    required: tuple[str, ...] = ()  # words and phrases that it contains
    terminology: Terminology | None = None  # the translations of its terms are required too


class Translation(NamedTuple):
    """One line's translation and its condition."""

    source: str
    text: str
    ids: list[int]  # subwords of `text`
    log_prob: float  # nats, of `ids` and the end symbol, if the search came to it: what `Translator.score` gives
    score: float  # what the search ranked it by: log_prob with its penalties
    truncated: bool  # the search reached the maximum length before the end symbol
    source_truncated: bool  # the source was cut to the most tokens that the model takes
    token_log_probs: Sequence[float] = ()  # nats, of each id and of the end symbol, if the search came to it
    source_ids: Sequence[int] = ()  # subwords of `source`, as many as the model saw
    unmet: tuple[str, ...] = ()  # required phrases that are not in it
    alternatives: tuple["Translation", ...] = ()  # of an n-best list, those behind this one
    pieces: tuple["Translation", ...] = ()  # of a source that was split: what this one was put together from

    @property
    def parts(self) -> tuple["Translation", ...]:
        """What was translated by itself: the pieces, or all of it."""
        return self.pieces or (self._replace(alternatives=()),)

    @property
    def flags(self) -> frozenset[str]:
        """All that a reader should know: `flags.Flag`, truncated, source_truncated, unmet; or split and the pieces'."""
        if self.pieces:
            flags = frozenset({"split", *({"unmet"} if self.unmet else ())})
            return flags.union(*(piece.flags for piece in self.pieces))
        known = {"truncated": self.truncated, "source_truncated": self.source_truncated, "unmet": bool(self.unmet)}
        signs = flag_translation(source=self.source, source_ids=self.source_ids, text=self.text, ids=self.ids)
        return signs | {name for name, is_so in known.items() if is_so}


class Score(NamedTuple):
    """A given translation under the model."""

    log_prob: float  # nats, the end symbol included
    score: float  # log_prob divided by the length penalty
    token_log_probs: list[float]  # of each subword and of the end symbol
    ids: list[int]  # its subwords, as many as were scored
    flags: frozenset[str] = frozenset()  # source_truncated, target_truncated: cut to the most tokens that are taken
