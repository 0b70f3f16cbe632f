"""A training of several directions: its validations, how often it sees each direction, and going on with it."""

import signal
from pathlib import Path
from statistics import fmean

import pytest
from harness import state_of
from trainings import Digits, happening, records_of, run_training

from translate.config.load import load_config
from translate.decoding.loading import load_translator
from translate.errors import InputError
from translate.evaluation.test_sets import choose_test_sets
from translate.runs.directory import RunDirectory
from translate.runs.metrics import best_record, read_metrics
from translate.runs.run import open_run
from translate.training.preparation import count_directions, make_batches, make_tokenizers, read_corpora
from translate.training.signals import StoppedBySignal
from translate.training.validation import validate, validation_fingerprint

pytestmark = pytest.mark.usefixtures("no_shape_checks")

BOTH = ("data.train.0.both_directions=true", "data.validation.both_directions=true")
# Three directions, one of them small, with all that changes text in each epoch, and tags on both sides.
MANY = (
    "data.train=[{kind: text, source: train.in, target: train.out, source_language: de, target_language: en, "
    "both_directions: true, augment: {typos: 0.5}}, "
    "{kind: text, source: few.in, target: few.out, source_language: fr, target_language: de, source_tag: <bt>}]",
    *("data.validation.both_directions=true", "data.language_tags=both", "data.sampling_temperature=5"),
    "training.max_steps=7",
)


def test_each_direction_is_validated_and_the_mean_decides(digits: Digits, tmp_path: Path) -> None:
    config, run = digits(*BOTH, "training.max_steps=4", "training.validate_every=2"), tmp_path / "run"
    said = run_training(config, run)
    means, *parts = (records_of(run, f"validation{name}") for name in ("", "/de-en", "/en-de"))
    assert [each["step"] for each in means] == [each["step"] for each in parts[0]] == [2, 4]
    for mean, *own in zip(means, *parts, strict=True):
        assert mean["mean_of"] == ["de-en", "en-de"] and "seconds" not in mean
        for key in ("loss", "BLEU", "chrF"):
            assert mean[key] == fmean(each[key] for each in own)
        assert mean["num_truncated"] == sum(each["num_truncated"] for each in own)
    assert (
        sum(each.startswith(("  de-en: BLEU ", "  en-de: BLEU ")) for each in said) == 4 + 2
    )  # the last: the best one
    assert sum(": validation (mean of 2) BLEU " in each for each in said) == 2
    best = best_record(read_metrics(RunDirectory(run)), "bleu")
    assert best is not None and best["BLEU"] == max(each["BLEU"] for each in means)
    # Each set in its own direction: the last step's scores once more.
    test_sets = choose_test_sets(config, name="validation")
    assert [str(each.direction) for each in test_sets.values()] == ["de-en", "en-de"]
    loaded = open_run(run).load_model("last")
    orders = [*test_sets.values()], [*test_sets.values()][::-1]
    assert len({validation_fingerprint(order, loaded.tokenizers, config) for order in orders}) == 1
    for corpus, (_, record) in zip(test_sets.values(), parts, strict=True):
        again = validate(loaded.model, loaded.tokenizers, corpus, config)
        assert again.loss == pytest.approx(record["loss"], abs=1e-5)
        assert again.evaluation.score("BLEU") == record["BLEU"]


