"""The tutorial cannot rot: its code runs, prints what the pages show, and draws their pictures."""

import importlib
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from translate.cli import app

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs" / "tutorial"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def read(page: str) -> str:
    return (TUTORIAL / page).read_text(encoding="utf-8")


PAGES = sorted(page.name for page in TUTORIAL.glob("*.md"))


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """The function that runs pages, in the root of the repository; their pictures go to `tmp_path`."""
    pytest.importorskip("vl_convert", reason="the extra `pictures` is not installed")
    monkeypatch.syspath_prepend(TUTORIAL)
    monkeypatch.chdir(ROOT)
    modules = {name: importlib.import_module(name) for name in ("run", "draw")}
    monkeypatch.setattr(modules["draw"], "FOLDER", tmp_path)
    return modules["run"].run_page


def check_pictures(page: str, drawn: Path, *, is_same: bool = False) -> None:
    """A page shows the pictures that its code drew; where `is_same`, those in the repository, up to rounding."""
    names = sorted(picture.name for picture in drawn.glob("*.svg"))
    assert names == sorted(re.findall(r"^!\[.+\]\((\S+)\)$", read(page), re.MULTILINE))
    for name in names if is_same else ():
        new, kept = (drawn / name).read_text(encoding="utf-8"), (TUTORIAL / name).read_text(encoding="utf-8")
        assert NUMBER.sub("#", new) == NUMBER.sub("#", kept), name
        numbers, expected = ([float(number) for number in NUMBER.findall(text)] for text in (new, kept))
        assert numbers == pytest.approx(expected, abs=0.1, rel=0.01), name


def luminance(colour: list[float]) -> float:
    """Relative luminance by WCAG 2 of red, green and blue, 0 to 1."""
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in colour]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_numbers_can_be_read_on_every_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vl_convert", reason="the extra `pictures` is not installed")
    monkeypatch.syspath_prepend(TUTORIAL)
    draw = importlib.import_module("draw")
    rgb = {name: [int(name[at : at + 2], 16) / 255 for at in (1, 3, 5)] for pair in draw.NIGHT.items() for name in pair}
    cells, numbers = draw.matrix([[0.5, -1.0]], scale="signed")["layer"]
    lowest, strongest = cells["encoding"]["fillOpacity"]["scale"]["range"]
    for paper, look in ([1.0, 1.0, 1.0], str), ([0.13, 0.13, 0.16], draw.NIGHT.get):  # day, and night
        ink = luminance(rgb[look(numbers["encoding"]["color"]["value"])])
        for fill, step in itertools.product((draw.POSITIVE, draw.NEGATIVE), range(101)):
            opacity = lowest + (strongest - lowest) * step / 100
            ground = [opacity * top + (1 - opacity) * below for top, below in zip(rgb[look(fill)], paper, strict=True)]
            light, dark = sorted([ink, luminance(ground)], reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (fill, opacity)


QUICK = [page for page in PAGES if page not in ("demo.md", "warm-up.md")]


@pytest.mark.parametrize("page", QUICK)
def test_the_code_of_a_page_prints_what_the_page_shows(
    page: str, run_page: Callable[[str], str], tmp_path: Path
) -> None:
    assert run_page(read(page)) == read(page)
    check_pictures(page, tmp_path, is_same=True)


@pytest.mark.system
def test_the_code_of_the_warm_up_page_prints_what_the_page_shows(
    run_page: Callable[[str], str], tmp_path: Path
) -> None:
    """The pictures are not compared: in a training that goes astray, rounding grows."""
    assert run_page(read("warm-up.md")) == read("warm-up.md")
    check_pictures("warm-up.md", tmp_path)


@pytest.mark.system
def test_the_code_of_the_demo_page_runs(
    run_page: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short training stands for the demo: what the page prints of words and weights is not compared."""
    monkeypatch.chdir(tmp_path)
    short = ["model.d_model=16", "model.d_ff=16", "training.max_steps=2", "training.validate_every=2"]
    short += ["decoding.max_length_constant=5", "decoding.max_length_factor=0.5", "tokenizer.vocab_size=500"]
    trained = CliRunner().invoke(app, ["train", "demo", "--run", "runs/demo", *short])
    assert trained.exit_code == 0, trained.output
    page = run_page(read("demo.md"))
    assert page.split("```python") != read("demo.md").split("```python")
    for line in ("decoder 0 to the future: 0.0", "decoder 1 to the future: 0.0"):
        assert line in page and line in read("demo.md")
    assert NUMBER.sub("#", re.findall(r"encoder \d, head.*", page)[-1]) == "encoder #, head #: # # #"
    check_pictures("demo.md", tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_code_and_output_fit_the_width_of_the_site(page: str) -> None:
    blocks = re.findall(r"^```(?!math)\w+\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    assert blocks
    assert [line for block in blocks for line in block.splitlines() if len(line) > 79] == []


def test_an_output_that_differs_or_is_missing_is_written_anew(run_page: Callable[[str], str]) -> None:
    page = "```python\nprint(6 * 7)\n```\n{}\nMore.\n\n```python\nanswer = 1\n```\n"
    right = "\n```text\n42\n```\n"
    for output in ("", "\n```text\n41\n```\n", right):
        assert run_page(page.format(output)) == page.format(right)
    silent = "```python\nanswer = 1\n```\n"
    assert run_page(silent + "\n```text\n1\n```\n") == silent


@pytest.mark.system
@pytest.mark.parametrize("page", [page for page in QUICK if page != "index.md"])
def test_a_page_is_a_notebook_that_runs_in_an_empty_folder(
    page: str, run_page: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = json.loads(sys.modules["run"].to_notebook(read(page)))
    monkeypatch.chdir(tmp_path)
    magic, *cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    first_line, _, drawing = magic.partition("\n")
    Path(first_line.removeprefix("%%writefile ")).write_text(drawing, encoding="utf-8")
    Path("cells.py").write_text("\n".join(cells), encoding="utf-8")
    printed = subprocess.run([sys.executable, "cells.py"], capture_output=True, text=True, check=True).stdout
    outputs = re.findall(r"^```python\n.*?^```\n\n```text\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    assert printed == "".join(outputs)


def test_the_site_lists_every_page_in_the_order_of_their_links() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (?:.*: )?tutorial/(\S+\.md)$", site, re.MULTILINE)
    assert sorted(listed) == PAGES
    following = [re.findall(r"^Next: \[.+\]\((\S+\.md)\)\.$", read(page), re.MULTILINE) for page in listed]
    assert following == [*([page] for page in listed[1:]), []]


def test_links_lead_somewhere_and_no_picture_is_left_over() -> None:
    linked = set()
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", read(page)):
            assert (TUTORIAL / target).exists(), f"{page}: {target}"
            linked.add(target)
        for name in re.findall(r"`((?:translate|tests|docs)/[\w/]+\.py)`", read(page)):
            assert (ROOT / name).exists(), f"{page}: {name}"
    assert {picture.name for picture in TUTORIAL.glob("*.svg")} <= linked
