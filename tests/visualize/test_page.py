"""Where the file of a picture goes, and that it is written whole or not at all."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from translate.errors import InputError, RunError
from translate.visualize.page import PictureFile, choose_picture_file, picture_page, save_picture
from translate.visualize.panels import Picture, Table

PICTURE = Picture("Größe & <Maß> $5", [], [Table("table", ["Wort", "$"], [["Straße", "groß, $1"]])])


@pytest.mark.parametrize(
    "output, wanted, file",
    [
        (None, None, "masks.html"),
        (None, "svg", "masks.svg"),
        ("a/b.PNG", None, "a/b.PNG"),
        ("b.htm", None, "b.htm"),
        ("b.picture", "svg", "b.picture"),
    ],
)
def test_where_a_picture_goes(output: str | None, wanted: Any, file: str) -> None:
    chosen = choose_picture_file(output and Path(output), wanted, name="masks")
    ending = Path(file).suffix[1:].lower()
    assert chosen == PictureFile(Path(file), wanted or {"htm": "html"}.get(ending, ending))


@pytest.mark.parametrize(
    "output, wanted, dots, named",
    [
        ("b.svg", "png", None, "--format png .*--output b.svg"),
        (None, None, 90, "--dpi 90 .*masks.html"),
        ("b.jpg", None, None, "--output b.jpg.*--format"),
    ],
)
def test_a_file_that_cannot_be_chosen(output: str | None, wanted: Any, dots: int | None, named: str) -> None:
    with pytest.raises(InputError, match=named):
        choose_picture_file(output and Path(output), wanted, name="masks", dots_per_inch=dots)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    for file in (tmp_path / "nowhere" / "x.html", tmp_path / "folder.html"):
        with pytest.raises(RunError, match=f"{file}: cannot be written"):
            save_picture(PICTURE, PictureFile(file, "html"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_a_page_without_the_extra_loads_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    page = picture_page(PICTURE)
    assert "script-src 'unsafe-inline' https://cdn.jsdelivr.net;" in page and page.count("</script>") == 5
    assert all(src.startswith("https://cdn.jsdelivr.net/npm/vega") for src in re.findall(r'src="(.*?)"', page))
