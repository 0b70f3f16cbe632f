"""`SHA256SUMS` reports every change in its folder, and `sha256sum` agrees."""

import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from translate.errors import RunError
from translate.fingerprint import fingerprint
from translate.runs.checksums import CHECKSUMS, check_folder, check_inside, read_checksums, write_checksums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"weights")
    (folder / "größe config.json").write_text("{}")
    write_checksums(folder, {path.name: fingerprint(path) for path in folder.iterdir()})
    check_folder(folder)
    return folder


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs sha256sum")
def test_sha256sum_reads_it(folder: Path) -> None:
    command = ["sha256sum", "--strict", "--check", CHECKSUMS]
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 0
    (folder / "model.bin").write_bytes(b"Weights")
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.bin", b"Weights", "/model.bin: damaged: its checksum"),
        ("model.bin", None, "/model.bin: damaged: no such file"),
        (CHECKSUMS, None, "/SHA256SUMS: damaged: no such file"),
        (CHECKSUMS, b"", "/SHA256SUMS: damaged: .*empty"),
        (CHECKSUMS, b"\xff", "/SHA256SUMS: damaged: "),
        (CHECKSUMS, b"0" * 64 + b"  ../x\n", "/../x: is a link out of "),
        ("new", b"", "/SHA256SUMS: damaged: .*'new'.*remove the folder"),
    ],
)
def test_a_folder_that_is_not_as_it_was(folder: Path, name: str, content: bytes | None, message: str) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(RunError, match=rf"^{folder}.*{message}"):
        check_folder(folder)


def test_a_file_that_may_not_be_read_is_not_called_damaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RunError, match=r"SHA256SUMS: cannot be read \(Permission denied\); copy"):
        read_checksums(folder)


def test_every_flipped_bit_of_the_checksums_is_seen(folder: Path) -> None:
    path = folder / CHECKSUMS
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in (place % 8, 5):  # bit 5 makes `f` an `F`
            path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            with pytest.raises(RunError):
                check_folder(folder)
    for length in range(1, len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(RunError):
            check_folder(folder)


def test_a_link_out_of_a_folder(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"weights")
    (folder / "model.bin").unlink()
    (folder / "model.bin").symlink_to(tmp_path / "model.bin")
    with pytest.raises(RunError, match=rf"^{folder}/model.bin: is a link out of {folder}, to {tmp_path}/model.bin"):
        check_folder(folder)
    (tmp_path / "link").symlink_to(folder)
    check_inside(tmp_path / "link" / "missing", folder)
