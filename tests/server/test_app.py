"""The paths: their answers agree with the commands, and errors name the wrong key and value."""

import asyncio
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from translate.decoding import Translation
from translate.decoding.loading import load_own_translator
from translate.decoding.output.flags import FLAGS
from translate.decoding.output.formats import describe
from translate.server.app import create_app
from translate.server.batching import Job
from translate.server.gate import Access, Metrics
from translate.server.models import ServedModel
from translate.server.schema import Limits, TranslationAnswer
from translate.visualize.attention import AttentionChoice, look_at_attention

pytestmark = pytest.mark.usefixtures("no_shape_checks")

GERMAN = ["Hund läuft und schläft", "", "Haus grün Hund " * 90, "Hund 猫 Haus"]


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"n_best": 3, "beam_size": 4}, {"search": "sample"}])
def test_translations_are_those_of_decode(client: TestClient, runs: list[Path], options: dict[str, Any]) -> None:
    answer = client.post("/translate", json={"text": GERMAN, "options": options}).json()
    translator = load_own_translator(runs[0], options=options).translator
    assert answer["model"] == "first"
    for line, found in enumerate(translator.translate_stream(GERMAN)):
        record, given = describe(found, translator, number=line + 1), answer["translations"][line]
        assert given["score"] == pytest.approx(record["score"], abs=1e-4)
        assert given["text"] == record["translation"] and given["conditions"] == record["flags"]
        assert given["source"] == record["source"] and given["source_tokens"] == record["source_tokens"]
        assert [each["text"] for each in given["alternatives"]] == [each["translation"] for each in record["n_best"]]
        assert given["target_tokens"] == [token for token in record["tokens"] if token != "</s>"]
        assert given["alignment"] is None
    assert answer["translations"][3]["unknown_characters"] == "猫"
    texts = [each["text"] for each in answer["translations"]]
    assert len(set(texts)) == 4 and texts[1] == "" and "split" in answer["translations"][2]["conditions"]


def test_one_text_another_model_and_alignment(client: TestClient, runs: list[Path]) -> None:
    question = {"text": "The dog sleeps.", "model": "second", "alignment": True}
    answer = client.post("/translate", json=question).json()
    translator = load_own_translator(runs[1]).translator
    (translation,) = answer["translations"]
    assert answer["model"] == "second" and translation["text"] == translator.translate("The dog sleeps.").text
    links = translation["alignment"]
    assert sorted(target for _, target in links) == list(range(len(translation["target_tokens"])))
    assert links == sorted(links) and {source for source, _ in links} <= set(range(len(translation["source_tokens"])))


def test_n_best_widens_the_beam(client: TestClient) -> None:
    answer = client.post("/translate", json={"text": GERMAN[0], "n_best": 6}).json()
    assert 3 < 1 + len(answer["translations"][0]["alternatives"]) <= 6


@pytest.mark.parametrize("text", [GERMAN[0], GERMAN])
def test_a_stream_ends_with_the_translations(client: TestClient, text: str | list[str]) -> None:
    question = {"text": text, "options": {"beam_size": 1}}
    response = client.post("/translate/stream", json=question)
    assert response.headers["content-type"].startswith("text/event-stream")
    *found, (last, done) = events(response.text)
    expected = client.post("/translate", json=question).json()["translations"]
    whole = sorted((each for name, each in found if name == "translation"), key=lambda each: each["index"])
    assert whole == [{"index": index} | each for index, each in enumerate(expected)]
    partial = [each for name, each in found if name == "partial"]
    assert (last, done["model"], bool(partial)) == ("done", "first", text == GERMAN[0])
    for each in partial:  # greedy search only adds
        assert whole[0]["text"].startswith(each["text"]) and each["index"] == 0


