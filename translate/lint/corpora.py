"""Find suspicious pairs of a corpus, near-duplicates, and held-out text that is in training, and name their lines."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import eq
from typing import NamedTuple

import numpy as np

from translate.config.data import Corpus
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.filtering import find_new, hash_lines, hash_pairs
from translate.data.tokenizer import MAX_CHARACTERS
from translate.lint import interface, misalignment
from translate.lint.findings import KINDS, Finding, Location, Severity, Suspects, Unit
from translate.lint.languages import KnownLanguage
from translate.lint.misalignment import Ints, Misaligned, ShiftedLines, TokenIds, count_items
from translate.lint.near_duplicates import near_duplicate_hashes
from translate.placeholders import TAGS
from translate.trigrams import find_wrong_languages

[_EMPTY] = hash_lines([""])
_NUM_EXAMPLES = 3
_LEAKED_ERROR_SHARE = 0.5  # of a held-out corpus, whose score then shows memorisation alone
_FEW_PAIRS = 100  # a smaller held-out corpus belongs to a trial, whose scores nobody reports
_JUDGED_PAIRS = 10_000  # which show whether a corpus is text of interfaces
_RUN_PAIRS = 500  # per run of a sample; a run alone is enough to show whether its lines are shifted

# UTF-8 read as Latin-1 or Windows-1252: each of a letter's two or three bytes becomes a character. Only
# with lead bytes that do not occur in other text: "Spaß“" could be the bytes of a letter too, and is left alone.
_MISREAD = "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xC0)) + "\x81\x8d\x8f\x90\x9d"
_CYRILLIC_MISREAD = "(?:[ÐÑ][\u0080-\u00bf]){2}"
_TAGS = "|".join(("div", *TAGS.split()))
_PATTERNS = {
    "line_end": re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"),
    # Also halves of surrogate pairs, and characters for private use.
    "control": re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\uf8ff\U000f0000-\U0010ffff]"),
    "invisible": re.compile("[\u200b\u2060\ufeff\u00ad]"),  # zero-width space, word joiner, BOM, soft hyphen
    "mojibake": re.compile(f"[ÃÂ][{_MISREAD}]|â[€‚„][{_MISREAD}]|{_CYRILLIC_MISREAD}|\ufffd"),
    "markup": re.compile(rf"&(?:amp|quot|lt|gt|nbsp|apos|#\d+|#x[0-9a-fA-F]+);|</?(?:{_TAGS})\b[^<>]*>"),
    "quoted": re.compile('^"[^"]*(?:""[^"]*)+"$'),
}
_FAULTS = {"equal": interface.is_untranslated, "markup": interface.has_other_tags}  # of strings of these kinds
_LEADS = re.compile('[ÃÂâÐÑ&<\ufffd]|""')  # a printable line without any of these has no odd character


class Survey(NamedTuple):
    """A corpus, and the results of reading it: 32 bytes per pair."""

    key: str  # of the corpus in the config
    unit: Unit  # what its pairs are counted in
    corpus: ParallelCorpus
    is_interface: bool
    source_hashes: Ints  # without spaces and case
    target_hashes: Ints
    source_keys: Ints  # hashes that near-duplicates share, or 0
    target_keys: Ints


class Sample(NamedTuple):
    """Pairs of a corpus for the slow inspections, in its order: all, or runs of neighbours."""

    numbers: Ints  # positions of the pairs in the corpus
    sources: list[str]
    targets: list[str]


def survey_corpus(key: str, corpus: ParallelCorpus, settings: Corpus) -> Survey:
    """Read a corpus; its settings say where it comes from. Its hashes are of the text as it is before `augment`."""
    text = corpus if corpus.augment == settings.augment else read_corpus(settings, key=key)
    sides = text.sources, text.targets
    keys = (near_duplicate_hashes(side, keep_digits=True) for side in sides)
    sample = take_sample(text, max_pairs=_JUDGED_PAIRS)
    unit: Unit = "line" if settings.kind == "text" else "row"
    return Survey(key, unit, corpus, interface.is_interface(*sample[1:]), *map(hash_lines, sides), *keys)


def take_sample(corpus: ParallelCorpus, *, max_pairs: int) -> Sample:
    """At most `max_pairs` pairs: all, or evenly spaced runs of 500 neighbours, from the beginning to the end.

    Of a line of millions of characters only the part is taken that is segmented.
    """
    starts, size = np.zeros(1, dtype=np.int64), len(corpus.sources)
    if size > max_pairs:
        size = min(_RUN_PAIRS, max_pairs)
        starts = np.linspace(0, len(corpus.sources) - size, max_pairs // size).astype(np.int64)
    runs = [slice(start, start + size) for start in starts.tolist()]
    sides = ([line[:MAX_CHARACTERS] for run in runs for line in side[run]] for side in (corpus.sources, corpus.targets))
    return Sample((starts[:, None] + np.arange(size)).ravel(), *sides)


def find_suspects(
    survey: Survey, sample: Sample, *ids: TokenIds, vocab_size: int, known: Mapping[str, KnownLanguage]
) -> list[Suspects]:
    """Suspicious pairs of the whole corpus; in its sample, also lines in the wrong language, and misaligned lines.

    Args:
        ids: The tokens of the sample's sources, and of its targets.
        known: The languages that the sides may be in, by code.
    """
    everywhere = find_everywhere(survey) | find_repetitions(*repetition_hashes(survey))
    lengths = map(count_items, survey.corpus[1:3])
    unlikely = misalignment.find_unlikely_lengths(*lengths, is_interface=survey.is_interface)
    everywhere["unlikely_length"] = np.setdiff1d(unlikely, everywhere["empty"])
    found, misaligned = inspect_closely(survey, sample, *ids, vocab_size=vocab_size, known=known)
    # Only `clean` reports single pairs that are unrelated: its tokens have no case.
    return list_suspects(survey, everywhere) + list_suspects(survey, found, misaligned.shifts, sample.numbers)


def find_everywhere(survey: Survey) -> dict[str, Ints]:
    """Positions of suspicious pairs by kind, seen in odd characters and in hashes."""
    sides, no_source = (survey.corpus.sources, survey.corpus.targets), survey.source_hashes == _EMPTY
    found = find_odd_characters(*sides)
    found["empty"] = np.flatnonzero(no_source | (survey.target_hashes == _EMPTY))
    is_equal = (survey.source_hashes == survey.target_hashes) & ~no_source
    found["equal"] = interface.find_copies(sides[0], is_equal) if survey.is_interface else np.flatnonzero(is_equal)
    for kind, is_fault in _FAULTS.items() if survey.is_interface else ():
        pairs = ((line, sides[0][line], sides[1][line]) for line in found.get(kind, no_source[:0]).tolist())
        found[kind] = np.array([line for line, *pair in pairs if is_fault(*pair)], np.int64)
    return found


def inspect_closely(
    survey: Survey, sample: Sample, *ids: TokenIds, vocab_size: int, known: Mapping[str, KnownLanguage]
) -> tuple[dict[str, Ints], Misaligned]:
    """Find lines in the wrong language, by kind, and misaligned lines. The arguments are those of `find_suspects`."""
    (numbers, sources, targets), wrong = sample, dict[str, Ints]()
    languages = [known[code] for code in dict.fromkeys(survey.corpus.direction or ()) if code in known]
    if len(languages) == 2:
        counts, is_own = zip(*((each.counts, each.key == survey.key) for each in languages), strict=True)
        own_words = interface.own_words if survey.is_interface else lambda line, other: line
        sides = (list(map(own_words, *sides)) for sides in ((sources, targets), (targets, sources)))
        wrong = find_wrong_languages(next(sides), next(sides), counts, is_own=is_own)
    is_copy = np.fromiter(map(eq, sources, targets), np.bool_)  # a copy is reported as such
    found = {kind: numbers[lines[~is_copy[lines]]] for kind, lines in wrong.items()}
    return found, misalignment.find_misaligned(*ids, numbers=numbers, vocab_size=vocab_size)


def repetition_hashes(survey: Survey) -> tuple[Ints, Ints, Ints, Ints]:
    """What `find_repetitions` compares: in text of interfaces, the strings with their case and punctuation."""
    if not survey.is_interface:
        return survey[4:]
    pairs = product((False, True), survey.corpus[1:3])
    hashes = [interface.hash_strings(side, is_near=is_near) for is_near, side in pairs]
    return hashes[0], hashes[1], hashes[2], hashes[3]


def find_repetitions(sources: Ints, targets: Ints, source_keys: Ints, target_keys: Ints) -> dict[str, Ints]:
    """Positions of pairs by what they repeat, seen in the hashes of both sides; see `Survey`.

    Returns:
        repeated: Both sides occurred before together; pairs with two empty sides do not count.
        near_repeated: Both keys occurred before together, but not both sides; an empty key does not count.
    """
    is_new, is_text = find_new(hash_pairs(sources, targets)), (sources != _EMPTY) | (targets != _EMPTY)
    is_near = ~find_new(hash_pairs(source_keys, target_keys)) & (source_keys != 0) & (target_keys != 0)
    return {"repeated": np.flatnonzero(~is_new & is_text), "near_repeated": np.flatnonzero(is_near & is_new)}


def find_odd_characters(*sides: Iterable[str]) -> dict[str, Ints]:
    """Positions of the lines with odd characters of each kind, on any side; a tab counts as a space."""
    found: dict[str, set[int]] = defaultdict(set)
    for lines in sides:
        for number, line in enumerate(lines):
            # For ASCII, three searches for a text are faster than one search for a set.
            may_be_odd = "&" in line or "<" in line or '""' in line if line.isascii() else _LEADS.search(line)
            if may_be_odd or not line.isprintable():
                for kind, pattern in _PATTERNS.items():
                    if pattern.search(line):
                        found[kind].add(number)
    return {kind: np.array(sorted(numbers), dtype=np.int64) for kind, numbers in found.items()}


def find_leaks(training: Sequence[Survey], held_out: Iterable[Survey]) -> Iterator[Finding]:
    """Held-out corpora with pairs, or one side of them, that also occur in training, ignoring spaces and case.

    If half the pairs do, that is an error, unless there are few. If 1 % do, or single sides of 5 %, it is a warning.
    """
    sources, targets = (np.concatenate(side) for side in zip(*(survey[4:6] for survey in training), strict=True))
    where = {"pair": hash_pairs(sources, targets), "source": sources, "target": targets}
    starts = np.cumsum([0, *(len(survey.corpus.sources) for survey in training)])
    for survey in held_out:
        hashes = {"pair": hash_pairs(*survey[4:6]), "source": survey.source_hashes, "target": survey.target_hashes}
        leaked = dict[int, tuple[str, int]]()  # by line: what is in training, and where; first the pairs
        for what, known in where.items():
            for line, seen in _find_in(known, hashes[what]).items():
                if line not in leaked and hashes[what][line] != _EMPTY:
                    leaked[line] = what, seen
        if not leaked:
            continue
        examples, counts = [], Counter(what for what, _ in leaked.values())
        for line, (what, seen) in list(leaked.items())[:_NUM_EXAMPLES]:
            index = int(np.searchsorted(starts, seen, side="right")) - 1
            place = f"{training[index].unit} {seen - int(starts[index]) + 1:,} of {training[index].key}"
            examples.append(str(_locate(survey, line, line, f"the {what} is {place}")))
        num_pairs, num_sides = len(survey.source_hashes), counts["source"] + counts["target"]
        is_error = num_pairs >= _FEW_PAIRS and counts["pair"] >= _LEAKED_ERROR_SHARE * num_pairs
        is_warning = counts["pair"] >= 0.01 * num_pairs or num_sides >= 0.05 * num_pairs
        message = (
            f"{survey.key}: {counts['pair']:,} of {num_pairs:,} pairs also occur in training; of the others, the"
            f" source does in {counts['source']:,} and the target in {counts['target']:,} (ignoring spaces and case)"
        )
        hint = "remove them from data.train: scores on them measure memorisation"
        severity: Severity = "error" if is_error else "warning" if is_warning else "note"
        yield Finding(severity, "leakage", message, hint, tuple(examples))


def list_suspects(
    survey: Survey, found: dict[str, Ints], shifts: Sequence[ShiftedLines] = (), sample: Ints | None = None
) -> list[Suspects]:
    """Suspicious lines by kind, and shifts, among all lines of a corpus or those of a sample."""
    inspected, suspects = np.arange(len(survey.source_hashes)) if sample is None else sample, []
    for kind in KINDS:
        lines = found.get(kind, ())
        examples, count = [_locate(survey, int(line), int(line)) for line in lines[:_NUM_EXAMPLES]], len(lines)
        for first, last, offset in shifts:
            if kind == ("unrelated" if offset is None else "shifted"):
                remark = ""
                if offset is not None:
                    distance = f"{abs(offset)} {survey.unit}{'s' * (abs(offset) > 1)}"
                    remark = f"its target is {distance} {'later' if offset > 0 else 'earlier'}"
                examples.append(_locate(survey, first, last, remark))
                count += int(((inspected >= first) & (inspected <= last)).sum())
        if count:
            suspects.append(Suspects(kind, count, len(inspected), tuple(examples[:_NUM_EXAMPLES])))
    return suspects


def _locate(survey: Survey, first: int, last: int, remark: str = "") -> Location:
    source, target = survey.corpus.sources[first], survey.corpus.targets[first]
    return Location(survey.unit, first + 1, last + 1, source, target, remark)


def _find_in(where: Ints, values: Ints) -> dict[int, int]:
    """Positions of the values that occur in `where`, and for each its first position there.

    The few held-out values are sorted, and the many of training are looked up among them.
    """
    ranked = np.sort(values)
    hits = np.flatnonzero(ranked[np.minimum(np.searchsorted(ranked, where), len(ranked) - 1)] == where)[::-1]
    first = dict(zip(where[hits].tolist(), hits.tolist(), strict=True))  # from last to first: the first one stays
    return {number: first[value] for number, value in enumerate(values.tolist()) if value in first}
