"""Subword sampling: another segmentation of the same text in each epoch, as a pure function of the seed.

SentencePiece can sample too, but it seeds its generator differently in every process (seen with 0.2.3, whatever is
passed to `set_random_generator_seed`), so a resumed run would not see what an uninterrupted run sees. The vocabulary
and its scores are the model's; only the sampling is ours. No piece crosses a space, so each word is sampled separately.
"""

import functools
import math
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from heapq import heapify, heappop, heappush
from itertools import chain, count

import numpy as np

from translate.data.token_store import CheckCancelled, TokenChunk, flatten, results_in_order
from translate.data.tokenizer import SPACE, UNK_ID, Tokenizer
from translate.errors import RunError

_UNKNOWN_PENALTY = 10.0  # as in SentencePiece: added cost of an unknown character over the least likely piece
_NUMBERS_AT_ONCE = 8192
# A remembered word takes some 400 bytes (BPE), and a lattice 450 for each character (unigram): about 150 MB in all.
# Longer ones, such as sentences in scripts without spaces, rarely occur again.
_MAX_REMEMBERED_CHARACTERS = 20
_MAX_REMEMBERED_WORDS = 400_000
_MAX_REMEMBERED_LATTICES = 40_000
_NEVER = 2**62  # merges until the next dropped one
_MIN_LINES_OF_POOL = 20_000  # with fewer lines, starting processes takes longer than sampling
_MAX_PROCESSES = 8  # each remembers up to 180 MB of words
_NICENESS = 5  # of the worker processes, so that training goes first


_Edge = tuple[int, list[int], float]
"""One way to end at a position of a word: its start, its ids, and the cumulative probability of the ways up to it."""


