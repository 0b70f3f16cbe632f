"""Subword sampling: segmentations are a pure function of the seed, distributed as SentencePiece's, in any process."""

import gc
import math
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from typing import Any

import pytest
import sentencepiece
from harness import values_of

from translate.config.data import DataConfig, TokenizerConfig
from translate.data import subword_sampling
from translate.data.corpora import ParallelCorpus
from translate.data.epochs import BatchSettings, TrainingBatches
from translate.data.extension import add_pieces
from translate.data.subword_sampling import SamplingPool, SamplingTask, SubwordSampler
from translate.data.token_store import TokenChunk
from translate.data.tokenizer import Tokenizer, Tokenizers, train_tokenizer

LINES = ["abc cab bca", "", " ", "a\nb", "ab\0c", "🦄 \u2028é", "abc" * 29, "cab abc bca abc"]


def settings(**changes: object) -> TokenizerConfig:
    return TokenizerConfig.model_validate({"vocab_size": 331, **changes})


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    return train_tokenizer(["abc cab bca ab ca"] * 3, settings(vocab_size=266))


def sample(tokenizer: Tokenizer, lines: list[str], *, amount: float, seed: int) -> list[list[int]]:
    return SubwordSampler(tokenizer.model_bytes).sample(lines, amount=amount, seed=seed)


def test_samples_depend_on_the_arguments_alone(tokenizer: Tokenizer, german: list[str], english: list[str]) -> None:
    def draw(seed: int) -> list[list[int]]:
        return sample(tokenizer, german, amount=0.3, seed=seed)

    first = draw(7)
    assert draw(11) != first
    # Disturb every generator that there is: this thread's, the global seed, other threads', other draws.
    sentencepiece.set_random_generator_seed(13)
    other = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    other.encode(english * 17, enable_sampling=True, alpha=0.5, nbest_size=-1)
    other.encode(english * 17, enable_sampling=True, alpha=0.5, nbest_size=-1, num_threads=3)
    sample(tokenizer, english, amount=0.1, seed=7)
    tokenizer.encode_lines(english, num_threads=2)
    assert draw(7) == first
    assert [tokenizer.decode(ids) for ids in first] == german
    assert first != tokenizer.encode_lines(german, num_threads=1)


def test_the_amount_of_sampling_matters(german: list[str]) -> None:
    bpe = train_tokenizer(german, settings(type="bpe", vocab_size=500))
    lengths = [sum(map(len, sample(bpe, german * 29, amount=amount, seed=1))) for amount in (0.001, 0.2, 0.6, 0.999)]
    assert lengths == sorted(lengths) and len(set(lengths)) == 4


@pytest.mark.parametrize("options", [{}, {"byte_fallback": False, "character_coverage": 0.98}])
def test_without_randomness_the_draw_is_the_usual_segmentation(options: dict[str, object], german: list[str]) -> None:
    lines = [*german, "Ein 🦄🦄 läuft  weg", "", "中文 ab"]
    bpe = train_tokenizer(german, settings(**{"type": "bpe", **options}))
    unigram = train_tokenizer(german, settings(**{"type": "unigram", **options, "vocab_size": 67 if options else 331}))
    assert sample(bpe, lines, amount=1e-12, seed=1) == bpe.encode_lines(lines, num_threads=1)
    assert sample(unigram, lines, amount=1e5, seed=1) == unigram.encode_lines(lines, num_threads=1)


def test_draws_are_distributed_as_sentencepiece_draws(tokenizer: Tokenizer) -> None:
    # The independent program is SentencePiece's own sampler, which cannot be seeded across processes.
    num_draws, amount = 5003, 0.3
    lines = ["Männer"] * num_draws
    own = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    expected = Counter(map(tuple, own.encode(lines, enable_sampling=True, alpha=amount, nbest_size=-1)))
    found = Counter(map(tuple, sample(tokenizer, lines, amount=amount, seed=3)))
    assert len(expected) > 5
    for ids in expected | found:
        # Five standard deviations of the difference of two counts.
        assert abs(expected[ids] - found[ids]) <= 5 * math.sqrt(expected[ids] + found[ids] + 1), tokenizer.pieces(ids)


def test_what_was_added_to_a_vocabulary_is_never_split(tokenizer: Tokenizer, german: list[str]) -> None:
    grown = add_pieces(tokenizer, ["▁<bt>", "<med>", "<med>x"], ())
    tag, piece, longer = (grown.vocab_size - 3 + number for number in range(3))
    lines = [f"<bt> {line} <med> z<med>xyz" for line in german[:100]]
    for usual, ids in zip(map(grown.encode, lines), sample(grown, lines, amount=0.5, seed=1), strict=True):
        assert ids != usual and grown.decode(ids) == grown.decode(usual)
        assert ids[0] == tag and [each for each in ids if each >= tag] == [tag, piece, longer]
    # Text without them is drawn as before.
    assert sample(grown, german, amount=0.5, seed=1) == sample(tokenizer, german, amount=0.5, seed=1)


