"""Documents that DeepL's clients upload, and fetch once they are translated."""

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Response
from pydantic import BaseModel, Field

from translate.atomic import text_bytes
from translate.data.text import decode_document
from translate.documents.document import format_of_file
from translate.server import schema
from translate.server.compatibility import DeepLQuestion
from translate.server.gate import explain
from translate.server.glossaries import Glossaries
from translate.server.models import ServedModel

_MOST = 64  # documents in memory; the next takes the place of one that is translated
_POLL_SECONDS = 2.0  # how long a request for the state of a document waits for its end
_DONE = {"document_id": "04de", "status": "done", "billed_characters": 15}
_ANY_FILE = "application/octet-stream"
_RESULT = schema.example("1\n\nDogs", _ANY_FILE)


class DeepLDocument(DeepLQuestion):
    """The supported part of DeepL's form with a document."""

    file: Annotated[str, Field(pattern="^[\0-\xff]*$", examples=["1\n\nHunde"])]
    """A file of a form, or in JSON its bytes as Latin-1."""
    filename: Annotated[str, Field(examples=["dog.txt"])]
    """Its name, which tells the format; by default the file's own."""


class DocumentKey(BaseModel):
    """What DeepL's clients give for a document that they have uploaded."""

    document_key: Annotated[str, Field(examples=["8f20"])]


def add_paths(app: FastAPI, models: Mapping[str, ServedModel], glossaries: Glossaries) -> None:
    """Add the paths of documents."""
    uploads: dict[tuple[str, str], asyncio.Task[dict[str, Any]]] = {}  # by id and key; the state of each at its end

    async def translate(name: str, model: ServedModel, text: str, **how: Any) -> dict[str, Any]:
        try:
            [document] = await model.translate_documents(None, [text], options={}, **how)
            return {"status": "done", "billed_characters": len(text), "text": document.text}
        except Exception as error:
            return {"status": "error", "error_message": f"{name}: {explain(error)[1]}"}
        finally:
            app.state.num_active -= 1

    def find(document_id: str, key: str) -> asyncio.Task[dict[str, Any]]:
        if (document_id, key) not in uploads:
            raise HTTPException(404, "there is no such document; it may have been fetched already")
        return uploads[document_id, key]

    @app.post("/v2/document", responses=schema.example({"document_id": "04de", "document_key": "8f20"}))
    async def upload(question: DeepLDocument) -> dict[str, str]:
        """Translate a document in the background, by DeepL's form with a `file`."""
        document_format = format_of_file(Path(Path(question.filename).name))
        text = decode_document(question.file.encode("latin-1"), question.filename)
        model, direction, terminology = await question.resolve(models, glossaries, [text])
        for done in [each for each, task in uploads.items() if task.done()][: len(uploads) + 1 - _MOST]:
            del uploads[done]
        if len(uploads) >= _MOST:
            raise HTTPException(429, f"{_MOST} documents are being translated; try again later", {"Retry-After": "10"})
        app.state.num_active += 1  # a server that stops finishes it
        document_id, key = str(uuid.uuid4()), str(uuid.uuid4())
        how = {"document_format": document_format, "direction": direction, "terminology": terminology}
        uploads[document_id, key] = asyncio.create_task(translate(question.filename, model, text, **how))
        return {"document_id": document_id, "document_key": key}

    @app.post("/v2/document/{document_id}", responses=schema.example(_DONE))
    async def show(document_id: str, question: DocumentKey) -> dict[str, Any]:
        """The state of a document, after at most two seconds: translating, done or error."""
        await asyncio.wait([task := find(document_id, question.document_key)], timeout=_POLL_SECONDS)
        state = task.result() if task.done() else {"status": "translating", "seconds_remaining": 1}
        return {"document_id": document_id, **{key: value for key, value in state.items() if key != "text"}}

    @app.post("/v2/document/{document_id}/result", response_class=Response, responses=_RESULT)
    async def fetch(document_id: str, question: DocumentKey) -> Response:
        """The translated document, which is then removed."""
        task = find(document_id, question.document_key)
        if not (task.done() and "text" in task.result()):
            raise HTTPException(503, "the document is not translated; ask for its state")
        del uploads[document_id, question.document_key]
        return Response(text_bytes(task.result()["text"]), media_type=_ANY_FILE)