class SubwordSampler:
    """Samples segmentations from the BPE or unigram vocabulary of a serialised SentencePiece model."""

    def __init__(self, model_bytes: bytes) -> None:
        self.tokenizer = tokenizer = Tokenizer(model_bytes)
        self.vocab_size = tokenizer.vocab_size
        from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # made on import

        types = ModelProto.SentencePiece
        model = ModelProto.FromString(model_bytes)
        entries = list(enumerate(model.pieces))
        usable = [(token, entry) for token, entry in entries if entry.type in (types.NORMAL, types.USER_DEFINED)]
        unused = [(token, entry) for token, entry in entries if entry.type == types.UNUSED]  # of imported models
        self._unused = {entry.piece for _, entry in unused}
        self._is_bpe = model.trainer_spec.model_type == model.trainer_spec.BPE
        self._ids = {entry.piece: token if token < self.vocab_size else UNK_ID for token, entry in usable}
        # BPE's scores are the ranks of the merges, also of unused pieces, which are split again; unigram's are
        # logarithms of probabilities.
        self._scores = {entry.piece: entry.score for _, entry in (usable + unused if self._is_bpe else usable)}
        self._symbols = {entry.piece for _, entry in usable if entry.type == types.USER_DEFINED}  # never split
        self._unused_ids = {entry.piece: token for token, entry in unused if token < self.vocab_size}
        self._byte_ids = {int(entry.piece[1:-1], 16): token for token, entry in entries if entry.type == types.BYTE}
        symbols = sorted(self._symbols, key=len, reverse=True)
        self._symbol_pattern = re.compile(f"({'|'.join(map(re.escape, symbols)) or '(?!)'})")
        self._max_length = max(map(len, self._ids), default=1)
        self._words_are_apart = not any(SPACE in piece[1:] for piece in self._scores)
        self._unknown_score = min(self._scores.values(), default=0.0) - _UNKNOWN_PENALTY
        self._merged_word = functools.lru_cache(_MAX_REMEMBERED_WORDS)(lambda word: self._merge(word, _NEVER, iter(())))
        self._lattice = functools.lru_cache(_MAX_REMEMBERED_LATTICES)(self._make_lattice)

    def sample(self, lines: list[str], *, amount: float, seed: int) -> list[list[int]]:
        """The token ids of one segmentation of each line: a pure function of the model and the arguments.

        Args:
            amount: BPE: the probability of dropping a merge. Unigram: the exponent on a segmentation's probability.

        Source: Provilkov et al. 2020, https://arxiv.org/abs/1910.13267, section 3 (BPE-dropout); Kudo 2018,
            https://arxiv.org/abs/1804.10959, section 3.2 (forward filtering and backward sampling).
        """
        generator = np.random.Generator(np.random.PCG64(seed))
        split = [self.tokenizer.split_tag(line) for line in lines]
        texts = self.tokenizer.normalize([text for _, text in split])
        if self._is_bpe:
            sampled = self._sample_merges(texts, dropout=amount, generator=generator)
        else:
            sampled = self._sample_lattices(texts, alpha=amount, generator=generator)
        return [tag + ids for (tag, _), ids in zip(split, sampled, strict=True)]

    def _words(self, text: str) -> list[str]:
        text = text.replace(" ", SPACE)
        words = [text]
        if self._words_are_apart:
            first, *others = text.split(SPACE)
            words = [first, *(SPACE + word for word in others)]
        return [part for word in words for part in self._symbol_pattern.split(word) if part]

    def _ids_of(self, pieces: list[str]) -> list[int]:
        ids: list[int] = []
        for piece in pieces:
            if piece in self._ids:
                new = [self._ids[piece]]
            elif self._byte_ids:
                new = [self._byte_ids[byte] for byte in piece.encode()]
            else:
                new = [self._unused_ids.get(piece, UNK_ID)]
            if new != [UNK_ID] or ids[-1:] != new:  # neighbouring unknown characters are one UNK, as in SentencePiece
                ids += new
        return ids

    # BPE

    def _sample_merges(self, texts: list[str], *, dropout: float, generator: np.random.Generator) -> list[list[int]]:
        # Instead of a coin for each merge: how many merges until the next one that is dropped. Most words have none.
        waits = chain.from_iterable(generator.geometric(dropout, size=_NUMBERS_AT_ONCE).tolist() for _ in count())
        wait = next(waits)
        sampled = []
        for text in texts:
            ids: list[int] = []
            for word in self._words(text):
                known = self._merged_word(word) if len(word) <= _MAX_REMEMBERED_CHARACTERS else None
                if known is not None and known[1] < wait:
                    word_ids, wait = known[0], wait - known[1]
                else:
                    word_ids, _, wait = self._merge(word, wait, waits)
                ids += word_ids
            sampled.append(ids)
        return sampled

    def _merge(self, word: str, wait: int, waits: Iterator[int]) -> tuple[list[int], int, int]:
        """Merges best-ranked neighbours, the leftmost first, and drops each merge that `wait` counts down to.

        Merges go through unused pieces, too; one that is left at the end is split into what it was made of.

        Returns:
            The ids of the pieces, the number of merges made, and the remaining wait.
        """
        if word in self._symbols:
            return self._ids_of([word]), 0, wait
        scores = self._scores
        pieces = list(word)
        before, after = list(range(-1, len(word) - 1)), list(range(1, len(word) + 1))  # neighbours still there
        agenda = [
            (-scores[pair], left, left + 1, pair)
            for left in range(len(word) - 1)
            if (pair := word[left : left + 2]) in scores
        ]
        heapify(agenda)
        num_merges, unused = 0, self._unused
        halves = {pair: (pair[0], pair[1]) for *_, pair in agenda} if unused else {}
        while agenda:
            _, left, right, pair = heappop(agenda)
            if not pieces[left] or not pieces[right] or len(pieces[left]) + len(pieces[right]) != len(pair):
                continue  # one of the two has since become part of another piece
            wait -= 1
            if wait == 0:
                wait = next(waits)
                continue
            num_merges += 1
            pieces[left], pieces[right] = pair, ""
            after[left] = after[right]
            if after[right] < len(pieces):
                before[after[right]] = left
            for first, second in ((before[left], left), (left, after[left])):
                if first >= 0 and second < len(pieces):
                    joined = pieces[first] + pieces[second]
                    if joined in scores:
                        if unused:
                            halves[joined] = pieces[first], pieces[second]
                        heappush(agenda, (-scores[joined], first, second, joined))
        pieces = [part for piece in pieces if piece for part in (self._split(piece, halves) if unused else (piece,))]
        return self._ids_of(pieces), num_merges, wait

    def _split(self, piece: str, halves: dict[str, tuple[str, str]]) -> Iterator[str]:
        """The pieces of the vocabulary of which a piece was made, given the two halves of each."""
        if piece in self._unused and piece in halves:
            for half in halves[piece]:
                yield from self._split(half, halves)
        else:
            yield piece

    # Unigram

    def _sample_lattices(self, texts: list[str], *, alpha: float, generator: np.random.Generator) -> list[list[int]]:
        uniforms = chain.from_iterable(generator.random(size=_NUMBERS_AT_ONCE).tolist() for _ in count())
        sampled = []
        for text in texts:
            ids: list[int] = []
            for word in self._words(text):
                is_remembered = len(word) <= _MAX_REMEMBERED_CHARACTERS
                lattice = self._lattice(word, alpha) if is_remembered else self._make_lattice(word, alpha)
                end = len(word)
                backwards = []
                while end > 0:
                    edges = lattice[end]
                    if len(edges) == 1:
                        end, piece_ids, _ = edges[0]
                    else:
                        uniform = next(uniforms)
                        end, piece_ids, _ = next((edge for edge in edges if uniform < edge[2]), edges[-1])
                    backwards.append(piece_ids)
                for piece_ids in reversed(backwards):
                    if piece_ids != [UNK_ID] or ids[-1:] != piece_ids:
                        ids += piece_ids
            sampled.append(ids)
        return sampled

    def _make_lattice(self, word: str, alpha: float) -> list[list[_Edge]]:
        """For each position, the edges that end there, with the probability of each given that a path passes there."""
        if word in self._symbols:
            return [*([] for _ in word), [(0, self._ids_of([word]), 1.0)]]
        log_mass = [0.0] + [-math.inf] * len(word)
        lattice: list[list[_Edge]] = [[] for _ in range(len(word) + 1)]
        for end in range(1, len(word) + 1):
            ways = []
            for start in range(max(0, end - self._max_length), end):
                piece = word[start:end]
                if piece in self._ids or end - start == 1:
                    score = self._scores.get(piece, self._unknown_score)
                    ways.append((log_mass[start] + alpha * score, start, self._ids_of([piece])))
            highest = max(weight for weight, _, _ in ways)
            total = sum(math.exp(weight - highest) for weight, _, _ in ways)
            log_mass[end] = highest + math.log(total)
            up_to = 0.0
            for weight, start, ids in ways:
                up_to += math.exp(weight - log_mass[end])
                lattice[end].append((start, ids, up_to))
        return lattice


