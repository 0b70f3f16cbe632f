"""The page at /, in a real browser and with a real server process: by mouse, by keyboard, and with hostile text."""

import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sentences import sentence_cases

pytestmark = pytest.mark.system
playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
expect = playwright.expect

Page = Any  # playwright's
OpenPage = Callable[..., Page]

TOKEN = "geheim"
DOG, ARTISTS = "Ein Hund läuft über die Straße.", "Zwei Künstler danken den Eltern."
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>&lt;b&gt;"


@pytest.fixture(scope="module")
def address(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server process that needs a token, with two runs from German and one into German."""
    third = tmp_path_factory.mktemp("third") / "third"
    shutil.copytree(runs[0], third)
    command = [sys.executable, "-m", "translate", "serve", *map(str, [runs[0], third, runs[1]]), "--port", "0"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    search = ["--beam-size", "3", "--max-length-factor", "1", "--max-length-constant", "12"]
    with subprocess.Popen([*command, "--token", TOKEN, *search], **pipes) as server:
        assert server.stdout is not None
        lines: list[str] = []
        while not (found := re.search(r"http://\S+:\d+", lines[-1] if lines else "")):
            lines.append(server.stdout.readline())
            assert lines[-1], "".join(lines)
        yield found[0]
        server.kill()


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[OpenPage]:
    """Open the page; afterwards check that nothing failed in it and that no other host was contacted."""
    contexts, troubles, own = [], [], (f"{address}/", f"blob:{address}/")

    def open_new(*, width: int = 1400, scheme: str = "light", token: str | None = TOKEN) -> Page:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        if token:
            context.add_init_script(f"sessionStorage.setItem('token', {token!r})")
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text) if is_trouble(message) else None)
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda asked: None if asked.url.startswith(own) else troubles.append(asked.url))
        page.goto(address)
        if token:
            page.locator(".target").wait_for()  # it has the models
        return page

    def is_trouble(message: Any) -> bool:
        return message.type in ("error", "warning") and "Failed to load resource" not in message.text  # a tested status

    yield open_new
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page()


def ask(address: str, path: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    request = urllib.request.Request(f"{address}/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def translate(address: str, text: str, **body: Any) -> Any:
    return ask(address, "translate", {"text": text, "alignment": True, "n_best": 3, **body})["translations"][0]


def output(page: Page, number: int = 0) -> Any:
    return page.locator(".output").nth(number)


def write(page: Page, text: str) -> None:
    page.locator(".target").first.wait_for()  # it has the models
    page.locator("#source").fill(text)
    settle(page)
    expect(page.locator(".sentence .word").first).to_be_visible()


def settle(page: Page) -> None:
    """Wait for the whole answer: a partial text may be equal to it, but has no words to point at."""
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def shown_score(score: float) -> str:
    return f"{score:.2f}".replace("-", "−")


def fulfil_stream(page: Page, *records: dict[str, Any]) -> None:
    """Make the server answer with these translations."""
    plain = {"source": "", "conditions": [], "unknown_characters": "", "alternatives": [], "alignment": []}
    tokens = {"source_tokens": [], "target_tokens": [], "score": -1.0}
    sent = [("translation", {"index": index, **plain, **tokens, **each}) for index, each in enumerate(records)]
    text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in [*sent, ("done", {})])
    page.route("**/translate/stream", lambda route: route.fulfill(body=text, content_type="text/event-stream"))


def test_what_is_typed_is_translated_as_the_server_does(page: Page, address: str) -> None:
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request) if "stream" in request.url else None)
    page.locator("#source").press_sequentially(DOG, delay=5)
    expected = translate(address, DOG)
    expect(output(page)).to_have_text(expected["text"])
    settle(page)
    assert len(asked) < len(DOG)  # fewer requests than keys
    languages = page.locator("#source-language, .target .language").all_inner_texts()
    assert languages == ["German", "English"]
    name = "async code => (await import('/page/elements.js')).languageName(code)"
    assert [page.evaluate(name, code) for code in ("deu_Latn", "zho_Hant", "a b")] == [
        "German",
        "Traditional Chinese",
        "a b",
    ]
    assert shown_score(expected["score"]) in page.locator(".target .facts").inner_text()
    page.locator("#clear").click()
    expect(output(page)).to_have_text("")


def test_sentences_and_lines_are_kept_and_only_new_ones_are_asked(page: Page, address: str) -> None:
    asked: list[list[str]] = []
    page.on("requestfinished", lambda request: asked.append(request.post_data_json["text"]))
    write(page, f"{DOG} {ARTISTS}\n\n  {DOG}\n")
    first, second = (translate(address, text)["text"] for text in (DOG, ARTISTS))
    expect(output(page)).to_have_text(f"{first} {second}\n\n  {first}", use_inner_text=False)
    assert asked == [[DOG, ARTISTS]]
    write(page, f"{DOG} {ARTISTS} Ja!")
    assert asked[1:] == [["Ja!"]]
    assert output(page).evaluate("node => node.textContent") == f"{first} {second} {translate(address, 'Ja!')['text']}"


def test_the_request_before_is_cancelled(page: Page, address: str) -> None:
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.extend(request.post_data_json["text"]))
    page.route("**/translate/stream", lambda route: None, times=1)  # never answers
    with page.expect_request("**/translate/stream"):
        page.locator("#source").fill(DOG)
    write(page, ARTISTS)
    assert failed == [DOG]


def test_a_translation_is_shown_as_it_comes(page: Page) -> None:
    events = "".join(f'event: partial\ndata: {{"index": 0, "text": "{text}"}}\n\n' for text in ("A", "A dog"))
    page.route("**/translate/stream", lambda route: route.fulfill(body=events, content_type="text/event-stream"))
    page.locator("#source").fill(DOG)
    expect(output(page)).to_have_text("A dog")
    expect(page.locator(".sentence.pending")).to_have_count(1)
    expect(page.locator(".target [role=alert]")).to_have_text("The connection was lost. Edit the text to try again.")


def test_a_busy_server_is_asked_again_and_errors_are_shown(page: Page, address: str) -> None:
    busy = {"status": 429, "headers": {"Retry-After": "1"}, "body": '{"error": "The queue is full"}'}
    page.route("**/translate/stream", lambda route: route.fulfill(**busy), times=1)
    write(page, DOG)
    expect(output(page)).to_have_text(translate(address, DOG)["text"])
    page.route("**/translate/stream", lambda route: route.fulfill(status=422, body='{"error": "too long: divide it"}'))
    page.locator("#source").fill("Ja!")
    expect(page.locator(".target [role=alert]")).to_have_text("too long: divide it")
    page.unroute("**/translate/stream")
    page.route("**/translate/stream", lambda route: route.abort())
    page.locator("#source").fill(ARTISTS)
    expect(page.locator(".target [role=alert]")).to_have_text("The server is not responding. Is it still running?")


@pytest.mark.parametrize(
    "text, sentences",
    [
        ("Ja. Nein!  Was? „Gut.“ Er geht.", ["Ja.", "Nein!", "Was?", "„Gut.“", "Er geht."]),
        ("Am 3. Oktober kam Dr. Weiß, z. B. mit Grün.", ["Am 3. Oktober kam Dr. Weiß, z. B. mit Grün."]),
        ("  Eine Zeile\nNoch eine.\n\n", ["Eine Zeile", "Noch eine."]),
    ],
)
def test_sentences_end_where_they_do(page: Page, text: str, sentences: list[str]) -> None:
    script = "text => import('/page/words.js').then(({splitSentences}) => splitSentences(text, 'de'))"
    found = page.evaluate(script, text)
    assert [each["text"] for each in found] == [text[each["start"] : each["end"]] for each in found] == sentences


def test_the_page_splits_as_the_package(page: Page) -> None:
    script = """cases => import('/page/words.js').then(({splitSentences}) =>
        cases.map(([language, sentences]) => splitSentences(sentences.join(""), language).map(({text}) => text)))"""
    cases = sentence_cases()
    assert page.evaluate(script, cases) == [[part.strip() for part in sentences] for _, sentences in cases]


@pytest.mark.parametrize("code, known", [("deu_Latn", "de-Latn"), ("no-such-code", "und")])
def test_a_language_code_that_browsers_do_not_know(page: Page, code: str, known: str) -> None:
    def answer(route: Any) -> None:
        route.fulfill(body=route.fetch().text().replace('"de"', f'"{code}"'), content_type="application/json")

    page.route("**/models", answer)
    page.reload()
    fulfil_stream(page, {"text": "One."}, {"text": "Two."})
    write(page, f"{DOG} {ARTISTS}")
    expect(output(page)).to_have_text("One. Two.")
    assert page.locator("#source").get_attribute("lang") == known


def test_text_is_never_executed(page: Page) -> None:
    """From the user, the model, the server's errors, the history, or a file."""
    fulfil_stream(page, {"text": EVIL, "unknown_characters": EVIL, "conditions": ["unspellable", EVIL],
                         "alternatives": [{"text": EVIL + "2", "score": -2.0}]})  # fmt: skip
    write(page, EVIL)
    assert output(page).evaluate("node => node.textContent") == EVIL
    page.locator(".others").click()
    expect(page.locator(".alternatives li .text")).to_have_text([EVIL, EVIL + "2"], use_inner_text=True)
    assert EVIL in page.locator(".target .conditions").inner_text()
    body = {"layers": [[[[1.0]]]], "source_tokens": [EVIL], "target_tokens": [EVIL]}
    page.route("**/attention", lambda route: route.fulfill(json=body))
    page.locator(".attend").click()
    page.locator("summary").click()
    assert EVIL in page.locator("#attention li").inner_text()
    page.keyboard.press("Escape")
    page.locator("#open-history").click()
    assert page.locator("#history-list .source").inner_text() == EVIL
    page.keyboard.press("Escape")
    page.route("**/translate", lambda route: route.fulfill(json={"translations": [{"text": EVIL, "conditions": []}]}))
    page.locator("#choose-file").set_input_files({"name": f"{EVIL}.de", "mimeType": "", "buffer": EVIL.encode()})
    expect(page.locator("#preview li span")).to_have_text([EVIL, EVIL])
    assert page.locator("#file-name").inner_text() == f"{EVIL}.de"
    # The page itself has one image and two scripts.
    assert (page.locator("img").count(), page.locator("script").count(), page.locator("body b").count()) == (1, 2, 0)


def lit(page: Page, where: str) -> list[int]:
    return [int(each.get_attribute("data-word")) for each in page.locator(f"{where} .lit").all()]


def test_alignment_and_alternatives_by_mouse_and_keyboard(page: Page) -> None:
    words = {"source_tokens": ["▁Ein", "▁Hund", "▁bell", "t"], "target_tokens": ["▁A", "▁bark", "s", "▁dog"]}
    links = [[0, 0], [1, 3], [2, 1], [3, 2]]
    fulfil_stream(
        page, {"text": "A barks dog", "alternatives": [{"text": "B", "score": -2}], "alignment": links, **words}
    )
    write(page, "Ein Hund bellt")
    output(page).locator(".word").nth(1).hover()
    assert (lit(page, ".mirror"), lit(page, ".output")) == ([2], [1])
    page.mouse.move(5, 5)
    assert lit(page, "body") == []
    page.locator("#source").press("Home")
    assert lit(page, ".mirror") == lit(page, ".output") == [0]  # the word at the cursor
    page.locator("#source").press("End")
    assert (lit(page, ".mirror"), lit(page, ".output")) == ([2], [1])
    output(page).locator(".sentence").focus()
    page.keyboard.press("ArrowRight")
    assert (lit(page, ".mirror"), lit(page, ".output")) == ([2], [1])
    page.keyboard.press("ArrowRight")
    assert (lit(page, ".mirror"), lit(page, ".output")) == ([1], [2])
    assert page.locator("#status").inner_text() == "Hund → dog"
    for _ in range(3):  # there is nothing before the first
        page.keyboard.press("ArrowLeft")
    assert page.locator("#status").inner_text() == "Ein → A"
    page.keyboard.press("Enter")
    page.locator(".alternatives").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".alternatives").is_hidden()
    page.keyboard.press("Enter")
    for _ in range(3):  # behind the sentence: the button that closes, the first and the second alternative
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(output(page)).to_have_text("B")


