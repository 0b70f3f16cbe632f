"""What `translate check` can find in a corpus: from which share of the pairs on it is a warning, and what to do."""

import math
from typing import Literal, NamedTuple, get_args

Severity = Literal["error", "warning", "note"]
Unit = Literal["line", "row"]

_SHOWN_CHARACTERS = 45


class Finding(NamedTuple):
    """Something that a person should know before a long run."""

    severity: Severity  # error: the training would fail or be useless; warning: usually a mistake; note: good to know
    name: str  # for machines; the same in every version
    message: str  # what was found, with its numbers
    hint: str  # what to do about it
    examples: tuple[str, ...] = ()  # where it was found, a line each


class Location(NamedTuple):
    """A line of a text file or a row of a table, or a range of them, counted from 1."""

    unit: Unit
    line: int
    last_line: int
    source: str
    target: str
    remark: str

    def __str__(self) -> str:
        lines = f"{self.unit} {self.line:,}"
        if self.last_line != self.line:
            lines = f"{self.unit}s {self.line:,} to {self.last_line:,}"
        remark = f" ({self.remark})" if self.remark else ""
        return f"{lines}{remark}: {_shorten(self.source)} | {_shorten(self.target)}"


class Suspects(NamedTuple):
    """Pairs of one corpus that are suspicious for one reason."""

    kind: str  # a key of KINDS
    num_pairs: int
    num_inspected: int
    examples: tuple[Location, ...]


class Leak(NamedTuple):
    """A held-out corpus that shares text with the training data."""

    key: str
    num_pairs: int
    num_leaked_pairs: int  # pairs that also occur in training
    num_leaked_sources: int  # pairs whose source occurs in training with another target
    examples: tuple[Location, ...]


class Kind(NamedTuple):
    """A reason for suspicion."""

    what: str  # completes "12 of 100 pairs …"
    hint: str
    warning_share: float = 0.01  # the share of pairs from which on it is a warning; below it is a note
    error_share: float = math.inf  # from which on the training, or the score of a held-out corpus, is worthless


# Shares from which a warning is due: copies hurt from 1 to 2 % on (Ott et al. 2018, arXiv 1803.00047;
# Khayrallah and Koehn 2018, arXiv 1805.12282, who find that 5 % of other noise costs little).
_SWAPPED = "remove them, or swap their sides"
_FOREIGN = "look at them, and remove them"
_NEIGHBOUR = "belong to a neighbour: a line is missing or doubled on one side"
_DAMAGED = "the text was damaged before it got here; get it again, or remove the lines"
_RESTORE = "read the original in its own encoding (iconv), or restore it: line.encode('cp1252').decode('utf-8')"
_AMBIGUOUS = "usual in small numbers, and in paraphrases"
_LINE_END = "replace them by spaces: editors count lines differently from translate"
_CONVERT = "turn entities into characters and remove tags, unless translations should have them"
KINDS: dict[str, Kind] = {
    "empty": Kind("have an empty side", "training leaves them out; remove them from held-out text"),
    "equal": Kind(
        "are copies, the source its own translation",
        "remove those that have one; 1 % hurts; data.leave_out=[equal] skips them",
        0.01,
        0.5,
    ),
    "unlikely_length": Kind("have sides whose lengths do not fit", "align or remove them"),
    "repeated": Kind(
        "occurred before, source and target",
        "remove repetitions, unless they are meant; data.leave_out=[repeated] skips them",
        0.10,
    ),
    "ambiguous": Kind("have a source that occurred before with another target", _AMBIGUOUS, 0.25),
    "source_like_target": Kind("have a source that looks like the target language", _SWAPPED, 0.005, 0.5),
    "target_like_source": Kind("have a target that looks like the source language", _SWAPPED, 0.005, 0.5),
    "source_like_neither": Kind("have a source perhaps in a third language", _FOREIGN),
    "target_like_neither": Kind("have a target perhaps in a third language", _FOREIGN),
    "shifted": Kind(_NEIGHBOUR, "find the line, and align the files again", 0.0, 0.1),
    "unrelated": Kind("do not translate each other", "check that the two sides belong together", 0.0, 0.1),
    "control": Kind("have control characters", "remove them; tabs may stay"),
    "line_end": Kind("have line ends inside a line", _LINE_END),
    "private_use": Kind("have private-use characters", "find out what wrote them; they mean nothing by themselves"),
    "invisible": Kind("have invisible characters", "remove them: a word with and without one counts as two words"),
    "replacement": Kind("have the replacement character U+FFFD", _DAMAGED),
    "mojibake": Kind("have mojibake, UTF-8 that was read as another encoding", _RESTORE),
    "markup": Kind("have HTML entities or tags", _CONVERT),
}


def by_severity(findings: list[Finding]) -> list[Finding]:
    """Errors first, then warnings, then notes; within each in the order given."""
    return sorted(findings, key=lambda finding: get_args(Severity).index(finding.severity))


def suspects_finding(key: str, suspects: Suspects) -> Finding:
    """The finding about suspicious pairs of the corpus with this key in the config."""
    kind = KINDS[suspects.kind]
    share = suspects.num_pairs / suspects.num_inspected
    severity: Severity = "error" if share >= kind.error_share else "warning" if share >= kind.warning_share else "note"
    message = f"{key}: {suspects.num_pairs:,} of {suspects.num_inspected:,} pairs {kind.what}"
    return Finding(severity, suspects.kind, message, kind.hint, tuple(map(str, suspects.examples)))


def leak_finding(leak: Leak) -> Finding:
    """Report leakage. A score says little about new text if 1 % of the pairs or 5 % of the sources leak."""
    seen = []
    if leak.num_leaked_pairs:
        seen.append(f"{leak.num_leaked_pairs:,} of {leak.num_pairs:,} pairs")
    if leak.num_leaked_sources:
        seen.append(f"the sources of {leak.num_leaked_sources:,}{' more' if seen else f' of {leak.num_pairs:,} pairs'}")
    is_warning = leak.num_leaked_pairs >= 0.01 * leak.num_pairs or leak.num_leaked_sources >= 0.05 * leak.num_pairs
    message = f"{leak.key}: {' and '.join(seen)} occur in training too (spaces and case ignored)"
    hint = "remove these from data.train: scores on them measure memory"
    return Finding("warning" if is_warning else "note", "leakage", message, hint, tuple(map(str, leak.examples)))


def _shorten(text: str) -> str:
    """Text that is safe to print: short, and with invisible characters written as U+…"""
    text = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
    return "".join(letter if letter.isprintable() else f"<U+{ord(letter):04X}>" for letter in text)