def test_what_is_forgotten_changes_no_draw(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, german: list[str], english: list[str]
) -> None:
    lines = [*german, *english] * 5
    expected = sample(tokenizer, lines, amount=0.3, seed=7)
    monkeypatch.setattr("translate.data.subword_sampling._MAX_REMEMBERED_WORDS", 3)
    monkeypatch.setattr("translate.data.subword_sampling._MAX_REMEMBERED_CHARACTERS", 29)
    fresh = Tokenizer(tokenizer.model_bytes)
    assert sample(fresh, lines, amount=0.3, seed=7) == expected


# The pool


class Threads(ThreadPoolExecutor):
    """Stands for a pool of processes."""

    started: list[int] = []

    def __init__(self, num_workers: int, context: Any, *, initializer: Any) -> None:
        super().__init__(num_workers)
        Threads.started.append(num_workers)


class Broken(Threads):
    """A pool whose processes end after two tasks."""

    def submit(self, work: Any, /, *args: Any, **options: Any) -> Future[Any]:
        self.num_tasks = getattr(self, "num_tasks", 0) + 1
        if self.num_tasks == 4:
            raise BrokenExecutor
        future: Future[Any] = super().submit(work, *args, **options)
        if self.num_tasks == 3:
            future = Future()
            future.set_exception(BrokenExecutor())
        return future


@pytest.fixture(autouse=True)
def _threads_for_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(subword_sampling, "_MIN_LINES_OF_POOL", 0)
    monkeypatch.setattr(subword_sampling, "ProcessPoolExecutor", Threads)
    Threads.started.clear()
    before = threading.enumerate()
    yield
    gc.collect()  # of exceptions that refer to frames
    assert threading.enumerate() == before  # a pool ends with the object that has it


def nothing() -> None:
    pass


def tasks_of(*tokenizers: Tokenizer) -> list[SamplingTask]:
    return [
        SamplingTask(tokenizer.model_bytes, LINES[seed:] + LINES[:seed], seed, 0.3)
        for tokenizer in tokenizers
        for seed in range(5)
    ]


def sampled(pool: SamplingPool, tasks: list[SamplingTask]) -> list[list[list[int]]]:
    return [listed(chunk) for chunk in pool.sample(iter(tasks), num_lines=len(tasks), check=nothing)]


def listed(chunk: TokenChunk) -> list[list[int]]:
    ends = chunk.lengths.cumsum().tolist()
    assert len(chunk.ids) == (ends[-1] if ends else 0)
    return [chunk.ids[start:end].tolist() for start, end in zip([0, *ends], ends, strict=False)]


def expected(tasks: list[SamplingTask]) -> list[list[list[int]]]:
    return [SubwordSampler(task.model_bytes).sample(task.lines, amount=0.3, seed=task.seed) for task in tasks]


@pytest.mark.parametrize("num_processes", [1, 2, 3])
def test_the_number_of_processes_changes_nothing(letters: Tokenizer, num_processes: int) -> None:
    pool = SamplingPool(num_processes=num_processes)
    tasks = tasks_of(letters, train_tokenizer(["abc cab bca ab ca"] * 3, settings(type="unigram", vocab_size=266)))
    for _ in range(2):
        assert sampled(pool, tasks) == expected(tasks)
    assert Threads.started == ([] if num_processes == 1 else [num_processes])
    assert sampled(pool, []) == [] and sampled(pool, [SamplingTask(letters.model_bytes, [], 1, 0.3)]) == [[]]


def test_few_lines_start_no_process(letters: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subword_sampling, "_MIN_LINES_OF_POOL", 11)
    assert sampled(SamplingPool(num_processes=2), tasks_of(letters)) == expected(tasks_of(letters))
    assert Threads.started == []


def test_a_broken_pool_is_done_without(
    letters: Tokenizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(subword_sampling, "ProcessPoolExecutor", Broken)
    tasks = tasks_of(letters)
    pool = SamplingPool(num_processes=2)
    for _ in range(2):
        assert sampled(pool, tasks) == expected(tasks)
    assert caplog.text.count("Subword sampling continues without worker processes") == 1


def test_what_check_raises_ends_the_sampling(letters: Tokenizer) -> None:
    for num_processes in (1, 2):
        asked: list[int] = []

        def stop_at_third(asked: list[int] = asked) -> None:
            asked.append(1)
            if len(asked) == 3:
                raise KeyboardInterrupt

        pool = SamplingPool(num_processes=num_processes)
        with pytest.raises(KeyboardInterrupt):
            list(pool.sample(tasks_of(letters), num_lines=40, check=stop_at_third))
        assert len(asked) == 3


def test_epochs_are_the_same_with_and_without_a_pool(letters: Tokenizer) -> None:
    lines = [line for line in LINES if line.strip()] * 5
    corpora = [ParallelCorpus("letters", lines, lines[::-1], 1.5)]

    def epoch(num_threads: int) -> list[tuple[object, ...]]:
        settings = BatchSettings(DataConfig(), 0.3, batch_tokens=500, seed=1, num_threads=num_threads)
        return values_of(TrainingBatches(corpora, Tokenizers(letters, letters, "joint"), settings).epoch(2))

    assert epoch(1) == epoch(2)
