"""The HTTP application: its paths, with their requests and answers."""

import asyncio
import contextlib
import itertools
import json
import re
import reprlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Discriminator, Field, Tag
from starlette.exceptions import HTTPException as HTTPError

from translate._version import __version__
from translate.data.languages import UNKNOWN, Direction
from translate.decoding import Translation
from translate.documents.document import DocumentFormat, DocumentTranslation, translate_document
from translate.errors import InputError, RunError
from translate.server import compatibility, schema
from translate.server.batching import Found, Job
from translate.server.gate import NO_TOKEN, Access, Gate, Metrics, error_response
from translate.server.models import Chosen, ServedModel

_PAGE = files("translate.server") / "page"
_EVENT = 'event: partial\ndata: {"index": 0, "text": "A dog"}'
_UNIONS = ("ours", "libretranslate", "str", "list[str]")  # Pydantic's names of alternatives, in the place of an error


class Server:
    """State shared by all paths: models, limits, access and metrics."""

    def __init__(
        self, models: Mapping[str, ServedModel], limits: schema.Limits, access: Access, metrics: Metrics
    ) -> None:
        self.models, self.limits, self.access, self.metrics = models, limits, access, metrics
        self.num_characters = 0  # translated so far

    def model(self, name: str | None) -> ServedModel:
        """The model with this name, or the first if it is None.

        Raises:
            HTTPException: It does not exist.
        """
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise HTTPException(404, f"model = {name!r} does not exist; choose from {', '.join(self.models)}")
        return self.models[name]

    def translation_job(self, question: schema.TranslateRequest, *, is_stream: bool = False) -> tuple[ServedModel, Job]:
        """The model of a request, and its job; a stream of one text shows partial translations."""
        model = self.model(question.model)
        texts = [question.text] if isinstance(question.text, str) else question.text
        options = question.options | ({} if question.n_best is None else {"n_best": question.n_best})
        shows: dict[str, bool] = {"align": question.alignment, "shows_partial": is_stream and len(texts) == 1}
        return model, model.translation_job(texts, options, model.choose(question.to, question.from_), **shows)

    async def results(self, model: ServedModel, job: Job) -> AsyncGenerator[Found]:
        """Yield the results of a queued job as they arrive; it is cancelled when the generator is closed.

        Raises:
            HTTPException: The answer took too long.
        """
        deadline = asyncio.get_running_loop().time() + self.limits.seconds
        try:
            async for found in job.results(deadline):
                if isinstance(found.value, schema.TranslationAnswer | Translation):
                    self.num_characters += len(found.value.source)
                    self.metrics.texts.labels(model.name).inc()
                    flags = found.value.flags if isinstance(found.value, Translation) else found.value.conditions
                    for condition in flags:
                        self.metrics.conditions.labels(model.name, condition).inc()
                yield found
        except TimeoutError:
            raise HTTPException(504, f"no answer within {self.limits.seconds:g} s; send smaller requests") from None
        finally:
            model.queue.cancel(job)

    async def answer(self, request: Request, model: ServedModel, job: Job) -> list[Any]:
        """Queue a job and wait for its results, in order; it is cancelled when the client disconnects.

        Raises:
            HTTPException: The queue is full.
        """

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            job.deliver(HTTPException(499, "the client has disconnected"))

        model.queue.submit(job)
        watching = asyncio.create_task(watch())
        try:
            async with contextlib.aclosing(self.results(model, job)) as results:
                found = {each.number: each.value async for each in results}
            return [found[number] for number in sorted(found)]
        finally:
            watching.cancel()

    async def translate_documents(
        self,
        request: Request,
        model: ServedModel,
        texts: Sequence[str],
        document_format: DocumentFormat,
        options: Mapping[str, Any],
        direction: Direction | None = None,
    ) -> list[DocumentTranslation]:
        """Translate documents in threads, so that other requests do not wait while documents are parsed.

        Raises:
            InputError: As in `translate_document`; or a setting or the number of sentences is over its limit.
            HTTPException: The queue is full.
        """
        if any(re.search("[\ud800-\udfff]", text) for text in texts):
            raise InputError("the document contains a surrogate, which is not a character")
        loop = asyncio.get_running_loop()

        async def answer(make_job: Callable[[], Job]) -> list[Any]:
            return await self.answer(request, model, make_job())  # a job belongs to the event loop

        def ask(make_job: Callable[[], Job]) -> list[Any]:
            return asyncio.run_coroutine_threadsafe(answer(make_job), loop).result()

        def translate(text: str) -> DocumentTranslation:
            return translate_document(
                text,
                document_format,
                lambda sentences: ask(lambda: model.translation_job(sentences, options, direction, is_raw=True)),
                lambda made: ask(lambda: model.alignment_job(made, options))[0] if made else [],
                direction,
            )

        return await asyncio.gather(*(asyncio.to_thread(translate, text) for text in texts))


