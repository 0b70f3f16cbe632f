"""The pages in a real browser, Chromium without a window: they show what the model has, by mouse and by keyboard."""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import MakeTranslator

from translate.decoding import Translator
from translate.decoding.alignment import merge_units
from translate.visualize.alignments import align_pairs, alignments_picture
from translate.visualize.attention import Attention, AttentionChoice, attention_page, look_at_attention
from translate.visualize.masks import masks_picture
from translate.visualize.page import picture_page
from translate.visualize.panels import Curves, Picture, Series, Table
from translate.visualize.positions import positions_picture

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: `make test-system` installs it"
)

pytest.importorskip("vl_convert", reason="the extra `pictures` is not installed")  # offline, pages need it

Page = Any  # playwright's

SeriousFindings = Callable[[Page], list[str]]  # what axe, the accessibility checker, finds
pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def attention(make_translator: MakeTranslator) -> Attention:
    translator = make_translator(positions="relative")
    return look_at(translator, "Der Künstler läuft.", "The artist runs.")


def look_at(translator: Translator, text: str, target: str, *, unit: Any = "subwords") -> Attention:
    choice = AttentionChoice(unit=unit)
    return look_at_attention(translator, text, target=target, choice=choice, name="toy", step=1)


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[OpenPage]:
    """Opens a text as a page; afterwards nothing has failed in it, and nothing was asked from anywhere."""
    contexts, troubles = [], []

    def open_text(text: str, *, width: int = 1280, scheme: str = "light") -> Page:
        file = tmp_path / f"page{len(contexts)}.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: troubles.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        return page

    yield open_text
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(open_page: OpenPage, attention: Attention) -> Page:
    return open_page(attention_page(attention))


def choose(page: Page, name: str, value: object) -> None:
    """Click on a choice, as a hand with a mouse does: on what is to be seen of it."""
    page.locator(f'label:has(input[name="{name}"][value="{value}"])').click()


def weights_of(attention: Attention, kind: str, layer: int) -> torch.Tensor:
    (found,) = [each for each in attention.layers if (each.kind, each.layer) == (kind, layer)]
    return found.weights


def cell(page: Page, row: int, column: int) -> Any:
    return page.locator(f'table.matrix td[data-row="{row}"][data-column="{column}"]')


def shown_weight(page: Page) -> float:
    return float(re.sub(r".*: ", "", page.locator("output").inner_text()))


def test_a_click_on_a_layer_and_a_head_shows_their_weights(page: Page, attention: Attention) -> None:
    pair = attention.pair
    tokens = {"encoder": (pair.source, pair.source), "decoder": (pair.target_input,) * 2}
    tokens["cross"] = pair.target_output, pair.source
    for kind, layer, head, row, column in [("cross", 0, 2, 3, 1), ("encoder", 1, 1, 0, 4), ("decoder", 1, 0, 5, 2)]:
        for name, value in (("kind", kind), ("layer", layer), ("head", head)):
            choose(page, name, value)
        assert f"layer {layer}, head {head}" in page.locator("h2").inner_text()
        cell(page, row, column).hover()
        expected = float(weights_of(attention, kind, layer)[head, row, column])
        assert shown_weight(page) == pytest.approx(expected, abs=5e-7)
        queries, keys = (side.pieces for side in tokens[kind])
        said = page.locator("output").inner_text()
        assert said.startswith(f"“{queries[row]}” ({row}) looks at “{keys[column]}” ({column}): ")
        assert page.locator("table.matrix tbody th").all_inner_texts() == queries
        assert page.locator("table.matrix thead th").all_inner_texts() == keys
    for found, number in itertools.product(attention.layers, range(3)):
        page.evaluate("change => choose(change)", {"kind": found.kind, "layer": found.layer, "head": number})
        cells = zip(found.weights[number].flatten().tolist(), found.visible.flatten().tolist(), strict=True)
        texts = [f"{weight:.2f}" if seen else "masked" for weight, seen in cells]
        assert page.locator("table.matrix tbody td").all_text_contents() == texts


