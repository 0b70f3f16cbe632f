"""The functions for programs and notebooks: train, look at a run, evaluate, see attention."""

import html
import json
import logging
import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from harness import corpus_lines, make_two_ways, page_data, write_lines

import translate
from translate import Config, InputError, Run
from translate.config.data import DataConfig, TextCorpus
from translate.config.schema import TrainingConfig
from translate.evaluation.evaluate import evaluate
from translate.visualize.attention import attention_page

pytestmark = pytest.mark.usefixtures("no_shape_checks")

SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
PAIRS = {"kind": "text", "source": Path("some.de"), "target": Path("some.en")}
CONFIG: dict[str, Any] = {
    "name": "tiny",
    "data": {"train": [PAIRS], "validation": PAIRS, "test": {"test": PAIRS}},
    "tokenizer": {"vocab_size": 400},
    "model": SIZES,
    "training": {"max_steps": 9, "validate_every": 2, "log_every": 1, "batch_tokens": 400, "device": "cpu"},
    "decoding": {"beam_size": 2, "max_length_factor": 0.2, "max_length_constant": 3, "device": "cpu"},
    "evaluation": {"bootstrap_samples": 10},
}
QUICK = {"training.max_steps": 4, "training.warmup_steps": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty pairs of the embedded corpus, and a run that was trained on them."""
    path = tmp_path_factory.mktemp("programs")
    for side in ("de", "en"):
        write_lines(path / f"some.{side}", corpus_lines(f"train.{side}")[:60])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        config = CONFIG | {"model": MappingProxyType(SIZES)}
        translate.train(MappingProxyType(config), overrides=MappingProxyType(QUICK))
    return path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)
    return Run("runs/tiny")


def test_a_run_of_a_program(run: Run) -> None:
    assert (run.path, run.config.name, run.step) == (Path("runs/tiny"), "tiny", 4)
    assert [(record["kind"], record["step"]) for record in run.metrics] == [
        ("train", 1), ("train", 2), ("validation", 2), ("train", 3), ("train", 4), ("validation", 4),
        ("evaluation", 4),
    ]  # fmt: skip
    best = run.best
    assert best is not None and best["BLEU"] == max(
        each["BLEU"] for each in run.metrics if each["kind"] == "validation"
    )
    (call,) = json.loads((run.path / "run.json").read_text(encoding="utf-8"))["command"]
    assert call.startswith("translate.train with config, run, overrides: ")
    config, directory, overrides = json.loads(call.split(": ", 1)[1])
    assert (config["model"], directory, overrides) == (SIZES, "runs/tiny", QUICK)


def test_a_run_gives_its_translator(run: Run) -> None:
    translator = run.load(checkpoint="last", beam_size=1)
    assert translator.config.beam_size == 1 and translator.translate("Ein Hund.").source == "Ein Hund."
    translator = run.load(ensemble=[run.path], forbidden=["dog"], beam_size=np.int64(3))
    assert translator.config.beam_size == 3
    assert "dog" not in translator.translate("Ein Hund.", beam_size=np.int64(4)).text
    with pytest.raises(InputError, match="^nowhere: no such run directory; "):
        Run("nowhere")


def test_training_prints_its_progress_and_leaves_no_trace(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("translate")
    handlers = list(logger.handlers)
    monkeypatch.setattr(logging.root, "handlers", [])  # unlike pytest
    trained = translate.train(CONFIG, run="runs/printed", overrides=QUICK)
    printed = capsys.readouterr().out
    assert trained.step == 4 and "validation" in printed and printed.count("\nTraining ended after 4 steps") == 1
    assert (logger.level, logger.handlers) == (logging.NOTSET, handlers)


@pytest.mark.parametrize(
    ("name", "level"), [("translate", logging.WARNING), ("", logging.INFO), ("", logging.ERROR), (None, logging.NOTSET)]
)
def test_a_program_that_logs_by_itself_decides_what_is_printed(
    run: Run,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    name: str | None,
    level: int,
    tmp_path: Path,
) -> None:
    """With a level of the package's logger or of the root's, or with a handler of the root's, which gets each line."""
    if name is not None:
        monkeypatch.setattr(logging.getLogger(name), "level", level)
    logging.getLogger("translate")._cache.clear()  # type: ignore[attr-defined]  # of levels
    torch.set_num_threads(3)
    translate.train(CONFIG, run=tmp_path / "run", overrides=QUICK | {"training.max_steps": 1, "training.threads": 1})
    assert capsys.readouterr().out == "" and torch.get_num_threads() == 3
    ended = sum(record.getMessage().startswith("Training ended after 1 step;") for record in caplog.records)
    assert ended == (1 if level < logging.WARNING else 0)


def test_a_run_is_continued_by_itself_and_a_config_is_an_object(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    longer = {"training.max_steps": np.int64(6)}
    translate.train(run.config, run="~/run", overrides={"name": "other"})
    continued = translate.train("~/run", overrides=longer, resume=True)
    assert (continued.path, continued.step, continued.config.name) == (tmp_path / "run", 6, "other")
    assert [record["step"] for record in continued.metrics if record["kind"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert translate.load("~/run", ensemble=["~/run"]).config.beam_size == 2
    with pytest.raises(InputError, match="/run translates de → en, but the reverse of"):
        run.load(reverse="~/run")
    assert len(translate.evaluate("~/run").translations) == 60
    assert translate.show_attention("~/run", "Ein Hund.", "A dog.").title == "Attention of run"
    assert not Path("~").exists()


def test_a_config_inherits_what_it_does_not_say(run: Run, tmp_path: Path) -> None:
    """From the run that it fine-tunes; and a corpus need not say its kind, which its class says."""
    data = DataConfig(train=(TextCorpus(source=Path("some.de"), target=Path("some.en")),))
    base = {"initialize_from": run.path, "max_steps": 1, "device": "cpu"}
    tuned = translate.train(Config(data=data, training=TrainingConfig(**base)), run=tmp_path / "tuned")
    assert (tuned.config.model, tuned.config.tokenizer) == (run.config.model, run.config.tokenizer)
    assert (tuned.step, tuned.config.decoding.beam_size) == (1, 2)


def test_evaluation(run: Run) -> None:
    sources, references = (Path(f"some.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en"))
    expected = evaluate(run.load(), sources, references, run.config.evaluation)
    found = translate.evaluate("runs/tiny")
    assert found.metrics == expected.metrics and found.metrics[0].interval is not None
    assert [each.text for each in found.translations] == [each.text for each in expected.translations]
    two = translate.evaluate(run, sources=sources[:7], references=[references[:7], references[7:14]])
    assert all("nrefs:2|" in metric.signature for metric in two.metrics)
    few = translate.evaluate(run, sources=sources[:7], references=references[:7], beam_size=1)
    greedy = run.load(beam_size=1).translate(sources[:7])
    assert [each.text for each in few.translations] == [each.text for each in greedy]
    assert not (run.path / "evaluation").exists()


@pytest.mark.parametrize("options", [{"sources": ["Hund"]}, {"test_set": "news"}, {"beam": 2}], ids=str)
def test_evaluations_that_cannot_be(run: Run, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options)).removesuffix("_set")):
        translate.evaluate(run, **options)


@pytest.mark.parametrize("sides", [(["Hund", "Haus"], ["dog"]), ([], [])], ids=str)
def test_lines_that_do_not_pair_are_not_translated(
    run: Run, sides: tuple[list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("translate.api.load_translator")
    with pytest.raises(InputError, match="2 sources but 1 references|no lines"):
        translate.evaluate(run, sources=sides[0], references=sides[1])


def test_attention_is_shown_and_saved(run: Run, tmp_path: Path) -> None:
    attention = translate.show_attention(run, "Ein Hund.", "A dog.", unit="words")
    assert repr(attention) == "<Attention of tiny: Ein Hund. → A dog.>"
    page = attention_page(attention)
    (source,) = re.findall('srcdoc="([^"]*)"', attention._repr_html_())
    assert html.unescape(source) == page
    attention.save(tmp_path / "attention.html")
    assert (tmp_path / "attention.html").read_text(encoding="utf-8") == page
    decoded = translate.show_attention("runs/tiny", "Ein Hund.", layer=0, head=1, kind="encoder")
    assert decoded.pair.target_text == run.load().translate("Ein Hund.").text
    assert (decoded.choice.kind, decoded.choice.layer, decoded.choice.head) == ("encoder", 0, 1)


def test_a_run_of_several_languages(tmp_path: Path) -> None:
    path = make_two_ways(tmp_path, ["target"], num_steps=0)["target"].path
    run = Run(path)
    assert "de → en, en → de" in repr(run)
    exact = {"engine": "translate", "precision": "fp32"}
    expected = run.load(to="de", **exact).translate(["dog runs"])
    found = translate.evaluate(run, sources=["dog runs"], references=["Hund läuft"], to="de", **exact)
    assert [each.text for each in found.translations] == [each.text for each in expected]
    page = page_data(attention_page(translate.show_attention(run, "dog", "Hund", to="de")))
    assert page["tokens"]["target_input"]["pieces"][:2] == ["<s>", "▁<to-de>"]
    with pytest.raises(InputError, match="test set"):
        translate.evaluate(run, test_set="first", to="de")
    with pytest.raises(InputError, match="translates to en, de: 'fr' is not one of them"):
        translate.show_attention(run, "dog", to="fr")
