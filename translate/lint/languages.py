"""Finds corpora whose sides are not in their languages, judging by other corpora and by a list of known languages.

Each language is learnt from the first corpus that has it and is large enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.config.data import Direction
from translate.language_codes import find_language
from translate.trigrams import FEW_PAIRS, count_trigrams, is_other_side, share_like_other

# Nats per character: Danish is 0.37 less likely as Norwegian, Galician 0.7 as Portuguese, German 0.65-0.8 as English.
_CLEARLY, _IDENTIFIED_LINES, _IDENTIFIED_CHARACTERS = 0.2, 200, 1000
_JUDGED_LINES = 1000  # of a side that may be in another language as a whole


class KnownLanguage(NamedTuple):
    """A language, and the text that it was learnt from."""

    counts: NDArray[np.float64]  # of trigrams
    key: str  # of the corpus
    lines: Sequence[str]


def learn_known(samples: Mapping[str, tuple[Direction, Sequence[str], Sequence[str]]]) -> dict[str, KnownLanguage]:
    """The languages of corpora, each from the first that has it; a sample is a direction, sources and targets."""
    known: dict[str, KnownLanguage] = {}
    for key, (direction, *sides) in samples.items():
        for code, lines in zip(direction, sides, strict=True):
            if code not in known and len(lines) >= FEW_PAIRS:
                known[code] = KnownLanguage(count_trigrams(lines), key, lines)
    return known


def identify_sides(
    key: str, direction: Direction, sides: tuple[Sequence[str], Sequence[str]]
) -> Iterator[tuple[str, bool]]:
    """Messages about sides that are clearly not in their languages, each with whether it is in the other side's.

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


def find_wrong_sides(
    key: str, direction: Direction, sides: tuple[Sequence[str], Sequence[str]], known: Mapping[str, KnownLanguage]
) -> Iterator[str]:
    """Messages about sides of a corpus that do not look like their languages, judging by other corpora.

    If only the other side's language is known, this side may look more like it than that side does.
    """
    elsewhere = {each: own for each, own in known.items() if own.key != key}
    for side, lines, others in (0, *sides), (1, *sides[::-1]):
        code, other = direction[side], direction[1 - side]
        if code in elsewhere:
            judged, own = lines[:_JUDGED_LINES], elsewhere[code].counts
            third = (each for each in known if each not in direction)
            found = [each for each in third if share_like_other(judged, own, known[each].counts) > 0.5]
        else:
            is_swapped = other in elsewhere and is_other_side(elsewhere[other].lines[:_JUDGED_LINES], others, lines)
            found = [other] if is_swapped else []
        name = ("source", "target")[side]
        yield from (f"{key}: its {name} should be {code}, but looks like {each} in {known[each].key}" for each in found)
