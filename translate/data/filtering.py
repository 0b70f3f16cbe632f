"""Which training pairs are left out, and why; the log has one line per reason. And which lines are near-duplicates."""

import hashlib
import logging
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.bars import show_progress
from translate.config.data import DataConfig
from translate.data.corpora import ParallelCorpus
from translate.errors import InputError

logger = logging.getLogger(__name__)

_CHUNK_LINES = 100  # whose keys are made at once
_ASCII = [(chr(code), unicodedata.category(chr(code))[0]) for code in range(128)]
_REMOVED = "".join(each for each, kind in _ASCII if kind in "PSC" and not each.isspace()).encode()
_SPACES = "".join(each for each, _ in _ASCII if each.isspace() and each != "\n").encode()
_ONE_SPACE = bytes.maketrans(_SPACES, b" " * len(_SPACES))
_ODD = np.int64(-7046029254386353131)  # 2^64 divided by the golden ratio: spreads the source's bits over the sum
_ONE_DIGIT = bytes.maketrans(b"123456789" + _SPACES, b"0" * 9 + b" " * len(_SPACES))


class FilterReport(NamedTuple):
    """The counts for one corpus. A pair that is left out is counted under the first rule that it breaks."""

    name: str
    num_pairs: int  # before filtering
    left_out: dict[str, int]  # by reason, with its limit

    @property
    def num_kept(self) -> int:
        """The pairs that break no rule."""
        return self.num_pairs - sum(self.left_out.values())

    def lines(self) -> list[str]:
        """A summary for the log, and one line for each rule that left pairs out."""
        summary = f"{self.name}: {self.num_kept:,} of {self.num_pairs:,} pairs kept"
        return [summary] + [f"  {count:,} left out: {reason}" for reason, count in self.left_out.items() if count]


def log_reports(reports: Iterable[FilterReport]) -> None:
    """Log what was left out of some corpora."""
    for report in reports:
        for line in report.lines():
            logger.info(line)


def hash_lines(lines: Iterable[str]) -> NDArray[np.int64]:
    """The 64-bit hash of each line without its case and with single spaces.

    The chance that two different sentences of ten million share a hash is one in 300,000.
    """
    texts = (" ".join(line.casefold().split()).encode("utf-8", "surrogatepass") for line in lines)
    return np.frombuffer(b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts), np.int64)


def hash_pairs(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hashes of pairs whose sides have these hashes."""
    return sources * _ODD ^ targets


def find_new(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which values have not occurred before."""
    is_new = np.zeros(len(values), dtype=np.bool_)
    is_new[np.unique(values, return_index=True)[1]] = True
    return is_new


def near_duplicate_hashes(lines: Iterable[str], *, keep_digits: bool = False) -> NDArray[np.int64]:
    """The 64-bit hash of each line's key, valid in this process; 0: the key is empty, and the line duplicates nothing.

    Lines with one key differ only in case, punctuation, spaces and, unless they are kept, digits. See
    `near_duplicate_keys`.

    One core hashes 200,000 German lines of Multi30k per second, and a million English ones, which are ASCII.
    """
    rest = iter(lines)
    chunks = iter(lambda: list(islice(rest, _CHUNK_LINES)), [])
    keys = chain.from_iterable(near_duplicate_keys(chunk, keep_digits=keep_digits) for chunk in chunks)
    return np.fromiter(map(hash, keys), np.int64)


def near_duplicate_keys(lines: Sequence[str], *, keep_digits: bool = False) -> list[bytes]:
    """What is left of each line: its letters and digits; a chunk of lines takes little longer than a few.

    Letters are in their compatibility form (NFKC) and lowercase, and words are one space apart. Punctuation, symbols
    and invisible characters are removed, so a key may be empty. Each digit is 0, unless they are kept.
    """
    text = "\n".join(line.replace("\n", " ") for line in lines)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold()
    for each in {*text} if not text.isascii() else ():
        kind = unicodedata.category(each)
        if each > "\x7f" and (kind == "Nd" or kind[0] in "PSCZ"):
            text = text.replace(each, str(unicodedata.decimal(each, " " if each.isspace() else "")))
    keys = text.encode().translate(_ONE_SPACE if keep_digits else _ONE_DIGIT, _REMOVED)
    while b"  " in keys:
        keys = keys.replace(b"  ", b" ")
    return [key.strip() for key in keys.split(b"\n")] if lines else []


def filter_pairs(
    corpus: ParallelCorpus,
    source_lengths: NDArray[np.signedinteger],
    target_lengths: NDArray[np.signedinteger],
    *,
    limits: DataConfig,
    batch_tokens: int,
) -> tuple[NDArray[np.int64], FilterReport]:
    """Apply the limits of the config to one corpus.

    Args:
        source_lengths: Number of subwords of each source, without special symbols; `target_lengths` likewise.
        batch_tokens: Most tokens on a side of a pair, with its special symbol.

    Returns:
        The positions of the pairs to keep, ascending, and the counts of the others.

    Raises:
        InputError: A pair that is kept is too long for a batch.
    """
    max_source, max_target, ratio = limits.max_source_tokens, limits.max_target_tokens, limits.max_length_ratio
    equal = repeated = np.zeros(len(source_lengths), dtype=np.bool_)
    if limits.leave_out:
        with show_progress("Looking for repeated pairs"):
            sides = [hash_lines(side) for side in (corpus.sources, corpus.targets)]
        equal, repeated = sides[0] == sides[1], ~find_new(hash_pairs(*sides))
    longer, shorter = np.maximum(source_lengths, target_lengths), np.minimum(source_lengths, target_lengths)
    rules = {
        "empty source": source_lengths == 0,
        "empty target": target_lengths == 0,
        f"source over data.max_source_tokens = {max_source}": source_lengths > max_source,
        f"target over data.max_target_tokens = {max_target}": target_lengths > max_target,
        f"lengths over data.max_length_ratio = {ratio}": longer > (ratio or np.inf) * np.maximum(shorter, 1),
        "source and target equal (data.leave_out)": equal & ("equal" in limits.leave_out),
        "repeated (data.leave_out)": repeated & ("repeated" in limits.leave_out),
    }
    is_broken = np.stack(list(rules.values()))
    is_left_out = is_broken.any(axis=0)
    kept = np.flatnonzero(~is_left_out)
    if len(kept) and (size := longer[kept].max() + 1) > batch_tokens:
        number = int(kept[longer[kept].argmax()])
        side = "source" if source_lengths[number] >= target_lengths[number] else "target"
        key = f"max_{side}_tokens"
        raise InputError(
            f"training.batch_tokens = {batch_tokens}: the {side} of pair {number + 1} of {corpus.name} has {size}"
            " tokens with its special symbol; raise training.batch_tokens to at least that, or lower"
            f" data.{key} = {getattr(limits, key)}"
        )
    first_rule = np.bincount(is_broken.argmax(axis=0)[is_left_out], minlength=len(rules))
    return kept, FilterReport(corpus.name, len(source_lengths), dict(zip(rules, first_rule.tolist(), strict=True)))
