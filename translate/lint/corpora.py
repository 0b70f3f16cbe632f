"""Suspicious pairs of a corpus, and held-out text that also occurs in training, each with the lines where it is.

Odd characters are what broken conversions, web pages and bad encodings leave behind.

Repeated sentences are found by 64-bit hashes of their words in lower case, 8 bytes each: the chance that two different
sentences of ten million share a hash is one in 300,000.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from translate.config.data import Corpus
from translate.config.schema import Config
from translate.data.corpora import ParallelCorpus
from translate.lint import misalignment
from translate.lint.findings import KINDS, Leak, Location, Suspects, Unit
from translate.lint.languages import Languages, find_wrong_languages
from translate.lint.misalignment import Ints, ShiftedLines, TokenIds, count_items
from translate.training.preparation import Corpora

_EMPTY = hash("")
_ODD = np.int64(-7046029254386353131)  # 2^64 divided by the golden ratio: spreads the source's bits over the sum
_NUM_EXAMPLES = 3
_RUN_PAIRS = 500  # of a sample's runs; a run shows by itself whether its lines are shifted

# What UTF-8 becomes when it is read as Latin-1 or Windows-1252: a letter's two or three bytes as as many characters.
# Only lead bytes whose other reading does not occur in text: "Spaß“" is also the bytes of a letter, and is left alone.
_MISREAD = "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xC0)) + "\x81\x8d\x8f\x90\x9d"
_CYRILLIC_MISREAD = "(?:[ÐÑ][\u0080-\u00bf]){2}"
_TAGS = "br|p|b|i|u|div|span|a|font|td|tr"
_PATTERNS = {
    "mojibake": re.compile(f"[ÃÂ][{_MISREAD}]|â[€‚„][{_MISREAD}]|{_CYRILLIC_MISREAD}"),
    "markup": re.compile(rf"&(?:amp|quot|lt|gt|nbsp|apos|#\d+|#x[0-9a-fA-F]+);|</?(?:{_TAGS})\b[^<>]*>"),
    "replacement": re.compile("\ufffd"),
}
_LEADS = re.compile("[ÃÂâÐÑ&<\ufffd]")  # a printable line without any of these has no odd character
_INVISIBLE = "\u200b\u2060\ufeff\u00ad"  # zero-width space, word joiner, byte order mark, soft hyphen
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


class Survey(NamedTuple):
    """A corpus, and what is kept of one reading of it: some bytes a pair."""

    key: str  # where the corpus stands in the config
    unit: Unit  # what its pairs are counted in
    corpus: ParallelCorpus
    source_hashes: Ints  # a number for each sentence, valid in this process; without spaces and case
    target_hashes: Ints
    source_characters: Ints
    target_characters: Ints


class Sample(NamedTuple):
    """Pairs of a corpus for the slow inspections, in its order: all, or runs of neighbours."""

    numbers: Ints  # positions of the pairs in the corpus
    sources: list[str]
    targets: list[str]


def survey_corpora(config: Config, corpora: Corpora) -> tuple[list[Survey], list[Survey]]:
    """The training corpora, and the validation and test corpora, each read once."""
    train = zip(corpora.train, config.data.train, strict=True)
    training = [survey_corpus(f"data.train.{index}", *each) for index, each in enumerate(train)]
    tests = corpora.test.items()
    held_out = [survey_corpus(f"data.test.{name}", corpus, config.data.test[name]) for name, corpus in tests]
    if corpora.validation is not None and config.data.validation is not None:
        held_out.insert(0, survey_corpus("data.validation", corpora.validation, config.data.validation))
    return training, held_out


def survey_corpus(key: str, corpus: ParallelCorpus, settings: Corpus) -> Survey:
    """Read a corpus once; the settings say where it comes from."""
    sides = corpus.sources, corpus.targets
    hashes = [np.fromiter(map(_hash, side), dtype=np.int64, count=len(side)) for side in sides]
    return Survey(key, "line" if settings.kind in {"text", "tsv"} else "row", corpus, *hashes, *map(count_items, sides))


def take_sample(corpus: ParallelCorpus, *, max_pairs: int) -> Sample:
    """At most so many pairs: all, or runs of 500 neighbours, the first at the beginning and the last at the end.

    The corpus is read once in its order, because it may lie on a disk.
    """
    num_pairs = len(corpus.sources)
    is_taken = np.ones(num_pairs, dtype=np.bool_)
    if num_pairs > max_pairs:
        run = min(_RUN_PAIRS, max_pairs)
        is_taken[:] = False
        for start in np.linspace(0, num_pairs - run, max_pairs // run).astype(np.int64):
            is_taken[start : start + run] = True
    lines = [list(compress(side, is_taken.tolist())) for side in (corpus.sources, corpus.targets)]
    return Sample(np.flatnonzero(is_taken), *lines)


def cheap_suspects(survey: Survey) -> list[Suspects]:
    """What one reading of a corpus shows, without understanding a word."""
    corpus, found = survey.corpus, find_repetitions(survey.source_hashes, survey.target_hashes)
    unlikely = misalignment.find_unlikely_lengths(survey.source_characters, survey.target_characters)
    found["unlikely_length"] = np.setdiff1d(unlikely, found["empty"])
    found |= find_odd_characters(corpus.sources, corpus.targets)
    return _suspects(found, survey, num_inspected=len(corpus.sources))


def shifted_blocks(survey: Survey) -> Iterator[Suspects]:
    """Long shifts, by the lengths of the lines alone."""
    shifted = misalignment.find_shifted_blocks(survey.source_characters, survey.target_characters)
    return _shifts(shifted, survey, np.arange(len(survey.corpus.sources)))


def thorough_suspects(
    survey: Survey, sample: Sample, *ids: TokenIds, vocab_size: int, languages: Languages | None, is_own: bool
) -> list[Suspects]:
    """What a sample of the corpus shows: the language of each line, and which line translates which.

    Args:
        ids: The tokens of the sample's sources, and those of its targets.
        languages: The languages that the sides should be in; None: not known.
        is_own: Whether the languages were learnt from this sample.
    """
    suspects = []
    if languages is not None:
        wrong = find_wrong_languages(sample.sources, sample.targets, languages, is_own=is_own)
        equal = np.array([s == t for s, t in zip(sample.sources, sample.targets, strict=True)], dtype=np.bool_)
        # A copy is reported as such.
        found = {kind: sample.numbers[lines[~equal[lines]]] for kind, lines in wrong.items()}
        suspects = _suspects(found, survey, num_inspected=len(sample.numbers))
    shifted = misalignment.find_shifted_lines(*ids, numbers=sample.numbers, vocab_size=vocab_size)
    return [*suspects, *_shifts(shifted, survey, sample.numbers)]


def find_repetitions(sources: Ints, targets: Ints) -> dict[str, Ints]:
    """Positions of pairs by what they repeat.

    Args:
        sources: Hashes of the sources.
        targets: Hashes of the targets.

    Returns:
        empty: A side is empty or all spaces.
        equal: The source is its own translation.
        repeated: Both sides occurred before together; of pairs with two empty sides none counts.
        ambiguous: The source occurred before with another target; an empty source does not count.
    """
    no_source, no_target, pairs = sources == _EMPTY, targets == _EMPTY, _hash_pairs(sources, targets)
    _, firsts = np.unique(pairs, return_index=True)
    firsts = np.sort(firsts)
    repeated, ambiguous = _after_first(pairs), firsts[_after_first(sources[firsts])]
    return {
        "empty": np.flatnonzero(no_source | no_target),
        "equal": np.flatnonzero((sources == targets) & ~no_source),
        "repeated": repeated[~(no_source & no_target)[repeated]],
        "ambiguous": ambiguous[~no_source[ambiguous]],
    }


def find_odd_characters(*sides: Iterable[str]) -> dict[str, Ints]:
    """Positions of the lines with odd characters of each kind, on any side; a tab counts as a space."""
    found: dict[str, set[int]] = defaultdict(set)
    for lines in sides:
        for number, line in enumerate(lines):
            if not line.isprintable():
                for character in set(line):
                    if character in _LINE_ENDS:
                        found["line_end"].add(number)
                    elif character in _INVISIBLE:
                        found["invisible"].add(number)
                    elif (category := unicodedata.category(character)) == "Co":
                        found["private_use"].add(number)
                    elif category in {"Cc", "Cs"} and character != "\t":
                        found["control"].add(number)
            # For ASCII, two searches for one character are faster than one search for a set.
            elif not ("&" in line or "<" in line if line.isascii() else _LEADS.search(line)):
                continue
            for kind, pattern in _PATTERNS.items():
                if pattern.search(line):
                    found[kind].add(number)
    return {kind: np.array(sorted(numbers), dtype=np.int64) for kind, numbers in found.items()}


def find_leaks(training: Sequence[Survey], held_out: Iterable[Survey]) -> list[Leak]:
    """Held-out corpora of which pairs, or sources alone, also occur in training; spaces and case do not count."""
    training_sources = np.concatenate([survey.source_hashes for survey in training])
    training_pairs = _hash_pairs(training_sources, np.concatenate([survey.target_hashes for survey in training]))
    starts = np.cumsum([0, *(len(survey.corpus.sources) for survey in training)])

    def locate(what: str, survey: Survey, numbers: Ints, seen: Ints) -> list[Location]:
        examples = []
        for number, in_training in zip(numbers[:_NUM_EXAMPLES].tolist(), seen.tolist(), strict=False):
            index = int(np.searchsorted(starts, in_training, side="right")) - 1
            place = f"{training[index].unit} {in_training - int(starts[index]) + 1:,} of {training[index].key}"
            examples.append(_locate(number, survey, remark=f"the {what} is {place}"))
        return examples

    leaks = []
    for survey in held_out:
        pairs, seen_pairs = _find_in(_hash_pairs(survey.source_hashes, survey.target_hashes), training_pairs)
        sources, seen_sources = _find_in(survey.source_hashes, training_sources)
        alone = ~np.isin(sources, pairs) & (survey.source_hashes[sources] != _EMPTY)
        sources, seen_sources = sources[alone], seen_sources[alone]
        if len(pairs) or len(sources):
            examples = locate("pair", survey, pairs, seen_pairs) + locate("source", survey, sources, seen_sources)
            sizes = len(survey.corpus.sources), len(pairs), len(sources)
            leaks.append(Leak(survey.key, *sizes, tuple(examples[:_NUM_EXAMPLES])))
    return leaks


def _suspects(found: dict[str, Ints], survey: Survey, *, num_inspected: int) -> list[Suspects]:
    return [
        Suspects(kind, len(lines), num_inspected, tuple(_locate(int(line), survey) for line in lines[:_NUM_EXAMPLES]))
        for kind in KINDS
        if len(lines := found.get(kind, ()))
    ]


def _shifts(runs: Sequence[ShiftedLines], survey: Survey, numbers: Ints) -> Iterator[Suspects]:
    for kind in ("shifted", "unrelated"):
        these = [run for run in runs if (run.offset is None) == (kind == "unrelated")]
        inside = sum(int(((numbers >= run.first) & (numbers <= run.last)).sum()) for run in these)
        examples = []
        for run in these[:_NUM_EXAMPLES]:
            remark = ""
            if run.offset is not None:
                lines = f"{abs(run.offset)} {survey.unit}{'s' * (abs(run.offset) > 1)}"
                remark = f"the target stands {lines} {'later' if run.offset > 0 else 'earlier'}"
            examples.append(_locate(run.first, survey, last=run.last, remark=remark))
        if these:
            yield Suspects(kind, inside, len(numbers), tuple(examples))


def _locate(number: int, survey: Survey, *, last: int | None = None, remark: str = "") -> Location:
    last = number if last is None else last
    source, target = survey.corpus.sources[number], survey.corpus.targets[number]
    return Location(survey.unit, number + 1, last + 1, source, target, remark)


def _hash(line: str) -> int:
    text = line.casefold().strip()
    return hash(" ".join(text.split()) if "  " in text else text)  # most lines have single spaces, and need no split


def _hash_pairs(sources: Ints, targets: Ints) -> Ints:
    return sources * _ODD ^ targets


def _after_first(values: Ints) -> Ints:
    """Positions of values that occurred before."""
    _, firsts = np.unique(values, return_index=True)
    return np.setdiff1d(np.arange(len(values)), firsts, assume_unique=True)


def _find_in(values: Ints, where: Ints) -> tuple[Ints, Ints]:
    """Positions of the values that occur in `where`, and for each the position of one that is equal.

    The few held-out values are sorted, and the many of training are looked up among them.
    """
    ranked = np.sort(values)
    hits = np.flatnonzero(ranked[np.minimum(np.searchsorted(ranked, where), len(ranked) - 1)] == where)
    unique, firsts = np.unique(where[hits], return_index=True)
    found = np.flatnonzero(np.isin(values, unique))
    return found, hits[firsts[np.searchsorted(unique, values[found])]]
