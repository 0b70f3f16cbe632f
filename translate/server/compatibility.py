"""The requests and answers of LibreTranslate and DeepL, for their clients."""

import asyncio
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from translate.config.data import Direction, LanguageCode
from translate.config.languages import UNKNOWN
from translate.decoding.constraints.terminology import Terminology
from translate.errors import InputError
from translate.language_codes import find_language, language_name, short_code
from translate.lint.languages import rank_languages
from translate.server import schema
from translate.server.gate import NO_TOKEN, Access, Metrics
from translate.server.glossaries import Glossaries
from translate.server.models import ServedModel

_ANY = ("", "auto")  # in place of a source language, in any case
_DETECTED_CHARACTERS = 10_000  # more do not help
_MOST_TARGETS = 100  # the table of 200 languages would have 450 kB
# DeepL's keys that show more, name a version of its models, may improve a translation, or ask not to correct a text's
# form, which we never do.
_IGNORED = {"auth_key", "context", "enable_beta_languages", "model_type", "outline_detection", "preserve_formatting"}
_IGNORED |= {"show_billed_characters", "tag_handling_version"}
_PATHS = ("/translate", "/detect", "/v2/")  # that take forms, or beginnings of these paths
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_COPIED = ' translate="no" ignored=""'  # marks the elements of `ignore_tags` for the reader of HTML
_FIELDS = 2_000  # of a form in parts, which takes long to read: more than the texts of a request


class LibreTranslateRequest(BaseModel):
    """A request of LibreTranslate; the field q distinguishes it from our own."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    q: Annotated[str | list[str], Field(examples=["Ein Hund läuft."])]
    """A text or a list of texts; their lines are translated one by one."""
    source: Annotated[LanguageCode | Literal[""], Field(examples=["de"])] = "auto"
    target: Annotated[LanguageCode, Field(min_length=2, examples=["en"])]
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, lt=schema.MAX_BEAM, strict=False)] = 0  # a form's numbers are text
    api_key: str | None = None


class DetectRequest(BaseModel):
    """A text whose language LibreTranslate's clients ask for."""

    model_config = ConfigDict(strict=True)

    q: Annotated[str | list[str], Field(examples=["Ein Hund läuft."])]
    api_key: str | None = None


class DeepLRequest(BaseModel):
    """The supported part of DeepL's request for texts; other keys are refused, except those of `_IGNORED`."""

    model_config = ConfigDict(strict=True, extra="allow", use_attribute_docstrings=True)

    target_lang: Annotated[LanguageCode, Field(min_length=2, examples=["EN-US"])]
    source_lang: Annotated[LanguageCode | Literal[""] | None, Field(examples=["DE"])] = None
    formality: Literal["default", "prefer_more", "prefer_less", ""] | None = None  # no preference can be met
    glossary_id: str | None = None
    text: Annotated[list[str], Field(examples=[["Ein Hund läuft."]])]
    tag_handling: Literal["html", "xml", ""] | None = None
    ignore_tags: Annotated[list[str], BeforeValidator(lambda names: [names] if isinstance(names, str) else names)] = []
    """Names of elements that are copied."""
    split_sentences: Literal["0", "1", "nonewlines", "false", "true", "", 0, 1, False, True] | None = None
    """0: a text is translated as a whole; 1: sentence by sentence, and line by line; nonewlines: sentences may go on in
    the next line. By default, lines are translated one by one, with the model's setting."""

    async def resolve(
        self, models: Mapping[str, ServedModel], glossaries: Glossaries
    ) -> tuple[ServedModel, Direction, Terminology | None]:
        """The model for these texts, its direction, and the terms of the glossary.

        Raises:
            InputError, HTTPException: A key is not supported; or see `choose_model` and `Glossaries.terms`.
        """
        for name, value in (self.model_extra or {}).items():
            if name not in _IGNORED and value not in (None, "", [], {}):
                raise InputError(f"{name} is not supported; remove it")
        languages, names = (self.source_lang or "", self.target_lang), ("`target_lang`", "`source_lang`")
        model, direction, _ = await choose_model(models, *languages, self.text, names=names)
        return model, direction, await model.terminology(glossaries.terms(self.glossary_id, direction))


