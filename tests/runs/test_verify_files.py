"""What `translate verify` finds in each kind of file: checkpoints, metrics, evaluations, conversions."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from translate.config import Config
from translate.data.tokenizer import Tokenizers
from translate.model import Transformer
from translate.runs import RunDirectory, build_model, create_run, read_tensors, write_tensors
from translate.runs.checksums import write_checksums
from translate.runs.seal import file_digest, write_sealed_json
from translate.runs.verify import FileReport, Verification, verify_run


def report_on(path: Path, name: str) -> FileReport:
    (report,) = (file for file in verify_run(path).files if file.name == name)
    return report


def bad(verification: Verification) -> dict[str, str]:
    """What is not sound: states by name."""
    return {file.name: file.state for file in verification.files if file.state in {"DAMAGED", "MISSING", "CHANGED"}}


# Checkpoints


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor], dict[str, str]], object]) -> None:
    """A sound file with other tensors or metadata."""
    tensors, metadata = read_tensors(path)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors, metadata)
    write_tensors(path, tensors, metadata)


BIAS = "encoder.layers.0.feed_forward.inner.bias"


@pytest.mark.parametrize(
    "change, detail",
    [
        (lambda tensors, _: tensors[f"model.{BIAS}"].fill_(torch.nan), f"not all numbers are finite in model.{BIAS}"),
        (
            lambda tensors, _: tensors[f"optimizer.{BIAS}/exp_avg"].fill_(torch.inf),
            f"not all numbers are finite in optimizer.{BIAS}/exp_avg",
        ),
        (lambda tensors, _: tensors.pop(f"model.{BIAS}"), f"does not fit the model of its config: missing: {BIAS}"),
        (
            lambda tensors, _: tensors.update({f"model.{BIAS}": torch.zeros(13)}),
            f"does not fit the model of its config: of another shape: {BIAS} is (13,), the model's (12,)",
        ),
        (
            lambda tensors, _: tensors.update({f"model.{BIAS}": torch.zeros(12, dtype=torch.float64)}),
            f"of another type: {BIAS} is torch.float64, the model's torch.float32",
        ),
        (
            lambda tensors, _: tensors.pop(f"optimizer.{BIAS}/exp_avg"),
            f"cannot be resumed from; missing: optimizer.{BIAS}/exp_avg",
        ),
        (
            lambda tensors, _: [tensors.pop(name) for name in list(tensors) if name.startswith("optimizer.")],
            "cannot be resumed from; missing: optimizer.*",
        ),
        (
            lambda tensors, _: tensors.update({f"optimizer.{BIAS}/exp_avg": torch.zeros(13)}),
            f"cannot be resumed from; these fit no weights: optimizer.{BIAS}/exp_avg",
        ),
        (
            lambda tensors, _: tensors.update({"optimizer.x/exp_avg": torch.zeros(1)}),
            "cannot be resumed from; these fit no weights: optimizer.x/exp_avg",
        ),
        (lambda _, metadata: metadata.pop("step"), "does not say its step; it is no checkpoint of this toolkit"),
        (lambda _, metadata: metadata.pop("progress"), "cannot be resumed from; its progress is missing or unreadable"),
        (
            lambda _, metadata: metadata.update(progress="{"),
            "cannot be resumed from; its progress is missing or unreadable: Expecting property name",
        ),
    ],
)
def test_a_checkpoint_that_is_not_whole(
    whole_run: RunDirectory, change: Callable[[dict[str, torch.Tensor], dict[str, str]], object], detail: str
) -> None:
    """Its checksum is right: it was written so."""
    rewrite(whole_run.checkpoint("last"), change)
    report = report_on(whole_run.path, "checkpoints/last.safetensors")
    assert report.state == "DAMAGED" and detail in report.detail
    assert bad(verify_run(whole_run.path)) == {"checkpoints/last.safetensors": "DAMAGED"}


def test_an_average_that_the_config_asks_for(
    tmp_path: Path, config: Config, tokenizers: Tokenizers, save: Callable[..., None]
) -> None:
    training = config.training.model_copy(update={"ema_decay": 0.5})
    config = config.model_copy(update={"training": training})
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    model = build_model(config, tokenizers)
    save(run, model, "last", 5)
    report = report_on(run.path, "checkpoints/last.safetensors")
    assert (report.state, report.detail) == ("DAMAGED", "cannot be resumed from; missing: average.*")
    weights = {f"average.{name}": weight.detach() for name, weight in model.named_parameters()}
    rewrite(run.checkpoint("last"), lambda tensors, _: tensors.update(weights))
    assert report_on(run.path, "checkpoints/last.safetensors").state == "ok"
    weights.pop("average.output.weight", None)
    rewrite(run.checkpoint("last"), lambda tensors, _: tensors.pop(f"average.{BIAS}"))
    assert report_on(run.path, "checkpoints/last.safetensors").detail.endswith(f"missing: {BIAS}")


def test_another_languages_checkpoints_and_tokenizer(whole_run: RunDirectory, tmp_path: Path) -> None:
    """Of another vocabulary: each is sound by itself, but they do not belong together."""
    settings = {"tokenizer": {"vocab_size": 300}, "model": {"d_model": 8, "num_heads": 2, "d_ff": 12}}
    from translate.data.tokenizer import prepare_tokenizers

    config = Config.model_validate(settings)
    other = prepare_tokenizers(config.tokenizer, ["Un chien court."] * 3, ["A dog runs."] * 3)
    run = create_run(tmp_path / "other", config=config, tokenizers=other, command=[])
    shutil.copytree(whole_run.checkpoints, run.checkpoints, dirs_exist_ok=True)
    shutil.copy(whole_run.shortlist, run.shortlist)
    result = verify_run(run.path)
    assert set(bad(result)) == {
        *(f"checkpoints/{name}.safetensors" for name in ("best", "last", "previous")),
        "shortlist.safetensors",
    }
    size = other.source.vocab_size
    assert report_on(run.path, "shortlist.safetensors").detail == (
        f"a shortlist for vocabularies of 290 and 290 subwords, but the tokenizers have {size} and {size}"
    )


# Metrics


@pytest.mark.parametrize("grown", [b"", b'{"step": 10}\n', b'{"step": 10}\n{"st'])
def test_metrics_that_a_checkpoint_vouches_for(
    whole_run: RunDirectory, model: Transformer, save: Callable[..., None], grown: bytes
) -> None:
    content = whole_run.metrics.read_bytes()
    progress = {"metrics_bytes": len(content), "metrics_sha256": hashlib.sha256(content).hexdigest()}
    save(whole_run, model, "last", 10, progress=json.dumps(progress))
    whole_run.metrics.write_bytes(content + grown)
    cut = ", and a half one of a process that was killed, which --resume removes" if grown.endswith(b"st") else ""
    assert report_on(whole_run.path, "metrics.jsonl") == FileReport(
        "metrics.jsonl", "ok", f"{2 + grown.count(chr(10).encode())} records{cut}"
    )
    for damaged in (content[:-1], content.replace(b"5", b"6"), b""):
        whole_run.metrics.write_bytes(damaged)
        report = report_on(whole_run.path, "metrics.jsonl")
        assert report.state == "DAMAGED"
        assert report.detail.startswith(f"its first {len(content)} bytes should have the checksum ")


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"kind": "train"}', "[" * 100_000])
def test_metrics_that_are_no_records(whole_run: RunDirectory, line: str) -> None:
    whole_run.metrics.write_text(f'{{"step": 1}}\n{line}\n')
    report = report_on(whole_run.path, "metrics.jsonl")
    assert report.state == "DAMAGED" and report.detail.startswith("line 2 is no record: ")


# Evaluations and conversions


def test_an_evaluation(whole_run: RunDirectory) -> None:
    folder = whole_run.evaluation / "news"
    folder.mkdir(parents=True)
    report, hypotheses = folder / "report.json", folder / "hypotheses.txt"
    hypotheses.write_text("A dog.\n")
    assert report_on(whole_run.path, "evaluation/news/hypotheses.txt").state == "no checksum"
    write_sealed_json(report, {"name": "news", "hypotheses": file_digest(hypotheses)})
    for file in (report, hypotheses):
        assert report_on(whole_run.path, f"evaluation/news/{file.name}").state == "ok"
    hypotheses.write_text("A cat.\n")
    assert bad(verify_run(whole_run.path)) == {"evaluation/news/hypotheses.txt": "DAMAGED"}
    assert report_on(whole_run.path, "evaluation/news/hypotheses.txt").detail == (
        "not those that report.json is of; make both anew with translate eval"
    )
    hypotheses.unlink()
    assert bad(verify_run(whole_run.path)) == {"evaluation/news/hypotheses.txt": "MISSING"}
    hypotheses.write_text("A dog.\n")
    report.write_text(report.read_text().replace("news", "mews"))
    assert bad(verify_run(whole_run.path)) == {"evaluation/news/report.json": "DAMAGED"}
    report.write_text("{")
    assert bad(verify_run(whole_run.path)) == {"evaluation/news/report.json": "DAMAGED"}


def test_a_conversion(whole_run: RunDirectory) -> None:
    num_files = len(verify_run(whole_run.path).files)
    folder = whole_run.export / "ctranslate2-best-0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(b"weights")
    name = f"export/{folder.name}/"
    assert report_on(whole_run.path, name) == FileReport(name, "no checksum", "")
    write_checksums(folder)
    assert report_on(whole_run.path, name) == FileReport(name, "ok", "")
    assert len(verify_run(whole_run.path).files) == num_files + 1
    (folder / "model.bin").write_bytes(b"Weights")
    assert bad(verify_run(whole_run.path)) == {name: "DAMAGED"}
