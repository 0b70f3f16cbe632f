"""The tutorial cannot rot: its code runs, prints what the pages show, and draws their pictures."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import torch

TUTORIAL = Path(__file__).resolve().parents[1] / "docs" / "tutorial"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def read(page: str) -> str:
    return (TUTORIAL / page).read_text(encoding="utf-8")


PAGES = sorted(page.name for page in TUTORIAL.glob("*.md"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that runs pages, which find `draw` as they do in their folder, in a folder for their pictures."""
    monkeypatch.syspath_prepend(TUTORIAL)
    monkeypatch.chdir(tmp_path)
    specification = importlib.util.spec_from_file_location("tutorial_run", TUTORIAL / "run.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def check_pictures(page: str, drawn: Path) -> None:
    """A page shows the pictures that its code drew; those in the repository are the same up to rounding."""
    names = sorted(picture.name for picture in drawn.glob("*.svg"))
    assert names == sorted(re.findall(r"^!\[.+\]\((\S+)\)$", read(page), re.MULTILINE))
    for name in names:
        new, kept = (drawn / name).read_text(encoding="utf-8"), (TUTORIAL / name).read_text(encoding="utf-8")
        assert NUMBER.sub("#", new) == NUMBER.sub("#", kept), name
        numbers, expected = ([float(number) for number in NUMBER.findall(text)] for text in (new, kept))
        assert numbers == pytest.approx(expected, abs=0.1, rel=0.01), name


@pytest.mark.parametrize("page", [page for page in PAGES if page != "demo.md"])
def test_the_code_of_a_page_prints_what_the_page_shows(page: str, run: Any, tmp_path: Path) -> None:
    assert run.run_page(read(page)) == read(page)
    check_pictures(page, tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_code_and_output_fit_the_width_of_the_site(page: str) -> None:
    blocks = re.findall(r"^```\w+\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    assert blocks
    assert [line for block in blocks for line in block.splitlines() if len(line) > 79] == []


def test_an_output_that_differs_or_is_missing_is_written_anew(run: Any) -> None:
    page = "```python\nprint(6 * 7)\n```\n{}\nMore.\n\n```python\nanswer = 1\n```\n"
    right = "\n```text\n42\n```\n"
    for output in ("", "\n```text\n41\n```\n", right):
        assert run.run_page(page.format(output)) == page.format(right)
    silent = "```python\nanswer = 1\n```\n"
    assert run.run_page(silent + "\n```text\n1\n```\n") == silent


def test_blocks_share_their_names_and_an_exception_ends_the_page(run: Any) -> None:
    assert "```text\n3\n```" in run.run_page("```python\nx = 3\n```\n\nThen:\n\n```python\nprint(x)\n```\n")
    with pytest.raises(ZeroDivisionError):
        run.run_page("```python\n1 / 0\n```\n")


def test_a_page_leaves_the_printing_of_tensors_as_it_was(run: Any) -> None:
    before = str(torch.tensor(1 / 3))
    run.run_page("```python\nimport torch\n\ntorch.set_printoptions(precision=1)\n```\n")
    assert str(torch.tensor(1 / 3)) == before


def test_the_site_lists_every_page_in_the_order_of_their_links() -> None:
    site = (TUTORIAL.parents[1] / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- .*: tutorial/(\S+\.md)$", site, re.MULTILINE)
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
            assert (TUTORIAL.parents[1] / name).exists(), f"{page}: {name}"
    assert {picture.name for picture in TUTORIAL.glob("*.svg")} <= linked
