"""The languages of corpora: learnt from the text itself for single lines, and identified by name for whole sides."""

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.config.data import Direction
from translate.errors import RunError
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


def rank_languages(text: str) -> dict[str, float]:
    """The log-probability of each of the 140 languages that py3langid knows; the most probable comes first.

    Codes have two letters, or three where there are none with two.

    Raises:
        RunError: Its model cannot be unpacked into a temporary file.
    """
    import py3langid  # takes 0.2 s, and its model a second

    try:
        return dict(py3langid.rank(text))
    except OSError as error:
        problem = f"no language can be identified: {tempfile.gettempdir()}: {error.strerror or error}"
        raise RunError(f"{problem}; set TMPDIR to a folder with 70 MB of free space") from error


def find_wrong_sides(
    key: str, direction: Direction, sides: tuple[Sequence[str], Sequence[str]], *, languages: Collection[str]
) -> Iterator[Finding]:
    """Sides of a corpus that are clearly not in their languages: an error if they are in another one of the config.

    Args:
        languages: The codes of all languages that the config names.
    """
    hint = "swap its sides, or correct its source_language and target_language"
    for name, code, lines in zip(("source", "target"), direction, sides, strict=True):
        some = lines[:: max(1, len(lines) // _IDENTIFIED_LINES)]
        text = "\n".join(line[:_IDENTIFIED_CHARACTERS] for line in some)
        try:
            scores = rank_languages(text) if len(text) >= _IDENTIFIED_CHARACTERS else {}
        except RunError as error:
            problem, _, hint = str(error).partition("; ")
            yield Finding("note", "languages_unchecked", f"{key}: {problem}", hint)
            return
        found, own = next(iter(scores), None), find_language(code, scores, or_wider=True)
        if found and own and scores[found] - scores[own] > _CLEARLY * len(text):
            is_ours = found in {find_language(language, scores, or_wider=True) for language in languages}
            message = f"{key}: its {name} should be {code}, but looks like {found}"
            yield Finding("error" if is_ours else "warning", "wrong_language", message, hint)
