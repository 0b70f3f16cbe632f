"""The requests of LibreTranslate and DeepL, so that their clients can use this server."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import HTTPException, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from translate.server.models import Chosen, ServedModel
from translate.server.schema import MAX_BEAM

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def _read_number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value  # a form's numbers are text


class LibreTranslateRequest(BaseModel):
    """A request of LibreTranslate; the field q distinguishes it from our own."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    q: Annotated[str | list[str], Field(examples=["Ein Hund läuft."])]
    """A text, whose lines are translated one by one, or a list of texts."""
    source: Annotated[str, Field(examples=["de"])] = "auto"
    target: Annotated[str, Field(min_length=2, examples=["en"])]
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, lt=MAX_BEAM), BeforeValidator(_read_number)] = 0
    api_key: str | None = None


class DeepLRequest(BaseModel):
    """The supported part of DeepL's request; other keys are ignored."""

    model_config = ConfigDict(strict=True)

    text: Annotated[list[str], Field(examples=[["Ein Hund läuft."]])]
    target_lang: Annotated[str, Field(min_length=2, examples=["EN-US"])]
    source_lang: Annotated[str | None, Field(examples=["DE"])] = None
    tag_handling: Literal["html", "xml"] | None = None
    glossary_id: str | None = None


class FormsAsJson:
    """Middleware that turns the forms of these clients into JSON, which the application reads."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the fields of a form as a JSON object."""
        is_ours = scope["type"] == "http" and scope["path"] in ("/translate", "/v2/translate")
        kind = Headers(scope=scope).get("content-type", "") if is_ours else ""
        if not kind.lower().startswith(_FORMS):
            await self.app(scope, receive, send)
            return
        unread = [Request(scope, receive)]

        async def receive_json() -> Message:
            if not unread:
                return await receive()
            fields = _read_form(await unread.pop().body(), kind)
            values = {key: found if key == "text" else found[-1] for key, found in fields.items()}
            return {"type": "http.request", "body": json.dumps(values).encode(), "more_body": False}

        headers = MutableHeaders(scope=scope)
        headers["content-type"] = "application/json"
        del headers["content-length"]
        await self.app(scope, receive_json, send)


def _read_form(body: bytes, kind: str) -> dict[str, list[str]]:
    """The fields of a form, each with all its values, whose lines end with a line feed."""
    if kind.lower().startswith(_FORMS[0]):
        fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    else:
        fields = {}
        boundary = re.search(r'boundary="?([^";]+)', kind, re.IGNORECASE)
        for part in (b"\r\n" + body).split(b"\r\n--" + (boundary[1] if boundary else "").encode())[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            if name := re.search(rb'; *name="?([^";\r\n]*)', head, re.IGNORECASE):
                fields.setdefault(name[1].decode(errors="replace"), []).append(content.decode(errors="replace"))
    return {name: [value.replace("\r\n", "\n") for value in values] for name, values in fields.items()}


def choose_model(models: Iterable[ServedModel], source: str, target: str, *, key: str) -> Chosen:
    """The first model for these languages, and its direction. EN-US means EN; the source may be `auto`, or empty.

    Raises:
        HTTPException: No model translates between them.
        InputError: The model needs to know the source language, for which the service has this key.
    """

    def parts(code: str) -> list[str]:
        return code.lower().replace("_", "-").split("-")

    def find(language: str, codes: Iterable[str]) -> str | None:
        """The code of a language, or else of a variant of it."""
        same = [code for code in codes if parts(code)[0] == parts(language)[0]]
        return min(same, key=lambda code: parts(code) != parts(language), default=None)

    pairs, is_any = [], source.lower() in ("", "auto")
    for model in models:
        pairs.append(str(model.languages))
        for code in [None] if is_any else filter(None, [find(source, model.directions)]):
            targets = model.languages.targets if code is None else model.directions[code]
            if (to := find(target, targets)) is not None:
                return model, model.choose(to, code, key=key)
    raise HTTPException(400, f"no model translates {source or 'any'} to {target}; available: {', '.join(pairs)}")
