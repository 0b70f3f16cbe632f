"""Where the file of a picture goes, and that it is written whole or not at all."""

import re
from pathlib import Path

import pytest

from translate.errors import InputError, RunError
from translate.visualize.page import PictureFile, choose_picture_file, picture_page, save_picture
from translate.visualize.panels import Matrix, Picture, Table

PICTURE = Picture("Größe & <Maß> $5", [], [Table("table", ["Wort", "$"], [["Straße", "groß, $1"]])])


def test_where_a_picture_goes() -> None:
    assert choose_picture_file(None, None, name="masks") == PictureFile(Path("masks.html"), "html")
    assert choose_picture_file(None, "svg", name="masks") == PictureFile(Path("masks.svg"), "svg")
    assert choose_picture_file(Path("a/b.PNG"), None, name="masks") == PictureFile(Path("a/b.PNG"), "png")
    assert choose_picture_file(Path("b.htm"), None, name="masks") == PictureFile(Path("b.htm"), "html")
    assert choose_picture_file(Path("b.picture"), "svg", name="masks") == PictureFile(Path("b.picture"), "svg")
    with pytest.raises(InputError, match="^--format png but --output b.svg: leave one of them out, or let them agree$"):
        choose_picture_file(Path("b.svg"), "png", name="masks")
    assert choose_picture_file(Path("b.png"), None, name="masks", dots_per_inch=90).dots_per_inch == 90
    with pytest.raises(
        InputError, match="^--dpi 90 is for PNGs, and masks.html is html: leave it out, or write a PNG$"
    ):
        choose_picture_file(None, None, name="masks", dots_per_inch=90)
    with pytest.raises(InputError, match=r"^--output b.jpg: end it in .html, .png or .svg, or give --format too$"):
        choose_picture_file(Path("b.jpg"), None, name="masks")


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nowhere/x.html: cannot be written: No such file or directory"):
        save_picture(PICTURE, PictureFile(tmp_path / "nowhere" / "x.html", "html"))
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(RunError, match="folder.html: cannot be written: Is a directory$"):
        save_picture(PICTURE, PictureFile(tmp_path / "folder.html", "html"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_a_page_is_whole_and_asks_nothing_of_the_network() -> None:
    hostile = "</script><script>alert(1)</script><!--"
    page = picture_page(Picture(hostile, [hostile], [Matrix(hostile, [hostile], ["x"], [[0.5]], "q", "k", "weight")]))
    assert page.count("</script>") == 3  # data, library, our own
    assert "<script>alert" not in page and "{{" not in page[: page.index("<script")]
    ours = re.sub(r"<script>\(\(\) => \{\n.*?\}\)\(\);</script>", "", page, flags=re.DOTALL)
    assert len(ours) < 60_000 and not re.findall(r"<(?:link|img|iframe)\b| src=", ours)
    assert "default-src 'none'" in page and "unsafe-eval" not in page
    assert 880_000 < len(page.encode()) < 1_000_000  # docs/pictures.md says about 900 KB
