"""Pictures of every kind of panel: drawn where they belong, the same each time, and written whole or not at all."""

import itertools
import re
import struct
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from translate.errors import InputError
from translate.visualize.charts import chart_specs, theme
from translate.visualize.page import draw_figure, picture_format, picture_page, save_picture
from translate.visualize.panels import Curves, Links, Matrix, Picture, Series, Table, printable

vl_convert = pytest.importorskip("vl_convert", reason="the extra `pictures` is not installed")

TOKENS = ["▁Straße", "größer", "$x$", "</s>"]
WEIGHTS = [[0.25, 0.75, None, None]] * 4
PICTURE = Picture(
    "Größe & <Maß> $5",
    ["Ein Absatz mit Umlauten: äöüß, $_$.", "x " * 300],
    [
        Matrix("weights", TOKENS, TOKENS, WEIGHTS, "query", "key", "weight"),
        Matrix("signed", ["0"], ["0", "1"], [[-3.0, 2.0]], "position", "dimension", "signed", "note " * 40),
        Matrix("nothing", ["0"], ["0", "1"], [[0.0, 0.0]], "", "", "signed"),
        Matrix("mask", TOKENS, TOKENS, [[1.0, 0.0, 0.0, 0.0]] * 4, "query", "key", "visible"),
        Curves(
            "curves", "step", "loss", [Series("a", [1, 2, 3], [4.0, None, 0.0]), Series("b", [1], [2.0], "b")], True
        ),
        Curves("nothing yet", "step", "loss", [Series("a", [1], [None])], True),
        Curves("marked", "step", "BLEU", [Series("a", [1, 2], [1.0, 2.0], "", (1, "best 2"))]),
        Links("links", ["Der", "Hund", "hier"], ["The", "dog"], [(0, 0, 1.0), (1, 1, 0.2)]),
        Table("table", ["Wort", "$"], [["Straße", "groß, $1"]]),
    ],
    columns=3,
)


def one(panel: Any, *, is_page: bool = True) -> dict[str, Any]:
    (spec,) = chart_specs(Picture("p", [], [panel]), is_page=is_page)
    return spec


