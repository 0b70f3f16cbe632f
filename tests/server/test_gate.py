"""Access, limits of bodies, headers of every answer, and metrics."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from harness import run_command
from starlette.testclient import TestClient

from translate.errors import InputError
from translate.server import gate
from translate.server.gate import Access

MakeClient = Callable[..., TestClient]
JSON, FORM = ({"content-type": f"application/{kind}"} for kind in ("json", "x-www-form-urlencoded"))
PARTS = {"content-type": "multipart/form-data; boundary=x"}
PART = b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\n'


def test_only_paths_without_secrets_need_no_token(make_client: MakeClient) -> None:
    client = make_client(Access(token="right", is_loopback=False))
    for path in ("/", "/docs", "/page/index.html", "/healthz", "/openapi.json", "/languages"):
        assert client.get(path).status_code == 200, path
    for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic right"}, {"authorization": "right"}):
        for path in ("/models", "/metrics", "/v2/usage"):
            refused = client.get(path, headers=header)
            assert refused.status_code == (403 if path == "/v2/usage" else 401)
            assert "Bearer TOKEN" in refused.text
        for path in ("/translate", "/translate/stream", "/attention"):
            refused = client.post(path, json={"text": "Ja!"}, headers=header)
            assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
    for scheme in ("Bearer", "bearer", "DeepL-Auth-Key"):
        header = {"authorization": f"{scheme} right", "host": "any.example"}
        assert client.get("/models", headers=header).status_code == 200
        assert client.post("/translate", json={"text": "Ja!"}, headers=header).status_code == 200


def test_tokens_of_any_characters_are_compared(make_client: MakeClient) -> None:
    access = Access(token="right")
    assert [access.allows(given) for given in ("right", "grün", "\ud800", "", None)] == [True, *[False] * 4]
    for kind, body in (
        (JSON, b'{"q": "a", "target": "en", "api_key": "\\ud800"}'),
        (FORM, b"q=a&target=en&api_key=gr%C3%BCn"),
    ):
        assert make_client(access).post("/translate", content=body, headers=kind).status_code == 403


@pytest.mark.parametrize(
    "host, status",
    [
        *[
            (host, 200)
            for host in ("127.0.0.1:8000", "localhost", "[::1]:8000", "LocalHost:80", "localhost.", "localhost.:80")
        ],
        *[(host, 421) for host in ("evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "")],
    ],
)
def test_without_a_token_only_names_of_this_machine_are_allowed(client: TestClient, host: str, status: int) -> None:
    """Another site's name that resolves to 127.0.0.1 would give its page access."""
    answer = client.get("/models", headers={"host": host})
    assert answer.status_code == status
    assert status == 200 or f"Host {host.partition(':')[0]}" in answer.json()["error"]


