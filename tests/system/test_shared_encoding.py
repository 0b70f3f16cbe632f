"""Two processes that encode a stream together: the batches of one, half of the work each, no waiting for the dead."""

import json
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from translate.config.data import DataConfig, TableCorpus, TokenizerConfig
from translate.data import streaming
from translate.data.epochs import BatchSettings
from translate.data.streaming import StreamedBatches, TrainingStreams
from translate.data.tokenizer import Tokenizer, Tokenizers, prepare_tokenizers
from translate.distributed.process_group import SINGLE_PROCESS, Cancelled, DistributedEnvironment, World
from translate.errors import InputError, RunError

pytestmark = pytest.mark.system
PAIRS = [(f"{number} " * (1 + number % 4), f"{number}" * (1 + number % 3)) for number in range(100)]


class CountingTokenizer(Tokenizer):
    """Counts the lines that it is given."""

    num_lines = 0

    def encode_lines(self, lines: Sequence[str], *, num_threads: int) -> list[list[int]]:
        self.num_lines += len(lines)
        return super().encode_lines(lines, num_threads=num_threads)


def three_epochs(folder: Path, *, world: World, check: Any = lambda: None) -> tuple[list[Any], int]:
    """The content of some batches of a stream, and the lines that were encoded here for them."""
    streaming._EXCHANGED_LINES = 7
    model = prepare_tokenizers(
        TokenizerConfig(vocab_size=40, byte_fallback=False), *zip(*PAIRS, strict=True)
    ).source.model_bytes
    tokenizer = CountingTokenizer(model)
    corpus = TableCorpus(
        kind="json", path=folder / "train.json", source_column="de", target_column="en", streaming=True
    )
    data = DataConfig(train=(corpus,), stream_segment_pairs=40, max_source_tokens=30, max_target_tokens=30)
    batches = StreamedBatches(
        TrainingStreams(data),
        Tokenizers(tokenizer, tokenizer, "joint"),
        BatchSettings(limits=data, subword_sampling=None, batch_tokens=61, seed=3),
        world=world,
    )
    content = [
        [each.tolist() if isinstance(each, torch.Tensor) else list(each) for each in batch]
        for number in range(4)
        for batch in batches.epoch(number, check=check)
    ]
    return content, tokenizer.num_lines


def join(folder: Path, rank: int) -> World:
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    return World(DistributedEnvironment(rank, 2, rank, 2), dist.new_group(backend="gloo")).new_group()


def work(folder: Path, rank: int, error: Exception | None) -> None:
    """Encode as one of two processes; the second raises the error in the middle of its work."""
    world = join(folder, rank)
    started = time.perf_counter()
    num_checks = 0

    def check() -> None:
        nonlocal num_checks
        num_checks += 1
        if error is not None and rank == 1 and num_checks == 9:
            raise error

    result: Any
    try:
        result = three_epochs(folder, world=world, check=check)
    except (InputError, RunError, SystemExit, Cancelled) as raised:
        result = f"{type(raised).__name__}: {raised}", time.perf_counter() - started
    (folder / f"result{rank}").write_text(json.dumps(result))
    dist.destroy_process_group()


def run_two(folder: Path, error: Exception | None = None) -> list[Any]:
    lines = "".join(json.dumps({"de": de, "en": en}) + "\n" for de, en in PAIRS)
    (folder / "train.json").write_text(lines, encoding="utf-8")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(folder, rank, error)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return [json.loads((folder / f"result{rank}").read_text()) for rank in range(2)]


@pytest.mark.timeout(120)
def test_two_processes_make_the_batches_of_one_and_share_the_work(tmp_path: Path) -> None:
    (first, first_lines), (second, second_lines) = run_two(tmp_path)
    alone, lines = three_epochs(tmp_path, world=SINGLE_PROCESS)
    assert first == second == alone and len(alone) > 10
    assert first_lines + second_lines == lines == 2 * (40 + 40 + 20 + 40)
    assert first_lines == 2 * (21 + 21 + 13 + 21)  # of 40 lines 14, twice, and 7 of the 12 left


@pytest.mark.timeout(120)
def test_if_one_fails_the_other_ends_at_once(tmp_path: Path) -> None:
    (first, seconds), (second, _) = run_two(tmp_path, InputError("no such file"))
    assert second.startswith("RunError: segment 2") and "process 2 of 2" in second and "no such file" in second
    assert first == "SystemExit: 2" and seconds < 30


@pytest.mark.timeout(120)
def test_a_segment_cancelled_by_one_is_cancelled_in_both(tmp_path: Path) -> None:
    assert [result.split(":")[0] for result, _ in run_two(tmp_path, Cancelled())] == ["Cancelled", "Cancelled"]