def test_whole_words_and_the_mean_of_heads(page: Page, attention: Attention) -> None:
    assert page.locator("h2").inner_text() == "Cross-attention, layer 1, mean of the heads"
    choose(page, "unit", "words")
    assert "summed over the pieces of a word attended to, and averaged over" in page.locator("main").inner_text()
    weights = weights_of(attention, "cross", 1).double()
    pair = attention.pair
    units = [[word.positions for word in words] for words in (pair.source.words, pair.target_output.words)]
    merged = torch.stack([merge_units(head, *units) for head in weights])
    cell(page, 1, 1).hover()
    assert shown_weight(page) == pytest.approx(float(merged.mean(dim=0)[1, 1]), abs=1e-6)
    assert "“artist” (1) looks at “Künstler” (1)" in page.locator("output").inner_text()
    choose(page, "head", 0)
    cell(page, 2, 3).hover()
    assert shown_weight(page) == pytest.approx(float(merged[0, 2, 3]), abs=1e-6)


def test_all_by_keyboard(page: Page, attention: Attention) -> None:
    """Tab to the layers, arrows to another layer and head, Tab to the matrix, arrows in it."""
    page.keyboard.press("Tab")
    for name, key in [("view", None), ("kind", None), ("layer", "ArrowLeft"), ("head", "ArrowRight"), ("unit", None)]:
        assert page.evaluate("document.activeElement.name") == name
        if key:
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.name") == name  # the focus stays where it was
        page.keyboard.press("Tab")
    assert page.locator("h2").inner_text() == "Cross-attention, layer 0, head 0"  # behind the mean is the first
    weights = weights_of(attention, "cross", 0)[0]
    assert shown_weight(page) == pytest.approx(float(weights[0, 0]), abs=5e-7)
    beyond_the_end = ["ArrowRight"] * 3
    for keys, column in ((["ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"], 1), (["End"], -1), (beyond_the_end, -1)):
        for key in keys:
            page.keyboard.press(key)
        assert shown_weight(page) == pytest.approx(float(weights[1, column]), abs=5e-7)


def test_lines_between_tokens(page: Page, attention: Attention) -> None:
    choose(page, "view", "lines")
    choose(page, "head", 0)
    weights = weights_of(attention, "cross", 1)[0]
    assert page.locator(".bipartite line").count() == int((weights >= 0.005).sum())
    page.locator(".queries button").nth(2).hover()
    shown = page.locator(".keys-side .number").all_inner_texts()
    assert shown == [f"{weight:.3f}" for weight in weights[2].tolist()]
    lines = "[...document.querySelectorAll('.bipartite line')].filter((line) => line.style.display !== 'none').length"
    assert page.evaluate(lines) == int((weights[2] >= 0.005).sum())
    page.locator(".keys-side button").nth(1).focus()
    assert page.locator(".queries .number").all_inner_texts() == [f"{weight:.3f}" for weight in weights[:, 1].tolist()]
    page.keyboard.press("ArrowLeft")
    assert "looks at" in page.locator("output").inner_text()
    assert page.evaluate("document.activeElement.parentElement.className") == "tokens queries"


@pytest.mark.parametrize(("view", "next_view"), [("heads", "matrix"), ("model", "lines")])
def test_a_small_picture_leads_to_its_head(page: Page, view: str, next_view: str) -> None:
    choose(page, "view", view)
    assert page.locator(".thumbnails button").count() == (6 if view == "heads" else 18)
    page.get_by_role("button", name="cross-attention, layer 0, head 1", exact=True).click()
    assert page.locator('input[name="view"]:checked').get_attribute("value") == next_view
    assert page.locator("h2").inner_text() == "Cross-attention, layer 0, head 1"
    choose(page, "view", view)
    pressed = page.locator('.thumbnails button[aria-pressed="true"]')
    assert pressed.count() == 1 and pressed.get_attribute("aria-label") == "cross-attention, layer 0, head 1"
    pressed.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator("h2").inner_text() == "Cross-attention, layer 0, head 2"


def overflowing(page: Page) -> Any:
    """Whether the page itself is wider than the window, and the labels that are cut."""
    return page.evaluate(
        """() => [document.documentElement.scrollWidth > innerWidth,
        [...document.querySelectorAll('th, button, .segments span, h1, h2, dd, p')]
          .filter((each) => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline')
          .map((each) => each.textContent)]"""
    )


def test_long_sentences_scroll_and_no_label_is_cut(open_page: OpenPage, make_translator: MakeTranslator) -> None:
    source = "Künstler Straßenbahnhaltestellenüberdachung " * 4
    seen = look_at(make_translator(positions="rotary"), source, "artist runs " * 6, unit="words")
    page = open_page(attention_page(seen), width=390)
    for view in ("matrix", "heads", "lines", "model"):
        choose(page, "view", view)
        assert overflowing(page) == [False, []], view
    choose(page, "view", "matrix")
    widths = page.evaluate("(each => [each.scrollWidth, each.clientWidth])(document.querySelector('.scroll'))")
    assert widths[0] > widths[1]
    cell(page, 12, 8).focus()
    assert page.locator("output").inner_text().startswith("“</s>” (12) looks at “</s>” (8)")


