"""A file's own checksum: every flipped bit and every cut of a sealed file is seen, and told with the mend."""

import hashlib
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from translate.errors import InputError, RunError
from translate.runs import RunDirectory, load_run, open_run, read_tensors, write_tensors
from translate.runs.seal import UNSEALED, find_seal, sealed_text
from translate.runs.verify import verify_run


def flipped(content: bytes, bit: int) -> bytes:
    """With one bit changed."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def damaged_versions(content: bytes, *, seal: slice, number: int) -> list[tuple[str, bytes]]:
    """Bits anywhere, bits of the seal, and cuts anywhere; the same ones in every run."""
    generator = random.Random(4)
    bits = generator.sample(range(8 * seal.start, 8 * seal.stop), number)
    bits += generator.sample(range(8 * len(content)), number)
    cuts = [
        0,
        1,
        7,
        8,
        len(content) - 1,
        seal.start,
        seal.start + 5,
        *generator.sample(range(len(content)), number // 5),
    ]
    return [(f"bit {bit}", flipped(content, bit)) for bit in bits] + [(f"cut {cut}", content[:cut]) for cut in cuts]


def place_of_seal(content: bytes) -> slice:
    (match,) = re.finditer(rb'"sha256": ?"[0-9a-f]{64}"', content)
    return slice(match.start(), match.end())


def unseen(path: Path, read: Callable[[], object], *, number: int = 150) -> list[str]:
    """The damages of a file that reading it does not tell."""
    content = path.read_bytes()
    quiet = []
    for what, changed in damaged_versions(content, seal=place_of_seal(content), number=number):
        path.write_bytes(changed)
        try:
            read()
        except (RunError, InputError) as error:
            assert path.name in str(error), what
        else:
            quiet.append(what)
    path.write_bytes(content)
    read()
    return quiet


def test_a_damaged_checkpoint_is_never_read(run: RunDirectory) -> None:
    file = run.checkpoint("best")
    assert unseen(file, lambda: read_tensors(file)) == []


def test_a_damaged_checkpoint_with_awkward_metadata_is_never_read(tmp_path: Path) -> None:
    """Other digests in the metadata, as the progress has them, are not taken for the file's own."""
    file = tmp_path / "last.safetensors"
    digest = hashlib.sha256(b"metrics").hexdigest()
    progress = json.dumps({"data_fingerprint": digest, "metrics_sha256": digest, "sha256": digest})
    write_tensors(file, {"a": torch.arange(5)}, {"step": "1", "progress": progress})
    assert read_tensors(file).metadata == {"step": "1", "progress": progress}
    assert unseen(file, lambda: read_tensors(file)) == []


def test_a_damaged_description_is_never_read(run: RunDirectory) -> None:
    assert unseen(run.description, lambda: open_run(run.path)) == []


def test_a_damaged_tokenizer_is_never_read(run: RunDirectory) -> None:
    file = run.tokenizer / "joint.model"
    content = file.read_bytes()
    generator = random.Random(5)
    for bit in generator.sample(range(8 * len(content)), 60):
        file.write_bytes(flipped(content, bit))
        with pytest.raises(RunError, match=r"joint.model: is damaged, or another model's tokenizer"):
            open_run(run.path)


def test_a_damaged_config_is_seen_by_verify(run: RunDirectory) -> None:
    """Loading lets it pass, because a config may be edited by hand."""
    shutil.rmtree(run.checkpoints)  # which take the time

    def read() -> None:
        (report,) = (file for file in verify_run(run.path).files if file.name == "config.yaml")
        if report.state != "ok":
            assert report.state in {"DAMAGED", "CHANGED"}
            raise RunError(report.name)

    assert unseen(run.config, read, number=50) == []


def test_the_message_names_file_digests_and_mend(run: RunDirectory) -> None:
    file = run.checkpoint("best")
    content = file.read_bytes()
    start = place_of_seal(content).stop - 65
    changed = flipped(content, 8 * len(content) - 3)
    file.write_bytes(changed)
    expected = content[start : start + 12].decode()
    found = hashlib.sha256(changed[:start] + b"0" * 64 + changed[start + 64 :]).hexdigest()[:12]  # as the docs say it
    with pytest.raises(RunError) as caught:
        load_run(run.path)
    assert str(caught.value) == (
        f"{file}: damaged: its checksum should be {expected}…, but is {found}…; copy it anew from where it came, or use"
        " --checkpoint last"
    )


@pytest.mark.parametrize(
    "name, mend",
    [
        ("last.safetensors", "train on with --resume, which takes the checkpoint before it"),
        ("shortlist.safetensors", "make it anew with translate shortlist"),
        ("other.safetensors", "copy the file anew from where it came"),
    ],
)
def test_each_kind_of_file_has_its_mend(tmp_path: Path, name: str, mend: str) -> None:
    file = tmp_path / name
    write_tensors(file, {"a": torch.arange(5)}, {})
    file.write_bytes(flipped(file.read_bytes(), 8 * file.stat().st_size - 1))
    with pytest.raises(RunError, match=rf"^{file}: damaged: its checksum should be .*; .*{mend}$"):
        read_tensors(file)


def test_the_digest_by_hand() -> None:
    text = f'{{"a": 1, "sha256": "{UNSEALED}"}}\n'
    sealed = sealed_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert sealed == text.replace(UNSEALED, digest) and json.loads(sealed) == {"a": 1, "sha256": digest}
    assert find_seal(sealed.encode()) == (text.index(UNSEALED), digest)


@pytest.mark.parametrize(
    "text, reason",
    [
        ('{"sha256": "' + "a" * 64 + '", "b": {"sha256": "' + "b" * 64 + '"}}', "it has several checksums of its own"),
        ('{"sha256": "' + "A" * 64 + '"}', "its own checksum is unreadable"),
        ('{"sha257": "' + "a" * 64 + '"}', "its own checksum is unreadable"),
        ('{"sha256": "' + "a" * 63 + '"}', "its own checksum is unreadable"),
    ],
)
def test_a_broken_seal(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        find_seal(text.encode())


def test_a_file_without_a_seal() -> None:
    digest = "a" * 64
    assert find_seal(f'{{"data_fingerprint": "sha256:{digest}", "path": "/blobs/{digest}.de"}}'.encode()) is None
    assert find_seal(rf'{{"progress": "{{\"data_fingerprint\": \"{digest}\"}}"}}'.encode()) is None  # of 0.1.0