def test_a_training_of_several_directions_goes_on_as_if_never_stopped(
    stateful: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for side in ("in", "out"):
        lines = (tmp_path / f"train.{side}").read_text().splitlines(keepends=True)
        (tmp_path / f"few.{side}").write_text("".join(lines[:20]))
    said = run_training(stateful(*MANY), tmp_path / "straight")
    # 20 pairs have the weight that makes their share (211 / 20)^(1/5) times smaller than that of the others.
    weight = (211 / 20) ** 0.8
    assert sum(each.startswith("Each epoch, de-en: 211 pairs") and each.endswith("1.00 times its 211") for each in said)
    assert sum(each.startswith(f"Each epoch, fr-de: {20 * weight:.0f} pairs") for each in said) == 1
    with happening(in_step=5, what=signal.SIGINT), pytest.raises(StoppedBySignal):
        run_training(stateful(*MANY), tmp_path / "stopped")
    run_training(stateful(*MANY), tmp_path / "stopped", resume=True)
    assert state_of(tmp_path / "stopped") == state_of(tmp_path / "straight")
    with pytest.raises(InputError, match=r"data.sampling_temperature = 2\.0 \(the run has 5\.0\)"):
        run_training(stateful(*MANY, "data.sampling_temperature=2"), tmp_path / "stopped", resume=True)


def test_the_tokenizer_sees_each_direction_as_often_as_the_model(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three pairs of capital letters beside 211 of digits: with a high temperature, they are a subword."""
    monkeypatch.chdir(tmp_path)
    for side in ("in", "out"):
        (tmp_path / f"few.{side}").write_text("AB\n" * 3)
    config = digits(
        "data.train=[{kind: text, source: train.in, target: train.out, source_language: de, target_language: en}, "
        "{kind: text, source: few.in, target: few.out, source_language: fr, target_language: de}]",
        *("tokenizer.vocab_size=300", "tokenizer.byte_fallback=true"),
    )
    balanced = config.model_copy(update={"data": config.data.model_copy(update={"sampling_temperature": 1000.0})})
    with pytest.raises(InputError, match="is de-cs, but the model translates to en, de"):
        read_corpora(config.model_copy(update={"data": config.data.model_copy(update={"target_language": "cs"})}))
    corpora, evenly = read_corpora(config), read_corpora(balanced)
    assert [each.weight for each in corpora.train] == [1.0, 1.0]
    assert [round(each.weight * len(each.sources)) for each in evenly.train] == [211, 210]
    reports = make_batches(config, evenly, make_tokenizers(config, evenly)).filter_reports
    first, second = count_directions(balanced.data, evenly.train, reports, num_epochs=3.0)
    assert (first.direction, first.num_pairs, first.num_seen, first.num_epochs) == ("de-en", 211, 633, 3.0)
    assert (second.num_pairs, round(second.share, 2)) == (3, 0.5)
    ids = [make_tokenizers(each, read_corpora(each)).source.all_pieces for each in (config, balanced)]
    assert "▁AB" in ids[1] and "▁AB" not in ids[0]


def test_a_run_begun_from_several_directions_keeps_its_languages(digits: Digits, tmp_path: Path) -> None:
    run_training(digits(*BOTH, "training.max_steps=1"), tmp_path / "base")
    (tmp_path / "tune.yaml").write_text(
        "extends: digits.yaml\ntraining: {initialize_from: base, max_steps: 1, lora_rank: 2}\n"
    )
    config = load_config(str(tmp_path / "tune.yaml"), require_files=True).config
    assert (config.data.language_tags, config.data.languages) == ("source", ("de", "en"))
    files = f"source: {tmp_path}/validation.in, target: {tmp_path}/validation.out"
    also = f"data.validation_also.fr={{kind: text, {files}, source_language: fr}}"
    assert read_corpora(load_config(str(tmp_path / "tune.yaml"), [also], require_files=True).config).validation_also
    with pytest.raises(InputError, match="data.validation_also.fr is fr-en, but the model translates from de, en"):
        read_corpora(digits(*BOTH, also))
    said = run_training(config, tmp_path / "tuned")
    assert not any("Vocabulary extended" in each for each in said)
    run_training(config, tmp_path / "tuned", resume=True)
    translator = load_translator(tmp_path / "tuned", options={"engine": "translate"}).translator
    assert translator.languages.choose() == ("de", "en") and translator.languages.choose("de").target == "de"
    for override in ("data.train.0.target_language=fr", "data.languages=[de, en, fr]"):
        other = load_config(str(tmp_path / "tune.yaml"), [override], require_files=True).config
        with pytest.raises(InputError, match="does not know the language fr; it knows de, en"):
            run_training(other, tmp_path / "fr")