class SamplingPool:
    """Worker processes that sample the segmentations of an epoch while the training runs; all epochs share them.

    Sampling is pure Python: in a thread it would hold the interpreter lock, for which every operation of a training
    step would wait. It does not matter which process samples, because each task has its own seed. The processes are
    spawned, so a script that trains needs the usual `if __name__ == "__main__":`. One process samples without workers.
    """

    def __init__(self, *, num_processes: int) -> None:
        self._num_processes = min(num_processes, _MAX_PROCESSES)
        self._executor: Executor | None = None

    def run(
        self, tasks: Iterable[Callable[[], TokenChunk]], *, num_lines: int, check: CheckCancelled
    ) -> Iterator[TokenChunk]:
        """The results of the tasks, in order; `num_lines` are the lines of all of them.

        Raises:
            RunError: A worker process cannot be started, or has ended.
        """
        if num_lines < _MIN_LINES_OF_POOL or self._num_processes == 1:
            for task in tasks:
                check()
                yield task()
            return

        def submit(executor: Executor) -> Iterator[Future[TokenChunk]]:
            for task in tasks:
                check()
                yield executor.submit(task)

        try:
            context = multiprocessing.get_context("spawn")
            self._executor = self._executor or ProcessPoolExecutor(
                self._num_processes, context, initializer=_start_worker
            )
            yield from results_in_order(submit(self._executor), num_ahead=self._num_processes)
        except (OSError, BrokenExecutor) as error:
            problem = f"a worker process of subword sampling cannot be started, or was ended: {error}"
            raise RunError(f"{problem}; continue with --resume, or with training.threads = 1") from error


def sample_lines(model_bytes: bytes, lines: list[str], *, amount: float | None, seed: int) -> TokenChunk:
    """The segmentations that `SubwordSampler.sample` draws with a model; without `amount` the usual ones."""
    sampler = _sampler(model_bytes)
    if amount is None:
        return flatten(sampler.tokenizer.encode_lines(lines, num_threads=1), vocab_size=sampler.vocab_size)
    return flatten(sampler.sample(lines, amount=amount, seed=seed), vocab_size=sampler.vocab_size)


_sampler = functools.lru_cache(maxsize=2)(SubwordSampler)  # one for each side, with the words that it remembers


def _start_worker() -> None:
    """Leave Ctrl-C and SIGHUP to the training process, and exit when it does, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.nice(_NICENESS)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
