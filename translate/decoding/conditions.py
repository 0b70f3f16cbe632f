"""How many translations are in a condition that their reader must know: empty, cut, going round in circles, …"""

import dataclasses
from collections.abc import Iterable, Iterator

from translate.decoding.request import Translation

_WORDS = {
    "repetitive": "repeat themselves",
    "length_ratio": "far longer or shorter than their source",
    "unspellable": "with characters that the vocabulary cannot spell",
    "unmet": "without a required phrase",
    "split": "too long and translated in pieces",
    "source_truncated": "too long and cut",
}


@dataclasses.dataclass
class ConditionCounts:
    """Lines translated, and those that are not simply a translation; the conditions are `Translation.flags`."""

    lines: int = 0
    empty: int = 0  # translations without text, those of empty lines too
    truncated: int = 0  # the search reached the maximum length
    split: int = 0  # the source was longer than the limit
    source_truncated: int = 0
    repetitive: int = 0
    length_ratio: int = 0
    unspellable: int = 0
    unmet: int = 0

    def watch(self, translations: Iterable[Translation]) -> Iterator[Translation]:
        """The same translations, counted as they pass."""
        for translation in translations:
            self.lines += 1
            self.empty += not translation.text
            for flag in translation.flags - {"empty"}:
                setattr(self, flag, getattr(self, flag) + 1)
            yield translation

    def __str__(self) -> str:
        text = f"{self.lines} lines, {self.empty} empty, {self.truncated} cut at the maximum length"
        return text + "".join(
            f", {getattr(self, flag)} {words}" for flag, words in _WORDS.items() if getattr(self, flag)
        )


def count_conditions(translations: Iterable[Translation]) -> ConditionCounts:
    """The counts of translations that are all there."""
    counts = ConditionCounts()
    for _ in counts.watch(translations):
        pass
    return counts
