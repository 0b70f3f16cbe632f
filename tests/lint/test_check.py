"""A check of whole configs: silent on clean text and sound settings, and each fault reported with its line."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from harness import in_order

from translate.config.load import load_config
from translate.config.schema import Config
from translate.errors import InputError, RunError
from translate.lint import check as module
from translate.lint.check import check, log_findings
from translate.lint.findings import KINDS, Finding
from translate.training.preparation import prepare_data

pytestmark = pytest.mark.usefixtures("no_shape_checks")

NUM_TRAIN, NUM_VALIDATION = 1200, 250
Lines = list[str]
Write = Callable[..., Config]


@pytest.fixture
def write(clean_config: Path) -> Write:
    """A function that writes the text and gives the config for it."""

    def write_all(text: dict[str, Lines], *overrides: str) -> Config:
        for name, lines in text.items():
            content = "".join(f"{line}\n" for line in lines)
            clean_config.with_name(name).write_text(content, encoding="utf-8", newline="\n")
        return load_config(str(clean_config), overrides, require_files=True).config

    return write_all


def logged(config: Config, *, num_parameters: int = 10_000, ignore_errors: bool = True) -> list[Finding]:
    """What a training finds before its first step."""
    data = prepare_data(config, device=torch.device("cpu"))
    return log_findings(data, num_parameters, ignore_errors=ignore_errors)


def only(findings: list[Finding] | tuple[Finding, ...], name: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.name == name]
    return finding


def test_clean_text_is_silent(text: dict[str, Lines], write: Write, quick: None, tmp_path: Path) -> None:
    config = write(text)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    report = check(config)
    assert report.findings == ()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before  # nothing is left behind
    assert logged(config, ignore_errors=False) == []

    training, validation = report.corpora
    assert (training.key, training.num_pairs, training.num_kept) == ("data.train.0", NUM_TRAIN, NUM_TRAIN)
    assert (validation.key, validation.num_pairs, validation.num_kept) == ("data.validation", NUM_VALIDATION, None)
    assert report.dry_run is not None and report.plan.seconds is not None
    assert report.plan.num_steps == 100 and report.plan.num_validations == 4
    assert report.plan.num_epochs == pytest.approx(100 / report.plan.steps_per_epoch)
    # Padding, and so the steps of an epoch, are those that the training's log tells.
    epoch = prepare_data(config, device=torch.device("cpu")).batches.epoch(0)
    assert report.plan.padding_share == epoch.padding.share and report.plan.steps_per_epoch == len(epoch)


def test_each_suspicion_at_its_line(text: dict[str, Lines], write: Write, quick: None) -> None:
    sources, targets = text["train.de"], text["train.en"]
    sources[30], targets[40] = "", "  "
    targets[50] = sources[50]
    targets[60] = " ".join(targets[60:64])
    sources[70], targets[70] = sources[3].upper(), targets[3]
    sources[90], targets[100] = targets[300], sources[300]
    sources[140], targets[140] = f"„{sources[5]}“", f"{targets[5]}!"
    sources[130] += "\x02\u2028\ue123\u200b\ufffdÃ¤&amp;"
    targets[150] = f'"{targets[150]} ""so"""'
    odd = ("control", "line_end", "invisible", "mojibake", "markup")
    put_in = {
        "empty": 31, "equal": 51, "unlikely_length": 61, "repeated": 71, "source_like_target": 91,
        "target_like_source": 101, **dict.fromkeys(odd, 131),
        "near_repeated": 141, "quoted": 151,
    }  # fmt: skip
    assert set(put_in) == set(KINDS) - {"shifted", "unrelated", "leaked"}
    report = check(write(text))
    assert {finding.name for finding in report.findings} == set(put_in)  # and nothing else
    for kind, line in put_in.items():
        finding, count = only(report.findings, kind), {"empty": 2}.get(kind, 1)
        assert finding.message == f"data.train.0: {count} of {NUM_TRAIN:,} pairs {KINDS[kind].what}"
        assert finding.hint == KINDS[kind].hint
        assert finding.examples[0].startswith(f"line {line}: ") and len(finding.examples) == min(count, 3)


def test_lines_that_do_not_belong_together(text: dict[str, Lines], write: Write, quick: None) -> None:
    targets = text["train.en"]
    targets[500:1000] = random.Random(1).sample(targets[500:1000], 500)
    report = check(write(text))
    finding = only(report.findings, "unrelated")
    assert ": 500 of " in finding.message and finding.severity == "error"
    assert finding.examples[0].startswith("lines 501 to 1,000")


