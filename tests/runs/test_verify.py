"""What `translate verify` finds in a run: nothing where nothing is wrong, and each thing that is."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import translate
from translate.errors import InputError
from translate.fingerprint import fingerprint
from translate.model import Transformer
from translate.runs.checkpoint import read_tensors, write_tensors
from translate.runs.checksums import CHECKSUMS, read_checksums, write_checksums
from translate.runs.directory import RunDirectory
from translate.runs.verify import FileReport, Verification, verify_run

SOUND = [
    ("run.json", "ok", ""),
    ("config.yaml", "ok", ""),
    ("tokenizer/joint.model", "ok", ""),
    ("checkpoints/best.safetensors", "ok", "step 7, 3,688 parameters"),
    ("checkpoints/last.safetensors", "ok", "step 9, resumable"),
    ("checkpoints/previous.safetensors", "ok", "step 7, resumable"),
    ("metrics.jsonl", "no checksum", "2 records"),
]


def report_on(path: Path, name: str) -> FileReport:
    (report,) = (file for file in verify_run(path).files if file.name == name)
    return report


def bad(verification: Verification) -> dict[str, str]:
    """What is not sound: states by name."""
    return {file.name: file.state for file in verification.files if file.state in {"DAMAGED", "MISSING"}}


def test_a_sound_run(whole_run: RunDirectory, model: Transformer) -> None:
    # By hand: 290 · 8 of the embedding, 288 of each attention, 212 of each feed-forward layer, 16 of each norm.
    assert model.num_parameters == 2320 + (288 + 212 + 2 * 16) + (2 * 288 + 212 + 3 * 16) == 3688
    result = verify_run(whole_run.path)
    assert [tuple(file) for file in result.files] == SOUND
    assert not result.unsound
    assert (result.writer, result.run_format) == (translate.__version__, 3)
    assert result.created == json.loads(whole_run.description.read_text())["created"] and len(result.created) == 25
    assert result.summary == (
        f"sound, as far as can be said: no checksum was recorded of 1, written by translate {translate.__version__}"
    )


def test_verifying_changes_nothing(whole_run: RunDirectory) -> None:
    def content() -> dict[Path, tuple[bytes, int]]:
        files = [path for path in whole_run.path.rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    (whole_run.checkpoints / ".translate-1-0.tmp").write_text("")
    before = content()
    verify_run(whole_run.path)
    assert content() == before


def test_a_moved_and_renamed_run(tmp_path: Path, whole_run: RunDirectory) -> None:
    shutil.move(whole_run.path, tmp_path / "moved")
    (tmp_path / "link").symlink_to(tmp_path / "moved")
    for name in ("moved", "link"):
        assert [tuple(file) for file in verify_run(tmp_path / name).files] == SOUND


@pytest.mark.parametrize("name", [name for name, state, _ in SOUND if state == "ok"])
def test_a_flipped_bit_and_a_cut_in_each_file(whole_run: RunDirectory, name: str) -> None:
    check_damage_is_reported(whole_run, name)


def check_damage_is_reported(whole_run: RunDirectory, name: str) -> None:
    path = whole_run.path / name
    content = path.read_bytes()
    shown = "tokenizer/" if name.startswith("tokenizer") else name
    path.write_bytes(content[:-1])
    assert bad(verify_run(whole_run.path)) == {shown: "DAMAGED"}
    for place in (len(content) - 2, len(content) // 2):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        result = verify_run(whole_run.path)
        assert list(bad(result)) == [shown] and result.unsound
        assert result.summary == f"not sound: {shown}"
    path.write_bytes(content)


def test_what_is_said_of_damage(whole_run: RunDirectory) -> None:
    last = whole_run.checkpoint("last")
    content = last.read_bytes()
    last.write_bytes(content[:-1] + b"\xff")
    report = report_on(whole_run.path, "checkpoints/last.safetensors")
    assert report.state == "DAMAGED"
    assert report.detail.startswith("its checksum should be ") and report.detail.endswith(
        "; copy it again from where it came, use --checkpoint best, or continue with --resume, which goes on from the"
        " checkpoint before it"
    )


def test_a_config_changed_by_hand(whole_run: RunDirectory) -> None:
    text = whole_run.config.read_text()
    whole_run.config.write_text(text.replace("beam_size: 2", "beam_size: 3"))
    report = report_on(whole_run.path, "config.yaml")
    assert report.state == "DAMAGED" and "; if you edited it, remove its line from SHA256SUMS" in report.detail
    checksums = read_checksums(whole_run.path)
    del checksums["config.yaml"]
    write_checksums(whole_run.path, checksums)
    assert report_on(whole_run.path, "config.yaml") == FileReport("config.yaml", "no checksum", "")


# A run that has not all of it


def test_what_a_run_may_lack(whole_run: RunDirectory) -> None:
    whole_run.previous.unlink()
    whole_run.metrics.unlink()
    assert bad(verify_run(whole_run.path)) == {}
    assert verify_run(whole_run.path).summary == "sound: every file is as it was written"
    best = whole_run.checkpoint("best").rename(whole_run.path.parent / "best")
    assert "checkpoints/best.safetensors" not in {file.name for file in verify_run(whole_run.path).files}
    assert not verify_run(whole_run.path).unsound
    best.rename(whole_run.checkpoint("best"))
    whole_run.checkpoint("last").unlink()
    assert "checkpoints/last.safetensors" not in {file.name for file in verify_run(whole_run.path).files}
    assert not verify_run(whole_run.path).unsound


def test_a_best_checkpoint_that_is_gone(whole_run: RunDirectory, model: Transformer, save: Callable[..., None]) -> None:
    save(whole_run, model, "last", 9, best_step=7)
    whole_run.checkpoint("best").unlink()
    report = report_on(whole_run.path, "checkpoints/best.safetensors")
    assert report.state == "MISSING"
    assert report.detail.startswith("it cannot be read: No such file")
    assert report.detail.endswith("; copy it again from where it came, or use --checkpoint last")


def test_a_best_checkpoint_of_an_older_copy(
    whole_run: RunDirectory, model: Transformer, save: Callable[..., None]
) -> None:
    save(whole_run, model, "last", 9, best_step=8)
    assert report_on(whole_run.path, "checkpoints/best.safetensors") == FileReport(
        "checkpoints/best.safetensors",
        "DAMAGED",
        "of step 7, but the training has a better one of step 8; copy that too",
    )
    save(whole_run, model, "best", 11)  # of a training that was killed just after it
    assert report_on(whole_run.path, "checkpoints/best.safetensors").state == "ok"


def test_checkpoints_that_are_kept(whole_run: RunDirectory, model: Transformer, save: Callable[..., None]) -> None:
    save(whole_run, model, "step-10", 10)
    save(whole_run, model, "step-9", 9)
    save(whole_run, model, "last", 10, kept={9: 1.0, 10: None})
    report = [file for file in verify_run(whole_run.path).files if "step-" in file.name]
    assert [(file.state, file.detail) for file in report] == [("ok", "step 10, kept"), ("ok", "step 9, kept")]
    check_damage_is_reported(whole_run, "checkpoints/step-9.safetensors")
    whole_run.checkpoint("step-9").unlink()
    assert bad(verify_run(whole_run.path)) == {"checkpoints/step-9.safetensors": "MISSING"}


def test_an_average_may_be_of_older_steps_than_the_best(
    whole_run: RunDirectory, model: Transformer, save: Callable[..., None]
) -> None:
    save(whole_run, model, "last", 9, best_step=8)
    tensors, _, _ = read_tensors(whole_run.checkpoint("best"))
    write_tensors(whole_run.checkpoint("best"), tensors, {"step": "7", "averaged": "6 7"})
    report = report_on(whole_run.path, "checkpoints/best.safetensors")
    assert (report.state, report.detail) == ("ok", "the average of steps 6, 7, 3,688 parameters")


def test_a_half_copied_run(whole_run: RunDirectory) -> None:
    shutil.rmtree(whole_run.checkpoints)
    whole_run.config.unlink()
    (whole_run.tokenizer / "joint.model").unlink()
    result = verify_run(whole_run.path)
    assert bad(result) == {
        "config.yaml": "MISSING",
        "tokenizer/": "DAMAGED",
        "checkpoints/best.safetensors": "MISSING",
    }
    assert (
        report_on(whole_run.path, "tokenizer/").detail == "tokenizer/joint.model: is missing; copy the run again, whole"
    )
    assert report_on(whole_run.path, "checkpoints/best.safetensors").detail == (
        "there is no checkpoint: half copied, or stopped before the first"
    )
    assert result.summary == "not sound: config.yaml, tokenizer/, checkpoints/best.safetensors"


def test_no_run(tmp_path: Path, whole_run: RunDirectory) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="/empty is no run directory: it has no run.json; "):
        verify_run(tmp_path / "empty")
    with pytest.raises(InputError, match="/nowhere: no such run directory$"):
        verify_run(tmp_path / "nowhere")
    whole_run.description.unlink()
    with pytest.raises(InputError, match="is no run directory: it has no run.json; if it is half a copy"):
        verify_run(whole_run.path)


def test_a_newer_format(whole_run: RunDirectory) -> None:
    whole_run.description.write_text('{"format": 4, "versions": {"translate": "9.8.7"}, "tokenizer": 5}')
    with pytest.raises(InputError, match=r"was written by translate 9\.8\.7 in format 4; this is "):
        verify_run(whole_run.path)


def test_a_description_that_says_nothing(whole_run: RunDirectory) -> None:
    whole_run.description.write_text("{")
    result = verify_run(whole_run.path)
    assert (result.writer, result.created, result.run_format) == (None, "", None)
    assert bad(result) == {"run.json": "DAMAGED"}
    assert result.files[2] == FileReport("tokenizer/joint.model", "no checksum", "")


def test_a_run_of_format_1(whole_run: RunDirectory) -> None:
    """As 0.1.0 wrote it, without checksums."""
    description = json.loads(whole_run.description.read_text())
    description["format"], description["versions"]["translate"] = 1, "0.1.0"
    whole_run.description.write_text(json.dumps(description))
    (whole_run.path / CHECKSUMS).unlink()
    for path in (whole_run.checkpoint("best"), whole_run.checkpoint("last"), whole_run.previous):
        tensors, metadata, _ = read_tensors(path)
        save_file(tensors, path, metadata)
    result = verify_run(whole_run.path)
    assert [tuple(file) for file in result.files] == [(name, "no checksum", detail) for name, _, detail in SOUND]
    assert not result.unsound
    assert result.summary == ("sound, as far as can be said: no checksum was recorded of 7, written by translate 0.1.0")


def test_a_run_of_format_2(whole_run: RunDirectory, make_format_2: Callable[[Path], None]) -> None:
    """Its checksums are inside its files."""
    make_format_2(whole_run.path)
    assert [tuple(file) for file in verify_run(whole_run.path).files] == SOUND
    for name, state, _ in SOUND:
        if state == "ok":
            check_damage_is_reported(whole_run, name)
    (whole_run.path / CHECKSUMS).write_text(f"{'0' * 64}  notes.txt\n")
    assert "no run has: notes.txt" in report_on(whole_run.path, CHECKSUMS).detail


def test_the_checksums_themselves(whole_run: RunDirectory) -> None:
    path = whole_run.path / CHECKSUMS
    content = path.read_bytes()
    path.unlink()
    assert bad(verify_run(whole_run.path)) == {CHECKSUMS: "MISSING"}
    for place in range(0, len(content), 23):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert verify_run(whole_run.path).unsound
    for length in (5, content.index(b"\n") + 1, len(content) - 1):
        path.write_bytes(content[:length])
        assert bad(verify_run(whole_run.path))[CHECKSUMS] == "DAMAGED"


# What does not belong


def test_what_does_not_belong_is_named_and_harmless(tmp_path: Path, whole_run: RunDirectory) -> None:
    whole_run.lock.write_text("process 5 on host\n")
    (whole_run.path / "tensorboard").mkdir()
    (whole_run.path / "tensorboard" / "events").write_text("")
    (whole_run.checkpoints / "last.safetensors.1234567.tmp").write_text("")
    (whole_run.path / "run.json.tmp").write_text("")
    (whole_run.export / ".ctranslate2-best-0.abc.tmp").mkdir(parents=True)
    (whole_run.checkpoints / "step-05.safetensors").write_text("")
    (whole_run.path / "notes").mkdir()
    (whole_run.path / "notes" / "today.txt").write_text("")
    (whole_run.path / "way out").symlink_to(tmp_path)
    (whole_run.path / "red\x1b[31m").write_text("")
    result = verify_run(whole_run.path)
    assert not result.unsound
    assert sorted((file.state, file.name) for file in result.files[len(SOUND) :]) == [
        ("unknown", "'red\\x1b[31m'"),
        ("unknown", "checkpoints/last.safetensors.1234567.tmp"),
        ("unknown", "checkpoints/step-05.safetensors"),
        ("unknown", "export/.ctranslate2-best-0.abc.tmp/"),
        ("unknown", "notes/"),
        ("unknown", "run.json.tmp"),
        ("unknown", "way out/"),
    ]


def test_a_thousand_files_that_do_not_belong_fill_no_screen(whole_run: RunDirectory) -> None:
    for number in range(1234):
        (whole_run.path / f"{number:04}.txt").write_text("")
    unknown = [file for file in verify_run(whole_run.path).files if file.state == "unknown"]
    assert len(unknown) == 101
    assert unknown[-1] == FileReport("…", "unknown", "and 1134 more that do not belong to a run")


# Links


@pytest.mark.parametrize(
    "name, shown",
    [
        ("run.json", "run.json"),
        ("config.yaml", "config.yaml"),
        ("tokenizer", "tokenizer/"),
        ("tokenizer/joint.model", "tokenizer/joint.model"),
        ("checkpoints/best.safetensors", "checkpoints/best.safetensors"),
        ("metrics.jsonl", "metrics.jsonl"),
        ("checkpoints", "checkpoints/"),
        ("evaluation", "evaluation"),
        ("export", "export"),
        ("profile", "profile"),
        ("tensorboard", "tensorboard"),
        ("wandb", "wandb"),
        ("mlflow", "mlflow"),
        ("log.txt", "log.txt"),
        ("lock", "lock"),
        ("SHA256SUMS", "SHA256SUMS"),
    ],
)
def test_a_link_out(tmp_path: Path, whole_run: RunDirectory, name: str, shown: str) -> None:
    path = whole_run.path / name
    if path.exists():
        shutil.move(path, tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    report = report_on(whole_run.path, shown)
    assert report.state == "DAMAGED" and "a link out of" in report.detail


# Checkpoints


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor], dict[str, str]], object]) -> None:
    """A sound file with other tensors or metadata."""
    tensors, metadata, _ = read_tensors(path)
    change(tensors, metadata)
    write_tensors(path, tensors, metadata)


BIAS = "encoder.layers.0.feed_forward.inner.bias"


@pytest.mark.parametrize(
    "change, detail",
    [
        (lambda _, metadata: metadata.pop("step"), "does not name its step; it is no checkpoint of this toolkit"),
        (lambda _, metadata: metadata.pop("progress"), "cannot be resumed from; its progress is missing or unreadable"),
        (
            lambda _, metadata: metadata.update(progress="{"),
            "cannot be resumed from; its progress is missing or unreadable: Expecting property name",
        ),
        (
            lambda _, metadata: metadata.update(progress='{"data_fingerprint": "a", "metrics_bytes": "all"}'),
            "its progress is missing or unreadable: metrics_bytes = 'all': Input should be a valid integer",
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


# Metrics


@pytest.mark.parametrize("grown", [b"", b'{"step": 10}\n', b'{"step": 10}\n{"st'])
def test_metrics_that_a_checkpoint_vouches_for(
    whole_run: RunDirectory, model: Transformer, save: Callable[..., None], grown: bytes
) -> None:
    content = whole_run.metrics.read_bytes()
    progress = {"metrics_bytes": len(content), "metrics_sha256": hashlib.sha256(content).hexdigest()}
    save(whole_run, model, "last", 10, **progress)
    whole_run.metrics.write_bytes(content + grown)
    assert report_on(whole_run.path, "metrics.jsonl") == FileReport(
        "metrics.jsonl", "ok", f"{2 + grown.count(chr(10).encode())} records"
    )
    for damaged in (content[:-1], content.replace(b"5", b"6"), b""):
        whole_run.metrics.write_bytes(damaged)
        report = report_on(whole_run.path, "metrics.jsonl")
        assert report.state == "DAMAGED"
        assert report.detail.startswith(f"its first {len(content)} bytes are not those")


# Evaluations and conversions


def test_an_evaluation(whole_run: RunDirectory) -> None:
    folder = whole_run.evaluation / "news"
    folder.mkdir(parents=True)
    report, hypotheses = folder / "report.json", folder / "hypotheses.txt"
    hypotheses.write_text("A dog.\n")
    assert report_on(whole_run.path, "evaluation/news/hypotheses.txt").state == "no checksum"
    report.write_text(json.dumps({"name": "news", "hypotheses": f"sha256:{fingerprint(hypotheses)}"}))
    assert report_on(whole_run.path, "evaluation/news/hypotheses.txt").state == "ok", "as version 0.3.0 wrote it"
    assert report_on(whole_run.path, "evaluation/news/report.json").state == "no checksum"
    write_checksums(folder, {file.name: fingerprint(file) for file in (report, hypotheses)})
    for file in (report, hypotheses):
        assert report_on(whole_run.path, f"evaluation/news/{file.name}").state == "ok"
    hypotheses.write_text("A cat.\n")
    assert bad(verify_run(whole_run.path)) == {"evaluation/news/hypotheses.txt": "DAMAGED"}
    assert "make it again with translate eval" in report_on(whole_run.path, "evaluation/news/hypotheses.txt").detail
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
    assert report_on(whole_run.path, name).state == "DAMAGED"
    text = whole_run.description.read_text()
    whole_run.description.write_text(text.replace('"format": 3', '"format": 2'))  # whose conversions had no checksums
    assert report_on(whole_run.path, name) == FileReport(name, "no checksum", "")
    whole_run.description.write_text(text)
    write_checksums(folder, {"model.bin": fingerprint(folder / "model.bin")})
    assert report_on(whole_run.path, name) == FileReport(name, "ok", "")
    assert len(verify_run(whole_run.path).files) == num_files + 1
    (folder / "model.bin").write_bytes(b"Weights")
    assert bad(verify_run(whole_run.path)) == {name: "DAMAGED"}
