"""The languages of corpora: learnt from the text itself for single lines, and identified by name for whole sides."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.config.data import Direction
from translate.language_codes import find_language
from translate.trigrams import FEW_PAIRS, count_trigrams

# Nats per character: Danish is 0.37 less likely as Norwegian, Galician 0.7 as Portuguese, German 0.65-0.8 as English.
_CLEARLY, _IDENTIFIED_LINES, _IDENTIFIED_CHARACTERS = 0.2, 200, 1000


class KnownLanguage(NamedTuple):
    """A language, and the corpus that it was learnt from."""

    counts: NDArray[np.float64]  # of trigrams
    key: str  # of the corpus


def learn_known(samples: Mapping[str, tuple[Direction, Sequence[str], Sequence[str]]]) -> dict[str, KnownLanguage]:
    """Learn each language from the first corpus that has it and is large enough.

    Args:
        samples: The direction, sources and targets of each corpus, by its key.
    """
    known: dict[str, KnownLanguage] = {}
    for key, (direction, *sides) in samples.items():
        for code, lines in zip(direction, sides, strict=True):
            if code not in known and len(lines) >= FEW_PAIRS:
                known[code] = KnownLanguage(count_trigrams(lines), key)
    return known


def identify_sides(
    key: str, direction: Direction, sides: tuple[Sequence[str], Sequence[str]]
) -> Iterator[tuple[str, bool]]:
    """Messages about sides that are clearly not in their languages, each with whether that side has the other language.

    py3langid knows some 140 languages by their codes of two letters, or of three where there are none with two.
    """
    import py3langid  # takes 0.2 s, and its model a second

    for side, name in enumerate(("source", "target")):
        text = "\n".join(sides[side][:: max(1, len(sides[side]) // _IDENTIFIED_LINES)])
        scores = dict(py3langid.rank(text)) if len(text) >= _IDENTIFIED_CHARACTERS else {}
        found = max(scores, key=lambda code: scores[code], default=None)
        own, other = (find_language(direction[each], scores, or_wider=True) for each in (side, 1 - side))
        if found and own and scores[found] - scores[own] > _CLEARLY * len(text):
            yield f"{key}: its {name} should be {direction[side]}, but looks like {found}", found == other
