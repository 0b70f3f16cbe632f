"""What the server is asked and what it answers; the page of its API at /docs is made from these classes."""

import math
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from translate.decoding import Translation
from translate.decoding.output.words import AlignmentLink
from translate.documents.document import DocumentFormat

MAX_BEAM = 32
_DOG = "Ein Hund läuft durch den Schnee."


class Question(BaseModel):
    """What every request of ours has: no other keys and types than those that it declares."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class Answer(BaseModel):
    """What every answer has: its attributes' documentation."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class TranslateRequest(Question):
    """Texts to translate."""

    text: Annotated[str | list[str], Field(examples=[_DOG, [_DOG, "Zwei Männer kochen."]])]
    """One text, or a list of texts. Each is a line: a line break in it counts as a space."""
    model: Annotated[str | None, Field(examples=["demo"])] = None
    """The name of a model, as GET /models lists them; without it, the first."""
    options: Annotated[dict[str, Any], Field(examples=[{"beam_size": 4, "length_penalty": 1.0}])] = {}
    """Settings of the config section `decoding` in the place of the model's own."""
    n_best: Annotated[int | None, Field(ge=1, le=MAX_BEAM, examples=[3])] = None
    """The number of translations of each text; the beam gets at least as many hypotheses."""
    alignment: bool = False
    """Whether to align the tokens by cross-attention."""

    @property
    def texts(self) -> list[str]:
        """The texts as a list."""
        return [self.text] if isinstance(self.text, str) else self.text

    @property
    def decoding(self) -> dict[str, Any]:
        """All settings that the request changes."""
        return self.options | ({} if self.n_best is None else {"n_best": self.n_best})


class Alternative(Answer):
    """Another translation of a text."""

    text: str
    score: float | None
    """Log-probability in nats with the search's penalties; null where the search computes none."""


class TranslationAnswer(Answer):
    """The translation of one text."""

    source: str
    text: str
    score: float | None
    """Log-probability in nats with the search's penalties; null where the search computes none."""
    conditions: Annotated[list[str], Field(examples=[["source_truncated"]])]
    """What a reader should know, by the names of `flags` in `translate decode --format jsonl`."""
    unknown_characters: str
    """The characters of the source that the vocabulary lacks."""
    alternatives: list[Alternative]
    """The other n-best translations, the best first."""
    alignment: list[tuple[int, int]] | None
    """Pairs of a source token and a target token, counted from 0; null if it was not asked for."""
    source_tokens: Annotated[list[str], Field(examples=[["▁Ein", "▁Hund"]])]
    target_tokens: Annotated[list[str], Field(examples=[["▁A", "▁dog"]])]

    @classmethod
    def of(cls, translation: Translation, *, unknown: str, links: list[AlignmentLink] | None) -> Self:
        """The answer that tells of a translation."""
        return cls(
            source=translation.source,
            text=translation.text,
            score=_number(translation.score),
            conditions=sorted(translation.flags),
            unknown_characters=unknown,
            alternatives=[Alternative(text=each.text, score=_number(each.score)) for each in translation.alternatives],
            alignment=None if links is None else sorted((link.source, link.target) for link in links),
            source_tokens=list(translation.source_tokens),
            target_tokens=list(translation.tokens),
        )


def _number(score: float) -> float | None:
    return score if math.isfinite(score) else None


class TranslateAnswer(Answer):
    """The translations of a request, in its order."""

    model: str
    translations: list[TranslationAnswer]


class DocumentRequest(Question):
    """A document to translate."""

    text: Annotated[str, Field(examples=["<p>Ein <b>Hund</b> läuft.</p>"])]
    format: Annotated[DocumentFormat, Field(examples=["html"])]
    model: str | None = None
    options: dict[str, Any] = {}


class DocumentAnswer(Answer):
    """A translated document, and how much of what passed through it."""

    model: str
    text: str
    segments: int
    sentences: int
    tags: int
    placeholders: int
    problems: Annotated[list[str], Field(examples=[["line 3: '</b>' is lost"]])]
    """Markup that the translated document has less or more often than its source."""
    conditions: dict[str, int]
    """The number of sentences in each condition."""


class ScoreRequest(Question):
    """Translations to score, one for each source."""

    source: Annotated[list[str], Field(examples=[[_DOG]])]
    target: Annotated[list[str], Field(examples=[["A dog runs through the snow."]])]
    model: str | None = None


class ScoreAnswer(Answer):
    """The scores of given translations."""

    model: str
    scores: list[dict[str, Any]]
    """The records of `translate score`: tokens, token_log_probs, log_prob, score, perplexity and flags."""


class AttentionRequest(Question):
    """A sentence and its translation."""

    source: Annotated[str, Field(min_length=1, examples=[_DOG])]
    target: Annotated[str, Field(min_length=1, examples=["A dog runs through the snow."])]
    model: str | None = None


class AttentionAnswer(Answer):
    """Where each head looks while it predicts the translation."""

    model: str
    source_tokens: list[str]
    """The columns; the end symbol is the last."""
    target_tokens: list[str]
    """The rows, each predicted with the attention in its row; the end symbol is the last."""
    layers: list[list[list[list[float]]]]
    """Weights by layer, head, target token and source token, to four decimal places."""


class ModelAnswer(Answer):
    """A model that the server has loaded."""

    name: str
    source_language: str
    target_language: str
    step: int
    """The training step of its weights."""
    engine: str
    """What searches: translate or ctranslate2."""
    parameters: int
    settings: dict[str, Any]
    """The settings of the section `decoding` that hold where a request gives none."""


class Limits(Question):
    """What a request may ask for. More is an error that names the limit."""

    body_bytes: int = 2_000_000
    texts: int = 1_000
    """Texts in a request."""
    characters: int = 10_000
    """Characters in a text."""
    beam_size: int = MAX_BEAM
    """Also the limit of n_best and mbr_candidates."""
    waiting_characters: int = 1_000_000
    """Characters that may wait for each model, of all requests together."""
    seconds: float = 60.0
    """A request that is not answered by then is given up."""


class ModelsAnswer(Answer):
    """The models, the first of which is the default, and what requests may ask for."""

    models: list[ModelAnswer]
    limits: Limits


class ErrorAnswer(Answer):
    """Why a request was not answered, and what to do."""

    error: str
