"""Panels as Vega-Lite specifications, compiled by Vega-Lite itself."""

from typing import Any

import pytest

from translate.visualize.charts import chart_specs, theme
from translate.visualize.panels import Curves, Links, Matrix, Picture, Point, Points, Series, Table

vl_convert = pytest.importorskip("vl_convert", reason="the extra `pictures` is not installed")

LABELS = ["der", "Hund", "der"]
PANELS = [
    Matrix("weights", LABELS, ["a", "b"], [[0.25, 0.75], [None, 1.0], [0.5, 0.0]], "query", "key", "weight"),
    Matrix("signed", ["0", "1"], ["0", "1"], [[-3.0, 2.0], [1.0, 0.0]], "position", "dimension", "signed"),
    Matrix("visible", ["x"], LABELS, [[1.0, 0.0, 0.0]], "query", "key", "visible"),
    Curves(
        "log", "step", "norm", [Series("a", [1, 2], [100.0, 0.0], "training"), Series("a", [1], [1.0], "valid")], True
    ),
    Curves("marked", "step", "BLEU", [Series("a", [1, 2], [1.0, 2.0], "", [3.0, 4.0], (1, "best 2"))]),
    Points("map", "x", "y", [Point("Hund", 0, 0, "source"), Point("dog", 1, 1, "target", anchor="below")]),
    Links("links", LABELS, ["the", "dog"], [(0, 0, 1.0), (1, 1, 0.2)]),
    Table("table", ["Word", "Cosine"], [["Hund", "0.5"]]),
]


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

    config = theme("light", font="Liberation Sans")
    params = [{"name": "over", "value": "step"}, {"name": "order", "value": "apart"}]
    return list(find(vl_convert.vegalite_to_scenegraph({**spec, "params": params, "config": config})["scenegraph"]))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel.title))
@pytest.mark.parametrize("is_page", [False, True])
@pytest.mark.parametrize("look", ["light", "dark"])
def test_vega_lite_compiles_every_panel_without_a_warning(
    panel: Any, is_page: bool, look: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = one(panel, is_page=is_page)
    params = [{"name": "over", "value": "step"}, {"name": "order", "value": "apart"}]
    config = theme(look, font="Liberation Sans")
    vl_convert.vegalite_to_vega({**spec, "params": params, "config": config}, show_warnings=True)
    assert capfd.readouterr() == ("", "")


def test_each_cell_of_a_matrix_is_where_it_belongs() -> None:
    spec = one(PANELS[0])
    cells = marks(spec, "rect")
    places = {(round(cell["x"] / 30 - 0.5), round(cell["y"] / 18 - 0.5)): cell["fill"] for cell in cells}
    # Of two columns in 60 pixels and three rows in 54; the masked cell of row 1 and column 0 is not drawn.
    assert spec["width"] == 60 and spec["height"] == 54
    assert len(cells) == 5 and len(places) == 5
    full, nothing = "rgb(8, 48, 107)", "rgb(255, 255, 255)"
    assert [cell["fill"] for cell in cells if cell["fill"] == full] == [full]
    assert [cell["fill"] for cell in cells if cell["fill"] == nothing] == [nothing]


def test_columns_in_another_order() -> None:
    columns = ["0", "1", "2", "3"]
    panel = Matrix("m", ["x"], columns, [[0.1, 0.2, 0.3, 0.4]], "position", "dimension", "signed", order=[0, 2, 1, 3])
    cells = {cell["x"]: cell["fill"] for cell in marks(one(panel), "rect")}
    in_turn = {cell["x"]: cell["fill"] for cell in marks(one(panel._replace(order=())), "rect")}
    first, second, third, fourth = (in_turn[x] for x in sorted(in_turn))
    assert [cells[x] for x in sorted(cells)] == [first, third, second, fourth]


def test_curves_have_a_colour_for_each_run_and_dashes_for_validation() -> None:
    both = [Series("a", [1, 2], [1.0, 2.0], "training"), Series("a", [1, 2], [2.0, 3.0], "validation")]
    other = [Series("b", [1, 2], [5.0, 6.0], "training")]
    lines = marks(one(Curves("loss", "step", "nats", [*both, *other])), "line")
    looks = {(item["stroke"], tuple(item.get("strokeDash", ()))) for item in lines}
    assert looks == {("#0072b2", (1, 0)), ("#0072b2", (6, 4)), ("#c25700", (1, 0))}


def test_zero_has_no_place_on_a_logarithmic_axis() -> None:
    data = one(PANELS[3])["data"]["values"]
    assert [row["y"] for row in data] == [100.0, None, 1.0]


def test_words_without_a_link_are_grey_and_heavier_links_are_thicker() -> None:
    spec = one(PANELS[6])
    axis = spec["layer"][0]["encoding"]["y"]["axis"]
    assert axis["labelOpacity"] == {"expr": "indexof([0, 1], datum.value) < 0 ? 0.45 : 1"}
    thick, thin = (item["strokeWidth"] for item in marks(spec, "rule") if item.get("opacity") != 0)
    assert thick == 6.0 and thin == pytest.approx(0.4 + 0.2 * 5.6)
