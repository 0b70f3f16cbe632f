"""Documents as `decode --document` translates them, searched in a model's queue."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from translate.documents.document import DocumentFormat, DocumentTranslation, translate_document
from translate.errors import InputError
from translate.server.batching import Job
from translate.server.models import ServedModel


async def translate_documents(
    texts: Sequence[str],
    document_format: DocumentFormat,
    options: Mapping[str, Any],
    *,
    model: ServedModel,
    answer: Callable[[Job], Awaitable[list[Any]]],
) -> list[DocumentTranslation]:
    """Translate documents in threads, so that other requests do not wait while documents are parsed.

    Args:
        answer: Puts a job into the model's queue and waits for its results.

    Raises:
        InputError: As in `translate_document`; or a setting or the number of sentences is over its limit.
        QueueFull: Too many characters wait.
    """
    if any(re.search("[\ud800-\udfff]", text) for text in texts):
        raise InputError("the document contains a surrogate, which is not a character")
    loop = asyncio.get_running_loop()
    asked: list[Future[list[Any]]] = []

    def ask(make_job: Callable[..., Job], about: Sequence[Any]) -> list[Any]:
        async def find() -> list[Any]:
            return await answer(make_job(about, options))

        asked.append(asyncio.run_coroutine_threadsafe(find(), loop))
        return asked[-1].result()

    def translate(text: str) -> DocumentTranslation:
        return translate_document(
            text,
            document_format,
            lambda sentences: ask(model.document_job, sentences),
            lambda translations: ask(model.alignment_job, translations)[0] if translations else [],
        )

    try:
        return await asyncio.gather(*(asyncio.to_thread(translate, text) for text in texts))
    finally:
        for future in asked:  # if one failed or the client has disconnected
            future.cancel()
