"""Findings of `translate check`; and a table of what makes pairs suspicious, which are also the rules of `clean`."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from translate.errors import InputError
from translate.messages import fill
from translate.nearest import did_you_mean, nearest

Severity = Literal["error", "warning", "note"]
Unit = Literal["line", "row"]

LABEL_WIDTH = 11  # of a finding's severity in its drawing
_SHOWN_CHARACTERS = 45


class Finding(NamedTuple):
    """Something to know before a long run."""

    severity: Severity  # error: training would fail or be useless; warning: usually a mistake; note: good to know
    name: str  # for machines; the same in every version
    message: str  # what was found, with its numbers
    hint: str  # what to do about it
    examples: tuple[str, ...] = ()  # where it was found, one line each

    def draw(self) -> str:
        """Its severity, `LABEL_WIDTH` wide, message, hint and examples (one of a note), wrapped for the terminal."""
        shown, indent = self.examples[: 1 if self.severity == "note" else None], " " * LABEL_WIDTH
        label = f"  {self.severity}".ljust(LABEL_WIDTH)
        parts = [(label, self.message), (indent, f"→ {self.hint}"), *((f"{indent}  ", each) for each in shown)]
        return "\n".join(fill(each, start, " " * (len(start) + 2)) for start, each in parts)


class Location(NamedTuple):
    """A line of a text file, a row of a table, or a range of them, counted from 1."""

    unit: Unit
    line: int
    last_line: int
    source: str
    target: str
    remark: str

    def __str__(self) -> str:
        """Text that is safe to print: both sides cut short, and invisible characters written as U+…"""
        lines = f"{self.unit} {self.line:,}"
        if self.last_line != self.line:
            lines = f"{self.unit}s {self.line:,} to {self.last_line:,}"
        sides = []
        for text in (self.source, self.target):
            shown = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
            sides.append("".join(each if each.isprintable() else f"<U+{ord(each):04X}>" for each in shown))
        return f"{lines}{f' ({self.remark})' if self.remark else ''}: {' | '.join(sides)}"


class Suspects(NamedTuple):
    """Pairs of a corpus that are suspicious for the same reason."""

    kind: str  # a key of KINDS
    num_pairs: int
    num_inspected: int
    examples: tuple[Location, ...]

    def finding(self, key: str) -> Finding:
        """The finding about these pairs of a corpus, which is named by its key in the config."""
        kind, share = KINDS[self.kind], self.num_pairs / self.num_inspected
        is_error, is_warning = share >= kind.error_share, share >= kind.warning_share
        severity: Severity = "error" if is_error else "warning" if is_warning else "note"
        message = f"{key}: {self.num_pairs:,} of {self.num_inspected:,} pairs {kind.what}"
        return Finding(severity, self.kind, message, kind.hint, tuple(map(str, self.examples)))


class Kind(NamedTuple):
    """A reason to suspect pairs, and a rule of `translate clean`, which removes them."""

    what: str  # completes "12 of 100 pairs …"
    hint: str
    warning_share: float = 0.01  # a warning from this share of the pairs on, and a note below it
    error_share: float = math.inf  # from here on training, or a held-out score, is worthless


# Why these shares: copies hurt from 1 to 2 % on (Ott et al. 2018, arXiv 1803.00047;
# Khayrallah and Koehn 2018, arXiv 1805.12282, who find that 5 % of other noise costs little).
# fmt: off
_SWAPPED = "remove them, or swap their sides"
KINDS: dict[str, Kind] = {
    "empty": Kind("have an empty side", "training skips them; remove them from held-out text"),
    "equal": Kind("have a target that equals the source", "remove those that should be translated (1 % already hurts),"
                  " or skip all with data.leave_out=[equal]", 0.01, 0.5),
    "leaked": Kind("have the source of a held-out pair", "remove them from data.train"),  # see `find_leaks`
    "repeated": Kind("repeat an earlier pair",
                     "remove them unless they are intended, or skip them with data.leave_out=[repeated]", 0.10),
    "near_repeated": Kind("repeat an earlier pair except for punctuation",
                          "remove them unless they are intended", 0.10),
    "source_like_target": Kind("have a source that looks like the target language", _SWAPPED, 0.005, 0.5),
    "target_like_source": Kind("have a target that looks like the source language", _SWAPPED, 0.005, 0.5),
    "shifted": Kind("match a neighbouring line: a line is missing or duplicated on one side",
                    "find that line, and realign the files", 0.0, 0.1),
    "unrelated": Kind("are not translations of each other", "check that the two sides belong together", 0.0, 0.1),
    "unlikely_length": Kind("have sides of implausible lengths", "realign or remove them"),
    "control": Kind("contain control or private-use characters", "remove them; tabs may stay"),
    "line_end": Kind("contain line breaks",
                     "replace them with spaces: editors would count more lines than translate"),
    "invisible": Kind("contain invisible characters", "remove them: a word with one counts as another word"),
    "mojibake": Kind("contain U+FFFD or mojibake: they were read in another encoding", "read the original in its own"
                     " encoding (iconv), or repair mojibake: line.encode('cp1252').decode('utf-8')"),
    "markup": Kind("contain HTML entities or tags",
                   "replace entities with characters and remove tags, unless translations should have them"),
    "quoted": Kind("have a side in quotation marks as a spreadsheet writes it, with doubled ones inside",
                   "export the table as CSV, whose quotation marks are read: those of a TSV are text"),
}
# fmt: on


def choose_rules(only: Sequence[str], keep: Sequence[str]) -> tuple[str, ...]:
    """The rules of `translate clean`, in the order of the table: all or `only` these, without `keep`.

    Raises:
        InputError: There is no such rule.
    """
    for option, names in {"--rule": only, "--keep": keep}.items():
        for name in names:
            if name not in KINDS:
                meant = did_you_mean(nearest(name, KINDS))
                raise InputError(f"{option} {name}: is not a rule; the rules are {', '.join(KINDS)}{meant}")
    return tuple(name for name in KINDS if (name in only or not only) and name not in keep)


def count_findings(findings: Iterable[Finding]) -> str:
    """How many findings of each severity there are, such as `1 error, 2 notes`."""
    counts = Counter(finding.severity for finding in findings)
    shown = (f"{counts[each]:,} {each}{'s' * (counts[each] > 1)}" for each in get_args(Severity) if counts[each])
    return ", ".join(shown) or "none"


def by_severity(findings: list[Finding]) -> list[Finding]:
    """Errors first, then warnings, then notes, each in the given order."""
    return sorted(findings, key=lambda finding: get_args(Severity).index(finding.severity))
