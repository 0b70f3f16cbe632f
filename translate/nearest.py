"""Suggestions for an unknown key, option, preset or choice: "did you mean …?"."""

import difflib
from collections.abc import Iterable, Sequence


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """The known names that a wrong one probably means: names that have all of its words, or a misspelling.

    Args:
        name: Such as `beam` or `cosin`; dashes count as underscores, and case does not count.
        cutoff: Least similarity of a misspelling, 0 to 1.
    """
    plain = {candidate: _plain(candidate) for candidate in known}
    word = _plain(name)
    words = set(word.split("_"))
    parts = [candidate for candidate in plain.values() if words <= set(candidate.split("_"))]
    begins = [candidate for candidate in parts if candidate.startswith(word)]
    for meant in ([word], begins, parts, difflib.get_close_matches(word, plain.values(), n=1, cutoff=cutoff)):
        if found := [candidate for candidate in plain if plain[candidate] in meant]:
            return found[:3]
    return []


def did_you_mean(names: Sequence[str]) -> str:
    """The end of a message that asks whether one of the names was meant; empty if there is none."""
    return f"; did you mean {' or '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}?" if names else ""


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("-", "_")
