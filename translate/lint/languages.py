"""The languages of corpora: learnt from the text itself for single lines, and identified by name for whole sides."""

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.config.data import Direction
from translate.language_codes import find_language
from translate.lint.findings import Finding
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


def find_wrong_sides(
    key: str, direction: Direction, sides: tuple[Sequence[str], Sequence[str]], *, languages: Collection[str]
) -> Iterator[Finding]:
    """Sides of a corpus that are clearly not in their languages: an error if they are in another one of the config.

    py3langid knows some 140 languages by their codes of two letters, or of three where there are none with two.

    Args:
        languages: The codes of all languages that the config names.
    """
    import py3langid  # takes 0.2 s, and its model a second

    hint = "swap its sides, or correct its source_language and target_language"
    for name, code, lines in zip(("source", "target"), direction, sides, strict=True):
        some = lines[:: max(1, len(lines) // _IDENTIFIED_LINES)]
        text = "\n".join(line[:_IDENTIFIED_CHARACTERS] for line in some)
        try:
            scores = dict(py3langid.rank(text)) if len(text) >= _IDENTIFIED_CHARACTERS else {}
        except OSError as error:  # py3langid unpacks its model into a temporary file
            message = f"{key}: its languages are not checked: {tempfile.gettempdir()}: {error.strerror or error}"
            yield Finding("note", "languages_unchecked", message, "set TMPDIR to a folder with 70 MB of free space")
            return
        found, own = max(scores, key=scores.__getitem__, default=None), find_language(code, scores, or_wider=True)
        if found and own and scores[found] - scores[own] > _CLEARLY * len(text):
            is_ours = found in {find_language(language, scores, or_wider=True) for language in languages}
            message = f"{key}: its {name} should be {code}, but looks like {found}"
            yield Finding("error" if is_ours else "warning", "wrong_language", message, hint)
