"""Metrics read while a training writes them, and the time that they were reached in, by hand."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import write_lines

from translate.config.schema import Config, TrainingConfig
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.evaluation.metrics import HEADLINES
from translate.runs.checkpoint import write_tensors
from translate.runs.directory import RunDirectory, create_run
from translate.visualize.curves import curves_picture
from translate.visualize.panels import Curves, Picture, Table

MakeRun = Callable[..., Path]


def train(step: int, **values: Any) -> dict[str, Any]:
    shown = {"loss": 5.0 / step, "nll": math.log(9), "gradient_norm": 1.5, "learning_rate": 0.001 * step}
    tokens = {"target_tokens": 6000 * step, "target_tokens_per_second": 100.0}
    return {"kind": "train", "step": step, "epoch": 1, **shown, **tokens, **values}


def validation(step: int, **values: Any) -> dict[str, Any]:
    return {"kind": "validation", "step": step, "loss": 2.0, "perplexity": 7.4, "BLEU": 30.0, "seconds": 90.0, **values}


@pytest.fixture
def make_run(tokenizers: Tokenizers) -> MakeRun:
    def make(path: Path, *records: dict[str, Any], best_metric: Any = "bleu") -> Path:
        """A run that has recorded so much."""
        config = Config(training=TrainingConfig(best_metric=best_metric))
        run = create_run(path, config=config, tokenizers=tokenizers, command=["translate", "train"])
        write_lines(run.metrics, [json.dumps(record) for record in records])
        return path

    return make


def chart(picture: Picture, title: str) -> Curves:
    (found,) = [panel for panel in picture.panels if panel.title == title]
    assert isinstance(found, Curves)
    return found


def table(picture: Picture) -> dict[str, list[str]]:
    found = picture.panels[-1]
    assert isinstance(found, Table) and found.header[0] == ""
    return {row[0]: list(row[1:]) for row in found.rows}


def test_all_of_a_run_over_steps_and_over_time(make_run: MakeRun, tmp_path: Path) -> None:
    # 6000 tokens at 100 a second are a minute; the second step at 50 takes two, the validation between 1.5.
    run = make_run(tmp_path / "demo", train(1), validation(1), train(2, target_tokens_per_second=50.0))
    picture = curves_picture([run])
    assert picture.title == "Training of demo" and "label smoothing" in picture.paragraphs[0]
    titles = ["Loss", "BLEU on validation", "Learning rate", "Speed", "Gradient norm", "Runs"]
    assert [panel.title for panel in picture.panels] == titles
    training, validated = chart(picture, "Loss").series
    assert (training.name, training.kind, training.x) == ("demo", "training", [1.0, 2.0])
    assert training.y == pytest.approx([math.log(9)] * 2)  # the loss is the smoothed one
    assert (validated.name, validated.kind, validated.x) == ("demo", "validation", [1.0])
    assert (validated.y, validated.marked) == ([2.0], (0, "best 2"))
    (bleu,) = chart(picture, "BLEU on validation").series
    assert (bleu.name, bleu.y, bleu.marked) == ("demo", [30.0], (0, "best 30.00"))
    for name, ys in [("Learning rate", [0.001, 0.002]), ("Speed", [100.0, 50.0]), ("Gradient norm", [1.5, 1.5])]:
        assert chart(picture, name).series[0].y == ys
    assert table(picture) == {score.name: [""] for score in HEADLINES} | {
        "Steps": ["2"], "Minutes": ["4.5"], "Tokens per second": ["75"], "Best checkpoint": ["step 1"],
        "BLEU": ["30.00"], "Loss": ["2.0000"], "Perplexity": ["7.40"],
    }  # fmt: skip
    over_time = chart(curves_picture([run], over="minutes"), "Loss")
    assert (over_time.x_axis, [series.x for series in over_time.series]) == ("minutes", [[1.0, 4.5], [2.5]])


def test_the_metric_of_the_config_marks_the_best(make_run: MakeRun, tmp_path: Path) -> None:
    scores = [(2, 25.0, 2.0), (4, 20.0, 1.5), (6, math.nan, math.nan)]
    records = [validation(at, BLEU=bleu, loss=loss) for at, bleu, loss in scores]
    picture = curves_picture([make_run(tmp_path / "demo", *records, best_metric="loss")])
    (bleu,) = chart(picture, "BLEU on validation").series
    assert bleu.x == [2.0, 4.0, 6.0] and bleu.y[-1] is None and bleu.marked == (1, "best 20.00")
    assert (table(picture)["Best checkpoint"], table(picture)["BLEU"]) == (["step 4"], ["20.00"])


def test_the_best_checkpoint_may_be_an_average(make_run: MakeRun, tmp_path: Path) -> None:
    average = {"kind": "average", "step": 9000, "BLEU": 31.0, "averaged": [3000, 6000]}
    run = make_run(tmp_path / "demo", validation(6000), validation(9000), average)
    best = RunDirectory(run).checkpoint("best")
    write_tensors(best, {"a": torch.zeros(1)}, {"step": "9000", "averaged": "3000 6000"})
    shown = table(curves_picture([run]))
    assert (shown["Best checkpoint"], shown["BLEU"]) == (["the average of steps 3,000, 6,000"], ["31.00"])


def test_runs_are_overlaid_by_their_names(make_run: MakeRun, tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "wide", train(1)), make_run(tmp_path / "deep", train(1), train(2))
    picture = curves_picture([first, second])
    found = [(each.name, each.kind, len(each.x)) for each in chart(picture, "Loss").series]
    assert found == [("wide", "training", 1), ("deep", "training", 2)]
    assert table(picture)["Steps"] == ["1", "2"] and table(picture)["BLEU"] == ["", ""]
    again = make_run(tmp_path / "other" / "wide", train(1))
    names = [each.name for each in chart(curves_picture([first, again]), "Speed").series]
    assert names == [str(first), str(again)]
    with pytest.raises(InputError, match="wide, .*wide: .*twice"):
        curves_picture([first, first.parent / "." / "wide"])


def test_nothing_recorded_yet(make_run: MakeRun, tmp_path: Path) -> None:
    empty = make_run(tmp_path / "empty")
    with pytest.raises(InputError, match="empty: .*training.log_every"):
        curves_picture([empty])
    picture = curves_picture([empty, make_run(tmp_path / "demo", train(1))])
    assert table(picture)["Steps"] == ["", "1"]
