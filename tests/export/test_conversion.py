"""What was converted before is used again only if it is as it was written."""

import os
from pathlib import Path

import pytest

from translate.errors import RunError
from translate.export.conversion import converted_run


def test_a_damaged_conversion_is_refused_with_the_mend(toy, tmp_path: Path, save_run) -> None:
    run = tmp_path / "run"
    save_run(run, toy.config, toy.tokenizers, toy.model)
    folder = converted_run(run, checkpoint="best")
    names = {path.name for path in folder.iterdir()}
    assert "checksums.json" in names and "model.bin" in names
    model = folder / "model.bin"
    content = model.read_bytes()
    model.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(RunError, match=rf"^{model}: damaged: .*; remove this folder, and it is made anew$"):
        converted_run(run, checkpoint="best")
    model.write_bytes(content)
    assert converted_run(run, checkpoint="best") == folder


def test_a_conversion_of_an_older_version_is_used(toy, tmp_path: Path, save_run) -> None:
    run = tmp_path / "run"
    save_run(run, toy.config, toy.tokenizers, toy.model)
    folder = converted_run(run, checkpoint="best")
    (folder / "checksums.json").unlink()
    assert converted_run(run, checkpoint="best") == folder


def test_a_conversion_that_lies_elsewhere_is_refused(toy, tmp_path: Path, save_run) -> None:
    run = tmp_path / "run"
    save_run(run, toy.config, toy.tokenizers, toy.model)
    folder = converted_run(run, checkpoint="best")
    os.rename(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=rf"^{folder}: is a link out of {run}, to {tmp_path}/elsewhere; "):
        converted_run(run, checkpoint="best")
