"""`translate decode --resume`: the bytes of a start without it, whatever was finished before.

Several processes under torchrun are in tests/system/test_decode_sharded.py.
"""

from pathlib import Path

import pytest
from harness import counts_told
from harness import run_command as translate

pytestmark = pytest.mark.usefixtures("no_shape_checks")

FORMS = {
    "text": [],
    "n_best": ["--n-best", "2", "--alignments", "links"],
    "jsonl": ["--format", "jsonl", "--n-best", "2"],
    "sampled": ["--format", "jsonl", "--search", "sample", "--alignments", "links"],
    "constraints": ["--prefix", "prefix", "--require", "require", "--format", "jsonl"],
}
# Several parts, and quick ones; the last digits of CTranslate2's scores are those of the batch.
QUICK = ["--look-ahead-lines", "5", "--workers", "1", "--engine", "translate"]
OPTIONS = [*QUICK, "--beam-size", "2"]


@pytest.fixture
def folder(learnt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with 13 lines, the last of them empty, and the constraints of some."""
    monkeypatch.chdir(tmp_path)
    lines = (learnt.parent / "new.de").read_text(encoding="utf-8").splitlines()
    Path("short.de").write_text("".join(f"{line}\n" for line in [*lines, ""]), encoding="utf-8")
    Path("prefix").write_text("".join(f"{'the' if number % 3 else ''}\n" for number in range(13)), encoding="utf-8")
    Path("require").write_text("".join(f"{'' if number % 4 else 'green'}\n" for number in range(13)), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("form", FORMS)
def test_in_parts_the_bytes_are_the_same(learnt: Path, folder: Path, form: str) -> None:
    arguments = ["decode", learnt, "short.de", *FORMS[form], *(QUICK if form == "sampled" else OPTIONS)]
    plain = translate(*arguments, "-o", "plain.en")
    links = Path("links").read_bytes() if "links" in arguments else b""
    in_parts = translate(*arguments, "-o", "out.en", "--resume")
    assert plain.exit_code == in_parts.exit_code == 0, in_parts.stderr
    assert Path("out.en").read_bytes() == Path("plain.en").read_bytes() != b""
    assert "links" not in arguments or Path("links").read_bytes() == links != b""
    assert counts_told(in_parts.stderr) == counts_told(plain.stderr) and "before" not in in_parts.stderr
    assert not [path for path in folder.iterdir() if ".part" in path.name]


def test_an_empty_file(learnt: Path, folder: Path) -> None:
    Path("empty").write_bytes(b"")
    result = translate("decode", learnt, "empty", "-o", "out.en", "--resume")
    assert (result.exit_code, Path("out.en").read_bytes()) == (0, b"") and "0 lines" in result.stderr


def test_what_cannot_be_in_parts(learnt: Path, folder: Path) -> None:
    for arguments, code, word in [
        (["short.de", "-o", "gone/out.en"], 1, "gone/out.en.parts: "),
        (["short.de", "-o", "out.en", "--long", "error", "--max-source-tokens", "3"], 2, "line "),
    ]:
        result = translate("decode", learnt, *arguments, "--resume")
        assert result.exit_code == code and result.stderr.startswith(f"translate: {word}"), result.stderr
    assert not [path for path in folder.iterdir() if path.name.startswith("out")]
