"""A run directory: what a new one holds, where none is made, and which one from elsewhere is taken for a run."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

import translate
from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError, RunError
from translate.runs.checksums import check_file, read_checksums
from translate.runs.directory import (
    FORMAT,
    RunDirectory,
    check_holds_no_run,
    check_holds_run,
    containing_run,
    create_run,
    write_config,
)
from translate.runs.run import open_run
from translate.runs.verify import verify_run


def test_what_a_new_run_holds(run: RunDirectory, config: Config) -> None:
    assert open_run(run.path).config == config
    assert re.search(r"^  label_smoothing: 0.1$", run.config.read_text(), flags=re.M)  # with the defaults
    description = json.loads(run.description.read_text(encoding="utf-8"))
    assert description["format"] == FORMAT == 3
    assert description["command"] == ["translate", "train", "größe.yaml"]
    assert {"translate", "python", "torch", "sentencepiece", "sacrebleu"} == set(description["versions"])
    assert description["versions"]["translate"] == translate.__version__
    assert list(read_checksums(run.path)) == ["config.yaml", "run.json", "tokenizer/joint.model"]
    assert (run.tokenizer / "joint.model").is_file()


def test_a_config_that_is_written_again_never_has_a_wrong_checksum(
    run: RunDirectory, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before any of the three files gets its name, the run is what it was, or its config's checksum unknown."""
    replace = os.replace
    left = 0

    def kill(temporary: Path, path: Path) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        replace(temporary, path)

    changed = config.model_copy(update={"name": "größer"})
    for number in (1, 2, 3):
        left = number
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "replace", kill)
            write_config(run, changed)
        check_file(run.config, read_checksums(run.path).get("config.yaml"))
    write_config(run, changed)
    assert open_run(run.path).config == changed
    check_file(run.config, read_checksums(run.path)["config.yaml"])
    before = run.config.stat().st_mtime_ns
    write_config(run, changed)
    assert run.config.stat().st_mtime_ns == before


def test_places_that_are_refused(tmp_path: Path, run: RunDirectory, config: Config, tokenizers: Tokenizers) -> None:
    """Nothing is overwritten, and nothing is written through a link of a directory from elsewhere."""
    before = run.description.read_bytes()
    (tmp_path / "file").write_text("")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "joint.model").write_text("precious")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "lock").write_text("lock of translate-nmt\n")
    (tmp_path / "linked" / "tokenizer").symlink_to(tmp_path / "outside")
    cases: list[tuple[Path, type[Exception], str]] = [
        (run.path, InputError, f"^{run.path} .*--resume.*--run"),
        (tmp_path / "file", InputError, f"^{tmp_path}/file is a file"),
        (tmp_path / "file" / "deeper", RunError, f"^{tmp_path}/file/deeper: .*Not a directory"),
        (tmp_path / "linked", RunError, f"^{tmp_path}/linked/tokenizer: is a link out of {tmp_path}/linked"),
    ]
    for path, kind, message in cases:
        with pytest.raises(kind, match=message):
            create_run(path, config=config, tokenizers=tokenizers, command=["other"])
    assert run.description.read_bytes() == before
    assert (tmp_path / "outside" / "joint.model").read_text() == "precious"


def test_a_half_made_directory_is_taken(tmp_path: Path, config: Config, tokenizers: Tokenizers) -> None:
    """A run that was killed before it was whole has no description, and is begun again, with other settings too."""
    for name, text in (
        ("lock", "lock of translate-nmt\nprocess 5 on a machine\n"),
        ("config.yaml", "half"),
        ("tokenizer/source.model", "half"),
    ):
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text(text)
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    assert open_run(run.path).config == config
    assert [path.name for path in run.tokenizer.iterdir()] == ["joint.model"]


def test_a_new_run_may_not_take_a_folder_of_the_user(tmp_path: Path) -> None:
    """The files there would be overwritten, such as the config that the training reads."""
    check_holds_no_run(tmp_path / "new")
    check_holds_no_run(tmp_path)
    for name in ("config.yaml", "metrics.jsonl", "lock", "notes.txt"):
        (tmp_path / name).write_text("mine\n")
        with pytest.raises(InputError, match=f"{name}; .*--run"):
            check_holds_no_run(tmp_path)
        (tmp_path / name).unlink()
    (tmp_path / "config.yaml").write_text("name: x\n")
    for text in ("", "process 5 on a machine\n"):  # which anybody may have written
        (tmp_path / "lock").write_text(text)
        with pytest.raises(InputError, match="config.yaml"):
            check_holds_no_run(tmp_path)
    (tmp_path / "lock").write_text("lock of translate-nmt\nprocess 5 on a machine\n")
    check_holds_no_run(tmp_path)  # a process that was killed while it made a run leaves this
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"it has notes\.txt;"):
        check_holds_no_run(tmp_path)