class FormsAsJson:
    """Middleware that turns the forms of these clients into JSON, which the application reads.

    OmegaT's plugin for LibreTranslate sends the form as a query.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the fields of a form as a JSON object."""
        takes_forms = scope["type"] == "http" and scope["path"].startswith(_PATHS)
        is_query = takes_forms and scope["path"] == "/translate" and scope["method"] == "GET" and scope["query_string"]
        is_form = takes_forms and Headers(scope=scope).get("content-type", "").lower().startswith(_FORMS)
        if not (is_query or (is_form and scope["method"] == "POST")):
            await self.app(scope, receive, send)
            return
        forms = [Request(dict(scope), receive)]

        async def receive_json() -> Message:  # called by the application, which answers errors
            if not forms:
                return await receive()
            values = await _read_form(forms.pop())
            is_form = not any(name.startswith(("{", "[")) for name in values)  # not JSON under curl's default header
            return {"type": "http.request", "body": json.dumps(values if is_form else []).encode(), "more_body": False}

        scope["method"] = "POST"
        headers = MutableHeaders(scope=scope)
        headers["content-type"] = "application/json"
        del headers["content-length"]
        await self.app(scope, receive_json, send)


async def _read_form(request: Request) -> dict[str, str | list[str]]:
    """The fields of a form, whose lines end with a line feed; a field that is given several times is a list.

    Raises:
        HTTPException: The body is too large, late or malformed.
        UnicodeDecodeError: The form is not UTF-8.
    """
    body = (await request.body()).decode()
    if request.method == "GET" or request.headers["content-type"].lower().startswith(_FORMS[0]):
        fields = parse_qsl(body or request.url.query, keep_blank_values=True, errors="strict")
    else:
        async with request.form(max_files=_FIELDS, max_fields=_FIELDS, max_part_size=sys.maxsize) as form:
            fields = [
                (name, value if isinstance(value, str) else (await value.read()).decode())
                for name, value in form.multi_items()
            ]
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return {name: given if name == "text" or len(given) > 1 else given[0] for name, given in values.items()}


def detect_languages(models: Iterable[ServedModel], text: str) -> dict[str, float]:
    """How probable it is that a text is in each language of the models, in percent; the most probable comes first.

    The probabilities are those of py3langid, which knows some 140 languages, so those of other languages are missing
    from the sum. Languages that it does not know are left out.

    Raises:
        RunError: Its model cannot be unpacked into a temporary file.
    """
    text = re.sub("<[^<>]*>", " ", text[:_DETECTED_CHARACTERS])  # the names of tags would be English
    ranked = rank_languages(text)
    # Log-probabilities grow with the length of a text as if its letters were independent; this is how py3langid itself
    # makes probabilities of them.
    best, scale = max(ranked.values()), math.sqrt(len(text.encode(errors="replace")) or 1)
    weights = {code: math.exp((score - best) / scale) for code, score in ranked.items()}
    served = (code for model in models for code in (*model.languages.sources, *model.languages.targets))
    found = {code: find_language(code, weights, or_wider=True) for code in dict.fromkeys(map(short_code, served))}
    percents = {code: 100 * weights[known] / sum(weights.values()) for code, known in found.items() if known}
    return dict(sorted(percents.items(), key=lambda pair: -pair[1]))


