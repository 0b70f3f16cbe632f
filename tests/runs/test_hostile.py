"""A run directory from elsewhere is data: it leads nowhere else, blocks nobody, fills no memory and runs nothing."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import translate
from translate.errors import InputError, RunError
from translate.runs import RunDirectory, load_run, open_run
from translate.runs.checksums import check_checksums, write_checksums
from translate.runs.seal import UNSEALED, sealed_text

# Links


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "config.yaml",
        "tokenizer",
        "tokenizer/joint.model",
        "checkpoints",
        "checkpoints/best.safetensors",
        "checkpoints/last.safetensors",
        "metrics.jsonl",
        "evaluation",
        "export",
        "shortlist.safetensors",
        "lock",
    ],
)
def test_a_link_out_of_the_run(tmp_path: Path, run: RunDirectory, name: str) -> None:
    """To another user's file, or one that would be written to; also to what is right, or is not there."""
    path, outside = run.path / name, tmp_path / "outside"
    if path.exists():
        shutil.move(path, outside)
    path.symlink_to(outside)
    with pytest.raises(RunError) as caught:
        load_run(run.path)
    assert str(caught.value) == (f"{path}: is a link out of {run.path}, to {outside}; a run must be whole in itself")


def test_a_relative_link_out_of_the_run_and_one_that_goes_round(run: RunDirectory) -> None:
    run.metrics.symlink_to("../../outside")
    with pytest.raises(RunError, match=rf"^{run.metrics}: is a link out of {run.path}, to "):
        open_run(run.path)
    run.metrics.unlink()
    run.metrics.symlink_to(run.metrics.name)
    with pytest.raises(RunError, match=rf"^{run.metrics}: cannot be read: Too many levels of symbolic links$"):
        open_run(run.path)


def test_a_link_inside_the_run_is_fine(run: RunDirectory) -> None:
    run.checkpoint("last").symlink_to("best.safetensors")
    assert load_run(run.path, checkpoint="last").step == 7


# What would block or fill the memory


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["run.json", "config.yaml", "tokenizer/joint.model", "checkpoints/best.safetensors"])
def test_a_pipe_in_place_of_a_file(run: RunDirectory, name: str) -> None:
    """Opening one waits for a writer, for ever."""
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    with pytest.raises(RunError) as caught:
        load_run(run.path)
    assert str(caught.value) == f"{run.path / name}: should be a file, but is a pipe"


def test_folders_and_files_in_each_others_place(run: RunDirectory) -> None:
    run.evaluation.write_text("")
    with pytest.raises(RunError, match=rf"^{run.evaluation}: should be a folder, but is a file$"):
        open_run(run.path)
    run.evaluation.unlink()
    run.shortlist.mkdir()
    with pytest.raises(RunError, match=rf"^{run.shortlist}: should be a file, but is a folder$"):
        open_run(run.path)


def test_a_device_in_place_of_a_file(run: RunDirectory) -> None:
    run.shortlist.symlink_to("/dev/zero")
    with pytest.raises(RunError, match=rf"^{run.shortlist}: is a link out of {run.path}, to /dev/zero"):
        open_run(run.path)


@pytest.mark.parametrize(
    "name, size, most",
    [("run.json", 2**40, 2**19), ("config.yaml", 2**19 + 1, 2**19), ("tokenizer/joint.model", 2**35, 2**28)],
)
def test_a_huge_file(run: RunDirectory, name: str, size: int, most: int) -> None:
    os.truncate(run.path / name, size)  # with a hole, which needs no room
    with pytest.raises(RunError) as caught:
        open_run(run.path)
    assert str(caught.value) == f"{run.path / name}: has {size} bytes, but such a file has at most {most}"


def test_a_huge_folder(run: RunDirectory) -> None:
    for number in range(1000):
        (run.tokenizer / f"{number}.model").write_text("")
    with pytest.raises(RunError, match=rf"^{run.tokenizer}: has more than 1000 files; no run has$"):
        open_run(run.path)