def marks(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What Vega draws of one kind of mark, each with its position and its looks."""

    def find(item: Any) -> Any:
        if isinstance(item, dict):
            if item.get("marktype") == kind and "axis" not in item.get("role", "") and "legend" not in item["role"]:
                yield from item["items"]
            for value in item.values():
                yield from find(value)
        elif isinstance(item, list):
            for value in item:
                yield from find(value)

    return list(find(vl_convert.vegalite_to_scenegraph(with_config(spec))["scenegraph"]))


def with_config(spec: dict[str, Any], look: Any = "light") -> dict[str, Any]:
    return {**spec, "config": theme(look, font="Liberation Sans")}


@pytest.mark.parametrize("panel", PICTURE.panels[:-1], ids=lambda panel: str(panel.title))
def test_vega_lite_compiles_every_panel_without_a_warning(panel: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for is_page, look in itertools.product((False, True), ("light", "dark")):
        vl_convert.vegalite_to_vega(with_config(one(panel, is_page=is_page), look), show_warnings=True)
    assert capfd.readouterr() == ("", "")


def test_each_cell_of_a_matrix_is_where_it_belongs() -> None:
    values = [[0.25, 0.75], [None, 1.0], [0.5, 0.0]]
    spec = one(Matrix("weights", ["der", "Hund", "der"], ["a", "b"], values, "query", "key", "weight"))
    cells = marks(spec, "rect")
    places = {(round(cell["x"] / 30 - 0.5), round(cell["y"] / 18 - 0.5)): cell["fill"] for cell in cells}
    # Of two columns in 60 pixels and three rows in 54; the masked cell of row 1 and column 0 is not drawn.
    assert spec["width"] == 60 and spec["height"] == 54
    assert len(cells) == 5 and len(places) == 5
    full, nothing = "rgb(8, 48, 107)", "rgb(255, 255, 255)"
    assert [cell["fill"] for cell in cells if cell["fill"] == full] == [full]
    assert [cell["fill"] for cell in cells if cell["fill"] == nothing] == [nothing]


def looks(spec: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The colour, width and dashes of each line."""
    return {(each["stroke"], each["strokeWidth"], *each.get("strokeDash", ())) for each in marks(spec, "line")}


def test_curves_have_a_colour_for_each_run_and_dashes_for_validation() -> None:
    both = [Series("a", [1, 2], [1.0, 2.0], "training"), Series("a", [1, 2], [2.0, 3.0], "validation")]
    other = [Series("b", [1, 2], [5.0, 6.0], "training")]
    found = looks(one(Curves("loss", "step", "nats", [*both, *other])))
    assert found == {("#0072b2", 1.8, 1, 0), ("#0072b2", 1.8, 6, 4), ("#c25700", 1.8, 1, 0)}
    many = [Series(f"head {head}", [1, 2], [head, head], f"kind {kind}") for head in range(16) for kind in range(8)]
    assert len(looks(one(Curves("many", "distance", "bias", many)))) == 16 * 8


def test_a_curve_looks_the_same_in_all_panels() -> None:
    """The second panel has only the validation of the second run."""
    training = [Series(name, [1, 2], [1.0, 2.0], "training") for name in "ab"]
    validation = [Series("b", [1, 2], [2.0, 3.0], "validation")]
    panels = [Curves("loss", "step", "nats", training + validation), Curves("BLEU", "step", "BLEU", validation)]
    loss, bleu = chart_specs(Picture("p", [], panels), is_page=False)
    assert looks(bleu) == {("#c25700", 1.8, 6, 4)} < looks(loss)
    legends = [each["legend"]["values"] for each in bleu["layer"][0]["encoding"].values()]
    assert legends == [["b"], ["b"], ["validation"]]


def text_boxes(spec: dict[str, Any]) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of each text, whose letters have a mean width of 6 pixels at most."""
    boxes = {}
    for item in marks(spec, "text"):
        width = 6 * len(item["text"])
        x = item["x"] + item.get("dx", 0) - {"left": 0, "center": width / 2, "right": width}[item["align"]]
        up = {"bottom": 12, "top": 0, "middle": 6, "alphabetic": 9}[item.get("baseline", "alphabetic")]
        y = item["y"] + item.get("dy", 0) - up
        boxes[item["text"]] = x, y, x + width, y + 12
    return boxes


@pytest.mark.parametrize(
    ("steps", "losses", "place"),
    [
        ([30], [4.586], 0),
        ([15, 30], [4.6, 4.586], 1),
        ([100, 200, 900], [2.1, 2.094, 2.2], 1),
        ([2, 3, 800], [2, 9, 8], 0),
    ],
)
def test_the_text_of_a_marked_point_is_inside_and_away_from_the_axes(
    steps: list[float], losses: list[float], place: int
) -> None:
    training = Series("a", [1, 1000] if steps[-1] > 30 else [1, 30], [losses[place] * 2, losses[place]])
    best = Series("a", steps, losses, "validation", marked=(place, "best 4.586"))
    spec = one(Curves("loss", "step", "nats", [training, best], is_log=True), is_page=False)
    left, top, right, bottom = text_boxes(spec)["best 4.586"]
    assert left >= 2 and right <= spec["width"] and top >= 0 and bottom <= spec["height"] - 2


def test_zero_has_no_place_on_a_logarithmic_axis() -> None:
    assert [row["y"] for row in one(PICTURE.panels[4])["data"]["values"]] == [4.0, None, None, 2.0]


def test_words_without_a_link_are_grey_and_heavier_links_are_thicker() -> None:
    spec = one(PICTURE.panels[7])
    axis = spec["layer"][0]["encoding"]["y"]["axis"]
    assert axis["labelOpacity"] == {"expr": "indexof([0, 1], datum.value) < 0 ? 0.45 : 1"}
    thick, thin = (item["strokeWidth"] for item in marks(spec, "rule") if item.get("opacity") != 0)
    assert thick == 6.0 and thin == pytest.approx(0.4 + 0.2 * 5.6)


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def texts(svg: bytes) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_all_panels_are_drawn_the_same_each_time() -> None:
    assert draw_figure(PICTURE, format="png") == draw_figure(PICTURE, format="png")
    svg = draw_figure(PICTURE, format="svg")
    again, first = (re.sub(rb"gradient_\d+", b"", each) for each in (draw_figure(PICTURE, format="svg"), svg))
    assert again == first  # V8 goes on counting
    assert not re.findall(rb"(?:href|src)=\"(?!#|data:)", svg)  # nothing from elsewhere
    shown = texts(svg)
    titles = [panel.title for panel in PICTURE.panels[:-1]]  # a table is only in pages
    assert [text for text in shown if text in titles] == titles
    for text in ("Größe & <Maß> $5", "_Straße", "größer", "dimension", "step", "Hund", "hier"):
        assert text in shown


def test_a_large_figure_has_fewer_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = size(draw_figure(PICTURE, format="png"))
    monkeypatch.setattr("translate.visualize.page._MOST_DOTS", 100_000)
    width, height = size(draw_figure(PICTURE, format="png"))
    assert width < whole[0] / 2 and height < whole[1] / 2


def test_without_the_extra_a_figure_names_it_and_a_page_loads_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(InputError, match="svg .*pip install"):
        draw_figure(PICTURE, format="svg")
    page = picture_page(PICTURE)
    assert "script-src 'unsafe-inline' https://cdn.jsdelivr.net;" in page and page.count("</script>") == 5
    assert all(src.startswith("https://cdn.jsdelivr.net/npm/vega") for src in re.findall(r'src="(.*?)"', page))


def test_an_equal_legend_is_drawn_once() -> None:
    heads = [Matrix(f"head {head}", ["x"], ["y"], [[0.5]], "query", "key", "weight") for head in range(3)]
    assert texts(draw_figure(Picture("heads", [], heads, columns=3), format="svg")).count("weight") == 1
    limits = [Matrix("m", ["x"], ["y"], [[limit]], "query", "key", "signed") for limit in (40.0, 20.0, 20.0)]
    shown = texts(draw_figure(Picture("limits", [], limits, columns=3), format="svg"))
    assert (shown.count("40"), shown.count("−10")) == (1, 1)


@pytest.mark.parametrize("text", ["😀 中文 \u0627\u0644", "^_{\\frac$$", "", "a'b\"[]datum"])
def test_no_text_stops_a_figure(text: str) -> None:
    panels = [
        Matrix(text, [text], [text], [[1.0]], text, text, "weight"),
        Curves(text, text, text, [Series(text, [1, 2], [1.0, 2.0], text)]),
        Links(text, [text], [text], [(0, 0, 0.5)]),
    ]
    for each in ("png", "svg"):
        assert draw_figure(Picture(text, [text], panels), format=each)  # type: ignore[arg-type]


def test_characters_that_xml_forbids_are_replaced(tmp_path: Path) -> None:
    text = "\x1b[31m \x00 \x85 \ufffe \ud800 \u202e \u200f ]]> -- \t x"
    panel = Matrix(text, [text], [text], [[1.0]], text, text, "weight", note=text)
    links = Links(text, [text], [text], [(0, 0, 1.0)])
    picture = Picture(text, [text], [panel, links, Table(text, [text], [[text]])])
    save_picture(picture, tmp_path / "x.svg")
    save_picture(picture, tmp_path / "x.html")
    ElementTree.parse(tmp_path / "x.svg")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    for shown in ((tmp_path / "x.svg").read_text(encoding="utf-8"), page[page.index('id="data"') :][:5000]):
        assert "\ufffd[31m" in shown
        assert not re.search(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]|\\u00[01]", shown)
    assert printable(text) == "\ufffd[31m \ufffd \ufffd \ufffd \ufffd \u202e \u200f ]]> -- \t x"


def test_a_figure_that_is_too_large_is_refused() -> None:
    numbers = list(map(str, range(800)))
    panel = Matrix("large", numbers, numbers, [[0.0] * 800] * 800, "position", "position", "signed")
    with pytest.raises(InputError, match="640,000 cells.*600,000"):
        draw_figure(Picture("large", [], [panel]), format="svg")


def test_the_ending_of_a_file_is_its_format() -> None:
    for file, format in (("masks.html", "html"), ("a/b.PNG", "png"), ("b.htm", "html"), ("c.svg", "svg")):
        assert picture_format(Path(file)) == format
    with pytest.raises(InputError, match="--output b.jpg.*png"):
        picture_format(Path("b.jpg"))
