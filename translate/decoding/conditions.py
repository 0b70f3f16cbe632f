"""How many translations are in a condition that their reader must know: empty, or cut."""

import dataclasses
from collections.abc import Iterable, Iterator

from translate.decoding.translator import Translation


@dataclasses.dataclass
class ConditionCounts:
    """Lines translated, and those that are not simply a translation."""

    lines: int = 0
    empty: int = 0  # translations without text
    truncated: int = 0  # the search reached the maximum length
    source_truncated: int = 0  # the source was cut to the model's positions

    def watch(self, translations: Iterable[Translation]) -> Iterator[Translation]:
        """The same translations, counted as they pass."""
        for translation in translations:
            self.lines += 1
            self.empty += not translation.text
            self.truncated += translation.truncated
            self.source_truncated += translation.source_truncated
            yield translation

    def __str__(self) -> str:
        text = f"{self.lines} lines, {self.empty} empty, {self.truncated} cut at the maximum length"
        if self.source_truncated:
            text += f", {self.source_truncated} sources cut to the model's positions"
        return text


def count_conditions(translations: Iterable[Translation]) -> ConditionCounts:
    """The counts of translations that are all there."""
    counts = ConditionCounts()
    for _ in counts.watch(translations):
        pass
    return counts
