"""Documents of every format over HTTP: equal to `decode --document`, within limits, cancelled with their clients."""

import asyncio
import functools
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from fastapi import HTTPException
from starlette.testclient import TestClient

from translate.decoding.loading import load_own_translator
from translate.documents.document import DocumentFormat, DocumentTranslation, translate_documents, word_weights
from translate.server.batching import BatchQueue, Job
from translate.server.models import ServedModel
from translate.server.schema import Limits

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAGE = "<h1>Der <b>Hund</b></h1>\r\n<p>Hund läuft &amp; schläft. {name} grün<br>Haus!</p><script>x</script>"
CUES = "\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Hund läuft\r\nund schläft</i>\r\n"


def expected(run: Path, text: str, kind: DocumentFormat, **options: Any) -> DocumentTranslation:
    translator = load_own_translator(run, options=options).translator
    align = functools.partial(word_weights, translator)
    return translate_documents([text], kind, translator.translate_stream, align)[0]


@pytest.mark.parametrize(
    "text, kind, options",
    [(PAGE, "html", {}), (CUES, "srt", {"beam_size": 1}), ("# Haus *grün*\n", "markdown", {}), ("", "text", {})],
)
def test_a_document_is_that_of_decode(
    make_client: Callable[[], TestClient], runs: list[Path], text: str, kind: DocumentFormat, options: dict[str, Any]
) -> None:
    client = make_client()
    answer = client.post("/translate/document", json={"text": text, "format": kind, "options": options}).json()
    found = expected(runs[0], text, kind, **options)
    del found.conditions["lines"]
    rest = {"text": found.text, "problems": found.problems, "conditions": dict(found.conditions)}
    rest["entries"] = {}
    assert answer == {"model": "first", **found.counts, **rest}
    assert (answer["text"] == text) == (not text) and answer["problems"] == []
    metrics = client.get("/metrics").text
    # This model loses the placeholder, so its sentence is translated again, without it.
    num_forms = found.counts["sentences"] + found.counts["placeholders"]
    assert not text or f'translate_texts_total{{model="first"}} {num_forms:.1f}' in metrics


@pytest.mark.parametrize(
    "question, words",
    [
        ({"text": "a", "format": "docx"}, "format"),
        ({"text": "a" * 101, "format": "html"}, "text 1 has 101"),
    ],
)
def test_errors(make_client: Callable[..., TestClient], question: dict[str, Any], words: str) -> None:
    client = make_client(texts=10, characters=100)
    headers = {"content-type": "application/json"}
    response = client.post("/translate/document", content=json.dumps(question), headers=headers)
    assert response.status_code == 422 and words in response.json()["error"]


def test_a_disconnected_client_ends_the_jobs_of_its_document(
    make_models: Callable[..., dict[str, ServedModel]], monkeypatch: pytest.MonkeyPatch
) -> None:
    models, submitted = make_models(), list[Job]()
    monkeypatch.setattr(models["first"].queue, "submit", submitted.append)  # never answers
    request = Mock(receive=AsyncMock(return_value={"type": "http.disconnect"}))
    with pytest.raises(HTTPException, match="499"):
        asyncio.run(models["first"].translate_documents(request, ["Hund", "Haus\nTür"], "text", {}))
    assert [(job.texts, job.is_cancelled) for job in submitted] == [(["Hund", "Haus", "Tür"], True)]


def test_the_number_of_documents_is_limited(make_client: Callable[..., TestClient]) -> None:
    question = {"text": ["<p>1</p>"] * 11, "target_lang": "EN", "tag_handling": "html"}
    response = make_client(texts=10).post("/v2/translate", json=question)
    assert response.status_code == 400 and "11 texts" in response.json()["message"]


def test_a_document_that_waits_for_a_thread_has_a_deadline(make_models: Callable[..., dict[str, ServedModel]]) -> None:
    model, is_over = make_models(Limits(document_seconds=0.1))["first"], threading.Event()
    model.document_threads = ThreadPoolExecutor(1)
    model.document_threads.submit(is_over.wait)
    with pytest.raises(TimeoutError):
        asyncio.run(model.translate_documents(Mock(), ["Hund"], "text", {}))
    is_over.set()


def test_a_document_that_is_late_asks_for_nothing_more(
    make_models: Callable[..., dict[str, ServedModel]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its jobs have one deadline, also one that is made after it."""
    model, submitted, ends = (
        make_models(Limits(document_seconds=0.1))["first"],
        list[Job](),
        list[type[BaseException]](),
    )
    is_late = threading.Event()

    def parse(texts: list[str], kind: str, translate: Callable[[list[str]], Any], *_: Any, **__: Any) -> None:
        for _ in range(2):
            try:
                translate(texts)
            except BaseException as error:
                ends.append(type(error))
            is_late.wait()

    async def ask() -> None:
        connected = Mock(receive=lambda: asyncio.sleep(60))
        with pytest.raises(TimeoutError):
            await model.translate_documents(connected, ["Hund"], "text", {})
        is_late.set()
        while len(ends) < 2:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(model.queue, "submit", submitted.append)  # never answers
    monkeypatch.setattr("translate.server.models.translate_documents", parse)
    asyncio.run(ask())
    assert [job.is_cancelled for job in submitted] == [True, True] and ends == [TimeoutError] * 2


def test_a_full_queue_is_an_error(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchQueue, "submit", Mock(side_effect=HTTPException(429, "full", {"Retry-After": "3"})))
    response = client.post("/translate/document", json={"text": "a", "format": "html"})
    assert (response.status_code, response.headers["retry-after"]) == (429, "3")
