"""Middleware before the application: access, limits of bodies, metrics and security headers.

It is plain ASGI, so it covers everything that the application serves, and bodies that arrive slowly.
"""

import asyncio
import functools
import hmac
import re
import reprlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as HTTPError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from translate.decoding import Translation
from translate.errors import InputError, RunError

_OPEN = ("/", "/docs", "/healthz", "/openapi.json", "/languages")  # need no token, and neither does /page/
# Beginnings of the paths of other services; they answer invalid requests with 400.
FOREIGN = ("/detect", "/translate_file", "/v2/")
_ALWAYS = ("/healthz", "/metrics")  # also answered while the server stops
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_UNIONS = ("ours", "libretranslate", "str", "list[str]")  # Pydantic's names of alternatives, in the place of an error
BODY_SECONDS = 30.0  # the deadline of a body
NO_TOKEN = "Bearer token missing or wrong: send the header Authorization: Bearer TOKEN"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Access(NamedTuple):
    """The requests that are allowed."""

    token: str | None = None
    is_loopback: bool = True  # without a token, requests for other host names are refused
    cors_origins: tuple[str, ...] = ()

    def allows(self, given: str | None) -> bool:
        """Whether this is the token, compared in constant time."""
        if self.token is None or given is None:
            return self.token is None
        found = given.encode(errors="surrogatepass")  # JSON may have surrogates
        return hmac.compare_digest(found, self.token.encode())


class Metrics:
    """The metrics of /metrics."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        counter = functools.partial(Counter, registry=registry)
        histogram = functools.partial(Histogram, registry=registry)
        self.requests = counter("translate_requests", "Requests answered.", ["path", "status"])
        self.seconds = histogram("translate_request_seconds", "Time from request to end of answer.", ["path"])
        self.texts = counter("translate_texts", "Texts translated.", ["model"])
        self.characters = counter("translate_characters", "Characters translated.")
        self.conditions = counter("translate_conditions", "Texts by condition.", ["model", "condition"])
        sizes = [2**power for power in range(8)]
        self.batch_texts = histogram("translate_batch_texts", "Texts per batch.", ["model"], buckets=sizes)
        self.batch_seconds = histogram("translate_batch_seconds", "Search time of a batch.", ["model"])
        self.waiting = Gauge("translate_waiting_characters", "Characters in the queue.", ["model"], registry=registry)

    def observe_translation(self, model: str, translation: Translation) -> None:
        """Count a translated text."""
        self.texts.labels(model).inc()
        self.characters.inc(len(translation.source))
        for condition in translation.flags:
            self.conditions.labels(model, condition).inc()

    def observe_batch(self, model: str, num_texts: int, seconds: float) -> None:
        """Count a batch."""
        self.batch_texts.labels(model).observe(num_texts)
        self.batch_seconds.labels(model).observe(seconds)


class AccessMiddleware:
    """Refuses forbidden requests and bodies of more than `max_bytes`, counts all requests, and adds headers."""

    def __init__(self, app: ASGIApp, *, access: Access, metrics: Metrics, max_bytes: int) -> None:
        self.app, self.access, self.metrics, self.max_bytes = app, access, metrics, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request or pass it to the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state: Any = scope["app"].state
        started, status = time.perf_counter(), 500
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # uvicorn leaves out the body
        left, deadline = self.max_bytes, asyncio.get_running_loop().time() + BODY_SECONDS
        is_read = False

        async def receive_within_limits() -> Message:
            nonlocal left, is_read
            try:
                async with asyncio.timeout_at(None if is_read else deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the body did not arrive within {BODY_SECONDS:g} s") from None
            left -= len(message.get("body", b""))
            is_read = not message.get("more_body", False)
            if left < 0:
                raise HTTPException(413, f"the body has more than {self.max_bytes} bytes; split the request")
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if state.is_draining:
                    headers["Connection"] = "close"
            await send(message)

        state.num_active += 1
        try:
            await (self._refuse(scope) or self.app)(scope, receive_within_limits, send_with_headers)
        finally:
            state.num_active -= 1
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(path, status).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)

    def _refuse(self, scope: Scope) -> JSONResponse | None:
        headers, path = Headers(scope=scope), scope["path"]
        if scope["app"].state.is_draining and path not in _ALWAYS:
            return error_response(path, 503, "the server is stopping", {"Retry-After": "10"})
        host = re.sub(r"\.?(:\d*)?$", "", headers.get("host", "").lower())
        if self.access.token is None and self.access.is_loopback and host not in _LOOPBACK:
            # Another site's page can reach 127.0.0.1 under its own name (DNS rebinding), and could read answers.
            return error_response(path, 421, f"Host {host}: without a token, use localhost or 127.0.0.1")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_allowed = self.access.allows(given if scheme.lower() in ("bearer", "deepl-auth-key") else None)
        scope.setdefault("state", {})["is_allowed"] = is_allowed
        # LibreTranslate's clients have the token in the body.
        is_open = path in (*_OPEN, "/translate", "/detect") or path.startswith("/page/")
        if is_allowed or is_open:
            return None
        is_deepl = path.startswith("/v2/")  # its clients expect 403
        return error_response(path, 403 if is_deepl else 401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})


def error_response(path: str, status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error as JSON: in `error`, as in LibreTranslate, and for DeepL's clients also in `message`."""
    message = message.encode(errors="backslashreplace").decode()  # it may quote a surrogate of the request
    body = {"error": message} | ({"message": message} if path.startswith("/v2/") else {})
    return JSONResponse(body, status, headers)


def explain(error: Exception) -> tuple[int, str]:
    """The status of an error, and its message for the client."""
    match error:
        case HTTPError() if isinstance(error.__cause__, UnicodeDecodeError):
            return 400, f"the body is not UTF-8 text: {error.__cause__}"
        case HTTPError():
            return error.status_code, error.detail
        case RequestValidationError():
            return _explain_invalid(error.errors())
        case InputError():
            return 422, str(error)
        case RunError():
            return 500, str(error)
        case TimeoutError():
            return 504, "the answer took too long; send smaller requests"
        case _:
            return 500, "the server failed; see its log"


def _explain_invalid(errors: Sequence[Any]) -> tuple[int, str]:
    """400 and why the body cannot be read; or 422 (400 for LibreTranslate) and the wrong keys with their values."""
    wrong: dict[str, None] = {}
    for error in errors:
        key = ".".join(str(part) for part in error["loc"][1:] if part not in _UNIONS)
        if error["type"] == "json_invalid":
            return 400, f"the body is not JSON: {error['ctx']['error']} at character {key}"
        if not key:
            return 400, "the body is not a JSON object; send one with the header Content-Type: application/json"
        value = "" if error["type"] == "missing" else f" = {reprlib.repr(error['input'])}"
        wrong[f"{key}{value}: {error['msg']}"] = None
    return 400 if "libretranslate" in errors[0]["loc"] else 422, "; ".join(wrong)
