"""The batches of each epoch: a pure function of the data, the seed and the epoch's number.

So a run that was stopped is continued from (epoch, batch) alone, and skips what it has seen without making a tensor.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from translate.config import DataConfig
from translate.data.batching import Batch, cut_batches, order_by_length
from translate.data.cache import DataCache
from translate.data.corpora import JoinedText, ParallelCorpus
from translate.data.filtering import FilterReport, check_usable, filter_pairs
from translate.data.subword_sampling import SamplingPool, SamplingTask
from translate.data.token_store import TokenStore, encode_texts, store_tokens
from translate.data.tokenizer import BOS_ID, EOS_ID, Tokenizers

# What a generator is for. Together with the seed and the epoch it gives the generator's seed, so that no random choice
# depends on another.
_CHOICE, _ORDER, _SOURCE_SAMPLING, _TARGET_SAMPLING = range(4)
# Lines that one generator samples: with another number, a run would see other segmentations.
_SAMPLED_LINES = 50_000


class Padding(NamedTuple):
    """The tokens that an epoch computes on both sides, special symbols counted."""

    num_padding: int
    num_computed: int  # tokens and padding
    num_target_tokens: int  # without padding

    @property
    def share(self) -> float:
        """The padding as a share of all that is computed, 0 to 1."""
        return self.num_padding / max(1, self.num_computed)


class Epoch:
    """The planned batches of one epoch; the tensors of a batch are made when it is asked for."""

    def __init__(
        self,
        sources: TokenStore,
        targets: TokenStore,
        *,
        positions: NDArray[np.int64],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> None:
        """
        Args:
            positions: Of the pairs in `sources` and `targets`; those of batch n are `positions[starts[n] : ends[n]]`.
        """
        self.num_resegmented = 0
        """Pairs whose sampled segmentation broke a length limit, and which keep their usual one in this epoch."""
        self.pair_numbers: NDArray[np.int64] | None = None
        """The number of each position in `Batch.indices`; None: the position itself."""
        self._sources = sources
        self._targets = targets
        self._positions = positions
        self._starts = starts
        self._ends = ends

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Batch:
        positions = self._positions[self._starts[number] : self._ends[number]]
        numbers = positions if self.pair_numbers is None else self.pair_numbers[positions]
        return Batch(
            source_ids=torch.from_numpy(self._sources.padded(positions, after=EOS_ID)),
            target_input_ids=torch.from_numpy(self._targets.padded(positions, before=BOS_ID)),
            target_output_ids=torch.from_numpy(self._targets.padded(positions, after=EOS_ID)),
            indices=tuple(numbers.tolist()),
        )

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """The batches in order, beginning with number `start`."""
        return (self[number] for number in range(start, len(self)))

    @property
    def shapes(self) -> NDArray[np.int64]:
        """For each batch: its pairs, and the tokens of its longest source and target, special symbols counted."""
        order = np.argsort(self._starts)  # `reduceat` needs the batches as they lie in `_positions`
        shapes = np.empty((len(self), 3), dtype=np.int64)
        shapes[:, 0] = self._ends - self._starts
        for column, side in ((1, self._sources), (2, self._targets)):
            shapes[order, column] = np.maximum.reduceat(side.lengths[self._positions], self._starts[order]) + 1
        return shapes

    @property
    def padding(self) -> Padding:
        """The tokens and the padding of the whole epoch."""
        pairs, sources, targets = self.shapes.T
        num_source_tokens, num_target_tokens = (
            int(side.lengths[self._positions].sum(dtype=np.int64)) + len(self._positions)
            for side in (self._sources, self._targets)
        )
        num_computed = int((pairs * (sources + targets)).sum())
        return Padding(num_computed - num_source_tokens - num_target_tokens, num_computed, num_target_tokens)


class TrainingBatches:
    """The training corpora, encoded and filtered once; `epoch(n)` gives the batches of epoch n."""

    def __init__(
        self,
        corpora: Sequence[ParallelCorpus],
        tokenizers: Tokenizers,
        *,
        limits: DataConfig,
        subword_sampling: float | None,
        batch_tokens: int,
        seed: int,
        num_threads: int = 1,
        cache: DataCache | None = None,
        sampling_pool: SamplingPool | None = None,
        encoded: tuple[TokenStore, TokenStore] | None = None,
        may_be_empty: bool = False,
    ) -> None:
        """
        Args:
            limits: Which pairs are left out; see `filter_pairs`. Only these fields of the section are read.
            subword_sampling: `tokenizer.subword_sampling`: sample another segmentation each epoch; None: never.
            batch_tokens: The most tokens of a batch, padding and special symbols counted, on each side.
            num_threads: Threads for encoding, and processes for sampling; the result does not depend on it.
            cache: Where the token ids are read, or kept for the next time; None: they are not.
            sampling_pool: The processes that sample segmentations; None: the corpora get their own.
            encoded: The ids of all sources and of all targets, if they are known; None: the corpora are encoded here.
            may_be_empty: If no pair passes the filter, the epochs have no batch, instead of an error.

        Raises:
            InputError: No pair passes the filter, or a pair is longer than `batch_tokens`.
        """
        self._tokenizers = tokenizers
        self._limits = limits
        self._subword_sampling = subword_sampling
        if subword_sampling is not None:
            self._sampling_pool = sampling_pool or SamplingPool(amount=subword_sampling, num_processes=num_threads)
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._weights = [corpus.weight for corpus in corpora]
        self._texts = (
            JoinedText(corpus.sources for corpus in corpora),
            JoinedText(corpus.targets for corpus in corpora),
        )
        self._sources, self._targets = encoded or (
            encode_texts(texts, tokenizer, num_threads=num_threads, cache=cache)
            for texts, tokenizer in zip(self._texts, tokenizers[:2], strict=True)
        )
        self._kept: list[NDArray[np.int64]] = []  # for each corpus, pair numbers
        reports: list[FilterReport] = []
        first = 0
        for corpus in corpora:
            these = slice(first, first + len(corpus.sources))
            kept, report = filter_pairs(
                self._sources.lengths[these], self._targets.lengths[these], limits=limits, name=corpus.name
            )
            self._kept.append(kept + first)
            reports.append(report)
            first = these.stop
        self.filter_reports = tuple(reports)
        if self.num_pairs or not may_be_empty:
            check_usable(
                np.concatenate(self._kept),
                self._sources.lengths,
                self._targets.lengths,
                reports=reports,
                limits=limits,
                batch_tokens=batch_tokens,
            )

    @property
    def num_pairs(self) -> int:
        """The pairs that passed the filter, each counted once whatever its corpus's weight."""
        return sum(report.num_kept for report in self.filter_reports)

    @property
    def longest(self) -> int:
        """The tokens that the longest side of a pair has with its special symbol, or may have with subword sampling."""
        if self._subword_sampling is not None:
            return max(self._limits.max_source_tokens, self._limits.max_target_tokens) + 1
        kept = np.concatenate(self._kept)
        return int(max(side.lengths[kept].max(initial=0) for side in (self._sources, self._targets))) + 1

    def with_batch_tokens(self, batch_tokens: int) -> "TrainingBatches":
        """The same corpora in batches of another size, at least `longest`, without encoding them again."""
        assert batch_tokens >= self.longest
        other = copy.copy(self)
        other._batch_tokens = batch_tokens
        return other

    def epoch(self, number: int, *, check: Callable[[], None] = lambda: None) -> Epoch:
        """Epoch `number`, counted from 0: the same batches in the same order whenever it is asked for.

        `Batch.indices` counts the pairs of all corpora one after the other, from 0, before filtering.

        Args:
            check: Called now and then while segmentations are sampled; an exception that it raises ends the sampling.
        """
        chosen = self._choose_pairs(number)
        generator = self._generator(number, _ORDER)
        if self._subword_sampling is None:
            return self._plan(self._sources, self._targets, chosen, generator)
        sources, targets, num_resegmented = self._sample_segmentations(chosen, epoch=number, check=check)
        epoch = self._plan(sources, targets, np.arange(len(chosen)), generator)
        epoch.pair_numbers, epoch.num_resegmented = chosen, num_resegmented
        return epoch

    def _plan(
        self, sources: TokenStore, targets: TokenStore, positions: NDArray[np.int64], generator: np.random.Generator
    ) -> Epoch:
        # Specials counted: the source ends in EOS, the target has BOS before or EOS behind.
        source_lengths, target_lengths = sources.lengths[positions] + 1, targets.lengths[positions] + 1
        order = order_by_length(source_lengths, target_lengths, generator=generator)
        borders = cut_batches(np.maximum(source_lengths, target_lengths)[order], max_tokens=self._batch_tokens)
        shuffle = generator.permutation(len(borders) - 1)
        return Epoch(
            sources, targets, positions=positions[order], starts=borders[:-1][shuffle], ends=borders[1:][shuffle]
        )

    def _choose_pairs(self, epoch: int) -> NDArray[np.int64]:
        """Each pair as often as its corpus's weight says; of a fraction, a random share without repetition."""
        chosen = []
        for corpus, (kept, weight) in enumerate(zip(self._kept, self._weights, strict=True)):
            chosen += [kept] * int(weight)
            num_extra = round((weight - int(weight)) * len(kept))
            if weight < 1:
                num_extra = max(num_extra, min(1, len(kept)))
            generator = self._generator(epoch, _CHOICE, corpus)
            chosen.append(np.sort(generator.choice(kept, size=num_extra, replace=False)))
        return np.concatenate(chosen)

    def _sample_segmentations(
        self, chosen: NDArray[np.int64], *, epoch: int, check: Callable[[], None]
    ) -> tuple[TokenStore, TokenStore, int]:
        """Segment each chosen pair anew, so that a pair seen twice is seen in two ways.

        A sampled segmentation may be longer than the limits allow. Leaving the pair out would favour short sentences,
        so it keeps its usual segmentation, on both sides.

        Returns:
            Sources and targets, in the order of `chosen`, and the number of pairs that keep the usual segmentation.
        """
        content = f"the segmentations sampled for epoch {epoch + 1}"
        num_tasks = -(-len(chosen) // _SAMPLED_LINES)
        tasks = (task for side in (0, 1) for task in self._sampling_tasks(chosen, side=side, epoch=epoch))
        chunks = self._sampling_pool.sample(tasks, num_lines=2 * len(chosen), check=check)
        sources, targets = (
            store_tokens(islice(chunks, num_tasks), vocab_size=usual.vocab_size, content=content)
            for usual in (self._sources, self._targets)
        )
        max_source = min(self._limits.max_source_tokens, self._batch_tokens - 1)
        max_target = min(self._limits.max_target_tokens, self._batch_tokens - 1)
        too_long = (sources.lengths > max_source) | (targets.lengths > max_target)
        if too_long.any():
            sources = sources.replaced(too_long, by=self._sources, lines=chosen, content=content)
            targets = targets.replaced(too_long, by=self._targets, lines=chosen, content=content)
        return sources, targets, int(too_long.sum())

    def _sampling_tasks(self, chosen: NDArray[np.int64], *, side: int, epoch: int) -> Iterable[SamplingTask]:
        texts, model_bytes = self._texts[side], self._tokenizers[:2][side].model_bytes
        purpose = _SOURCE_SAMPLING if side == 0 else _TARGET_SAMPLING
        for number, first in enumerate(range(0, len(chosen), _SAMPLED_LINES)):
            seed = int(self._generator(epoch, purpose, number).integers(2**63))
            lines = [texts[pair] for pair in chosen[first : first + _SAMPLED_LINES].tolist()]
            yield SamplingTask(model_bytes, lines, seed)

    def _generator(self, epoch: int, purpose: int, part: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, epoch, purpose, part])))
