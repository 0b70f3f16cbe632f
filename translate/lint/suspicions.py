"""What can be suspicious in a corpus: what it is called, from when on it is a warning, and what to do about it."""

import math
from typing import Literal, NamedTuple

from translate.lint.characters import KINDS as ODD_CHARACTERS
from translate.lint.settings import Finding, Severity

_SHOWN_CHARACTERS = 45

Unit = Literal["line", "row"]


class Place(NamedTuple):
    """Where something is: a line of a text file or a row of a table, or a range of them, counted from 1."""

    unit: Unit
    line: int
    last_line: int
    source: str
    target: str
    remark: str


class Suspects(NamedTuple):
    """Pairs of one corpus that are suspicious for one reason."""

    kind: str  # a key of KINDS
    num_pairs: int
    num_inspected: int
    examples: tuple[Place, ...]


class Leak(NamedTuple):
    """A held-out corpus of which training has seen something."""

    key: str
    num_pairs: int
    num_leaked_pairs: int  # source and target both occur in training as a pair
    num_leaked_sources: int  # the source occurs in training, with another target
    examples: tuple[Place, ...]


class Kind(NamedTuple):
    """A reason for suspicion."""

    what: str  # "12 of 100 pairs …"
    mend: str
    warning_share: float  # from which share of the pairs on it is a warning; below it is a note


# Shares from which a warning is due: copies hurt from 1 to 2 % on (Ott et al. 2018, arXiv 1803.00047;
# Khayrallah and Koehn 2018, arXiv 1805.12282, who find that 5 % of other noise costs little).
_ODD_MENDS = {
    "control": "remove them; tabs may stay",
    "line_end": "replace them by spaces: editors count lines otherwise than this program",
    "private_use": "find out what wrote them; they mean nothing by themselves",
    "invisible": "remove them: the same word with and without one is two words",
    "replacement": "the text was damaged before it came here; get it again, or remove the lines",
    "mojibake": "read the original as what it is (iconv), or restore it: line.encode('cp1252').decode('utf-8')",
    "markup": "turn entities into characters and remove tags, unless translations should have them",
}
KINDS: dict[str, Kind] = {
    "empty": Kind("have an empty side", "training leaves them out; remove them from held-out text", 0.01),
    "equal": Kind("are copies, the source its own translation", "remove those that have one; 1 % hurts", 0.01),
    "unlikely_length": Kind("have sides whose lengths do not fit", "align or remove them", 0.01),
    "repeated": Kind("occurred before, source and target", "remove repetitions, unless they are meant", 0.10),
    "ambiguous": Kind(
        "have a source that occurred before with another target", "usual in small numbers, and in paraphrases", 0.25
    ),
    "source_like_target": Kind(
        "have a source that looks like the target language", "remove them, or swap their sides", 0.005
    ),
    "target_like_source": Kind(
        "have a target that looks like the source language", "remove them, or swap their sides", 0.005
    ),
    "source_like_neither": Kind("have a source perhaps in a third language", "look at them, and remove them", 0.01),
    "target_like_neither": Kind("have a target perhaps in a third language", "look at them, and remove them", 0.01),
    "shifted": Kind(
        "belong to a neighbour: a line is missing or doubled on one side",
        "find the line, and align the files anew",
        0.0,
    ),
    "unrelated": Kind("do not translate each other", "check that the two sides belong together", 0.0),
} | {kind: Kind(f"have {what}", _ODD_MENDS[kind], 0.01) for kind, what in ODD_CHARACTERS.items()}
# From these shares on the training would be worth nothing, or the score of a held-out corpus.
_ERROR_SHARES = {"shifted": 0.1, "unrelated": 0.1, "source_like_target": 0.5, "target_like_source": 0.5, "equal": 0.5}


def suspicion(key: str, suspects: Suspects) -> Finding:
    """Suspicious pairs as a finding."""
    kind = KINDS[suspects.kind]
    share = suspects.num_pairs / suspects.num_inspected
    severity: Severity = "warning" if share >= kind.warning_share else "note"
    if share >= _ERROR_SHARES.get(suspects.kind, math.inf):
        severity = "error"
    return Finding(
        severity,
        suspects.kind,
        f"{key}: {suspects.num_pairs:,} of {suspects.num_inspected:,} pairs {kind.what}",
        kind.mend,
        tuple(_shown_place(place) for place in suspects.examples),
    )


def leak_finding(leak: Leak) -> Finding:
    """Leakage as a finding. From 1 % of pairs, or 5 % of sources, on a score says little about new text."""
    seen = []
    if leak.num_leaked_pairs:
        seen.append(f"{leak.num_leaked_pairs:,} of {leak.num_pairs:,} pairs")
    if leak.num_leaked_sources:
        seen.append(f"the sources of {leak.num_leaked_sources:,}{' more' if seen else f' of {leak.num_pairs:,} pairs'}")
    is_warning = leak.num_leaked_pairs >= 0.01 * leak.num_pairs or leak.num_leaked_sources >= 0.05 * leak.num_pairs
    return Finding(
        "warning" if is_warning else "note",
        "leakage",
        f"{leak.key}: {' and '.join(seen)} occur in training too (spaces and case ignored)",
        "remove these from data.train: scores on them measure memory",
        tuple(_shown_place(place) for place in leak.examples),
    )


def _shown_place(place: Place) -> str:
    lines = f"{place.unit} {place.line:,}"
    if place.last_line != place.line:
        lines = f"{place.unit}s {place.line:,} to {place.last_line:,}"
    remark = f" ({place.remark})" if place.remark else ""
    return f"{lines}{remark}: {_shown(place.source)} | {_shown(place.target)}"


def _shown(text: str) -> str:
    """Text as a terminal can take it: short, and with what cannot be seen written as U+…"""
    text = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
    return "".join(letter if letter.isprintable() else f"<U+{ord(letter):04X}>" for letter in text)