def test_a_stream_whose_client_has_gone_is_cancelled(make_models: Callable[..., dict[str, ServedModel]]) -> None:
    """Before its first event."""
    models, jobs = make_models(), list[Job]()
    models["first"].queue.submit = jobs.append  # type: ignore[method-assign]
    app = create_app(models, Limits(), Access(), Metrics())
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": "/translate/stream", "query_string": b"", "http_version": "1.1",
        "scheme": "http", "headers": headers,
    }  # fmt: skip
    messages = iter([{"type": "http.request", "body": b'{"text": "Hund"}'}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        await asyncio.sleep(10)  # the client has not read earlier answers

    asyncio.run(app(scope, receive, send))
    assert [job.is_cancelled for job in jobs] == [True]


def test_attention_is_that_of_the_picture(client: TestClient, runs: list[Path]) -> None:
    source, target = "Ein Hund läuft.", "A dog runs."
    answer = client.post("/attention", json={"source": source, "target": target}).json()
    translator = load_own_translator(runs[0]).translator
    seen = look_at_attention(translator, source, target=target, choice=AttentionChoice(), name="", step=7)
    assert answer["source_tokens"] == seen.pair.source.pieces and answer["target_tokens"][-1] == "</s>"
    cross = torch.stack([each.weights for each in seen.layers if each.kind == "cross"])
    torch.testing.assert_close(torch.tensor(answer["layers"]), cross, atol=6e-5, rtol=0)


def test_models(client: TestClient) -> None:
    answer = client.get("/models").json()
    first, second = answer["models"]
    assert [first[key] for key in ("name", "source_language", "target_language", "step")] == ["first", "de", "en", 7]
    assert (second["name"], second["engine"], second["settings"]["beam_size"]) == ("second", "translate", 3)
    assert first["parameters"] > 10_000 and answer["limits"]["texts"] == 1000
    assert answer["conditions"].keys() == FLAGS.keys()
    assert answer["documents"][".po"] == "po" and "json2po" in answer["structured"][".json"]


@pytest.mark.parametrize(
    "path, question, status, words",
    [
        ("/translate", {"text": "a", "model": "third"}, 404, "third"),
        ("/translate", {"text": 7}, 422, "text"),
        ("/translate", {"text": "a", "texts": ["a"]}, 422, "texts"),
        ("/translate", {"text": "a", "options": {"beam_sice": 2}}, 422, "beam_sice; did you mean options.beam_size"),
        ("/translate", {"text": "a", "options": {"beam_size": "2"}}, 422, "beam_size"),
        ("/translate", {"text": "a", "options": {"beam_size": 33}}, 422, "options.beam_size = 33"),
        ("/translate", {"text": "a", "options": {"device": "cuda"}}, 422, "options.device"),
        ("/translate", {"text": "a" * 10_001}, 422, "text 1 has 10001"),
        ("/translate", {"text": ["a"] * 1001}, 422, "1001 texts"),
        ("/translate", {"text": ["a", "\ud800"]}, 422, "text 2"),
        ("/translate", {"text": "a", "to": "\ud800"}, 422, "\\ud800"),
        ("/translate", {"q": "a", "target": "\ud800x"}, 400, "\\ud800x"),
        *[
            ("/translate", {"text": "a", "options": {key: 7}}, 422, "options.")
            for key in ("beam_size=1000 #", "workers=7 #", "engine=ctranslate2 #", "forbidden_ids.0")
        ],
        ("/translate", {"text": "a", "options": {"forbidden_ids": [[7]] * 3000}}, 422, "the limit is 10000"),
        ("/translate", {"text": ["a", "b " * 999], "options": {"long": "error"}}, 422, "line 2"),
        ("/attention", {"source": "a", "target": " "}, 422, "target"),
        ("/nowhere", {}, 404, "/translate/stream, /translate/document"),
        ("/v2/write", {}, 404, "/v2/translate"),
        ("/models", {}, 405, "Method Not Allowed"),
    ],
)
def test_errors(client: TestClient, path: str, question: dict[str, Any], status: int, words: str) -> None:
    response = client.post(path, content=json.dumps(question), headers={"content-type": "application/json"})
    assert response.status_code == status
    assert words in response.json()["error"]


@pytest.mark.parametrize(
    "body, kind",
    [
        (b'{"text": "l\xe4uft"}', "application/json"),
        (b"q=l%E4uft&target=en", "application/x-www-form-urlencoded"),
        (b"q=l\xe4uft&target=en", "application/x-www-form-urlencoded"),
        (b"--x\r\nContent-Disposition: form-data; name=q\r\n\r\nl\xe4uft\r\n--x--", "multipart/form-data; boundary=x"),
    ],
)
def test_a_body_that_is_not_utf8(client: TestClient, body: bytes, kind: str) -> None:
    response = client.post("/translate", content=body, headers={"content-type": kind})
    assert response.status_code == 400 and "not UTF-8 text" in response.json()["error"]


def test_openapi(client: TestClient) -> None:
    """The schema has examples and errors; FastAPI's own pages, which load scripts from another host, are off."""
    assert "page/docs.js" in client.get("/docs").text and client.get("/redoc").status_code == 404
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    for name in ("TranslateRequest", "AttentionRequest", "LibreTranslateRequest", "DeepLRequest"):
        assert any("examples" in each for each in schemas[name]["properties"].values()), name
    assert schemas["TranslateRequest"]["properties"]["n_best"]["description"]
    assert {"4XX", "5XX"} <= set(document["paths"]["/translate"]["post"]["responses"])


def test_an_answer() -> None:
    other = Translation("x", "z", [6], -3.0, -2.0, truncated=False, source_truncated=False)
    given = other._replace(text="y", score=math.nan, truncated=True, alternatives=(other,), tokens=["▁y"])
    assert TranslationAnswer.model_validate(given).model_dump() == {
        "source": "x", "text": "y", "score": None, "conditions": ["truncated"], "unknown_characters": "",
        "alternatives": [{"text": "z", "score": -2.0}], "alignment": None, "source_tokens": [], "target_tokens": ["▁y"],
    }  # fmt: skip
