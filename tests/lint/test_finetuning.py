"""A check of a fine-tuning: its rate beside the run's, and text that the run's vocabulary was not made for."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness import write_run

from translate.config.load import load_config, override_config
from translate.config.schema import Config
from translate.data.corpora import read_corpus
from translate.data.tokenizer import prepare_tokenizers
from translate.lint import settings
from translate.lint.check import Report, check
from translate.lint.settings import DataFacts, rate_findings, settings_findings
from translate.runs.weights import build_model

Tune = Callable[..., Config]


@pytest.fixture
def tune(clean_config: Path) -> Tune:
    """A function that gives the config of a fine-tuning of a run that was trained on `mine.yaml`, with overrides."""
    config = load_config(str(clean_config), require_files=True).config
    (corpus,) = [read_corpus(each, key="data.train.0") for each in config.data.train]
    tokenizers = prepare_tokenizers(config.tokenizer, corpus.sources, corpus.targets)
    run = write_run(clean_config.with_name("base"), config, tokenizers, build_model(config, tokenizers))
    initial = f"training.initialize_from={run}"
    return lambda *overrides: load_config(str(clean_config), [initial, *overrides], require_files=True).config


def names(report: Report) -> list[str]:
    return [finding.name for finding in report.findings]


def test_a_rate_over_half_of_the_runs_own(tune: Tune, clean_config: Path) -> None:
    own = load_config(str(clean_config)).config
    assert list(rate_findings(own)) == []  # is no fine-tuning
    (finding,) = rate_findings(tune())
    rate = own.training.learning_rate
    assert finding.severity == "warning" and finding.name == "fine_tuning_rate_high"
    assert finding.message.startswith(f"training.learning_rate = {rate:g} with training.schedule = ")
    assert f"{rate:.1e}" in finding.message and "/base" in finding.message
    assert finding.hint == f"try training.learning_rate={0.2 * rate:.0e}"
    assert list(rate_findings(tune(f"training.learning_rate={0.5 * rate}"))) == []
    # noam: 2 / sqrt(d_model * warmup_steps) = 2 / sqrt(64 * 100) = 0.025
    (finding,) = rate_findings(tune("training.schedule=noam", "training.learning_rate=2", "training.warmup_steps=100"))
    assert f"peaks at {2 / (own.model.d_model * 100) ** 0.5:.1e}" in finding.message
    assert finding.hint.endswith("training.schedule=cosine")


@pytest.mark.parametrize("base", ["imported", "fine-tuned", "LoRA's"])
def test_another_rate_is_unknown_or_says_nothing(tune: Tune, monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """Of an imported run, of one that was fine-tuned itself, and of LoRA."""
    config = tune()
    imported = config.model_copy(update={"data": config.data.model_copy(update={"train": ()})})
    own = override_config(config, {"training.lora_rank": 2, "training.initialize_from": None})
    run = SimpleNamespace(config={"imported": imported, "fine-tuned": config, "LoRA's": own}[base])
    monkeypatch.setattr(settings, "open_run", lambda _: run)
    paper = 1 / (config.model.d_model * 4000) ** 0.5
    for rate, is_high in ((0.49 * paper, False), (0.51 * paper, True)):
        found = [*rate_findings(tune(f"training.learning_rate={rate}"))]
        assert len(found) == is_high
    assert f"{paper:.1e}" in found[0].message


def test_text_of_its_own_kind_is_silent(tune: Tune, quick: None) -> None:
    report = check(tune("training.learning_rate=0.0001"))
    assert names(report) == []
    assert report.plan.validation_seconds == 2.0 * report.plan.num_validations  # 2 seconds each: see `quick`
    assert report.plan.num_validations == -(-report.plan.num_steps // tune().training.validate_every) + 1  # and step 0


def test_text_with_other_characters(tune: Tune, quick: None, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("Quxjyzzy wyvquorl ☃ zhvyqwx\n" * 40, encoding="utf-8")
    corpus = "{kind: text, source: other.txt, target: other.txt}"
    config = tune(
        "training.learning_rate=0.0001", f"data.train=[{corpus}]", f"data.validation={corpus}", f"data.root={tmp_path}"
    )
    report = check(config)
    assert not {"vocabulary_large_for_corpus", "vocabulary_unused"} & set(names(report))
    spelling = [each for each in report.findings if each.name == "characters_in_bytes"]
    assert spelling and all("tokenizer.add_characters=true" in each.hint for each in spelling)
    extended = override_config(config, {"tokenizer.add_characters": True})
    assert "characters_in_bytes" not in names(check(extended))


def test_the_trial_has_the_runs_weights_and_every_set(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("translate.lint.check.dry_run", lambda data, _, **given: seen.update(given, read=data.corpora))
    also = "data.validation_also={old: {kind: text, source: valid.en, target: valid.de}}"
    report = check(tune(also, f"data.root={tmp_path}"))
    assert seen["initial"].step == 7
    validated = seen["read"].validation | seen["read"].validation_also
    assert [len(pairs.sources) for pairs in validated.values()] == [250, 250]
    assert [each.key for each in report.corpora] == ["data.train.0", "data.validation", "data.validation_also.old"]


def test_lora_and_frozen_parts_of_a_run(tune: Tune, quick: None) -> None:
    """LoRA takes higher rates, and nothing is at random; but what the vocabulary gains would never be learnt."""
    assert names(check(tune("training.lora_rank=2"))) == []
    rate, extended = "training.learning_rate=0.0001", "tokenizer.add_pieces=[<x>]"
    for override, named in (
        ("training.lora_rank=2", "training.lora_rank = 2: "),
        ("training.freeze=[embeddings]", "training.freeze = [embeddings]: "),
    ):
        (finding,) = check(tune(rate, override, extended)).findings
        assert finding.name == "added_entries_frozen" and finding.message.startswith(named)
    for override in ("training.freeze=[encoder]", "training={lora_rank: 2, lora_targets: [query, embeddings]}"):
        assert names(check(tune(rate, override, extended))) == []
    assert names(check(tune(rate, "training.freeze=[embeddings]", "data.language_tags=target"))) == [
        "added_entries_frozen"
    ]
    nothing = ("tokenizer.add_pieces=[a]", "tokenizer.add_characters=true")  # the run has all of them
    assert names(check(tune(rate, "training.freeze=[embeddings]", *nothing))) == []


@pytest.mark.parametrize(("tying", "is_frozen"), [("none", True), ("inputs", True), ("decoder", False), ("all", False)])
def test_rows_of_an_output_layer_that_is_not_tied_are_the_decoders(tying: str, is_frozen: bool) -> None:
    facts = DataFacts(4_500_000, 0, 130_000_000, 33_000, 63_000_000, is_extended=True)
    for lora in ("training.lora_rank=0", "training={lora_rank: 2, lora_targets: [embeddings]}"):
        config = load_config(
            "transformer-base", [f"model.tie_embeddings={tying}", lora, "training.freeze=[decoder]"]
        ).config
        found = {finding.name for finding in settings_findings(config, facts)}
        assert ("added_entries_frozen" in found) == is_frozen