@pytest.fixture(scope="module")
def pictures(make_translator: MakeTranslator) -> dict[str, Picture]:
    translator = make_translator(positions="rotary")
    sources, targets = ["Der Hund läuft.", "Zwei Künstler danken."], ["The dog runs.", "Two artists thank."]
    return {
        "masks": masks_picture(translator, ["Der Hund.", "Der"], ["The dog.", "The"]),
        "positions": positions_picture(translator.model.config, None, length=36, name="toy"),
        "curves": Picture("Curves", ["They fall."], [
            Curves("Loss", "step", "nats", [
                Series("a", [1, 2, 3], [3.0, None, 1.0], "training", (2, "best 1")),
                Series("b", [2], [0.5], "validation"),
            ], True),
            Curves("Nothing", "step", "nats", [Series("a", [1], [None])]),
            Table("Runs", ["", "a"], [["Steps", "3"]]),
        ], columns=2),
        "alignments": alignments_picture(
            align_pairs(translator, sources, targets), first_line=1, how="By 0", name="toy"
        ),
    }  # fmt: skip


def open_picture(open_page: OpenPage, picture: Picture, **options: Any) -> Page:
    page = open_page(picture_page(picture), **options)
    page.locator("main[data-drawn]").wait_for()
    return page


@pytest.mark.parametrize("name", ["masks", "positions", "curves", "alignments"])
def test_other_pictures(
    open_page: OpenPage, pictures: dict[str, Picture], serious_findings: SeriousFindings, name: str
) -> None:
    picture = pictures[name]
    for width, scheme in [(1280, "light"), (390, "dark")]:
        page = open_picture(open_page, picture, width=width, scheme=scheme)
        assert page.locator("h1").inner_text() == page.title() == picture.title
        assert page.locator("h2").all_inner_texts() == [panel.title for panel in picture.panels]
        assert page.locator(".panel svg.marks, .panel canvas.marks, .panel table").count() == len(picture.panels)
        assert page.locator("main").get_attribute("data-drawn") == scheme and overflowing(page) == [False, []]
        page.locator("summary").click()
        page.locator("details[open] tr").first.wait_for()
        assert serious_findings(page) == []


def test_the_numbers_are_there_as_tables(open_page: OpenPage, pictures: dict[str, Picture]) -> None:
    page = open_picture(open_page, pictures["curves"])
    page.locator("summary").click()
    rows = page.locator("details table").first.locator("tr").all_inner_texts()
    assert [re.split(r"\s+", row.strip()) for row in rows] == [
        ["curve", "of", "step", "nats"],
        ["a", "training", "1", "3"],
        ["a", "training", "2", "none"],
        ["a", "training", "3", "1"],
        ["b", "validation", "2", "0.5"],
    ]


def test_a_hand_reads_the_numbers(open_page: OpenPage, pictures: dict[str, Picture]) -> None:
    page = open_picture(open_page, pictures["curves"])
    page.locator("svg.marks").first.locator(".hover_marks path").first.hover()
    tip = page.locator("#vg-tooltip-element")
    tip.get_by_text("training").wait_for()
    assert re.split(r"\s+", tip.inner_text().strip())[:6] == ["curve", "a", "of", "training", "step", "1"]
    zoomed = page.locator("svg.marks").first.locator(".role-axis-label text")
    before = zoomed.all_text_contents()
    page.mouse.wheel(0, -300)
    assert zoomed.all_text_contents() == before  # the wheel alone is for the page
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    playwright.expect(zoomed).not_to_have_text(before)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_attention(
    open_page: OpenPage, attention: Attention, serious_findings: SeriousFindings, scheme: str
) -> None:
    page = open_page(attention_page(attention), scheme=scheme)
    for view in ("matrix", "heads", "lines", "model"):
        choose(page, "view", view)
        if view in ("matrix", "lines"):
            choose(page, "kind", "decoder")
            if view == "lines":
                choose(page, "heads", 1)
            page.locator("td[data-row], .queries button").nth(2).focus()
        assert serious_findings(page) == [], view
