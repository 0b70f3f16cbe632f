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


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("bt", "should match"),
        ("<BT>", "should match"),
        ("<b t>", "should match"),
        ("<s>", "should match"),
        ("<0x41>", "should match"),
        ("<pad>", "data.train.0.source_tag = <pad> is a special symbol of every vocabulary; choose another"),
    ],
)
def test_a_tag_is_a_name_in_angle_brackets(tmp_path: Path, tag: str, message: str) -> None:
    corpora = f"{{kind: text, source: a, target: b, source_tag: '{tag}'}}, {{kind: text, source: a, target: b}}"
    (tmp_path / "a.yaml").write_text(f"data: {{train: [{corpora}]}}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_config(str(tmp_path / "a.yaml"))
    assert "data.train.0.source_tag" in str(caught.value) and message in str(caught.value)


def test_only_training_corpora_have_tags(tmp_path: Path) -> None:
    tagged = "{kind: text, source: a, target: b, source_tag: <bt>}"
    (tmp_path / "a.yaml").write_text(f"data: {{train: [{tagged}, {tagged}]}}\n", encoding="utf-8")
    assert load_config(str(tmp_path / "a.yaml")).config.data.source_tags == ["<bt>"]
    (tmp_path / "a.yaml").write_text(f"data: {{test: {{news: {tagged}}}}}\n", encoding="utf-8")
    with pytest.raises(InputError, match="data.test.news.source_tag = <bt>: only the corpora of data.train have tags"):
        load_config(str(tmp_path / "a.yaml"))


def test_plain_text_knows_no_streaming(tmp_path: Path) -> None:
    corpus = "{kind: text, source: a, target: b, streaming: true}"
    (tmp_path / "a.yaml").write_text(f"data: {{train: [{corpus}]}}\n", encoding="utf-8")
    with pytest.raises(InputError, match="streaming"):
        load_config(str(tmp_path / "a.yaml"))