def test_alternatives_have_the_scores_of_the_search(page: Page, address: str) -> None:
    record = translate(address, DOG)
    ranked = [record, *record["alternatives"]]
    write(page, DOG)
    page.locator(".sentence").click()
    rows = page.locator(".alternatives li button")
    assert rows.locator(".text").all_text_contents() == [each["text"] for each in ranked]
    assert rows.locator(".score").all_inner_texts() == [shown_score(each["score"]) for each in ranked]
    with page.expect_response("**/attention"):  # an alternative is aligned by its attention
        rows.nth(2).click()
    expect(output(page)).to_have_text(ranked[2]["text"])
    assert page.locator(".alternatives [aria-pressed=true] .text").text_content() == ranked[2]["text"]
    page.locator(".copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == ranked[2]["text"]


def test_attention_of_each_layer_and_head(page: Page, address: str) -> None:
    record = translate(address, DOG)
    answer = ask(address, "attention", {"source": DOG, "target": record["text"]})
    write(page, DOG)
    page.locator(".attend").click()
    cells = page.locator("#attention .weight")
    expect(cells).to_have_count(len(answer["source_tokens"]) * len(answer["target_tokens"]))
    for layer, heads in enumerate(answer["layers"]):
        shown = page.locator(f"#attention label:has([name=layer][value='{layer}'])")
        assert shown.inner_text() == str(layer)  # as the names of the weights count
        shown.click()
        for head, weights in enumerate(heads):
            page.locator(f"#attention label:has([name=head][value='{head}'])").click()
            shown = cells.evaluate_all("all => all.map((cell) => Number(cell.getAttribute('fill-opacity')))")
            assert shown == pytest.approx([weight for row in weights for weight in row], abs=1e-6)
    cells.nth(1).hover()
    assert page.locator("#attention .readout").inner_text().endswith(f": {weights[0][1]:.3f}")
    page.locator("summary").click()
    assert f"({max(weights[0]):.2f})" in page.locator("#attention li").first.inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#attention").is_hidden()


def test_settings_are_sent_shown_kept_and_reset(page: Page, address: str) -> None:
    write(page, DOG)
    assert "first · " in page.locator("#model-facts").inner_text()
    page.locator("#open-settings").click()
    beam = page.locator("[name=beam_size]")
    assert beam.input_value() == "3"
    with page.expect_request("**/translate/stream") as asked:
        beam.focus()
        page.keyboard.press("Home")
    assert asked.value.post_data_json["options"] == {"beam_size": 1} and asked.value.post_data_json["n_best"] == 1
    expect(output(page)).to_have_text(translate(address, DOG, options={"beam_size": 1}, n_best=1)["text"])
    settle(page)
    assert "beam 1" in page.locator("#model-facts").inner_text()
    page.locator(".others").click()
    assert page.locator(".alternatives h3").inner_text() == "No alternatives"
    with page.expect_request("**/translate/stream") as asked:
        page.locator("label:has([name=search][value=sample])").click()
    assert asked.value.post_data_json["options"] == {"beam_size": 1, "search": "sample"}
    page.locator("[name=temperature]").wait_for()
    page.reload()
    expect(page.locator("#model-facts")).to_contain_text("sampling at temperature 1")
    page.locator("#open-settings").click()
    page.locator("#settings button").click()
    assert "beam 3" in page.locator("#model-facts").inner_text()


def test_two_models_side_by_side(page: Page, address: str) -> None:
    write(page, DOG)
    page.locator("#compare").click()
    expect(output(page, 1)).to_have_text(translate(address, DOG, model="third")["text"])
    settle(page)
    options = page.locator(".target select").nth(1).locator("option")
    assert options.all_inner_texts() == ["first", "third"]  # those from German
    assert page.locator(".output .differs").count() == 0  # the same weights
    fulfil_stream(page, {**translate(address, DOG), "text": "Something else"})
    page.locator("#source").fill(ARTISTS)
    expect(output(page, 1)).to_have_text("Something else")
    page.locator(".leave").last.click()
    expect(page.locator(".target")).to_have_count(1)


def test_swap_takes_the_model_of_the_other_direction(page: Page, address: str) -> None:
    write(page, DOG)
    english = output(page).evaluate("node => node.textContent")
    page.locator("#swap").click()
    assert page.locator("#source").input_value() == english
    assert page.locator("#source-language").inner_text() == "English"
    assert page.locator(".target select").input_value() == "second"
    page.locator(".target select").select_option("third")
    assert page.locator("#source-language").inner_text() == "German"


def test_languages_of_one_model(browser: Any, make_live: Callable[..., str], both: Path, runs: list[Path]) -> None:
    """Both are chosen in the page; the button swaps them within the model, and files go the same way."""
    address = make_live(paths=[both, runs[0]])
    page = browser.new_page()
    page.goto(address)
    source, target = page.locator("#source-language select"), page.locator(".target .language select")
    write(page, DOG)
    page.locator("#open-settings").click()

    def check(text: str, **languages: str) -> None:
        expect(output(page)).to_have_text(translate(address, text, **languages)["text"])
        assert [source.input_value(), target.input_value()] == list(languages.values())[::-1]

    check(DOG, to="en", **{"from": "de"})
    assert source.locator("option").all_inner_texts() == ["English", "German", "Italian"]
    assert target.locator("option").all_inner_texts() == ["English", "Italian"]
    english = output(page).evaluate("node => node.textContent")
    page.locator("#swap").click()
    settle(page)
    assert page.locator(".target .picker:not(.language *) select").first.input_value() == "both"
    check(english, to="de", **{"from": "en"})
    page.wait_for_function("text => localStorage.getItem('history')?.includes(text)", arg=english.strip())
    source.select_option("de")  # the target cannot stay: the languages swap
    settle(page)
    check(english, to="en", **{"from": "de"})
    page.locator(".attend").click()
    assert page.locator("#attention text").first.text_content() == "__de__"
    page.keyboard.press("Escape")
    page.locator("#compare").click()  # with a model that has no English source, so the history closes it
    page.locator("#open-history").click()
    entries = page.locator("#history-list button").filter(has_text=english.strip())
    entries.filter(has_text="English to German").first.click()
    expect(page.locator(".target")).to_have_count(1)
    check(english, to="de", **{"from": "en"})
    page.locator("#file-tab").click()
    assert page.locator("#file-languages").evaluate("node => node.textContent").count(" to ") == 1
    page.locator("#file-source select").select_option("en")
    give_file(page, b"green dog\n", "text.en")
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "text.de"
    expected = translate(address, "green dog", to="de", **{"from": "en"})["text"]
    assert download.value.path().read_text() == f"{expected}\n"
    page.close()


def give_file(page: Page, text: bytes, name: str = "text.de") -> None:
    page.locator("#choose-file").set_input_files({"name": name, "mimeType": "text/plain", "buffer": text})


@pytest.mark.parametrize("end", ["\r\n", ""])
def test_a_file_gives_as_many_lines(page: Page, address: str, end: str) -> None:
    lines = [DOG, "", ARTISTS, "Ja!", DOG, " "] * 3
    page.locator("#file-tab").click()
    give_file(page, ("\ufeff" + "\r\n".join(lines) + end).encode())
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "text.en"
    answers = ask(address, "translate", {"text": lines})["translations"]
    assert download.value.path().read_bytes().decode() == "\ufeff" + "\r\n".join(each["text"] for each in answers) + end
    assert page.locator("#file-state").inner_text().startswith("Done in ")
    assert page.locator("#file-facts").inner_text() == "18 lines"
    assert page.locator("#preview li").count() == 5
    page.locator("#other-file").click()
    assert page.locator("#drop").is_visible()


def test_a_file_is_dropped_and_cancelled(page: Page) -> None:
    page.route("**/translate", lambda route: None, times=1)  # never answers
    script = """(text) => {
        const data = new DataTransfer();
        data.items.add(new File([text], "dropped.txt"));
        document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
    }"""
    page.evaluate(script, f"{DOG}\n")
    expect(page.locator("#file-state")).to_have_text("Starting")
    page.locator("#cancel-file").click()
    expect(page.locator("#file-state")).to_have_text("Cancelled after 0 lines")
    assert page.locator("#download").is_hidden()


def test_a_document_keeps_its_markup(page: Page, address: str) -> None:
    text = f"1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>{DOG}</i>\r\n"
    give_file(page, text.encode(), "film.SRT")
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "film.en.SRT"
    expected = ask(address, "translate/document", {"text": text, "format": "srt"})["text"]
    assert download.value.path().read_bytes().decode() == expected != text
    assert page.locator("#file-facts").inner_text() == "1 sentence"


def test_suggestions_of_a_catalog_are_replaced_if_asked(page: Page) -> None:
    text = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n"X-Source-Language: de\\n"\n\n'
    text += b'#, fuzzy\nmsgid "Hund"\nmsgstr "?"\n'
    page.locator("#file-tab").click()
    for is_again in (False, True):
        page.locator("#again").set_checked(is_again)
        with page.expect_request("**/translate/document") as asked, page.expect_download() as download:
            give_file(page, text, "app.po")
            page.locator("#download").click()
        assert asked.value.post_data_json["again"] == is_again
        assert (b'msgstr "?"' in download.value.path().read_bytes()) != is_again
        page.locator("#other-file").click()


def test_a_glossary_is_sent_for_its_languages(page: Page, address: str) -> None:
    terms = {"Hund": "green house", "Haus, grün": "dog"}
    choose = page.locator("#glossary input")
    for name, content in (
        ("a.csv", '\ufeffHund,green house\r\n\r\n"Haus, grün",dog,de,en\r\n'),
        ("a.tsv", "# animals\nHund\tgreen house\nHaus, grün\tdog"),
        ("a.txt", 'Hund;"green house"\nHaus, grün;dog\n'),
    ):
        choose.set_input_files({"name": name, "mimeType": "text/plain", "buffer": content.encode()})
        expect(page.locator("#glossary span")).to_have_text(f"{name} · 2 terms")
        write(page, DOG)
        expected = translate(address, DOG, n_best=4, terminology=terms)["text"]
        expect(output(page)).to_have_text(expected)
        assert "green house" in expected and expected != translate(address, DOG)["text"]
    choose.set_input_files({"name": "b.tsv", "mimeType": "", "buffer": b"constructor\tdog\n__proto__\tdog"})
    expect(page.locator("#glossary span")).to_have_text("b.tsv · 2 terms")  # names that every object has
    page.locator("#swap").click()
    settle(page)
    assert page.locator("#model-facts").inner_text().endswith("the glossary is for other languages")
    page.locator("#drop-glossary").click()
    page.locator("#swap").click()
    write(page, DOG)
    expect(output(page)).to_have_text(translate(address, DOG)["text"])
    for content, problem in (
        (b"Hund\tdog\nHaus", "Line 2"),
        (b"a\tb\na\tc", "“a”"),
        (b"\n", "no terms"),
        (b"\xff", "UTF-8"),
    ):
        choose.set_input_files({"name": "wrong.tsv", "mimeType": "text/plain", "buffer": content})
        expect(page.locator("#trouble")).to_contain_text(problem)
    assert page.locator("#drop-glossary").is_hidden()


def test_a_document_says_what_to_look_at(page: Page) -> None:
    def give(answer: Any) -> None:
        page.route("**/translate/document", lambda route: answer(route), times=1)
        give_file(page, b"<p>x</p>", "page.html")

    answer = {"text": "<p>x", "sentences": 3, "problems": ["line 2: '</p>' is lost"], "conditions": {"truncated": 2}}
    answer["entries"] = {"filled": 1200, "fuzzy": 1}
    give(lambda route: route.fulfill(json=answer))
    expect(page.locator("#file-conditions li")).to_contain_text(["In 2 sentences.", "line 2: '</p>' is lost"])
    expect(page.locator("#file-facts")).to_have_text("3 sentences, 1,200 filled, 1 fuzzy")
    page.locator("#other-file").click()
    give(lambda route: route.fulfill(status=422, json={"error": "too long"}))
    expect(page.locator("#trouble")).to_have_text("too long")
    expect(page.locator("#file-state")).to_have_text("Stopped")
    page.locator("#other-file").click()
    give(lambda route: None)  # never answers
    expect(page.locator("#file-state")).to_have_text("Translating")
    page.locator("#cancel-file").click()
    expect(page.locator("#file-state")).to_have_text("Cancelled")


def test_a_file_that_cannot_be_translated(page: Page) -> None:
    page.route("**/translate", lambda route: route.fulfill(status=500, body='{"error": "the server failed"}'))
    give_file(page, DOG.encode())
    expect(page.locator("#trouble")).to_have_text("After line 0: the server failed")
    expect(page.locator("#file-state")).to_have_text("Stopped after 0 lines")
    page.unroute("**/translate")
    page.locator("#other-file").click()
    give_file(page, DOG.encode("latin-1"))
    expect(page.locator("#trouble")).to_contain_text("“text.de” is not UTF-8 text")
    give_file(page, b"%PDF-1.7\n%\xe2\xe3", "brief.pdf")
    expect(page.locator("#trouble")).to_contain_text("“brief.pdf” is a PDF file")
    give_file(page, b"\n", "a.txt")
    expect(page.locator("#trouble")).to_contain_text("“a.txt” is empty")
    for name in ("a.json", "strings.XML", "app.ts", "a.docx"):
        give_file(page, b'{"dog": "Hund"}', name)
        expect(page.locator("#trouble")).to_contain_text(f"Lines of “{name}” are not text: ")
    give_file(page, DOG.encode())
    page.locator("#download").wait_for()
    assert page.locator("#trouble").is_hidden()


def test_history_is_kept_restored_and_cleared(page: Page) -> None:
    write(page, DOG)
    english = output(page).evaluate("node => node.textContent.trim()")
    page.reload()  # whoever leaves at once has it kept as well
    page.locator(".target").wait_for()  # it has the models
    page.locator("#open-history").click()
    assert page.locator("#history-list .source").all_inner_texts() == [DOG]
    page.locator("#history-list button").click()
    expect(output(page)).to_have_text(english)
    write(page, f"{DOG} Ja!")  # grew out of the one before
    page.wait_for_function("text => localStorage.getItem('history').includes(text)", arg="Ja!")  # after the pause
    page.locator("#open-history").click()
    assert page.locator("#history-list .source").all_inner_texts() == [f"{DOG} Ja!"]
    page.locator("#clear-history").click()
    assert page.locator("#history-list").inner_text() == "Nothing yet."
    page.locator("#keep-history").uncheck()
    page.keyboard.press("Escape")
    write(page, ARTISTS)
    page.reload()
    assert page.evaluate("localStorage.getItem('history')") is None


def test_the_token_is_asked_for_until_it_is_right(open_page: OpenPage) -> None:
    page = open_page(token=None)
    for wrong in ("“falsch”", "falsch"):  # no header can have the first
        page.locator("#token-note").evaluate("node => { node.textContent = ''; }")
        page.locator("#token input").fill(wrong)
        page.keyboard.press("Enter")
        expect(page.locator("#token-note")).to_contain_text("refused")
    page.locator("#token input").fill(TOKEN)
    page.locator("#token .main").click()
    write(page, DOG)
    assert page.evaluate("[sessionStorage.token, localStorage.token ?? '']") == [TOKEN, ""]


def scenes(page: Page) -> Iterator[str]:
    """Put the page into each of its states."""
    yield "empty"
    page.route("**/translate/stream", lambda route: None)
    page.locator("#source").fill(DOG)
    page.locator(".busy").wait_for()
    yield "waiting"
    partial = 'event: partial\ndata: {"index": 0, "text": "A dog"}\n\n'
    answer = {"body": partial, "content_type": "text/event-stream"}
    page.route("**/translate/stream", lambda route: route.fulfill(**answer), times=1)
    page.locator("#source").fill(ARTISTS)
    page.locator(".pending", has_text="A dog").wait_for()
    page.locator(".target [role=alert]").wait_for()
    yield "broken off"
    page.unroute("**/translate/stream")  # after ARTISTS has cancelled DOG: a request without a route goes on
    write(page, f"{DOG} {ARTISTS}")
    terms = {"name": "terms.tsv", "mimeType": "text/plain", "buffer": b"Hund\tdog"}
    page.locator("#glossary input").set_input_files(terms)
    settle(page)
    yield "text"
    page.locator(".sentence").nth(1).click()
    page.locator(".alternatives").wait_for()
    yield "alternatives"
    page.locator("#compare").click()
    expect(output(page, 1).locator(".word").first).to_be_visible()
    settle(page)
    yield "two models"
    page.locator("#open-settings").click()
    yield "settings"
    page.locator("#open-settings").click()
    page.locator(".attend").first.click()
    page.locator("summary").click()
    yield "attention"
    page.keyboard.press("Escape")
    page.locator("#open-history").click()
    yield "history"
    page.keyboard.press("Escape")
    page.locator("#file-tab").click()
    yield "no file"
    give_file(page, f"{DOG}\n{ARTISTS}".encode())
    page.locator("#download").wait_for()
    yield "a file"
    page.get_by_role("link", name="API").click()
    page.locator("section").last.wait_for()
    yield "the API"


@pytest.mark.parametrize("scheme, width", [("light", 1400), ("dark", 320)])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(
    open_page: OpenPage, serious_findings: Any, scheme: str, width: int
) -> None:
    page = open_page(scheme=scheme, width=width)
    page.emulate_media(reduced_motion="reduce")  # a fading text has little contrast
    for scene in scenes(page):
        assert serious_findings(page) == [], scene
        assert page.evaluate("document.documentElement.scrollWidth") <= width, scene


def test_the_examples_of_the_api_run_and_answer_as_shown(page: Page) -> None:
    page.get_by_role("link", name="API").click()
    page.locator("section").last.wait_for()
    blocks = page.locator("pre").all_text_contents()
    made: dict[str, str] = {}  # ids of earlier answers take the place of those in examples
    for command, answer in itertools.pairwise([*blocks, "curl"]):
        if not command.startswith("curl"):
            continue
        for name, value in made.items():
            command = command.replace(f"{{{name}}}", value)
        sent = [*shlex.split(command), "--silent", "--fail", "--header", f"Authorization: Bearer {TOKEN}"]
        found = subprocess.run(sent, check=True, capture_output=True, text=True).stdout
        if answer[:1] in ("[", "{"):
            assert shape(json.loads(found)) == shape(json.loads(answer)), command
            given = json.loads(found)
            made |= {"glossary_id": given["glossary_id"]} if "glossary_id" in given else {}
        elif not answer.startswith("curl"):
            assert answer.split()[0] in found
    assert made.keys() == {"glossary_id"}


def shape(answer: Any) -> Any:
    """The keys of an answer, and of the first object of a list in it."""
    if isinstance(answer, list):
        return shape(answer[0]) if answer and isinstance(answer[0], dict) else list
    free = ("settings", "scores", "conditions", "documents", "structured")  # their keys depend on the run and the text
    return {key: key in free or shape(value) for key, value in answer.items()} if isinstance(answer, dict) else None
