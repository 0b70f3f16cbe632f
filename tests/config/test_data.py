"""What cannot be streamed is refused, with what to do instead."""

from pathlib import Path

import pytest

from translate.config.load import load_config
from translate.errors import InputError

_STREAM = "streaming: true, source_column: de, target_column: en"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            f"train: [{{kind: csv, path: a.csv, {_STREAM}}}]",
            "data.train.0.streaming = true is for kind json, parquet and hub, because a CSV file is read as a whole to"
            " find its rows; convert the file to Parquet, or leave streaming out",
        ),
        (
            f"train: [{{kind: hub, dataset: wmt14, split: 'train[:1000]', {_STREAM}}}]",
            "data.train.0.streaming = true takes a whole split, and split = 'train[:1000]' is a part of one; write"
            " split: train, or leave streaming out",
        ),
        (
            f"validation: {{kind: parquet, path: a.parquet, {_STREAM}}}",
            "data.validation.streaming = true: only the corpora of data.train can be streamed",
        ),
        (
            f"test: {{news: {{kind: parquet, path: a.parquet, {_STREAM}}}}}",
            "data.test.news.streaming = true: only the corpora of data.train can be streamed",
        ),
    ],
)
def test_what_cannot_be_streamed(tmp_path: Path, data: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text(f"data:\n  {data}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_config(str(tmp_path / "a.yaml"))
    assert message in str(caught.value)


def test_plain_text_knows_no_streaming(tmp_path: Path) -> None:
    corpus = "{kind: text, source: a, target: b, streaming: true}"
    (tmp_path / "a.yaml").write_text(f"data: {{train: [{corpus}]}}\n", encoding="utf-8")
    with pytest.raises(InputError, match="streaming"):
        load_config(str(tmp_path / "a.yaml"))
