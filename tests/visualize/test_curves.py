"""Metrics read while a training writes them, and the time that they were reached in, by hand."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.runs.directory import create_run
from translate.visualize.curves import curves_picture, read_metrics
from translate.visualize.panels import Curves, Picture

MakeRun = Callable[..., Path]


def train(step: int, **values: Any) -> dict[str, Any]:
    return {
        "kind": "train",
        "step": step,
        "epoch": 1,
        "loss": 5.0 / step,
        "perplexity": 9.0,
        "gradient_norm": 1.5,
        "learning_rate": 0.001 * step,
        "target_tokens": 6000 * step,
        "target_tokens_per_second": 100.0,
        **values,
    }


def validation(step: int, **values: Any) -> dict[str, Any]:
    return {"kind": "validation", "step": step, "loss": 2.0, "perplexity": 7.4, "BLEU": 30.0, "seconds": 90.0, **values}


@pytest.fixture
def make_run(tokenizers: Tokenizers) -> MakeRun:
    def make(path: Path, *records: dict[str, Any] | str) -> Path:
        """A run that has recorded so much."""
        run = create_run(path, config=Config(), tokenizers=tokenizers, command=["translate", "train"])
        lines = [record if isinstance(record, str) else json.dumps(record) + "\n" for record in records]
        run.metrics.write_text("".join(lines), encoding="utf-8")
        return path

    return make


def chart(picture: Picture, title: str) -> Curves:
    (found,) = [panel for panel in picture.panels if panel.title == title]
    assert isinstance(found, Curves)
    return found


def test_all_of_a_run_over_steps_and_over_time(make_run: MakeRun, tmp_path: Path) -> None:
    # 6000 tokens at 100 a second are a minute; the second step at 50 takes two, the validation between 1.5.
    run = make_run(tmp_path / "demo", train(1), validation(1), train(2, target_tokens_per_second=50.0))
    picture = curves_picture([run])
    assert picture.title == "Training of demo" and picture.paragraphs[0].startswith("demo up to step 2.")
    assert "target tokens divided by their speed" in picture.paragraphs[1] and len(picture.paragraphs) == 2
    names = ["Loss", "Perplexity", "BLEU on validation", "Learning rate", "Speed", "Gradient norm"]
    titles = [f"{name} {over}" for name in names for over in ("over steps", "over time")]
    assert [panel.title for panel in picture.panels] == titles
    training, validated = chart(picture, "Loss over steps").series
    assert (training.name, training.x, training.y) == ("training", [1.0, 2.0], [5.0, 2.5])
    assert (validated.name, validated.x, validated.y) == ("validation", [1.0], [2.0])
    training, validated = chart(picture, "Perplexity over time").series
    assert (training.x, training.y) == ([1.0, 4.5], [9.0, 9.0])
    assert (validated.x, validated.y) == ([2.5], [7.4])
    (bleu,) = chart(picture, "BLEU on validation over steps").series
    assert (bleu.name, bleu.y) == ("demo", [30.0])
    for name, ys in [("Learning rate", [0.001, 0.002]), ("Speed", [100.0, 50.0]), ("Gradient norm", [1.5, 1.5])]:
        assert chart(picture, f"{name} over time").series[0].y == ys


def test_runs_are_overlaid_by_their_names(make_run: MakeRun, tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "wide", train(1)), make_run(tmp_path / "deep", train(1), train(2))
    series = chart(curves_picture([first, second]), "Loss over steps").series
    assert [(each.name, len(each.x)) for each in series] == [("wide, training", 1), ("deep, training", 2)]
    again = make_run(tmp_path / "other" / "wide", train(1))
    names = [each.name for each in chart(curves_picture([first, again]), "Speed over steps").series]
    assert names == [str(first), str(again)]


@pytest.mark.parametrize(
    "torn",
    [
        b'{"kind": "train", "st',
        b"\x00\x00\x00\n",
        b"[1, 2]\n",
        b'{"kind": "train"}\n',
        b"7\n",
        b'{"kind": "tr\xff\xfe"}\n',
        b"[" * 10_000 + b"\n",
        b'{"kind": "train", "step": "3"}\n',
        b'{"kind": "train", "step": Infinity}\n',
        b'{"kind": "train", "step": ' + b"9" * 400 + b"}\n",
        b'{"kind": {}, "step": 3}\n',
    ],
)
def test_a_torn_line_is_left_out_with_a_warning(
    make_run: MakeRun, tmp_path: Path, caplog: pytest.LogCaptureFixture, torn: bytes
) -> None:
    run = make_run(tmp_path / "demo", train(1), train(2))
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(torn)
    assert [record["step"] for record in read_metrics(run)] == [1, 2]
    assert f"{run}/metrics.jsonl: line 3 is left out: it is no record" in caplog.text


def test_it_grows_while_the_training_goes_on(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(tmp_path / "demo", train(1))
    for step in (2, 3):
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(train(step)) + "\n")
        assert chart(curves_picture([run]), "Loss over steps").series[0].x == [
            float(each) for each in range(1, step + 1)
        ]


def test_numbers_that_are_none_are_gaps(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(tmp_path / "demo", train(1, loss=float("inf")), train(2, loss=float("nan")), train(3), train(4))
    (series,) = chart(curves_picture([run]), "Loss over steps").series
    assert list(series.y) == [None, None, 5 / 3, 1.25]


def test_values_that_no_training_writes_are_left_out(make_run: MakeRun, tmp_path: Path) -> None:
    huge = int("9" * 400)
    odd = [train(1, loss=huge, target_tokens=huge), train(2, loss="low", target_tokens_per_second="fast"), train(3)]
    run = make_run(tmp_path / "demo", *odd, {"kind": "validation", "step": 3, "seconds": None, "BLEU": []})
    (series,) = chart(curves_picture([run]), "Loss over steps").series
    assert list(series.y) == [None, 5 / 3]
    assert all(math.isfinite(record["minutes_so_far"]) for record in read_metrics(run))


def test_a_speed_of_nothing_takes_no_time(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(tmp_path / "demo", train(1, target_tokens_per_second=0.0), train(2))
    assert [record["minutes_so_far"] for record in read_metrics(run)] == [0.0, 2.0]


def test_nothing_recorded_yet_and_no_run(make_run: MakeRun, tmp_path: Path) -> None:
    empty = make_run(tmp_path / "empty")
    with pytest.raises(InputError, match=r"empty: nothing is recorded yet; a training records itself every training"):
        curves_picture([empty])
    (empty / "metrics.jsonl").unlink()
    with pytest.raises(InputError, match="nothing is recorded yet"):
        curves_picture([empty])
    picture = curves_picture([empty, make_run(tmp_path / "demo", train(1))])
    assert picture.paragraphs[0].startswith("demo up to step 1; empty: nothing yet.")
    with pytest.raises(InputError, match="nowhere: no such run directory"):
        curves_picture([tmp_path / "nowhere"])
