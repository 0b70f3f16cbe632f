"""The batches of each epoch: a pure function of the data, the seed and the epoch's number.

So a stopped run is continued from (epoch, batch) alone, and skips what it has seen without making a tensor.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.bars import show_progress
from translate.config.data import DataConfig
from translate.data.augmentation import change_pairs, draw_changes
from translate.data.batching import Batch, cut_batches, make_batch, order_by_length
from translate.data.cache import DataCache
from translate.data.corpora import ParallelCorpus, join_texts
from translate.data.filtering import FilterReport, filter_pairs
from translate.data.subword_sampling import SamplingPool, sample_lines
from translate.data.token_store import CheckCancelled, TokenChunk, TokenStore, TokenWriter, encode_texts
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError

# Purposes of generators. The seed, the epoch and the purpose seed a generator, so that no random choice depends on
# another.
_CHOICE, _ORDER, *_SAMPLING, _CHANGES, _TYPOS = range(6)  # one kind of sampling for each side
# Lines that one generator samples. Changing this number changes the segmentations of a run.
_SAMPLED_LINES = 50_000
_MAX_GAP = 4  # between the numbers of lines that are read as one block


class Padding(NamedTuple):
    """The tokens that an epoch computes on both sides, special symbols counted."""

    share: float  # of padding in everything that is computed, 0 to 1
    num_computed: int  # tokens and padding
    num_target_tokens: int  # without padding


@dataclass(eq=False)
class Epoch:
    """The planned batches of one epoch; the tensors of a batch are made when it is asked for.

    Batch n has the pairs at `positions[starts[n] : ends[n]]` of `sources` and `targets`, and their `pair_numbers`.
    """

    sources: TokenStore
    targets: TokenStore
    positions: NDArray[np.int64]
    pair_numbers: NDArray[np.int64]  # for `Batch.indices`
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    num_changed: int = 0
    """Pairs whose text is changed in this epoch, as `augment` of their corpus says."""
    num_resegmented: int = 0
    """Pairs that exceeded a length limit when changed or sampled, and are seen as usual in this epoch."""

    def __post_init__(self) -> None:
        # Now, in the thread that plans: this reads the lengths of all pairs, for which no step should wait.
        self.padding = self._count_padding()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> Batch:
        pairs = slice(self.starts[number], self.ends[number])
        positions, pair_numbers = self.positions[pairs], self.pair_numbers[pairs].tolist()
        return make_batch(self.sources.chunk(positions), self.targets.chunk(positions), pair_numbers)

    @property
    def shapes(self) -> NDArray[np.int64]:
        """For each batch: its pairs, and the tokens of its longest source and target, special symbols counted."""
        order = np.argsort(self.starts)  # `reduceat` needs the batches in the order of `positions`
        shapes = np.empty((len(self), 3), dtype=np.int64)
        shapes[:, 0] = self.ends - self.starts
        for column, side in ((1, self.sources), (2, self.targets)):
            shapes[order, column] = np.maximum.reduceat(side.lengths[self.positions], self.starts[order]) + 1
        return shapes

    def _count_padding(self) -> Padding:
        """The tokens and the padding of the whole epoch."""
        pairs, sources, targets = self.shapes.T
        num_computed = int((pairs * (sources + targets)).sum())
        num_source_tokens, num_target_tokens = (
            int(side.lengths[self.positions].sum(dtype=np.int64)) + len(self.positions)
            for side in (self.sources, self.targets)
        )
        num_padding = num_computed - num_source_tokens - num_target_tokens
        return Padding(num_padding / max(1, num_computed), num_computed, num_target_tokens)


class BatchSettings(NamedTuple):
    """How pairs are batched, in every epoch."""

    limits: DataConfig  # which pairs are left out; see `filter_pairs`
    subword_sampling: float | None  # `tokenizer.subword_sampling`: sample another segmentation each epoch; None: never
    batch_tokens: int  # the most tokens of a batch, padding and special symbols counted, on each side
    seed: int
    num_threads: int = 1  # for encoding, and processes for sampling; the batches do not depend on it


class TrainingBatches:
    """The training corpora, encoded and filtered once; `epoch(n)` gives the batches of epoch n."""

    def __init__(
        self,
        corpora: Sequence[ParallelCorpus],
        tokenizers: Tokenizers,
        settings: BatchSettings,
        *,
        cache: DataCache | None = None,
        sampling_pool: SamplingPool | None = None,
        encoded: Iterable[TokenStore] | None = None,
        may_be_empty: bool = False,
    ) -> None:
        """
        Args:
            cache: Keeps the token ids for the next training; None: they are not kept.
            sampling_pool: Processes that sample segmentations; None: create a pool.
            encoded: The ids of all sources and of all targets, if known; None: the corpora are encoded here.
            may_be_empty: If no pair passes the filter, epochs have no batches, which is not an error.

        Raises:
            InputError: No pair passes the filter, or a pair is longer than `batch_tokens`.
        """
        self._tokenizers = tokenizers
        self._settings = settings
        self._sampling_pool = sampling_pool or SamplingPool(num_processes=settings.num_threads)
        self._weights = [corpus.weight for corpus in corpora]
        self._augment = [corpus.augment for corpus in corpora]
        self._texts, self._tagged = join_texts(corpora), join_texts(corpora, with_tags=True)
        self._sources, self._targets = encoded or (
            encode_texts(texts, tokenizer, num_threads=settings.num_threads, cache=cache, work=f"Encoding the {side}")
            for side, texts, tokenizer in zip(("sources", "targets"), self._tagged, tokenizers[:2], strict=True)
        )
        self._kept: list[NDArray[np.int64]] = []  # for each corpus, pair numbers
        self.filter_reports: list[FilterReport] = []
        first = 0
        for corpus in corpora:
            these = slice(first, first + len(corpus.sources))
            lengths = self._sources.lengths[these], self._targets.lengths[these]
            limits, batch_tokens = settings.limits, settings.batch_tokens
            tags = zip(tokenizers[:2], (corpus.source_tag, corpus.target_tag), strict=True)
            num_tags = [len(tokenizer.encode(tag or "")) for tokenizer, tag in tags]
            kept, report = filter_pairs(corpus, *lengths, num_tags=num_tags, limits=limits, batch_tokens=batch_tokens)
            self._kept.append(kept + first)
            self.filter_reports.append(report)
            first = these.stop
        if not (may_be_empty or any(map(len, self._kept))):
            lines = "; ".join(line.strip() for report in self.filter_reports for line in report.lines())
            raise InputError(f"data.train: no sentence pair is left to train on: {lines}")

    @property
    def longest(self) -> int:
        """Length of the longest side with its special symbol; if pairs change in each epoch, its limit."""
        if self._settings.subword_sampling is not None or any(self._augment):
            return max(self._settings.limits.max_source_tokens, self._settings.limits.max_target_tokens) + 1
        kept = np.concatenate(self._kept)
        return int(max(side.lengths[kept].max(initial=0) for side in (self._sources, self._targets))) + 1

    @property
    def largest_batch(self) -> tuple[int, int]:
        """About how many source and target tokens an epoch's largest batch has, without padding."""
        kept = np.concatenate(self._kept)
        sources, targets = (
            int(side.lengths[kept].sum(dtype=np.int64)) + len(kept) for side in (self._sources, self._targets)
        )
        share = min(1.0, self._settings.batch_tokens / max(sources, targets, 1))
        return int(share * sources), int(share * targets)

    def sample_sources(self, number: int) -> list[str]:
        """About as many sources of an epoch, evenly spaced over the text, without tags and changes."""
        chosen = np.sort(self._choose_pairs(0)[0])
        return [self._texts[0][place] for place in chosen[:: max(1, len(chosen) // number)].tolist()]

    def with_batch_tokens(self, batch_tokens: int) -> "TrainingBatches":
        """The same corpora in batches of another size, at least `longest`, without encoding them again."""
        assert batch_tokens >= self.longest
        other = copy.copy(self)
        other._settings = self._settings._replace(batch_tokens=batch_tokens)
        return other

    def epoch(self, number: int, *, check: CheckCancelled = lambda: None, is_changed: bool = True) -> Epoch:
        """Epoch `number`, counted from 0: the same batches in the same order whenever it is asked for.

        With `is_changed` off, pairs keep their usual text and segmentation, which is fast. `Batch.indices` counts the
        pairs of all corpora one after the other, from 0, before filtering.
        """
        chosen, changes = self._choose_pairs(number)
        is_sampled = self._settings.subword_sampling is not None
        new = np.arange(len(chosen)) if is_sampled else np.flatnonzero(changes)
        sources, targets, positions, num_resegmented = self._sources, self._targets, chosen, 0
        if len(new) and is_changed:
            sources, targets, positions = self._resegment(chosen, changes, new, epoch=number, check=check)
            num_resegmented = len(sources.lengths) - len(chosen)
        # With special symbols: the source ends in EOS, the target has BOS before it or EOS after it.
        source_lengths, target_lengths = sources.lengths[positions] + 1, targets.lengths[positions] + 1
        generator = self._generator(number, _ORDER)
        order = order_by_length(source_lengths, target_lengths, generator=generator)
        borders = cut_batches(np.maximum(source_lengths, target_lengths)[order], max_tokens=self._settings.batch_tokens)
        shuffle = generator.permutation(len(borders) - 1)
        return Epoch(
            sources,
            targets,
            positions[order],
            chosen[order],
            starts=borders[:-1][shuffle],
            ends=borders[1:][shuffle],
            num_changed=int(np.count_nonzero(changes)),
            num_resegmented=num_resegmented,
        )

    def _choose_pairs(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Choose each pair as often as its corpus's weight says; for a fraction, choose a random share of the pairs.

        Returns:
            The pairs, and what is changed in each; see `draw_changes`.
        """
        chosen, changes = [], []
        for corpus, (kept, weight, augment) in enumerate(zip(self._kept, self._weights, self._augment, strict=True)):
            num_extra = round((weight - int(weight)) * len(kept))
            if weight < 1:
                num_extra = max(num_extra, min(1, len(kept)))
            generator = self._generator(epoch, _CHOICE, corpus)
            extra = np.sort(generator.choice(kept, size=num_extra, replace=False))
            chosen.append(np.concatenate([*[kept] * int(weight), extra]))
            changes.append(draw_changes(augment, len(chosen[-1]), self._generator(epoch, _CHANGES, corpus)))
        return np.concatenate(chosen), np.concatenate(changes)

    def _resegment(
        self,
        chosen: NDArray[np.int64],
        changes: NDArray[np.uint8],
        new: NDArray[np.int64],
        *,
        epoch: int,
        check: CheckCancelled,
    ) -> tuple[TokenStore, TokenStore, NDArray[np.int64]]:
        """Change the chosen pairs at the places `new` and segment them again; the others are only copied.

        A result may be longer than the limits allow. Leaving the pair out would favour short sentences, so it keeps its
        usual text and segmentation, on both sides.

        Returns:
            Sources and targets, the usual ones after the new ones, and the position of each chosen pair in them.
        """
        writers = [TokenWriter(f"the segmentations of epoch {epoch + 1}") for _ in ("sources", "targets")]
        tasks = self._sampling_tasks(chosen[new], changes[new], epoch=epoch)
        with show_progress(f"Segmenting epoch {epoch + 1}", 2 * len(new), unit="lines") as advance:
            for number, chunk in enumerate(self._sampling_pool.run(tasks, num_lines=2 * len(new), check=check)):
                writers[number % 2].add(chunk)
                advance(len(chunk.lengths))
        limits, longest = self._settings.limits, self._settings.batch_tokens - 1
        is_new = np.zeros(len(chosen), dtype=np.bool_)
        is_new[new] = (writers[0].lengths <= min(limits.max_source_tokens, longest)) & (
            writers[1].lengths <= min(limits.max_target_tokens, longest)
        )
        usual = np.flatnonzero(~is_new)
        for first in range(0, len(usual), _SAMPLED_LINES):
            check()
            pairs = chosen[usual[first : first + _SAMPLED_LINES]]
            writers[0].add(self._sources.chunk(pairs))
            writers[1].add(self._targets.chunk(pairs))
        positions = np.empty(len(chosen), dtype=np.int64)
        positions[new] = np.arange(len(new))
        positions[usual] = len(new) + np.arange(len(usual))
        return writers[0].finish(), writers[1].finish(), positions

    def _sampling_tasks(
        self, pairs: NDArray[np.int64], changes: NDArray[np.uint8], *, epoch: int
    ) -> Iterator[Callable[[], TokenChunk]]:
        """Yield tasks for sources and for targets in turn."""
        for number, first in enumerate(range(0, len(pairs), _SAMPLED_LINES)):
            part = slice(first, first + _SAMPLED_LINES)
            numbers = pairs[part].tolist()
            sources, targets = (_read_lines(texts, pairs[part]) for texts in self._texts)
            changed = change_pairs(sources, targets, changes[part], self._generator(epoch, _TYPOS, number))
            sides = zip(self._tagged, changed, self._tokenizers[:2], _SAMPLING, strict=True)
            for texts, text, tokenizer, purpose in sides:
                lines = [texts.tag(pair) + line for pair, line in zip(numbers, text, strict=True)]
                seed = int(self._generator(epoch, purpose, number).integers(2**63))
                amount = self._settings.subword_sampling
                yield partial(sample_lines, tokenizer.model_bytes, lines, amount=amount, seed=seed)

    def _generator(self, epoch: int, purpose: int, part: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._settings.seed, epoch, purpose, part])))


def _read_lines(texts: Sequence[str], pairs: NDArray[np.int64]) -> list[str]:
    """The lines of some pairs, read in blocks where their numbers ascend: each read of a file takes its time."""
    lines: list[str] = []
    gaps = np.diff(pairs)
    for run in np.split(pairs, np.flatnonzero((gaps < 0) | (gaps > _MAX_GAP)) + 1):
        first, last = int(run[0]), int(run[-1])
        block = texts[first : last + 1]
        lines += [block[place] for place in (run - first).tolist()]
    return lines
