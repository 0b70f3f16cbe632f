"""Requests and answers of the server; /openapi.json is generated from these classes."""

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from translate.config.data import LanguageCode
from translate.decoding.output.flags import FLAGS
from translate.documents.document import DocumentFormat

MAX_BEAM = 32
MAX_TERMS = 10_000
SURROGATE = re.compile("[\ud800-\udfff]")
_DOG, _DOG_IN_ENGLISH = "Ein Hund läuft.", "A dog is running."


def example(answer: Any, kind: str = "application/json", *, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: an example of an answer that has no class."""
    return {status: {"content": {kind: {"example": answer}}}}


def _check_characters(text: str) -> str:
    if SURROGATE.search(text):
        raise ValueError("contains a surrogate, which is not a character")
    return text


Text = Annotated[str, AfterValidator(_check_characters)]


class Question(BaseModel):
    """A request; unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class Answer(BaseModel):
    """An answer, with documented attributes."""

    model_config = ConfigDict(
        use_attribute_docstrings=True, from_attributes=True, json_schema_serialization_defaults_required=True
    )


class DirectedQuestion(Question):
    """A request to a model, which may have several languages."""

    model: str | None = None
    """The name of a model from `/models`; default: the first."""
    to: LanguageCode | None = None
    """The language to translate to; needed if the model has several."""
    from_: Annotated[LanguageCode | None, Field(alias="from")] = None
    """The language of the text; needed if the model has several and has to know which."""


class WithTerms(DirectedQuestion):
    """A request for translations that may say how terms are to be translated."""

    options: dict[str, Any] = {}
    """Settings of the config section `decoding` that replace the model's own, such as `{"beam_size": 4}`."""
    terminology: Annotated[dict[Text, Text], Field(max_length=MAX_TERMS, examples=[{"Hund": "hound"}])] = {}
    """Terms of the source language, each with the phrase that translates it."""


class TranslateRequest(WithTerms):
    """Texts to translate."""

    text: Annotated[str | list[str], Field(examples=[_DOG, [_DOG, "Zwei Männer kochen."]])]
    """One text, or a list of texts. Each is one line: a line break counts as a space."""
    n_best: Annotated[int | None, Field(ge=1, le=MAX_BEAM)] = None
    """Number of translations per text; the beam has at least as many hypotheses."""
    alignment: bool = False
    """Whether to align the tokens by cross-attention."""


Score = Annotated[float | None, BeforeValidator(lambda score: score if math.isfinite(score) else None)]


class Alternative(Answer):
    """Another translation of a text."""

    text: str
    score: Score
    """Log-probability in nats with the search's penalties; null where the search computes none."""


class TranslationAnswer(Answer):
    """The translation of one text, made from a `Translation`."""

    source: Annotated[str, Field(examples=[_DOG])]
    text: Annotated[str, Field(examples=[_DOG_IN_ENGLISH])]
    score: Annotated[Score, Field(examples=[-0.54])]
    """Log-probability in nats with the search's penalties; null where the search computes none."""
    conditions: Annotated[list[str], BeforeValidator(sorted), Field(validation_alias="flags", examples=[[]])]
    """What may be wrong with the translation, named like the `flags` of `translate decode --format jsonl`."""
    unknown_characters: str = ""
    """Characters of the source that are not in the vocabulary."""
    alternatives: Annotated[list[Alternative], Field(examples=[[]])]
    """The other n-best translations, best first."""
    alignment: Annotated[list[tuple[int, int]] | None, Field(examples=[None])] = None
    """Pairs of source and target token indices, from 0; null if not requested."""
    source_tokens: Annotated[list[str], Field(examples=[["▁Ein", "▁Hund", "▁läuft", "."]])]
    target_tokens: Annotated[
        list[str], Field(validation_alias="tokens", examples=[["▁A", "▁dog", "▁is", "▁running", "."]])
    ]


class TranslateAnswer(Answer):
    """The translations of a request, in order."""

    model: Annotated[str, Field(examples=["demo"])]
    translations: list[TranslationAnswer]


class DocumentRequest(WithTerms):
    """A document to translate."""

    text: Annotated[str, Field(examples=["<p>Ein <b>Hund</b> läuft.</p>"])]
    format: Annotated[DocumentFormat, Field(examples=["html"])]
    again: bool = False
    """Whether translations in a catalog that are marked for review are made again."""


class DocumentAnswer(Answer):
    """A translated document, and what it contained."""

    model: Annotated[str, Field(examples=["demo"])]
    text: Annotated[str, Field(examples=["<p>A <b>dog</b> is running.</p>"])]
    segments: Annotated[int, Field(examples=[1])]
    sentences: Annotated[int, Field(examples=[1])]
    tags: Annotated[int, Field(examples=[2])]
    placeholders: int
    problems: Annotated[list[str], Field(examples=[[]])]
    """Markup that was lost or doubled, with its line in the source, such as `line 3: '</b>' is lost`."""
    conditions: dict[str, int]
    """Number of sentences per condition."""
    entries: dict[str, int]
    """Of a catalog: the number of entries that are filled, that were translated before, and so on."""


class AttentionRequest(DirectedQuestion):
    """A sentence and its translation."""

    source: Annotated[str, Field(min_length=1, examples=["Hunde"])]
    target: Annotated[str, Field(min_length=1, examples=["dogs"])]


class AttentionAnswer(Answer):
    """Attention weights of each head as the model predicts the translation."""

    model: Annotated[str, Field(examples=["demo"])]
    source_tokens: Annotated[list[str], Field(examples=[["▁Hunde", "</s>"]])]
    """The columns; the last is the end symbol."""
    target_tokens: Annotated[list[str], Field(examples=[["▁dogs", "</s>"]])]
    """The rows, each with the attention that predicted its token; the last is the end symbol."""
    num_tags: Annotated[tuple[int, int], Field(examples=[[0, 0]])]
    """How many tokens at the beginning of the source and of the target are language tags."""
    layers: Annotated[list[list[list[list[float]]]], Field(examples=[[[[[0.91, 0.09], [0.12, 0.88]]]]])]
    """Weights by layer, head, target token and source token, each counted from 0, to four decimal places."""


class ModelAnswer(Answer):
    """A loaded model."""

    name: Annotated[str, Field(examples=["demo"])]
    source_language: Annotated[str, Field(examples=["de"])]
    target_language: Annotated[str, Field(examples=["en"])]
    directions: Annotated[dict[str, list[str]], Field(examples=[{"de": ["en"]}])]
    """Each source language with the languages that the model has been trained to translate it to."""
    languages: Annotated[list[str], Field(examples=[[]])]
    """Languages that the model translates in all directions, such as the 200 of NLLB."""
    step: Annotated[int, Field(examples=[2000])]
    """The training step of its weights."""
    engine: Annotated[str, Field(examples=["translate"])]
    """Decoding backend: translate or ctranslate2."""
    parameters: Annotated[int, Field(examples=[3_412_480])]
    settings: Annotated[dict[str, Any], Field(examples=[{"beam_size": 4, "length_penalty": 1.0}])]
    """Settings of the section `decoding` that apply unless a request replaces them."""


class Limits(Question):
    """Limits of requests. Exceeding one is an error that names it."""

    body_bytes: int = 2_000_000
    texts: int = 1_000
    """Texts per request."""
    characters: int = 10_000
    """Characters per text."""
    beam_size: int = MAX_BEAM
    """Also the limit of n_best and mbr_candidates."""
    waiting_characters: int = 1_000_000
    """Characters in a model's queue, of all requests together."""
    seconds: float = 60.0
    """Time limit of an answer."""
    document_seconds: float = 600.0
    """Time limit of a document."""


class ModelsAnswer(Answer):
    """The models, the first of which is the default, the limits of requests, and the conditions of translations."""

    models: list[ModelAnswer]
    limits: Limits
    documents: Annotated[dict[str, DocumentFormat], Field(examples=[{".html": "html"}])]
    """The extensions of documents, each with its format."""
    structured: Annotated[dict[str, str], Field(examples=[{".pdf": "pdftotext converts it to text"}])]
    """The extensions of other files whose lines are not text, each with the way to a document or text."""
    conditions: Annotated[dict[str, str], Field(examples=[{"empty": FLAGS["empty"].warning}])]
    """Each name of a condition with a warning in plain words."""


class ErrorAnswer(Answer):
    """Why a request failed, and what to do."""

    error: str