def test_head_is_answered_as_get(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path in (
        "/",
        "/docs",
        "/openapi.json",
        "/page/icon.svg",
        *(path for path in paths if "get" in paths[path] and "{" not in path),
    ):
        answer = client.head(path)
        assert answer.status_code == 200 and int(answer.headers["content-length"]) > 0, path
    assert client.head("/attention").status_code == 405


def test_pages_of_other_sites_may_ask_only_where_they_are_named(make_client: MakeClient) -> None:
    ask = {"origin": "https://a.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in make_client().options("/translate", headers=ask).headers
    client = make_client(Access(token="right", cors_origins=("https://a.example",)))
    allowed = client.options("/translate", headers=ask | {"access-control-request-headers": "authorization"})
    assert allowed.headers["access-control-allow-origin"] == "https://a.example"
    other = client.options("/translate", headers=ask | {"origin": "https://b.example"})
    assert "access-control-allow-origin" not in other.headers


def test_sites_are_named_as_browsers_write_them(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def create_app(models: object, limits: object, access: Access, *_: object) -> FastAPI:
        raise InputError(" ".join(access.cors_origins))

    monkeypatch.setattr("translate.server.models.load_models", lambda *_, **__: {})
    monkeypatch.setattr("translate.server.app.create_app", create_app)
    sites = ("https://A.example/", "http://localhost:8080", "http://[::1]:80", "*")
    options = [word for site in sites for word in ("--cors-origin", site)]
    result = run_command("serve", runs[0], "--port", "0", *options)
    assert result.stderr.endswith("translate: https://a.example http://localhost:8080 http://[::1]:80 *\n")


def test_bodies_that_are_too_large(make_client: MakeClient) -> None:
    client = make_client(body_bytes=1000)
    body = PART + json.dumps({"text": "a" * 2000}).encode()
    for path in ("/translate", "/v2/translate"):
        for kind in (JSON, FORM, PARTS):
            for content in (body, iter([body[:900], body[900:]])):
                refused = client.post(path, content=content, headers=kind)
                assert refused.status_code == 413 and "1000 bytes" in refused.text


def test_a_body_that_does_not_come(make_app: Callable[..., FastAPI], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.05)
    sent: list[Any] = []
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"9")]
    scope = {
        "type": "http", "method": "POST", "path": "/translate", "query_string": b"", "http_version": "1.1",
        "scheme": "http", "headers": headers,
    }  # fmt: skip
    parts = [{"type": "http.request", "body": b'{"te', "more_body": True}]

    async def receive() -> Any:
        return parts.pop() if parts else await asyncio.sleep(10)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(make_app()(scope, receive, send))
    assert sent[0]["status"] == 408 and "0.05 s" in json.loads(sent[1]["body"])["error"]


@pytest.mark.parametrize(
    "body, kind, words",
    [
        (b"{", "application/json", "JSON"),
        (b"\xff\xfe", "application/json", "JSON"),
        (b"[" * 100_000, "application/json", "body"),
        (b"[]", "application/json", "Content-Type: application/json"),
        (b"", "application/json", "object"),
        (b'{"text": "a"}', "text/plain", "Content-Type: application/json"),
        (b'{"text": "a"}', FORM["content-type"], "Content-Type: application/json"),  # curl's default
    ],
)
def test_a_body_that_cannot_be_read_is_a_bad_request(client: TestClient, body: bytes, kind: str, words: str) -> None:
    for path in ("/translate", "/attention", "/v2/translate"):
        response = client.post(path, content=body, headers={"content-type": kind})
        assert response.status_code == 400 and words in response.json()["error"]


def test_a_body_that_is_nested_deeply(client: TestClient) -> None:
    for depth in (100, 250, 500, 750, *range(900, 1000, 7)):
        body = f'{{"text": "a", "options": {{"forbidden_ids": {"[" * depth}{"]" * depth}}}}}'
        response = client.post("/translate", content=body, headers=JSON)
        assert response.status_code in (400, 422), depth


@pytest.mark.parametrize(
    "body, kind",
    [
        (b"%ff=%fe&q", "application/x-www-form-urlencoded"),
        (b"\xff", "multipart/form-data"),
        (PART, PARTS["content-type"]),
        (b"\r\n".join([PART] * 3000 + [b"--x--"]), PARTS["content-type"]),
        (b"--x\r\nNothing: here\r\n\r\na\r\n--x--", PARTS["content-type"]),
    ],
)
def test_malformed_forms(client: TestClient, body: bytes, kind: str) -> None:
    for path in ("/translate", "/attention", "/v2/translate"):
        response = client.post(path, content=body, headers={"content-type": kind})
        assert response.status_code in (400, 422) and (response.json().keys() <= {"error", "message"})


@pytest.mark.parametrize("path", ["/", "/nowhere", "/models"])
def test_every_answer_has_the_headers_of_the_page(client: TestClient, path: str) -> None:
    response = client.get(path)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


def test_while_it_stops_new_requests_are_refused(make_app: Callable[..., FastAPI]) -> None:
    app = make_app()
    client = TestClient(app, base_url="http://localhost")
    app.state.is_draining = True
    refused = client.post("/translate", json={"text": "Ja!"})
    assert refused.status_code == 503 and refused.headers["retry-after"] == "10"
    assert refused.json() == {"error": "the server is stopping"}
    answers = [refused, client.get("/healthz"), client.get("/metrics")]
    assert [each.status_code for each in answers] == [503, 503, 200]
    assert [each.headers["connection"] for each in answers] == ["close"] * 3  # the client must not use it again


def test_requests_are_counted_by_path_and_status(make_client: MakeClient) -> None:
    client = make_client()
    client.get("/models")
    client.post("/translate", json={})
    client.post("/translate", data={"q": "Ja!", "target": "en"})
    for number in range(3):
        client.get(f"/nowhere/{number}")
    text = client.get("/metrics").text
    for path, status, count in (("/models", 200, 1), ("/translate", 422, 1), ("/translate", 200, 1), ("other", 404, 3)):
        assert f'translate_requests_total{{path="{path}",status="{status}"}} {count}.0' in text
    assert 'translate_batch_texts_count{model="first"} 1.0' in text and "process_resident_memory_bytes" in text