async def choose_model(
    models: Mapping[str, ServedModel], source: str, target: str, texts: Sequence[str], *, names: tuple[str, str]
) -> tuple[ServedModel, Direction, float]:
    """The first model for these languages, its direction, and the percents of its source if that was detected, or 0.

    EN-GB may mean en. A source that is `auto` or empty is the most probable one that is translated to the target.

    Args:
        names: The service's keys for the target and the source language.

    Raises:
        HTTPException: No model translates between them.
        InputError: The model needs to know the source language, and it cannot be detected.
    """
    is_any, percents = source.lower() in _ANY, dict[str, float]()
    if is_any:
        percents = await asyncio.to_thread(detect_languages, models.values(), "\n".join(texts))
    for wanted in [*percents, None] if is_any else [source]:
        for model in models.values():
            known = model.languages
            code = wanted and find_language(wanted, known.sources, or_wider=True)
            targets = known.targets_of(code) if code else known.targets if is_any and not wanted else []
            if (to := find_language(target, known.targets, or_wider=True)) in targets:
                return model, model.choose(to, code, names=names), percents.get(wanted or "", 0.0)
    available = ", ".join(dict.fromkeys(str(model.languages) for model in models.values()))
    raise HTTPException(400, f"no model translates {source or 'any'} to {target}; available: {available}")


def check_key(request: Request, access: Access, api_key: str | None) -> None:
    """Check the token of a client of LibreTranslate, which may be in the body.

    Raises:
        HTTPException: It is missing or wrong.
    """
    if not (request.state.is_allowed or access.allows(api_key)):
        raise HTTPException(403, NO_TOKEN)


def add_paths(
    app: FastAPI, models: Mapping[str, ServedModel], glossaries: Glossaries, access: Access, metrics: Metrics
) -> None:
    """Add the paths of both services, except for `/translate`, which LibreTranslate shares with us."""

    @app.get("/languages", responses=schema.example([{"code": "de", "name": "German", "targets": ["en"]}]))
    async def languages() -> list[dict[str, Any]]:
        """The languages in LibreTranslate's format; a language with very many targets lists none."""
        targets: dict[str, dict[str, None]] = {}
        for known in (model.languages for model in models.values()):
            for code in (*known.sources, *known.targets):
                to = map(short_code, known.targets_of(code))
                targets.setdefault(short_code(code), {}).update(dict.fromkeys(to))
        return [
            {"code": code, "name": language_name(code), **({"targets": list(to)} if len(to) <= _MOST_TARGETS else {})}
            for code, to in targets.items()
        ]

    @app.post("/detect", responses=schema.example([{"language": "de", "confidence": 86.5}]))
    async def detect(request: Request, question: DetectRequest) -> list[dict[str, Any]]:
        """The languages of the models that a text may be in, by LibreTranslate's request; several texts are one."""
        check_key(request, access, question.api_key)
        text = question.q if isinstance(question.q, str) else "\n".join(question.q)
        ranked = await asyncio.to_thread(detect_languages, models.values(), text)
        found = [_detected(code, percents) for code, percents in ranked.items()]
        return found[:1] + [each for each in found[1:] if each["confidence"] >= 1]

    text = {"detected_source_language": "DE", "text": "A dog is running.", "billed_characters": 15}

    @app.post("/v2/translate", responses=schema.example({"translations": [text]}))
    async def deepl(request: Request, question: DeepLRequest) -> dict[str, Any]:
        """Translate texts line by line, or as HTML, with DeepL's requests and answers."""
        model, direction, terminology = await question.resolve(models, glossaries)
        switch, is_html = str(question.split_sentences).lower() or "none", bool(question.tag_handling)
        options = {} if switch == "none" else {"split_sentences": "never" if switch in ("0", "false") else "always"}
        how: dict[str, Any] = {"is_html": is_html, "by_line": switch in ("1", "true", "none"), "options": options}
        names = map(re.escape, re.findall(r"[^\s,]+", ",".join(question.ignore_tags)))
        copied = rf"<({'|'.join(names) or '(?!)'})(?=[\s/>])"
        given = [re.sub(copied, rf"<\1{_COPIED}", text) if is_html else text for text in question.text]
        found = await _translate_texts(request, model, direction, given, **how, terminology=terminology)
        source = "" if direction.source == UNKNOWN else short_code(direction.source).upper()
        return {
            "translations": [
                {"detected_source_language": source, "text": text.replace(_COPIED, ""), "billed_characters": len(given)}
                for given, (text,) in zip(question.text, found, strict=True)
            ]
        }

    @app.get(
        "/v2/languages", responses=schema.example([{"language": "DE", "name": "German", "supports_formality": False}])
    )
    async def deepl_languages(
        request: Request, type: Literal["source", "target"] | None = None
    ) -> list[dict[str, Any]]:
        """The languages in DeepL's format."""
        side = type or (await request.form()).get("type") or "source"  # DeepL's own client puts the type into a form
        served = [model.languages for model in models.values()]
        codes = [code for known in served for code in (known.targets if side == "target" else known.sources)]
        listed = dict.fromkeys(map(short_code, codes))
        return [{"language": code.upper(), "name": language_name(code), "supports_formality": False} for code in listed]

    @app.get("/v2/usage", responses=schema.example({"character_count": 15, "character_limit": 10**12}))
    async def deepl_usage() -> dict[str, int]:
        """The characters translated since the server started; there is no quota."""
        count = metrics.registry.get_sample_value("translate_characters_total") or 0.0
        return {"character_count": int(count), "character_limit": 10**12}