def test_a_run_that_was_probably_meant_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/demo", "runs/wide", "runs/dems", "empty"):
        Path(name).mkdir(parents=True)
    for name in ("runs/demo", "runs/wide"):
        (Path(name) / "run.json").touch()
    Path("letter.txt").write_text("")
    for name, message in {
        "runs/dmo": "^runs/dmo: no such run directory; `translate runs` ",
        "wide": "^wide: .*did you mean runs/wide[?]$",
        "runs": "^runs .*run.json; .*copy the whole run again.*did you mean runs/demo or runs/wide[?]$",
        "other": "^other: no such run directory; `translate runs` ",
        "empty": "^empty .*run.json; ",
        "letter.txt": "^letter.txt: is a file",
    }.items():
        with pytest.raises(InputError, match=message):
            check_holds_run(Path(name))


def test_the_run_that_a_file_is_part_of(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "run.json").touch()
    (tmp_path / "link").symlink_to("run/config.yaml")
    run = (tmp_path / "run").resolve()
    for name in ("run/run.json", "run/config.yaml", "run/checkpoints/best.safetensors", "run/evaluation/x/y", "link"):
        assert containing_run(tmp_path / name) == run
    for name in ("run/out.en", "run/sub/config.yaml", "config.yaml", "run"):
        assert containing_run(tmp_path / name) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "a dictionary"),
        ('{"format": 3}', "versions"),
        ('{"format": 3, "versions": {"translate": "0\\u001b[31m"}}', "versions.translate"),
        ('{"format": 1' + "0" * 400 + "}", "format"),
        ("\udcff", "can't decode byte 0xff"),
    ],
)
def test_a_damaged_description(run: RunDirectory, text: str, reason: str) -> None:
    run.description.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InputError) as caught:
        open_run(run.path)
    assert str(caught.value).startswith(f"{run.description}: is damaged: ") and reason in str(caught.value)


@pytest.mark.parametrize(
    ("run_format", "version", "named"),
    [(4, "9.8.7", "translate 9.8.7 in format 4"), (2, "0.3.0", "0.13"), (3, "0.7.0", "the last .* 0.13")],
)
def test_a_run_of_a_version_that_is_too_new_or_too_old(
    run: RunDirectory, run_format: int, version: str, named: str
) -> None:
    run.description.write_text(json.dumps({"format": run_format, "versions": {"translate": version}}))
    for read in (open_run, verify_run):
        with pytest.raises(InputError, match=rf"^{run.path} .*{named}"):
            read(run.path)


def test_a_config_may_be_edited_but_not_cut(run: RunDirectory) -> None:
    """If a config ended early, the defaults would silently make another model."""
    text = run.config.read_text()
    run.config.write_text(text.replace("beam_size: 2", "beam_size: 3"))
    assert open_run(run.path).config.decoding.beam_size == 3
    for kept, lacking in (
        ("", "name, data, tokenizer, model, training, decoding, evaluation"),
        (text[: text.index("decoding:")], "decoding, evaluation"),
        (text[: text.index("training:")], "training, decoding, evaluation"),
        (re.sub(r"  (positions|norm): .*\n", "", text), "model.norm, model.positions"),
    ):
        run.config.write_text(kept)
        with pytest.raises(InputError, match=rf"^{run.config}: .* {lacking};"):
            open_run(run.path).load_model()


@pytest.mark.parametrize(
    "name", ["run.json", "tokenizer", "checkpoints/best.safetensors", "tensorboard", "evaluation", "lock"]
)
def test_a_link_out_of_the_run(tmp_path: Path, run: RunDirectory, name: str) -> None:
    """To another user's file, or one that would be written to; also to what is right, or is not there."""
    path, outside = run.path / name, tmp_path / "outside"
    if path.exists():
        shutil.move(path, outside)
    path.symlink_to(outside)
    with pytest.raises(RunError, match=f"^{path}: is a link out of {run.path}, to {outside}"):
        open_run(run.path).load_model()
    found = verify_run(run.path).files
    assert found and all(file.state == "DAMAGED" and "a link out of" in file.detail for file in found)


def test_a_link_within_the_run(run: RunDirectory) -> None:
    run.checkpoint("last").symlink_to("best.safetensors")
    assert open_run(run.path).load_model("last").step == 7
