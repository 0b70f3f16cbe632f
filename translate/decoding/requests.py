"""What goes into a translator and what comes out: a line with its wishes, and a translation with its condition."""

from collections.abc import Sequence
from typing import NamedTuple

from translate.decoding.flags import flag_translation


class Request(NamedTuple):
    """A line to translate, and what its translation must keep to."""

    source: str
    prefix: str = ""  # the translation begins so
    required: tuple[str, ...] = ()  # words and phrases that it contains


class Translation(NamedTuple):
    """One line's translation and its condition."""

    source: str
    text: str
    ids: list[int]  # subwords of `text`
    log_prob: float  # nats, of `ids` and the end symbol, if the search came to it: what `Translator.score` gives
    score: float  # what the search ranked it by: log_prob with its penalties
    truncated: bool  # the search reached the maximum length before the end symbol
    source_truncated: bool  # the source was cut to the positions that the model has
    token_log_probs: Sequence[float] = ()  # nats, of each id and of the end symbol, if the search came to it
    source_ids: Sequence[int] = ()  # subwords of `source`, as many as the model saw
    unmet: tuple[str, ...] = ()  # required phrases that are not in it
    alternatives: tuple["Translation", ...] = ()  # of an n-best list, those behind this one

    @property
    def flags(self) -> frozenset[str]:
        """All that a reader should know: `flags.Flag`, and truncated, source_truncated and unmet."""
        known = {"truncated": self.truncated, "source_truncated": self.source_truncated, "unmet": bool(self.unmet)}
        signs = flag_translation(source=self.source, source_ids=self.source_ids, text=self.text, ids=self.ids)
        return signs | {name for name, is_so in known.items() if is_so}


class Score(NamedTuple):
    """A given translation under the model."""

    log_prob: float  # nats, the end symbol included
    score: float  # log_prob divided by the length penalty
    token_log_probs: list[float]  # of each subword and of the end symbol
