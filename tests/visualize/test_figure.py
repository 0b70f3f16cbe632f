"""Figures: drawn of every kind of panel, the same each time, with whatever text."""

import io
import re
import sys
from pathlib import Path

import pytest

from translate.errors import InputError
from translate.visualize.figure import draw_figure
from translate.visualize.page import PictureFile, save_picture
from translate.visualize.panels import Curves, Links, Matrix, Picture, Point, Points, Series, Table

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
        InputError, match=r"^--format png needs matplotlib: pip install 'translate-nmt\[pictures\]' first"
    ):
        save_picture(PICTURE, PictureFile(tmp_path / "x.png", "png"))
    save_picture(PICTURE, PictureFile(tmp_path / "x.html", "html"))
    assert [file.name for file in tmp_path.iterdir()] == ["x.html"]
