"""`translate show`: each picture from a real run, in each format; and a paragraph for what cannot be shown."""

import re
import shutil
from pathlib import Path

import pytest
from harness import in_order, page_data, succeed
from harness import run_command as translate


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_attention_of_a_decoded_sentence(learnt: Path) -> None:
    translation = translate("decode", learnt, stdin="Hund schläft und läuft\n".encode()).stdout.strip()
    assert "dog" in translation
    result = translate("show", "attention", learnt, "Hund schläft und läuft")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"attention.html: Hund schläft und läuft → {translation}\n"
    data = page_data(Path("attention.html").read_text())
    assert data["title"] == "Attention of run" and data["source"] == "Hund schläft und läuft"
    assert data["target"] == translation
    assert in_order(data["paragraphs"][0], "beam 4", "150", "fp32")
    assert data["start"] == {"kind": "cross", "layer": 0, "head": -1, "unit": "subwords"}  # the mean


def test_figures(learnt: Path) -> None:
    pytest.importorskip("vl_convert", reason="the extra `pictures` is not installed")
    result = translate("show", "attention", learnt, "Hund läuft", "-o", "attention.png")
    assert (result.exit_code, result.stderr) == (0, "attention.png: Hund läuft → dog runs\n")
    assert Path("attention.png").read_bytes().startswith(b"\x89PNG")
    result = succeed("show", "masks", learnt, "Hund", "Hund läuft", "-o", "masks.svg")
    assert result.stderr.startswith("masks.svg: ")
    assert "<svg" in Path("masks.svg").read_text(encoding="utf-8")


def test_masks_and_positions(learnt: Path) -> None:
    result = succeed("show", "masks", learnt, "Hund", "Haus", "--target", "dog", "--target", "house")
    assert result.stderr.startswith("masks.html: ")
    assert page_data(Path("masks.html").read_text())["paragraphs"][:2] == [
        "1: Hund → dog",
        "2: Haus → house",
    ]
    Path("demo").mkdir()  # not the preset
    for what, name in {"demo": "demo", learnt.parent / "learnt.yaml": "learnt", learnt: "run"}.items():
        result = succeed("show", "positions", what, "--length", "9")
        assert in_order(result.stderr, "positions.html: ", name, "rotary")
        assert len(page_data(Path("positions.html").read_text())["panels"][0]["spec"]["data"]["values"]) == 9


def test_positions_of_a_preset_next_to_a_run_of_its_name(learnt: Path) -> None:
    shutil.copytree(learnt, "demo")
    for what in ("demo", "./demo"):
        result = succeed("show", "positions", what)
        assert ("for what is here, write ./demo" in result.stderr) == (what == "demo")


def test_alignments(learnt: Path) -> None:
    beside = learnt.parent
    files = ["--source", beside / "new.de", "--reference", beside / "new.en"]
    result = succeed("show", "alignments", learnt, *files, "--number", "2")
    assert in_order(result.stderr, "alignments.html", "1 to 2", "alignments.align", "12", "layer 0")
    data = page_data(Path("alignments.html").read_text())
    assert len(data["panels"]) == 4, "the links and weights of two lines"
    lines = Path("alignments.align").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 12 and all(re.fullmatch(r"\d+-\d+( \d+-\d+)*", line) for line in lines)
    # What `decode` writes for its own translations is what is shown for the same pairs.
    outputs = ["--output", "new.out", "--alignments", "decoded"]
    succeed("decode", learnt, beside / "new.de", *outputs)
    files[3] = Path("new.out")
    result = succeed("show", "alignments", learnt, *files, "--layer", "0", "-o", "x.html", "--first", "12")
    assert in_order(result.stderr, "x.html", "12 to 12", "x.align")
    assert Path("x.align").read_bytes() == Path("decoded").read_bytes()
