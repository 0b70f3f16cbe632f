"""What `translate verify` finds in a run: nothing where nothing is wrong, and each thing that is."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from harness import cut, flip_a_bit, write_weights

import translate
from translate.fingerprint import fingerprint
from translate.model import Transformer
from translate.runs.checkpoint import read_tensors, write_tensors
from translate.runs.checksums import CHECKSUMS, read_checksums, write_checksums
from translate.runs.directory import RunDirectory
from translate.runs.verify import FileReport, Verification, verify_run

BEST, LAST = "checkpoints/best.safetensors", "checkpoints/last.safetensors"
SOUND = [
    ("run.json", "ok", ""),
    ("config.yaml", "ok", ""),
    ("tokenizer/joint.model", "ok", ""),
    (BEST, "ok", "step 7, 3,824 parameters"),
    (LAST, "ok", "step 9, resumable"),
    ("checkpoints/previous.safetensors", "ok", "step 7, resumable"),
    ("metrics.jsonl", "no checksum", "2 records"),
]


def report_on(run: RunDirectory, name: str) -> FileReport:
    (report,) = (file for file in verify_run(run.path).files if file.name == name)
    return report


def bad(verification: Verification) -> dict[str, str]:
    """What is not sound: states by name."""
    return {file.name: file.state for file in verification.files if file.state in {"DAMAGED", "MISSING"}}


def check_damage_is_reported(run: RunDirectory, name: str) -> None:
    """A cut and a flipped bit, each of which is found in this file alone."""
    path = run.path / name
    content = path.read_bytes()
    for damage in (cut, flip_a_bit):
        damage(path)
        result = verify_run(run.path)
        assert bad(result) == {name: "DAMAGED"} and result.unsound == [name] and name in result.summary
        path.write_bytes(content)


def test_a_sound_run_is_left_as_it_is(tmp_path: Path, whole_run: RunDirectory, model: Transformer) -> None:
    # By hand: 290 · 8 of the embedding, 288 of each attention, 280 of each feed-forward layer, 16 of each norm.
    assert model.num_parameters == 2320 + (288 + 280 + 2 * 16) + (2 * 288 + 280 + 3 * 16) == 3824
    (whole_run.checkpoints / ".translate-1-0.tmp").write_text("")
    before = {path: path.stat().st_mtime_ns for path in whole_run.path.rglob("*")}
    result = verify_run(whole_run.path)
    assert {path: path.stat().st_mtime_ns for path in whole_run.path.rglob("*")} == before
    assert [tuple(file) for file in result.files if file.state != "unknown"] == SOUND and not result.unsound
    assert (result.writer, result.run_format) == (translate.__version__, 3)
    assert result.created == json.loads(whole_run.description.read_text())["created"] and len(result.created) == 25
    assert result.summary.startswith("sound") and result.summary.endswith(": 1")
    (tmp_path / "link").symlink_to(whole_run.path)
    assert [tuple(file) for file in verify_run(tmp_path / "link").files if file.state != "unknown"] == SOUND


def test_damage_in_each_file(whole_run: RunDirectory) -> None:
    for name, state, _ in SOUND:
        if state == "ok":
            check_damage_is_reported(whole_run, name)
    last = whole_run.checkpoint("last")
    last.write_bytes(last.read_bytes()[:-1] + b"\xff")
    assert all(way in report_on(whole_run, LAST).detail for way in ("checksum", "--checkpoint best", "--resume"))


def test_a_config_changed_by_hand(whole_run: RunDirectory) -> None:
    whole_run.config.write_text(whole_run.config.read_text().replace("beam_size: 2", "beam_size: 3"))
    report = report_on(whole_run, "config.yaml")
    assert report.state == "DAMAGED" and "remove its line from SHA256SUMS" in report.detail
    checksums = read_checksums(whole_run.path)
    del checksums["config.yaml"]
    write_checksums(whole_run.path, checksums)
    assert report_on(whole_run, "config.yaml") == FileReport("config.yaml", "no checksum", "")


def test_what_a_run_may_lack(whole_run: RunDirectory) -> None:
    for path in (whole_run.previous, whole_run.metrics):
        path.unlink()
    assert verify_run(whole_run.path).summary == "sound: every file is as it was written"
    best, last = map(whole_run.checkpoint, ("best", "last"))
    elsewhere = best.rename(whole_run.path.parent / "best")
    assert [file.name for file in verify_run(whole_run.path).files if "best" in file.name] == []
    elsewhere.rename(best)
    last.unlink()
    assert bad(verify_run(whole_run.path)) == {LAST: "MISSING"}
    best.rename(best.with_name("step-0.safetensors"))
    config = whole_run.config.read_bytes()
    whole_run.config.write_bytes(b"[")
    assert bad(verify_run(whole_run.path))["config.yaml"] == "DAMAGED"
    whole_run.config.write_bytes(config)
    best.with_name("step-0.safetensors").rename(best)
    write_tensors(best, read_tensors(best).tensors, {"step": "0"})  # as an imported model
    assert not verify_run(whole_run.path).unsound


def test_a_best_checkpoint_that_does_not_fit_the_last(whole_run: RunDirectory, model: Transformer) -> None:
    """Missing, of an older copy, of a training that was killed just after it, or an average of older steps."""
    write_weights(whole_run, model, "last", 9, best_step=8)
    report = report_on(whole_run, BEST)
    assert report.state == "DAMAGED" and "step 7" in report.detail and "step 8" in report.detail
    whole_run.checkpoint("best").unlink()
    report = report_on(whole_run, BEST)
    assert report.state == "MISSING" and "--checkpoint last" in report.detail
    write_weights(whole_run, model, "best", 11)
    assert report_on(whole_run, BEST).state == "ok"
    tensors, _, _ = read_tensors(whole_run.checkpoint("best"))
    write_tensors(whole_run.checkpoint("best"), tensors, {"step": "7", "averaged": "6 7"})
    assert report_on(whole_run, BEST)[1:] == ("ok", "the average of steps 6, 7, 3,824 parameters")


def test_checkpoints_that_are_kept(whole_run: RunDirectory, model: Transformer) -> None:
    write_weights(whole_run, model, "step-10", 10)
    write_weights(whole_run, model, "step-9", 9)
    write_weights(whole_run, model, "last", 10, kept={9: 1.0, 10: None})
    report = [file for file in verify_run(whole_run.path).files if "step-" in file.name]
    assert [(file.state, file.detail) for file in report] == [("ok", "step 10, kept"), ("ok", "step 9, kept")]
    check_damage_is_reported(whole_run, "checkpoints/step-9.safetensors")
    whole_run.checkpoint("step-9").unlink()
    assert not verify_run(whole_run.path).unsound, "whoever removes one follows the hint for a damaged one"


def test_a_half_copied_run(whole_run: RunDirectory) -> None:
    shutil.rmtree(whole_run.checkpoints)
    whole_run.config.unlink()
    (whole_run.tokenizer / "joint.model").unlink()
    result = verify_run(whole_run.path)
    assert bad(result) == dict.fromkeys(("config.yaml", "tokenizer/joint.model", BEST), "MISSING")
    assert "no checkpoint" in report_on(whole_run, BEST).detail


def test_a_description_that_cannot_be_used(whole_run: RunDirectory) -> None:
    description = whole_run.description
    description.write_text("{")
    result = verify_run(whole_run.path)
    assert (result.writer, result.created, result.run_format) == (None, "", None)
    assert bad(result) == {"run.json": "DAMAGED"}


def test_the_checksums_themselves(whole_run: RunDirectory) -> None:
    path = whole_run.path / CHECKSUMS
    content = path.read_bytes()
    path.unlink()
    assert bad(verify_run(whole_run.path)) == {CHECKSUMS: "MISSING"}
    for length in (5, content.index(b"\n") + 1, len(content) - 1):
        path.write_bytes(content[:length])
        assert bad(verify_run(whole_run.path))[CHECKSUMS] == "DAMAGED"
    found_by_name = {"x": {"x": "MISSING"}, "../x": {"../x": "MISSING"}, "/x": {CHECKSUMS: "DAMAGED"}}
    for name, found in (found_by_name | {"shortlist.safetensors": {}}).items():  # the last is no longer written
        path.write_bytes(content + f"{'0' * 64}  {name}\n".encode())
        assert bad(verify_run(whole_run.path)) == found


def test_what_does_not_belong_is_named_and_harmless(tmp_path: Path, whole_run: RunDirectory) -> None:
    (whole_run.path / "way out").symlink_to(tmp_path)
    files = ["red\x1b[31m", "checkpoints/step-05.safetensors", "notes/today.txt", "run.json.tmp", "tensorboard/events"]
    files.append("shortlist.safetensors")  # of an earlier version
    for name in files:
        (whole_run.path / name).parent.mkdir(exist_ok=True)
        (whole_run.path / name).write_text("")
    whole_run.lock.write_text("process 5 on host\n")
    result = verify_run(whole_run.path)
    shown = ["'red\\x1b[31m'", "checkpoints/step-05.safetensors", "notes/", "run.json.tmp"]
    shown += ["shortlist.safetensors", "way out/"]
    assert not result.unsound
    assert sorted(file[:2] for file in result.files[len(SOUND) :]) == [(name, "unknown") for name in shown]


@pytest.mark.parametrize("grown", [b"", b'{"step": 10}\n', b'{"step": 10}\n{"st'])
def test_metrics_that_a_checkpoint_vouches_for(whole_run: RunDirectory, model: Transformer, grown: bytes) -> None:
    content = whole_run.metrics.read_bytes()
    progress = {"metrics_bytes": len(content), "metrics_sha256": hashlib.sha256(content).hexdigest()}
    write_weights(whole_run, model, "last", 10, **progress)
    whole_run.metrics.write_bytes(content + grown)
    assert report_on(whole_run, "metrics.jsonl")[1:] == ("ok", f"{2 + grown.count(b'}')} records")
    for damaged in (content[:-1], content.replace(b"5", b"6"), b""):
        whole_run.metrics.write_bytes(damaged)
        report = report_on(whole_run, "metrics.jsonl")
        assert report.state == "DAMAGED" and f"first {len(content)} bytes" in report.detail


def test_an_evaluation(whole_run: RunDirectory) -> None:
    folder = whole_run.evaluation / "news"
    folder.mkdir(parents=True)
    report, hypotheses = folder / "report.json", folder / "hypotheses.txt"

    def states() -> dict[str, str]:
        return {Path(file.name).name: file.state for file in verify_run(whole_run.path).files if "news" in file.name}

    hypotheses.write_text("A dog.\n")
    assert states() == {"hypotheses.txt": "no checksum"}
    report.write_text("{}")
    write_checksums(folder, {file.name: fingerprint(file) for file in (report, hypotheses)})
    assert states() == {"report.json": "ok", "hypotheses.txt": "ok"}
    hypotheses.write_text("A cat.\n")
    assert states() == {"report.json": "ok", "hypotheses.txt": "DAMAGED"}
    hypotheses.unlink()
    assert states() == {"report.json": "ok", "hypotheses.txt": "MISSING"}


def test_a_conversion(whole_run: RunDirectory) -> None:
    num_files = len(verify_run(whole_run.path).files)
    folder = whole_run.export / "ctranslate2-best-0123456789abcdef"
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(b"weights")
    name = f"export/{folder.name}/"
    assert report_on(whole_run, name).state == "DAMAGED"
    write_checksums(folder, {"model.bin": fingerprint(folder / "model.bin")})
    assert report_on(whole_run, name).state == "ok" and len(verify_run(whole_run.path).files) == num_files + 1
    (folder / "model.bin").write_bytes(b"Weights")
    assert bad(verify_run(whole_run.path)) == {name: "DAMAGED"}