def create_app(models: Mapping[str, ServedModel], limits: schema.Limits, access: Access, metrics: Metrics) -> FastAPI:
    """Create the application that serves these models; it closes their queues when it ends."""
    server = Server(models, limits, access, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        for model in models.values():
            await asyncio.to_thread(model.queue.close)

    app = FastAPI(
        title="translate",
        version=__version__,
        summary="Translation with trained models.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load their scripts from another host
        redoc_url=None,
        responses={status: {"model": schema.ErrorAnswer} for status in ("4XX", "5XX")},
    )
    app.state.num_active, app.state.is_draining = 0, False
    app.add_middleware(compatibility.FormsAsJson)
    app.add_middleware(Gate, access=access, metrics=metrics, max_bytes=limits.body_bytes)
    if access.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=access.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )

    async def answer_error(request: Request, error: Exception) -> JSONResponse:
        status, message = _explain(error)
        is_foreign = getattr(request.state, "is_libretranslate", False) or request.url.path.startswith("/v2/")
        status = 400 if status == 422 and is_foreign else status  # as LibreTranslate and DeepL do
        return error_response(request.url.path, status, message, getattr(error, "headers", None))

    for kind in (HTTPError, RequestValidationError, InputError, RunError, Exception):
        app.add_exception_handler(kind, answer_error)
    _add_own_paths(app, server)
    _add_other_paths(app, server)
    app.mount("/page", StaticFiles(directory=str(_PAGE)))
    return app


def _explain(error: Exception) -> tuple[int, str]:
    """The status of an error, and its message for the client."""
    match error:
        case HTTPError():
            return error.status_code, error.detail
        case RequestValidationError():
            return _explain_invalid(error.errors())
        case InputError():
            return 422, str(error)
        case RunError():
            return 500, str(error)
        case _:
            return 500, "the server failed; see its log"


def _explain_invalid(errors: Sequence[Any]) -> tuple[int, str]:
    """400 and why the body cannot be read; or 422 (400 for LibreTranslate) and each wrong key, with its value."""
    wrong: dict[str, None] = {}
    for each in errors:
        kind, given, message = each["type"], each["input"], each["msg"].removeprefix("Input ")
        key = ".".join(str(part) for part in each["loc"][1:] if part not in _UNIONS)
        if kind == "json_invalid":
            return 400, f"the body is not JSON: {each['ctx']['error']} at character {key}"
        if not key:
            found = "empty" if given is None else "not a JSON object, or its header is missing"
            return 400, f"the body is {found}; send an object with the header Content-Type: application/json"
        words = {"missing": "is missing", "extra_forbidden": "is not a key of this request"}.get(kind)
        wrong[f"{key} {words or f'= {reprlib.repr(given)}: {message[0].lower()}{message[1:]}'}"] = None
    return 400 if "libretranslate" in errors[0]["loc"] else 422, "; ".join(wrong)


def _kind(body: Any) -> str:
    """Which service's request this is: LibreTranslate's has a field q."""
    return "libretranslate" if isinstance(body, dict) and "q" in body else "ours"


