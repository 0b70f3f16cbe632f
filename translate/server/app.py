"""The HTTP application: its paths, with their requests and answers."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Discriminator, Field, Tag
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException as HTTPError

from translate._version import __version__
from translate.atomic import text_bytes
from translate.decoding.output.flags import FLAGS
from translate.decoding.sentences import DATA
from translate.documents.document import EXTENSIONS
from translate.errors import InputError, RunError
from translate.files import STRUCTURED
from translate.server import compatibility, glossaries, schema
from translate.server.batching import Job
from translate.server.gate import FOREIGN, NO_TOKEN, Access, AccessMiddleware, Metrics, error_response, explain
from translate.server.glossaries import Glossaries
from translate.server.models import ServedModel, find_model

_PAGE = files("translate.server") / "page"
_EVENT = 'event: partial\ndata: {"index": 0, "text": "A dog"}'


def create_app(
    models: Mapping[str, ServedModel],
    limits: schema.Limits,
    access: Access,
    metrics: Metrics,
    stored: Glossaries | None = None,
) -> FastAPI:
    """Create the application that serves these models, with the stored glossaries."""
    stored = stored or Glossaries()
    app = FastAPI(
        title="translate",
        version=__version__,
        summary="Translation with trained models.",
        docs_url=None,  # FastAPI's pages load their scripts from another host
        redoc_url=None,
        responses={status: {"model": schema.ErrorAnswer} for status in ("4XX", "5XX")},
    )
    app.state.num_active, app.state.is_draining = 0, False
    app.add_middleware(compatibility.FormsAsJson)
    app.add_middleware(AccessMiddleware, access=access, metrics=metrics, max_bytes=limits.body_bytes)
    if access.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=access.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )

    async def answer_error(request: Request, error: Exception) -> JSONResponse:
        status, message = explain(error)
        is_foreign = getattr(request.state, "is_libretranslate", False) or request.url.path.startswith(FOREIGN)
        status = 400 if status == 422 and is_foreign else status  # as LibreTranslate and DeepL do
        if status == 404 and message == HTTPStatus.NOT_FOUND.phrase:
            paths = (route.path for route in app.routes if isinstance(route, APIRoute) and route.include_in_schema)
            message = f"there is no such path; the paths are {', '.join(dict.fromkeys(paths))}"
        return error_response(request.url.path, status, message, getattr(error, "headers", None))

    for kind in (HTTPError, RequestValidationError, InputError, RunError, TimeoutError, Exception):
        app.add_exception_handler(kind, answer_error)
    _add_paths(app, models, limits, access, metrics)
    compatibility.add_paths(app, models, stored, access, metrics)
    glossaries.add_paths(app, stored, [model.languages for model in models.values()])
    app.mount("/page", StaticFiles(directory=str(_PAGE)))
    return app


def _add_paths(
    app: FastAPI, models: Mapping[str, ServedModel], limits: schema.Limits, access: Access, metrics: Metrics
) -> None:
    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page(request: Request) -> FileResponse:
        return FileResponse(str(_PAGE / ("docs.html" if request.url.path.endswith("/docs") else "index.html")))

    @app.get("/page/sentences.json", include_in_schema=False)
    async def words_of_sentences() -> FileResponse:
        return FileResponse(str(DATA))

    @app.post("/translate")
    async def translate(
        request: Request,
        question: Annotated[
            Annotated[schema.TranslateRequest, Tag("ours")]
            | Annotated[compatibility.LibreTranslateRequest, Tag("libretranslate")],
            Discriminator(lambda body: "libretranslate" if isinstance(body, dict) and "q" in body else "ours"),
        ],
    ) -> schema.TranslateAnswer | Annotated[dict[str, Any], Field(examples=[{"translatedText": "A dog is running."}])]:
        """Translate one or several texts. A request with the field `q` is LibreTranslate's, and gets its answer."""
        if isinstance(question, compatibility.LibreTranslateRequest):
            request.state.is_libretranslate = True
            compatibility.check_key(request, access, question.api_key)
            return await compatibility.libretranslate(models, request, question)
        if not request.state.is_allowed:
            raise HTTPException(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})
        model, job = await _translation_job(models, question)
        return schema.TranslateAnswer(model=model.name, translations=await model.answer(request, job))

    @app.post("/translate/stream", responses=schema.example(_EVENT, "text/event-stream"))
    async def stream(question: schema.TranslateRequest) -> StreamingResponse:
        """Translate as `/translate` does, and send results as server-sent events.

        `partial` has an `index` and the `text` so far, for a request with one text; `translation` has an `index` and
        the fields of a translation of `/translate`, as soon as it is found; `done` or `error` comes last.
        """
        model, job = await _translation_job(models, question, is_stream=True)
        model.queue.submit(job)  # before the response starts, so that an error can still set the status
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies must not buffer events
        cancel = BackgroundTask(model.queue.cancel, job)  # if the client disconnects before the first event
        return StreamingResponse(
            _events(model, job), media_type="text/event-stream", headers=headers, background=cancel
        )

    @app.post("/translate/document")
    async def document(request: Request, question: schema.DocumentRequest) -> schema.DocumentAnswer:
        """Translate the text of a document and copy everything else."""
        model = find_model(models, question.model)
        direction, terms = model.choose(question.to, question.from_), await model.terminology(question.terminology)
        how = (question.format, question.options, direction, terms)
        (found,) = await model.translate_documents(request, [question.text], *how, again=question.again)
        conditions = {name: count for name, count in found.conditions.items() if name != "lines"}
        answer = {"model": model.name, **found._asdict(), **found.counts, "conditions": conditions}
        return schema.DocumentAnswer(**answer)

    @app.post("/attention")
    async def attention(request: Request, question: schema.AttentionRequest) -> schema.AttentionAnswer:
        """The cross-attention of all layers and heads for a sentence and its translation."""
        model = find_model(models, question.model)
        answers: list[schema.AttentionAnswer] = await model.answer(request, model.attention_job(question))
        return answers[0]

    @app.get("/healthz", responses=schema.example({"status": "ok"}))
    async def health() -> JSONResponse:
        """200 while the server accepts requests, 503 while it is stopping."""
        is_draining = app.state.is_draining
        return JSONResponse({"status": "stopping" if is_draining else "ok"}, 503 if is_draining else 200)

    @app.get("/metrics", response_class=Response, responses=schema.example("process_open_fds 12.0", "text/plain"))
    async def show_metrics() -> Response:
        """Metrics in Prometheus's format."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/models")
    async def list_models() -> schema.ModelsAnswer:
        """The models, the first of which is the default, the limits of requests, and the conditions of translations."""
        conditions = {flag: words.warning for flag, words in FLAGS.items()}
        served = [model.describe() for model in models.values()]
        return schema.ModelsAnswer(
            models=served, limits=limits, conditions=conditions, documents=EXTENSIONS, structured=STRUCTURED
        )


async def _translation_job(
    models: Mapping[str, ServedModel], question: schema.TranslateRequest, *, is_stream: bool = False
) -> tuple[ServedModel, Job]:
    """The model of a request, and its job; a stream of one text shows partial translations."""
    model = find_model(models, question.model)
    texts = [question.text] if isinstance(question.text, str) else question.text
    options = question.options | ({} if question.n_best is None else {"n_best": question.n_best})
    shows: dict[str, Any] = {"align": question.alignment, "shows_partial": is_stream and len(texts) == 1}
    shows["terminology"] = await model.terminology(question.terminology)
    return model, model.translation_job(texts, options, model.choose(question.to, question.from_), **shows)


async def _events(model: ServedModel, job: Job) -> AsyncIterator[bytes]:
    started = time.perf_counter()
    try:
        async for found in job.results(job.loop.time() + model.limits.seconds):
            if found.is_partial:
                yield _event("partial", {"index": found.number, "text": found.value})
            else:
                yield _event("translation", {"index": found.number, **found.value.model_dump()})
    except Exception as error:  # the status has been sent
        yield _event("error", {"error": explain(error)[1]})
    else:
        yield _event("done", {"model": model.name, "seconds": round(time.perf_counter() - started, 3)})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return text_bytes(f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n")
