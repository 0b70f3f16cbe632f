"""What `translate verify` finds in a run: nothing where nothing is wrong, and each thing that is."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import translate
from translate.errors import InputError
from translate.model import Transformer
from translate.runs import RunDirectory, read_tensors, write_checkpoint
from translate.runs.verify import FileReport, Verification, verify_run

SOUND = [
    ("run.json", "ok", ""),
    ("config.yaml", "ok", ""),
    ("tokenizer/joint.model", "ok", "290 subwords"),
    ("checkpoints/best.safetensors", "ok", "step 7, 3,688 parameters"),
    ("checkpoints/last.safetensors", "ok", "step 9, resumable"),
    ("checkpoints/previous.safetensors", "ok", "step 7, resumable"),
    ("metrics.jsonl", "no checksum", "2 records"),
    ("shortlist.safetensors", "ok", ""),
]


def report_on(path: Path, name: str) -> FileReport:
    (report,) = (file for file in verify_run(path).files if file.name == name)
    return report


def bad(verification: Verification) -> dict[str, str]:
    """What is not sound: states by name."""
    return {file.name: file.state for file in verification.files if file.state in {"DAMAGED", "MISSING", "CHANGED"}}


def test_a_sound_run(whole_run: RunDirectory, model: Transformer) -> None:
    # By hand: 290 · 8 of the embedding, 288 of each attention, 212 of each feed-forward layer, 16 of each norm.
    assert model.num_parameters == 2320 + (288 + 212 + 2 * 16) + (2 * 288 + 212 + 3 * 16) == 3688
    result = verify_run(whole_run.path)
    assert [tuple(file) for file in result.files] == SOUND
    assert result.is_sound
    assert (result.writer, result.run_format) == (translate.__version__, 2)
    assert result.created == json.loads(whole_run.description.read_text())["created"] and len(result.created) == 25
    assert result.summary == (
        f"sound, as far as can be said: no checksum was recorded of 1, written by translate {translate.__version__}"
    )


def test_verifying_changes_nothing(whole_run: RunDirectory) -> None:
    def content() -> dict[Path, tuple[bytes, int]]:
        files = [path for path in whole_run.path.rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    (whole_run.checkpoints / "last.safetensors.1.tmp").write_text("")
    before = content()
    verify_run(whole_run.path)
    assert content() == before


def test_a_moved_and_renamed_run(tmp_path: Path, whole_run: RunDirectory) -> None:
    shutil.move(whole_run.path, tmp_path / "moved")
    (tmp_path / "link").symlink_to(tmp_path / "moved")
    for name in ("moved", "link"):
        assert [tuple(file) for file in verify_run(tmp_path / name).files] == SOUND


@pytest.mark.parametrize("name", [name for name, state, _ in SOUND if state == "ok"])
def test_a_flipped_bit_and_a_cut_in_each_sealed_file(whole_run: RunDirectory, name: str) -> None:
    path = whole_run.path / name
    content = path.read_bytes()
    expected = "CHANGED" if name == "config.yaml" else "DAMAGED"
    shown = "tokenizer/" if name.startswith("tokenizer") else name
    path.write_bytes(content[:-1])
    assert bad(verify_run(whole_run.path)) == {shown: expected}
    for place in (len(content) - 2, len(content) // 2):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        result = verify_run(whole_run.path)
        assert list(bad(result)) == [shown] and not result.is_sound
        assert result.summary == f"not sound: {shown}"


def test_what_is_said_of_damage(whole_run: RunDirectory) -> None:
    last = whole_run.checkpoint("last")
    content = last.read_bytes()
    last.write_bytes(content[:-1] + b"\xff")
    report = report_on(whole_run.path, "checkpoints/last.safetensors")
    assert report.state == "DAMAGED"
    assert report.detail.startswith("its checksum should be ") and report.detail.endswith(
        "; copy it anew from where it came, use --checkpoint best, or train on with --resume, which takes the"
        " checkpoint before it"
    )


def test_a_config_changed_by_hand(whole_run: RunDirectory) -> None:
    text = whole_run.config.read_text()
    whole_run.config.write_text(text.replace("beam_size: 2", "beam_size: 3"))
    assert report_on(whole_run.path, "config.yaml") == FileReport(
        "config.yaml", "CHANGED", "by hand? if so, remove its first line, which has the checksum"
    )
    whole_run.config.write_text("".join(text.splitlines(keepends=True)[1:]))
    assert report_on(whole_run.path, "config.yaml") == FileReport("config.yaml", "no checksum", "")


# A run that has not all of it


def test_what_a_run_may_lack(whole_run: RunDirectory) -> None:
    whole_run.previous.unlink()
    whole_run.metrics.unlink()
    whole_run.shortlist.unlink()
    assert bad(verify_run(whole_run.path)) == {}
    assert verify_run(whole_run.path).summary == "sound: every file is as it was written"
    best = whole_run.checkpoint("best").rename(whole_run.path.parent / "best")
    assert report_on(whole_run.path, "checkpoints/best.safetensors") == FileReport(
        "checkpoints/best.safetensors", "absent", "training has not validated yet: use --checkpoint last"
    )
    assert verify_run(whole_run.path).is_sound
    best.rename(whole_run.checkpoint("best"))
    whole_run.checkpoint("last").unlink()
    assert report_on(whole_run.path, "checkpoints/last.safetensors") == FileReport(
        "checkpoints/last.safetensors", "absent", "the run translates, but cannot be resumed"
    )
    assert verify_run(whole_run.path).is_sound


def test_a_best_checkpoint_that_is_gone(whole_run: RunDirectory, model: Transformer, save: Callable[..., None]) -> None:
    save(whole_run, model, "last", 9, progress=json.dumps({"best_step": 7}))
    whole_run.checkpoint("best").unlink()
    assert report_on(whole_run.path, "checkpoints/best.safetensors") == FileReport(
        "checkpoints/best.safetensors", "MISSING", "the training had one"
    )


def test_a_best_checkpoint_of_an_older_copy(
    whole_run: RunDirectory, model: Transformer, save: Callable[..., None]
) -> None:
    save(whole_run, model, "last", 9, progress=json.dumps({"best_step": 8}))
    assert report_on(whole_run.path, "checkpoints/best.safetensors") == FileReport(
        "checkpoints/best.safetensors",
        "DAMAGED",
        "of step 7, but the training has a better one of step 8; copy that too",
    )
    save(whole_run, model, "best", 11)  # of a training that was killed just after it
    assert report_on(whole_run.path, "checkpoints/best.safetensors").state == "ok"


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
        "there is no checkpoint: the run was half copied, or stopped before its first"
    )
    assert result.summary == "not sound: config.yaml, tokenizer/, checkpoints/best.safetensors"


def test_no_run(tmp_path: Path, whole_run: RunDirectory) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="/empty is no run directory: it is empty$"):
        verify_run(tmp_path / "empty")
    with pytest.raises(InputError, match="/nowhere: no such run directory$"):
        verify_run(tmp_path / "nowhere")
    whole_run.description.unlink()
    with pytest.raises(InputError, match="is an incomplete run directory: it has config.yaml, tokenizer, checkpoints"):
        verify_run(whole_run.path)


def test_a_newer_format(whole_run: RunDirectory) -> None:
    whole_run.description.write_text('{"format": 3, "versions": {"translate": "9.8.7"}, "tokenizer": 5}')
    with pytest.raises(InputError, match=r"was written by translate 9\.8\.7 in format 3; this is "):
        verify_run(whole_run.path)


def test_a_description_that_says_nothing(whole_run: RunDirectory) -> None:
    whole_run.description.write_text("{")
    result = verify_run(whole_run.path)
    assert (result.writer, result.created, result.run_format) == (None, "", None)
    assert bad(result) == {"run.json": "DAMAGED"}
    assert result.files[2] == FileReport("tokenizer/joint.model", "no checksum", "290 subwords")


def test_a_run_of_an_older_version(whole_run: RunDirectory) -> None:
    """As 0.1.0 wrote it."""
    description = json.loads(whole_run.description.read_text())
    del description["sha256"], description["tokenizer"]
    description["format"], description["versions"]["translate"] = 1, "0.1.0"
    whole_run.description.write_text(json.dumps(description))
    whole_run.config.write_text("".join(whole_run.config.read_text().splitlines(keepends=True)[1:]))
    for path in (whole_run.checkpoint("best"), whole_run.checkpoint("last"), whole_run.previous, whole_run.shortlist):
        tensors, metadata = read_tensors(path)
        save_file({name: tensor.clone() for name, tensor in tensors.items()}, path, metadata)
    result = verify_run(whole_run.path)
    assert [tuple(file) for file in result.files] == [(name, "no checksum", detail) for name, _, detail in SOUND]
    assert result.is_sound
    assert result.summary == ("sound, as far as can be said: no checksum was recorded of 8, written by translate 0.1.0")


# What does not belong


def test_what_does_not_belong_is_named_and_harmless(tmp_path: Path, whole_run: RunDirectory) -> None:
    whole_run.lock.write_text("process 5 on host\n")
    (whole_run.path / "tensorboard").mkdir()
    (whole_run.path / "tensorboard" / "events").write_text("")
    (whole_run.checkpoints / "last.safetensors.1234567.tmp").write_text("")
    (whole_run.path / "run.json.tmp").write_text("")
    (whole_run.export / ".ctranslate2-best-0.abc.tmp").mkdir(parents=True)
    (whole_run.checkpoints / "step-5.safetensors").write_text("")
    (whole_run.path / "notes").mkdir()
    (whole_run.path / "notes" / "today.txt").write_text("")
    (whole_run.path / "way out").symlink_to(tmp_path)
    (whole_run.path / "red\x1b[31m").write_text("")
    result = verify_run(whole_run.path)
    assert result.is_sound
    assert sorted((file.state, file.name) for file in result.files[len(SOUND) :]) == [
        ("leftover", "checkpoints/last.safetensors.1234567.tmp"),
        ("leftover", "export/.ctranslate2-best-0.abc.tmp/"),
        ("leftover", "run.json.tmp"),
        ("no checksum", "tensorboard/"),
        ("unknown", "'red\\x1b[31m'"),
        ("unknown", "checkpoints/step-5.safetensors"),
        ("unknown", "notes/"),
        ("unknown", "way out/"),
    ]


def test_a_thousand_files_that_do_not_belong_fill_no_screen(whole_run: RunDirectory) -> None:
    for number in range(1234):
        (whole_run.path / f"{number:04}.txt").write_text("")
    unknown = [file for file in verify_run(whole_run.path).files if file.state == "unknown"]
    assert len(unknown) == 101
    assert unknown[-1] == FileReport("…", "unknown", "and 1134 more that do not belong to a run")


# Hostile


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "name, shown",
    [
        ("run.json", "run.json"),
        ("config.yaml", "config.yaml"),
        ("tokenizer", "tokenizer/"),
        ("tokenizer/joint.model", "tokenizer/"),
        ("checkpoints/best.safetensors", "checkpoints/best.safetensors"),
        ("metrics.jsonl", "metrics.jsonl"),
        ("shortlist.safetensors", "shortlist.safetensors"),
        ("checkpoints", "checkpoints"),
        ("evaluation", "evaluation"),
        ("export", "export"),
        ("lock", "lock"),
    ],
)
@pytest.mark.parametrize("trick", ["link", "pipe"])
def test_a_link_out_or_a_pipe(tmp_path: Path, whole_run: RunDirectory, name: str, shown: str, trick: str) -> None:
    path = whole_run.path / name
    if path.exists():
        shutil.move(path, tmp_path / "outside")
    if trick == "link":
        path.symlink_to(tmp_path / "outside")
    else:
        os.mkfifo(path)
    report = report_on(whole_run.path, shown)
    assert report.state == "DAMAGED"
    assert ("a link out of" if trick == "link" else "but is a pipe") in report.detail


def test_every_command_of_a_training_gives_a_run_that_verifies(whole_run: RunDirectory, model: Transformer) -> None:
    """The library's own reader reads what verify calls sound."""
    assert verify_run(whole_run.path).is_sound
    stored = load_file(whole_run.checkpoint("best"))
    assert torch.equal(stored["model.encoder.embedder.tokens.weight"], model.encoder.embedder.tokens.weight)
    write_checkpoint(whole_run, "best", stored, {"step": "7"})
    assert verify_run(whole_run.path).is_sound
