"""Two processes that encode a stream together: the batches of one, and half of the work each."""

import json
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from translate.config.data import DataConfig, TableCorpus
from translate.config.schema import TokenizerConfig
from translate.data import streaming
from translate.data.epochs import BatchSettings
from translate.data.streaming import StreamedBatches, TrainingStreams
from translate.data.tokenizer import Tokenizer, Tokenizers, prepare_tokenizers
from translate.distributed.process_group import SINGLE_PROCESS, DistributedEnvironment, World

pytestmark = pytest.mark.system
PAIRS = [(f"{number} " * (1 + number % 4), f"{number}" * (1 + number % 3)) for number in range(100)]


class CountingTokenizer(Tokenizer):
    """Counts the lines that it is given."""

    num_lines = 0

    def encode_lines(self, lines: Sequence[str], *, num_threads: int) -> list[list[int]]:
        self.num_lines += len(lines)
        return super().encode_lines(lines, num_threads=num_threads)


def three_epochs(folder: Path, *, world: World) -> tuple[list[Any], int]:
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
        for batch in batches.epoch(number)
    ]
    return content, tokenizer.num_lines


def work(folder: Path, rank: int) -> None:
    """Encode as one of two processes."""
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    world = World(DistributedEnvironment(rank, 2, rank, 2), dist.new_group(backend="gloo")).new_group()
    (folder / f"result{rank}").write_text(json.dumps(three_epochs(folder, world=world)))
    dist.destroy_process_group()


@pytest.mark.timeout(300)  # other tests may keep the cores busy
def test_two_processes_make_the_batches_of_one_and_share_the_work(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"de": de, "en": en}) + "\n" for de, en in PAIRS)
    (tmp_path / "train.json").write_text(lines, encoding="utf-8")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(tmp_path, rank)) for rank in range(2)]
    for process in processes:
        process.start()
    alone, num_lines = three_epochs(tmp_path, world=SINGLE_PROCESS)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    first, second = (json.loads((tmp_path / f"result{rank}").read_text()) for rank in range(2))
    assert first[0] == second[0] == alone and len(alone) > 10
    assert first[1] + second[1] == num_lines == 2 * (40 + 40 + 20 + 40)
    assert first[1] == 2 * (21 + 21 + 13 + 21)  # of 40 lines 14, twice, and 7 of the 12 left