def test_a_training_finds_the_same_and_refuses_errors(
    text: dict[str, Lines], write: Write, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    del text["train.en"][200]
    text["train.en"].append("The end.")
    text["train.en"][7] += "\x02"  # a note
    text["valid.de"], text["valid.en"] = text["valid.en"], text["valid.de"]
    config = write(text, "training.warmup_steps=100")
    findings = check(config).findings
    finding = only(findings, "shifted")
    assert finding.severity == only(findings, "source_like_target").severity == "error"
    assert only(findings, "target_like_source").message.startswith("data.validation: 2")
    assert finding.examples[0].startswith("lines 202 to 1,200 (its target is 1 line earlier): ")
    caplog.set_level("INFO", "translate")
    assert logged(config) == list(findings)
    levels = {"error": "ERROR", "warning": "WARNING"}
    shown = [(levels[each.severity], each.draw()) for each in findings if each.severity in levels]
    (_, line), *records = [(record.levelname, record.message) for record in caplog.records][-len(shown) - 1 :]
    assert records == shown
    assert in_order(line, f"{len(findings) - len(shown)} note", "`translate check`") and len(shown) < len(findings)
    errors = f"fix {sum(each.severity == 'error' for each in findings)} errors"
    with pytest.raises(InputError, match=f"{errors}.*--ignore-errors"):
        logged(config, ignore_errors=False)


def test_leakage(text: dict[str, Lines], write: Write, quick: None) -> None:
    text["valid.de"][9], text["valid.en"][9] = text["train.de"][19].upper(), text["train.en"][19]
    text["valid.de"][29] = f"{text['train.de'][39]} "
    config = write(text)
    report = check(config)
    finding = only(report.findings, "leakage")
    assert finding.severity == "note"
    assert finding.message.startswith(
        "data.validation: 1 of 250 pairs also occur in training; of the others, the source does in 1 "
    )
    assert finding.examples[0].startswith("line 10 (the pair is line 20 of data.train.0): ")
    assert only(logged(config), "leakage") == finding
    changed = check(write(text, "data.validation.augment={typos: 1}"))  # it is compared as it was
    assert only(changed.findings, "leakage").message == finding.message
    # 3 of 250 pairs are more than one in a hundred.
    for line in (50, 51):
        text["valid.de"][line], text["valid.en"][line] = text["train.de"][line], text["train.en"][line]
    assert only(logged(write(text)), "leakage").severity == "warning"
    for side in ("de", "en"):
        text[f"valid.{side}"][:125] = text[f"train.{side}"][:125]
    assert only(logged(write(text)), "leakage").severity == "error"


def test_settings_are_judged_too(text: dict[str, Lines], write: Write, quick: None) -> None:
    config = write(text, "training.max_steps=300", "model.dropout=0.0")
    for findings in (check(config).findings, logged(config)):
        assert [finding.name for finding in findings] == ["no_dropout"]
    large = logged(write(text), num_parameters=10_000_000)
    assert [finding.name for finding in large] == ["model_large_for_corpus"]


def test_a_training_that_would_fail(text: dict[str, Lines], write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise RunError("out of memory. Lower training.batch_tokens")

    monkeypatch.setattr(module, "dry_run", fails)
    report = check(write(text))
    finding = only(report.findings, "training_fails")
    assert finding.severity == "error" and finding.message == "out of memory. Lower training.batch_tokens"
    assert report.dry_run is None and report.plan.seconds is None


def test_a_large_corpus_is_sampled(
    text: dict[str, Lines], write: Write, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_INSPECTED_PAIRS", 1000)
    text["train.en"][50] = text["train.de"][50]
    report = check(write(text))
    assert report.corpora[0].num_inspected == 1000 and report.corpora[1].num_inspected == NUM_VALIDATION
    # What is cheap to find is still looked for everywhere, here in a line of the sample.
    assert only(report.findings, "equal").message.startswith(f"data.train.0: 1 of {NUM_TRAIN:,} pairs")


def test_rows_of_a_table(text: dict[str, Lines], write: Write, quick: None, tmp_path: Path) -> None:
    text["train.en"][50] = text["train.de"][50]
    pairs = zip(text["train.de"], text["train.en"], strict=True)
    rows = "".join(json.dumps({"de": source, "en": target}) + "\n" for source, target in pairs)
    (tmp_path / "train.jsonl").write_text(rows, encoding="utf-8")
    table = "{kind: json, path: train.jsonl, source_column: de, target_column: en}"
    report = check(write(text, f"data.train=[{table}]", f"data.root={tmp_path}"))
    assert only(report.findings, "equal").examples[0].startswith("row 51: ")


def test_languages_and_directions(write: Write, text: dict[str, Lines], tmp_path: Path) -> None:
    """Both directions of a clean corpus; and corpora whose languages are not those that they name."""
    both = ("data.train.0.both_directions=true", "data.validation.both_directions=true")
    found = logged(write(text, *both))
    assert not found
    train = "{kind: text, source: %s, target: %s, source_language: %s, target_language: en}"
    listed = [train % ("train.de", "train.en", "de"), train % ("valid.en", "valid.de", "gsw")]
    config = write(text, f"data.train=[{', '.join(listed)}]", f"data.root={tmp_path}")
    assert [each.message for each in logged(config) if each.name == "wrong_language"] == [
        "data.train.1: its target should be en, but looks like de"
    ]
    copies = write({**text, "train.en": text["train.de"]}, *both)  # a fault of one corpus is not one of its reverse
    assert [each.message.partition(":")[0] for each in logged(copies) if each.name == "equal"] == ["data.train.0"]


def test_what_the_target_loses_by_normalisation(text: dict[str, Lines], write: Write) -> None:
    for share, severity in ((0.005, "note"), (0.06, "warning")):
        for number in range(4, 4 + int(share * NUM_TRAIN)):
            text["train.en"][number] = text["train.en"][number].rstrip(".") + " m²…"
        finding = only(check(write(text)).findings, "targets_normalized")
        assert finding.severity == severity and f"changes {int(share * NUM_TRAIN)} of {NUM_TRAIN:,}" in finding.message
        assert "first on line 5," in finding.message and "² (U+00B2)" in finding.message and "…" in finding.message
    config = write(text, "tokenizer.normalization=identity")
    assert "targets_normalized" not in {finding.name for finding in check(config).findings}


def test_references_without_spaces(text: dict[str, Lines], write: Write) -> None:
    text["valid.en"] = [line.replace(" ", "") for line in text["valid.en"]]
    assert "data.validation: the ref" in only(check(write(text)).findings, "bleu_without_spaces").message
    config = write(text, "evaluation.bleu_tokenizer=char")
    assert "bleu_without_spaces" not in {finding.name for finding in check(config).findings}