@pytest.mark.timeout(20)
def test_a_config_of_aliases_of_aliases(run: RunDirectory) -> None:
    """The billion laughs, for YAML."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    run.config.write_text(bomb)
    with pytest.raises(InputError, match="more than 100000 values"):
        open_run(run.path)


# Names that lead elsewhere


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "deeper/joint.model", "joint.model.bak"])
def test_a_description_that_names_other_files(run: RunDirectory, name: str) -> None:
    description = json.loads(run.description.read_text())
    description["tokenizer"] = {name: description["tokenizer"]["joint.model"]}
    description["sha256"] = UNSEALED
    run.description.write_text(sealed_text(json.dumps(description)))
    with pytest.raises(InputError) as caught:
        open_run(run.path)
    assert str(caught.value) == (
        f"{run.description} is damaged: tokenizer names {name!r}, not one of joint.model, source.model, target.model"
    )


@pytest.mark.parametrize("name", ["..", "../elsewhere", "/tmp/elsewhere", "a/b"])
def test_a_config_that_names_a_test_set_as_a_path(run: RunDirectory, name: str) -> None:
    """`translate eval` makes a folder of that name."""
    corpus = "{kind: text, source: a, target: b}"
    text = run.config.read_text()
    assert "  test: {}\n" in text
    run.config.write_text(text.replace("  test: {}\n", f'  test: {{"{name}": {corpus}}}\n'))
    with pytest.raises(InputError, match=r"the name of a test set has letters|the key .* has a dot"):
        load_run(run.path)


# Folders with a list of checksums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    assert check_checksums(folder) is False  # as older versions made it
    write_checksums(folder)
    assert check_checksums(folder) is True
    return folder


def edit(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    values = json.loads((folder / "checksums.json").read_text())
    change(values["files"])
    (folder / "checksums.json").write_text(sealed_text(json.dumps({**values, "sha256": UNSEALED})))


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: (folder / "model.bin").write_bytes(b"Weights"), "/model.bin: damaged: its checksum should be "),
        (lambda folder: (folder / "model.bin").unlink(), r": damaged: missing: \['model.bin'\], unexpected: \[\]; "),
        (lambda folder: (folder / "new").write_text(""), r": damaged: missing: \[\], unexpected: \['new'\]; "),
        (lambda folder: (folder / "checksums.json").write_text("{"), "/checksums.json: damaged: "),
        (lambda folder: (folder / "checksums.json").write_text("{}"), "/checksums.json: damaged: "),
        (lambda folder: (folder / "checksums.json").write_text('{"files": {"a": 1}}'), "/checksums.json: damaged: "),
        (lambda folder: edit(folder, lambda files: files.update({"../x": "sha256:0"})), r"missing: \['../x'\]"),
        (lambda folder: os.truncate(folder / "checksums.json", 2**30), "/checksums.json: has 1073741824 bytes"),
    ],
)
def test_a_folder_that_is_not_as_it_was(folder: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(folder)
    with pytest.raises(RunError, match=rf"^{folder}.*{message}"):
        check_checksums(folder)


def test_a_link_in_such_a_folder(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"weights")
    (folder / "model.bin").unlink()
    (folder / "model.bin").symlink_to(tmp_path / "model.bin")
    with pytest.raises(RunError, match=rf"^{folder}/model.bin: is a link out of {folder}, to {tmp_path}/model.bin; "):
        check_checksums(folder)


# Code

UNSAFE = re.compile(
    r"pickl|torch\.(load|save|hub)\b|joblib|dill\b|marshal|shelve|np\.load|yaml\.(unsafe_|full_)?load(_all)?\("
    r"|\b(?<!\.)(eval|exec)\(|trust_remote_code\s*=\s*True"
)


@pytest.mark.parametrize(
    "line",
    [
        "state = torch.load(path)",
        "import pickle",
        "from cloudpickle import loads",
        "value = eval(text)",
        "exec(code)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "load_dataset(name, trust_remote_code=True)",
    ],
)
def test_the_search_finds(line: str) -> None:
    assert UNSAFE.search(line)


def test_the_search_leaves_what_is_harmless() -> None:
    assert not UNSAFE.search("model.eval(); _evaluate(text); yaml.safe_load(text); trust_remote_code=False")


def test_nothing_in_the_package_runs_what_it_reads() -> None:
    sources = list(Path(translate.__file__).parent.rglob("*.py"))
    assert len(sources) > 80
    assert [
        f"{path}:{number}: {line.strip()}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if UNSAFE.search(line)
    ] == []