async def libretranslate(
    models: Mapping[str, ServedModel], request: Request, question: LibreTranslateRequest
) -> dict[str, Any]:
    """The answer to a request of LibreTranslate."""
    given, count = [question.q] if isinstance(question.q, str) else question.q, question.alternatives
    languages, names = (question.source, question.target), ("`target`", "`source`")
    model, direction, percents = await choose_model(models, *languages, given, names=names)
    is_html = question.format == "html"
    if count and is_html:
        raise InputError(f"alternatives = {count} needs format = text; remove one of them")
    options = {"n_best": count + 1} if count else {}
    found = await _translate_texts(request, model, direction, given, is_html=is_html, options=options)
    answer: dict[str, Any] = {"translatedText": [best for best, *_ in found]}
    if count:
        answer["alternatives"] = [list(dict.fromkeys(texts))[1:] for texts in found]
    if question.source.lower() in _ANY and direction.source != UNKNOWN:
        answer["detectedLanguage"] = [_detected(direction.source, percents)] * len(given)
    is_one = isinstance(question.q, str)
    return {key: value[0] if is_one else value for key, value in answer.items()}


def _detected(code: str, percents: float) -> dict[str, Any]:
    return {"language": short_code(code), "confidence": round(percents, 1)}


async def _translate_texts(
    request: Request,
    model: ServedModel,
    direction: Direction,
    texts: Sequence[str],
    *,
    is_html: bool,
    options: Mapping[str, Any],
    by_line: bool = True,
    terminology: Terminology | None = None,
) -> list[list[str]]:
    """Translate texts line by line, or as HTML; returns the best translation of each, then its other ones.

    Args:
        by_line: Otherwise line ends within a text are spaces, and those around it are kept.
    """
    if is_html:
        documents = await model.translate_documents(request, texts, "html", options, direction, terminology=terminology)
        return [[document.text] for document in documents]
    ends = r"(\r?\n)" if by_line else r"(\A(?:\r?\n)+|(?:\r?\n)+\Z)"
    divided = [re.split(ends, text) for text in texts]  # lines alternate with their ends
    lines = [line for parts in divided for line in parts[::2]]
    job = model.translation_job(lines, options, direction, terminology=terminology)
    answers = await model.answer(request, job)
    found = ([answer.text, *(other.text for other in answer.alternatives)] for answer in answers)
    ranked = [[[part] if place % 2 else next(found) for place, part in enumerate(parts)] for parts in divided]
    ranks = range(options.get("n_best", 1))
    return [["".join(part[: rank + 1][-1] for part in parts) for rank in ranks] for parts in ranked]
