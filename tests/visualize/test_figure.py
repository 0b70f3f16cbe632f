"""Figures: drawn of every kind of panel, the same each time, with whatever text."""

import io
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from translate.errors import InputError
from translate.visualize.figure import draw_figure
from translate.visualize.page import PictureFile, save_picture
from translate.visualize.panels import Curves, Links, Matrix, Picture, Point, Points, Series, Table, printable

TOKENS = ["▁Straße", "größer", "$x$", "</s>"]
WEIGHTS = [[0.25, 0.75, None, None]] * 4
PICTURE = Picture(
    "Größe & <Maß> $5",
    ["Ein Absatz mit Umlauten: äöüß, $_$.", "x " * 300],
    [
        Matrix("weights", TOKENS, TOKENS, WEIGHTS, "query", "key", "weight"),
        Matrix("signed", ["0"], ["0", "1"], [[-3.0, 2.0]], "position", "dimension", "signed", note="note " * 40),
        Matrix("nothing", ["0"], ["0", "1"], [[0.0, 0.0]], "", "", "signed"),
        Matrix("visible", TOKENS, TOKENS, [[1.0, 0.0, 0.0, 0.0]] * 4, "query", "key", "visible"),
        Curves("curves", "step", "loss", [Series("a", [1, 2, 3], [4.0, None, 1.0]), Series("b", [1], [2.0])], True),
        Points("map", "x", "y", [Point("Größe", 0, 0, "a"), Point("$", 1, 1, "b", anchor="below")]),
        Links("links", ["Der", "Hund"], ["The", "dog"], [(0, 0, 1.0), (1, 1, 0.2)]),
        Table("table", ["Wort", "$"], [["Straße", "groß, $1"]]),
    ],
    columns=3,
)


def test_all_panels_are_drawn_the_same_each_time() -> None:
    pytest.importorskip("matplotlib", reason="the extra `pictures` is not installed")
    from PIL import Image

    png = draw_figure(PICTURE, format="png", dots_per_inch=60)
    assert png.startswith(b"\x89PNG") and draw_figure(PICTURE, format="png", dots_per_inch=60) == png
    small = draw_figure(PICTURE, format="png", dots_per_inch=30)
    widths = [Image.open(io.BytesIO(each)).size[0] for each in (small, png)]
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.02)
    svg = draw_figure(PICTURE, format="svg")
    assert draw_figure(PICTURE, format="svg") == svg
    text = svg.decode()
    assert text.startswith("<?xml") and "<dc:date>" not in text
    assert not re.findall(r"(?:href|src)=\"(?!#|data:)", text)  # nothing from elsewhere


@pytest.mark.parametrize("text", ["😀 中文 \u0627\u0644", "\u2028\u0000\x1b", "^_{\\frac$$", ""])
def test_no_text_stops_a_figure(text: str) -> None:
    pytest.importorskip("matplotlib", reason="the extra `pictures` is not installed")
    panel = Matrix(text, [text], [text], [[1.0]], text, text, "weight")
    for each in ("png", "svg"):
        assert draw_figure(Picture(text, [text], [panel, Table(text, [text], [[text]])]), format=each)  # type: ignore[arg-type]


HOSTILE = "\x1b[31m \x00 \x85 \ufffe \ud800 \u202e \u200f ]]> -- \t x"


def test_characters_that_xml_forbids_are_replaced(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `pictures` is not installed")
    panel = Matrix(HOSTILE, [HOSTILE], [HOSTILE], [[1.0]], HOSTILE, HOSTILE, "weight", note=HOSTILE)
    links = Links(HOSTILE, [HOSTILE], [HOSTILE], [(0, 0, 1.0)])
    picture = Picture(HOSTILE, [HOSTILE], [panel, links, Table(HOSTILE, [HOSTILE], [[HOSTILE]])])
    for kind in ("svg", "png", "html"):
        save_picture(picture, PictureFile(tmp_path / f"x.{kind}", kind))  # type: ignore[arg-type]
    ElementTree.parse(tmp_path / "x.svg")
    for kind in ("svg", "html"):
        text = (tmp_path / f"x.{kind}").read_text(encoding="utf-8")
        assert not re.search(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]|\\u00[01]", text)
    assert printable(HOSTILE) == "\ufffd[31m \ufffd \ufffd \ufffd \ufffd \u202e \u200f ]]> -- \t x"


def test_a_figure_that_nobody_could_read_is_refused() -> None:
    """200 words and eight heads: 8 x 200 cells of 0.19 inches."""
    pytest.importorskip("matplotlib", reason="the extra `pictures` is not installed")
    labels = ["x"] * 200
    heads = [Matrix("head", labels, labels, [[0.0] * 200] * 200, "query", "key", "weight")] * 8
    with pytest.raises(
        InputError, match="^the figure would be 304 x 38 inches, and the limits are 200 a side and 10,000"
    ):
        draw_figure(Picture("long", [], heads, columns=8), format="svg")


def test_long_sentences_get_long_figures_with_every_token() -> None:
    pytest.importorskip("matplotlib", reason="the extra `pictures` is not installed")
    from PIL import Image

    labels = [f"token{number}" for number in range(70)]
    panel = Matrix("long", labels, labels, [[1 / 70] * 70] * 70, "query", "key", "weight")
    image = Image.open(io.BytesIO(draw_figure(Picture("long", [], [panel]), format="png", dots_per_inch=60)))
    assert min(image.size) > 70 * 0.19 * 60  # a line of text for each


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [module for module in sys.modules if module.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        InputError, match=r"^--format png needs matplotlib: .*pip install 'matplotlib>=\S+', or use --format html"
    ):
        save_picture(PICTURE, PictureFile(tmp_path / "x.png", "png"))
    save_picture(PICTURE, PictureFile(tmp_path / "x.html", "html"))
    assert [file.name for file in tmp_path.iterdir()] == ["x.html"]