def _example(answer: Any, kind: str = "application/json") -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: an example of an answer that has no class."""
    return {200: {"content": {kind: {"example": answer}}}}


def _add_own_paths(app: FastAPI, server: Server) -> None:
    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page(request: Request) -> FileResponse:
        return FileResponse(str(_PAGE / ("docs.html" if request.url.path.endswith("/docs") else "index.html")))

    @app.post("/translate")
    async def translate(
        request: Request,
        question: Annotated[
            Annotated[schema.TranslateRequest, Tag("ours")]
            | Annotated[compatibility.LibreTranslateRequest, Tag("libretranslate")],
            Discriminator(_kind),
        ],
    ) -> schema.TranslateAnswer | Annotated[dict[str, Any], Field(examples=[{"translatedText": "A dog is running."}])]:
        """Translate one or several texts. A request with the field `q` is LibreTranslate's, and so is its answer."""
        if isinstance(question, compatibility.LibreTranslateRequest):
            request.state.is_libretranslate = True
            if not (request.state.is_allowed or server.access.allows(question.api_key)):
                raise HTTPException(403, NO_TOKEN)
            return await _libretranslate(server, request, question)
        if not request.state.is_allowed:
            raise HTTPException(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
        model, job = server.translation_job(question)
        return schema.TranslateAnswer(model=model.name, translations=await server.answer(request, model, job))

    @app.post("/translate/stream", responses=_example(_EVENT, "text/event-stream"))
    async def stream(question: schema.TranslateRequest) -> StreamingResponse:
        """Translate as `/translate` does, and send results as server-sent events.

        `partial` has an `index` and the `text` so far, for a request with one text; `translation` has an `index` and
        the fields of a translation of `/translate`, as soon as it is found; `done` or `error` comes last.
        """
        model, job = server.translation_job(question, is_stream=True)
        model.queue.submit(job)  # before the response starts, so that an error can still set the status
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies must not buffer events
        return StreamingResponse(_events(server, model, job), media_type="text/event-stream", headers=headers)

    @app.post("/translate/document")
    async def document(request: Request, question: schema.DocumentRequest) -> schema.DocumentAnswer:
        """Translate the text of a document and copy everything else."""
        model = server.model(question.model)
        how = (question.format, question.options, model.choose(question.to, question.from_))
        (found,) = await server.translate_documents(request, model, [question.text], *how)
        conditions = {name: count for name, count in found.conditions.items() if name != "lines"}
        return schema.DocumentAnswer(model=model.name, **found._asdict() | {"conditions": conditions})

    @app.post("/score")
    async def score(request: Request, question: schema.ScoreRequest) -> schema.ScoreAnswer:
        """Score given translations by forced decoding."""
        model = server.model(question.model)
        (scores,) = await server.answer(request, model, model.scoring_job(question))
        return schema.ScoreAnswer(model=model.name, scores=scores)

    @app.post("/attention")
    async def attention(request: Request, question: schema.AttentionRequest) -> schema.AttentionAnswer:
        """The cross-attention of all layers and heads for a sentence and its translation."""
        model = server.model(question.model)
        answers: list[schema.AttentionAnswer] = await server.answer(request, model, model.attention_job(question))
        return answers[0]

    @app.get("/healthz", responses=_example({"status": "ok"}))
    async def health() -> JSONResponse:
        """200 while the server accepts requests, 503 while it is stopping."""
        is_draining = app.state.is_draining
        return JSONResponse({"status": "stopping" if is_draining else "ok"}, 503 if is_draining else 200)

    @app.get("/metrics", response_class=Response, responses=_example("process_open_fds 12.0", "text/plain"))
    async def metrics() -> Response:
        """Metrics in Prometheus's format."""
        return Response(generate_latest(server.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/models")
    async def models() -> schema.ModelsAnswer:
        """The models, the first of which is the default, and the limits of requests."""
        return schema.ModelsAnswer(models=[model.describe() for model in server.models.values()], limits=server.limits)


async def _events(server: Server, model: ServedModel, job: Job) -> AsyncIterator[bytes]:
    started = time.perf_counter()
    try:
        async with contextlib.aclosing(server.results(model, job)) as results:
            async for found in results:
                if found.is_partial:
                    yield _event("partial", {"index": found.number, "text": found.value})
                else:
                    yield _event("translation", {"index": found.number, **found.value.model_dump()})
    except Exception as error:  # the status has been sent
        yield _event("error", {"error": _explain(error)[1]})
    else:
        yield _event("done", {"model": model.name, "seconds": round(time.perf_counter() - started, 3)})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _add_other_paths(app: FastAPI, server: Server) -> None:
    @app.get("/languages", responses=_example([{"code": "de", "name": "de", "targets": ["en"]}]))
    async def languages() -> list[dict[str, Any]]:
        """The languages in LibreTranslate's format: each with its targets."""
        targets: dict[str, dict[str, None]] = {}
        for source, codes in (each for model in server.models.values() for each in model.directions.items()):
            targets.setdefault(source, {}).update(dict.fromkeys(codes))
            for code in codes:
                targets.setdefault(code, {})
        return [{"code": code, "name": code, "targets": list(to)} for code, to in targets.items()]

    text = {"detected_source_language": "DE", "text": "A dog is running.", "billed_characters": 15}

    @app.post("/v2/translate", responses=_example({"translations": [text]}))
    async def deepl(request: Request, question: compatibility.DeepLRequest) -> dict[str, Any]:
        """Translate texts line by line, or as HTML, with DeepL's requests and answers."""
        if question.glossary_id:
            raise InputError("glossary_id is not supported; remove it")
        source, target, is_html = question.source_lang or "", question.target_lang, bool(question.tag_handling)
        chosen = compatibility.choose_model(server.models.values(), source, target, key="source_lang")
        (texts,) = await _translate_texts(server, request, chosen, question.text, is_html=is_html)
        source = "" if chosen[1].source == UNKNOWN else chosen[1].source.upper()
        return {
            "translations": [
                {"detected_source_language": source, "text": text, "billed_characters": len(given)}
                for given, text in zip(question.text, texts, strict=True)
            ]
        }

    @app.get("/v2/languages", responses=_example([{"language": "DE", "name": "de", "supports_formality": False}]))
    async def deepl_languages(
        request: Request, type: Literal["source", "target"] | None = None
    ) -> list[dict[str, Any]]:
        """The languages in DeepL's format."""
        form = parse_qs((await request.body()).decode(errors="replace"))  # DeepL's own client puts the type there
        side = "target" if "target" in (type, *form.get("type", ())) else "source"
        codes = dict.fromkeys(code for each in server.models.values() for code in getattr(each.languages, f"{side}s"))
        return [{"language": code.upper(), "name": code, "supports_formality": False} for code in codes]

    @app.get("/v2/usage", responses=_example({"character_count": 15, "character_limit": 10**12}))
    async def deepl_usage() -> dict[str, int]:
        """The characters translated since the server started; there is no quota."""
        return {"character_count": server.num_characters, "character_limit": 10**12}


async def _translate_texts(
    server: Server, request: Request, chosen: Chosen, texts: Sequence[str], *, is_html: bool, num_others: int = 0
) -> list[list[str]]:
    """Translate texts line by line, or as HTML; returns the best translations of all, then lists of other ones."""
    model, direction = chosen
    if is_html:
        return [[each.text for each in await server.translate_documents(request, model, texts, "html", {}, direction)]]
    divided, options = [text.split("\n") for text in texts], {"n_best": num_others + 1} if num_others else {}
    job = model.translation_job(list(itertools.chain(*divided)), options, direction)
    ranked = [
        [each.text, *(other.text for other in each.alternatives)] for each in await server.answer(request, model, job)
    ]
    ends = list(itertools.accumulate(map(len, divided), initial=0))
    return [
        ["\n".join(line[: rank + 1][-1] for line in ranked[start:end]) for start, end in itertools.pairwise(ends)]
        for rank in range(num_others + 1)
    ]


async def _libretranslate(
    server: Server, request: Request, question: compatibility.LibreTranslateRequest
) -> dict[str, Any]:
    chosen = compatibility.choose_model(server.models.values(), question.source, question.target, key="source")
    given, count = [question.q] if isinstance(question.q, str) else question.q, question.alternatives
    if count and question.format == "html":
        raise InputError(f"alternatives = {count} needs format = text; remove one of them")
    is_html = question.format == "html"
    ranked = await _translate_texts(server, request, chosen, given, is_html=is_html, num_others=count)
    answer: dict[str, Any] = {"translatedText": ranked[0]}
    if count:
        answer["alternatives"] = [list(dict.fromkeys(each)) for each in zip(*ranked[1:], strict=True)]
    source = chosen[1].source
    if question.source == "auto" and source != UNKNOWN:  # the model's only one: nobody has looked at the text
        answer["detectedLanguage"] = [{"language": source}] * len(given)
    is_one = isinstance(question.q, str)
    return {key: value[0] if is_one else value for key, value in answer.items()}
