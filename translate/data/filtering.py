"""Leave out training pairs that a rule excludes, and log how many each rule excludes."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.bars import show_progress
from translate.config.data import DataConfig
from translate.data.corpora import ParallelCorpus
from translate.errors import InputError

logger = logging.getLogger(__name__)

_ODD = np.int64(-7046029254386353131)  # 2^64 divided by the golden ratio: spreads the source's bits over the sum


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


def hash_lines(lines: Iterable[str], hash_text: Callable[[str], int] = hash) -> NDArray[np.int64]:
    """The 64-bit hash of each line without its case and with single spaces; by default, valid only in this process.

    The chance that two different sentences of ten million share a hash is one in 300,000.
    """
    return np.fromiter((hash_text(" ".join(line.casefold().split())) for line in lines), np.int64)


def _stable_hash(text: str) -> int:
    """A hash that is the same in every process. Python's own is faster, but differs from process to process."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def hash_pairs(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hashes of pairs whose sides have these hashes."""
    return sources * _ODD ^ targets


def find_new(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which values have not occurred before."""
    is_new = np.zeros(len(values), dtype=np.bool_)
    is_new[np.unique(values, return_index=True)[1]] = True
    return is_new


def filter_pairs(
    corpus: ParallelCorpus,
    source_lengths: NDArray[np.signedinteger],
    target_lengths: NDArray[np.signedinteger],
    *,
    num_tags: Sequence[int] = (0, 0),
    limits: DataConfig,
    batch_tokens: int,
) -> tuple[NDArray[np.int64], FilterReport]:
    """Apply the limits of the config to one corpus.

    Args:
        source_lengths: Number of subwords of each source with its tags, without special symbols; `target_lengths`
            likewise.
        num_tags: Number of subwords of the tags of each source and of each target.
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
            sides = [hash_lines(side, _stable_hash) for side in (corpus.sources, corpus.targets)]
        equal, repeated = sides[0] == sides[1], ~find_new(hash_pairs(*sides))
    longer, shorter = np.maximum(source_lengths, target_lengths), np.minimum(source_lengths, target_lengths)
    rules = {
        "empty source": source_lengths <= num_tags[0],
        "empty target": target_lengths <= num_tags[1],
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
