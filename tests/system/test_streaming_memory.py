"""A training on a stream holds the same memory however long the stream is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc"),
]

_PASS = """
import sys
from pathlib import Path
from translate.config.data import DataConfig, TableCorpus
from translate.config.schema import TokenizerConfig
from translate.data.epochs import BatchSettings
from translate.data.streaming import StreamedBatches, TrainingStreams
from translate.distributed.process_group import SINGLE_PROCESS
from translate.data.tokenizer import prepare_tokenizers

corpus = TableCorpus(kind="parquet", path=Path(sys.argv[1]), source_column="de", target_column="en", streaming=True)
data = DataConfig(train=(corpus,), stream_segment_pairs=5_000)
streams = TrainingStreams(data)
first = streams.first[0]
tokenizers = prepare_tokenizers(TokenizerConfig(vocab_size=300), first.sources, first.targets)
batches = StreamedBatches(streams, tokenizers, BatchSettings(data, None, 4096, seed=1), world=SINGLE_PROCESS)
num_pairs = 0
for number in range(40):
    num_pairs += sum(len(batch.indices) for batch in batches.epoch(number))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(num_pairs, status["VmHWM"].removesuffix("kB"))
"""


def test_memory_does_not_grow_with_the_stream(tmp_path: Path) -> None:
    """From a quarter of a file, more than what Arrow reads ahead, to its end: 150,000 pairs, some 30 MB as Python's."""
    import pyarrow as pa
    import pyarrow.parquet

    path = tmp_path / "large.parquet"
    columns = {"de": [f"{number} Satz " * 4 for number in range(200_000)]}
    columns["en"] = [f"{number} phrase " * 4 for number in range(200_000)]
    pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=5_000)
    run = subprocess.run(
        [sys.executable, "-c", _PASS, str(path)],
        capture_output=True, text=True, check=True, env={**os.environ, "HF_DATASETS_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    seen, peaks = zip(*(map(int, line.split()) for line in run.stdout.splitlines()), strict=True)
    assert seen[-1] == 200_000 and run.stderr == ""
    assert peaks[-1] - peaks[9] < 12 * 2**10, peaks
