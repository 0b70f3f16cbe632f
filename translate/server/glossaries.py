"""DeepL's glossaries: terms that its clients store here, and name in requests for translations.

They are kept in memory and, with `serve --glossaries`, in a file, which is written with each change.
"""

import csv
import functools
import io
import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from translate.atomic import write_text
from translate.config.data import Direction, LanguageCode
from translate.config.languages import Languages
from translate.decoding.constraints.terminology import collect_terms
from translate.errors import InputError
from translate.files import read_json
from translate.language_codes import find_language, short_code
from translate.server import schema

_MOST, _MOST_CHARACTERS = 1_000, 10_000_000  # of all glossaries together
_TSV = "text/tab-separated-values"
_PAIR = {"source_lang": "de", "target_lang": "en"}
_ENTRIES = schema.example("Hund\thound", _TSV)
_EXAMPLE: dict[str, Any] = {"glossary_id": "5e31", "name": "animals", **_PAIR}
_EXAMPLE |= {"ready": True, "entry_count": 1, "creation_time": "2026-01-31"}


class GlossaryRequest(BaseModel):
    """Terms in lines of a term, a tab (or in CSV a comma), and its translation."""

    model_config = ConfigDict(strict=True)

    name: Annotated[schema.Text, Field(min_length=1, max_length=1_000, examples=["animals"])]
    source_lang: Annotated[LanguageCode, Field(min_length=2, examples=["de"])]
    target_lang: Annotated[LanguageCode, Field(min_length=2, examples=["en"])]
    entries_format: Annotated[Literal["tsv", "csv"], Field(examples=["tsv"])] = "tsv"
    entries: Annotated[schema.Text, Field(examples=["Hund\thound"])]

    @field_validator("entries")
    @classmethod
    def _check(cls, entries: str, info: ValidationInfo) -> str:
        _read_terms(entries, info.data.get("entries_format", "tsv"))
        return entries


class Glossary(GlossaryRequest):
    """A stored glossary, with what the server adds to the request."""

    glossary_id: str
    creation_time: str

    @functools.cached_property
    def terms(self) -> dict[str, str]:
        """The terms and their translations."""
        return _read_terms(self.entries, self.entries_format)

    def describe(self) -> dict[str, Any]:
        """The glossary without its terms."""
        return {**self.model_dump(exclude={"entries", "entries_format"}), "ready": True, "entry_count": len(self.terms)}


def _read_terms(entries: str, entries_format: str) -> dict[str, str]:
    """The terms of a glossary.

    Raises:
        ValueError: A line is not a pair, a term has two translations, or there are none.
    """
    how: Any = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if entries_format == "tsv" else {}
    rows = csv.reader(io.StringIO(entries.lstrip("\ufeff"), newline=""), **how)
    try:  # four columns end with the languages
        terms = collect_terms((rows.line_num, row[:2] if len(row) == 4 else row) for row in rows if row)
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from error
    if not terms:
        raise ValueError("there are no terms")
    return terms


class Glossaries:
    """The stored glossaries.

    Raises:
        FileError: The file exists, but is not one of glossaries.
        RunError: The file cannot be written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.by_id: Mapping[str, Glossary] = read_json(path, dict[str, Glossary]) if path and path.exists() else {}
        self.store(self.by_id)  # tries now whether the file can be written

    def __getitem__(self, glossary_id: str) -> Glossary:
        if glossary_id not in self.by_id:
            raise HTTPException(404, f"the glossary {glossary_id!r:.80} does not exist; create it again")
        return self.by_id[glossary_id]

    def store(self, by_id: Mapping[str, Glossary]) -> None:
        """Replace all glossaries, in the file first.

        Raises:
            InputError: There are too many.
            RunError: The file cannot be written.
        """
        if len(by_id) > _MOST or sum(len(each.entries) for each in by_id.values()) > _MOST_CHARACTERS:
            raise InputError(f"{_MOST:,} glossaries may have {_MOST_CHARACTERS:,} characters together; delete some")
        if self.path:
            write_text(self.path, json.dumps({key: each.model_dump() for key, each in by_id.items()}))
        self.by_id = by_id

    def terms(self, glossary_id: str | None, direction: Direction) -> dict[str, str]:
        """The terms of a glossary, which must be of this direction; none without a glossary."""
        if not glossary_id:
            return {}
        found = self[glossary_id]
        pairs = zip(direction, (found.source_lang, found.target_lang), strict=True)
        if not all(find_language(code, [its], or_wider=True) for code, its in pairs):
            raise InputError(f"glossary_id: {found.name!r} is from {found.source_lang} to {found.target_lang}")
        return found.terms


def add_paths(app: FastAPI, glossaries: Glossaries, models: Iterable[Languages]) -> None:
    """Add the paths of glossaries, of use for the languages of the models."""

    @app.get("/v2/glossary-language-pairs", responses=schema.example({"supported_languages": [_PAIR]}))
    async def pairs() -> dict[str, Any]:
        """The languages of the models, for DeepL's glossaries."""
        pairs = [map(short_code, pair) for known in models for pair in known.directions]
        return {"supported_languages": [dict(zip(_PAIR, pair, strict=True)) for pair in pairs]}

    @app.post("/v2/glossaries", status_code=201, responses=schema.example(_EXAMPLE, status=201))
    async def create(question: GlossaryRequest) -> dict[str, Any]:
        """Store a glossary, by DeepL's request."""
        created = datetime.now(UTC).isoformat(timespec="microseconds")
        made = Glossary(**question.model_dump(), glossary_id=str(uuid.uuid4()), creation_time=created)
        sources = ((known, find_language(made.source_lang, known.sources, or_wider=True)) for known in models)
        targets = [known.targets_of(source) for known, source in sources if source]
        if not any(find_language(made.target_lang, each, or_wider=True) for each in targets):
            raise InputError(f"no model translates {made.source_lang} to {made.target_lang}")
        glossaries.store({**glossaries.by_id, made.glossary_id: made})
        return made.describe()

    @app.get("/v2/glossaries", responses=schema.example({"glossaries": [_EXAMPLE]}))
    async def list_all() -> dict[str, Any]:
        """The stored glossaries, without their terms."""
        return {"glossaries": [each.describe() for each in glossaries.by_id.values()]}

    @app.get("/v2/glossaries/{glossary_id}/entries", response_class=Response, responses=_ENTRIES)
    async def entries(glossary_id: str) -> Response:
        """The terms of a glossary, in lines of a term, a tab and its translation."""
        return Response("\n".join(map("\t".join, glossaries[glossary_id].terms.items())), media_type=_TSV)

    @app.get("/v2/glossaries/{glossary_id}", responses=schema.example(_EXAMPLE))
    async def show(glossary_id: str) -> dict[str, Any]:
        """A glossary, without its terms."""
        return glossaries[glossary_id].describe()

    @app.delete("/v2/glossaries/{glossary_id}", status_code=204)
    async def delete(glossary_id: str) -> None:
        """Delete a glossary."""
        glossaries.store({key: each for key, each in glossaries.by_id.items() if each is not glossaries[glossary_id]})
