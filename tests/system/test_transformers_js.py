"""docs/exporting.md: its page translates in Chromium as the run does, with nothing but files; so does a card's code."""

import functools
import http.server
import random
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import ODD_TEXT, Toy, corpus_lines, make_toy, tiny_config, toy_sentences

from translate.config.schema import TokenizerConfig
from translate.data.tokenizer import EOS_ID, train_tokenizer
from translate.decoding import Translator
from translate.exchange import export_run
from translate.exchange.tokenizer_json import write_tokenizer_json

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "exporting.md").read_text(encoding="utf-8")
INT8, FP32 = '{ dtype: "q8" }', '{ dtype: "fp32", subfolder: "" }'
NUM_LINES, LINE = 50, "Hund läuft und schläft"

pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A run with rotary positions and pre-norm, as the presets have them."""
    shape = {"d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.0, "norm": "pre", "positions": "rotary"}
    search = {"beam_size": 1, "max_length_factor": 2.0, "max_length_constant": 20}
    return make_toy(tmp_path_factory.mktemp("toy") / "run", tiny_config(model=shape, decoding=search))


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return toy_sentences(NUM_LINES, longest=9, draw=random.Random(5))[0]


@pytest.fixture(scope="module")
def expected(toy: Toy, lines: list[str]) -> list[str]:
    """What `translate decode` prints."""
    return [each.text for each in Translator(toy.model, toy.tokenizers, toy.config.decoding).translate(lines)]


@pytest.fixture(scope="module")
def site(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the documentation describes."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("site")
    commands = re.findall(r"^(npm pack .*|for package in .*|cp package.*)$", DOCS, flags=re.MULTILINE)
    assert len(commands) == 3
    pack = [*commands[0].split(), "--fetch-retries", "0", "--fetch-timeout", "30000"]
    result = subprocess.run(pack, cwd=folder, capture_output=True, text=True)
    if result.returncode:
        pytest.skip(f"npm cannot download its packages here: {result.stderr[:200]}")
    subprocess.run("\n".join(commands[1:]), shell=True, cwd=folder, check=True, timeout=60)
    export_run(toy.path, to="onnx", output=folder / "mine-onnx")
    [page] = re.findall(r"```html\n(.*?)```", DOCS, flags=re.DOTALL)
    assert page.count(f"files = {INT8};") == 1 and f"are {FP32}\n" in page
    (folder / "int8.html").write_text(page, encoding="utf-8")
    (folder / "fp32.html").write_text(page.replace(f"files = {INT8}", f"files = {FP32}"), encoding="utf-8")
    card = (folder / "mine-onnx" / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```js\n(.*?)```", card.replace('"..."', f'"{LINE}"'), flags=re.DOTALL)
    [settings] = re.findall(r"^env\..*?\n\n", page, flags=re.MULTILINE | re.DOTALL)
    imports = '{"imports": {"@huggingface/transformers": "./transformers.min.js"}}'
    scripts = [
        f'<meta charset="utf-8"><link rel="icon" href="data:,"><script type="importmap">{imports}</script>',
        f'<script type="module">import {{ env }} from "@huggingface/transformers";\n{settings}</script>',
        f'<script type="module">{code}</script>',
    ]
    (folder / "card.html").write_text("\n".join(scripts), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A new page; afterwards nothing has failed in it, and no other host was asked."""
    troubles: list[str] = []
    context = browser.new_context(base_url=address)
    page = context.new_page()
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda asked: None if asked.url.startswith((address, "blob:")) else troubles.append(asked.url))
    yield page
    context.close()
    assert troubles == []


@pytest.mark.parametrize(("name", "least"), [("fp32", NUM_LINES), ("int8", 0.8 * NUM_LINES)])
def test_the_page_translates_as_the_run_does(
    page: Any, lines: list[str], expected: list[str], name: str, least: float
) -> None:
    """In fp32 all lines; in int8 the model may decide differently where two words are about as likely."""
    found = translate_in(page, name, lines)
    assert len(set(found)) > NUM_LINES / 2
    assert sum(map(str.__eq__, found, expected)) >= least


def translate_in(page: Any, name: str, lines: list[str]) -> list[str]:
    page.goto(f"{name}.html")
    page.locator("button:enabled").wait_for()
    page.locator("#source").fill("\n".join(lines))
    page.locator("button").click()
    page.locator("button:enabled").wait_for()
    return str(page.locator("#target").input_value()).split("\n")


def test_the_code_of_the_card_is_that_of_the_page(page: Any) -> None:
    found = translate_in(page, "int8", [LINE])
    with page.expect_console_message() as message:
        page.goto("card.html")
    assert [message.value.text] == found and found != [""]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_browser_segments_as_sentencepiece_does(page: Any, site: Path, kind: str) -> None:
    """On a thousand lines, and on odd ones."""
    corpus = [*corpus_lines("train.de"), *corpus_lines("train.en")]
    ours = train_tokenizer(corpus, TokenizerConfig.model_validate({"type": kind, "vocab_size": 1000}))
    (site / kind).mkdir()
    write_tokenizer_json(ours, site / kind / "tokenizer.json")
    shutil.copyfile(site / "mine-onnx" / "tokenizer_config.json", site / kind / "tokenizer_config.json")
    lines = [*corpus_lines("test.de"), *corpus_lines("validation.en"), *ODD_TEXT]
    page.goto("card.html")
    found = page.evaluate(
        """async ([kind, lines]) => {
            const { PreTrainedTokenizer } = await import("@huggingface/transformers");
            const tokenizer = await PreTrainedTokenizer.from_pretrained(kind);
            return lines.map((line) => [tokenizer.encode(line), tokenizer.decode(tokenizer.encode(line))]);
        }""",
        [kind, lines],
    )
    ids = [ours.encode(line) for line in lines]
    assert [each for each, _ in found] == [[*each, EOS_ID] for each in ids]
    assert [text for _, text in found] == [ours.decode(each) for each in ids]
