"""The models of a server: their names and settings, the jobs that requests create for them, and the answers."""

import asyncio
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from fastapi import HTTPException
from fastapi import Request as HttpRequest

from translate.config.data import Direction
from translate.decoding import Request, Translation, Translator
from translate.decoding.constraints.terminology import Terminology, encode_terms
from translate.decoding.loading import LoadedTranslator, load_translator
from translate.documents.document import DocumentFormat, DocumentTranslation, translate_documents, word_weights
from translate.errors import InputError
from translate.messages import distinct_names, escaped
from translate.runs.directory import Checkpoint
from translate.runs.run import SavedRun, open_run
from translate.server import schema
from translate.server.batching import BatchQueue, Job
from translate.server.gate import Metrics
from translate.visualize.attention import capture_attention
from translate.visualize.sentences import read_sentence

_FIXED = (
    *("engine", "precision", "device", "workers", "batch_tokens", "look_ahead_lines"),
    *("max_target_tokens", "reverse_weight"),  # without effect on translations, as a server has no reverse model
)
_ATTENTION_TOKENS = 128  # per side; an answer holds their product for each head
_DOCUMENTS = 64  # requests at once; their threads mostly wait for translations
_LARGEST = {  # limits of a request, unless the run's own value is larger
    **dict.fromkeys(("beam_size", "n_best", "mbr_candidates"), schema.MAX_BEAM),
    **{"max_length_factor": 4.0, "max_length_constant": 200, "max_source_tokens": 0},
    **{"min_length_factor": 2.0, "min_length_constant": 200},
}


class ServedModel:
    """A model and its queue: requests become jobs, and the results of jobs are answers."""

    def __init__(self, name: str, loaded: LoadedTranslator, limits: schema.Limits, metrics: Metrics) -> None:
        self.name, self.limits, self.metrics, self.run = name, limits, metrics, loaded.model
        translator, self.languages = loaded.translator, loaded.translator.languages
        is_cpu = translator.model.device.type == "cpu"
        self.num_workers = (translator.config.workers or torch.get_num_threads()) if is_cpu else 1
        self.engine = translator.engine.prepare()
        self.translator = translator.with_options(workers=1) if is_cpu else translator  # the queue has the threads
        self.queue = BatchQueue(
            max_characters=limits.waiting_characters,
            num_workers=self.num_workers,
            on_batch=functools.partial(metrics.observe_batch, name),
        )
        metrics.waiting.labels(name).set_function(lambda: self.queue.waiting_characters)
        self.document_threads = ThreadPoolExecutor(_DOCUMENTS, thread_name_prefix="documents")
        self._translator_for = functools.lru_cache(maxsize=64)(self._build_translator)
        self._read_terms = functools.lru_cache(maxsize=16)(self._build_terminology)
        self._lacks = functools.lru_cache(maxsize=10_000)(translator.tokenizers.source.lacks)

    def describe(self) -> schema.ModelAnswer:
        """The model as `/models` lists it."""
        directions: dict[str, list[str]] = {}
        for source, target in self.languages.directions:
            directions.setdefault(source, []).append(target)
        return schema.ModelAnswer(
            name=self.name,
            source_language=self.languages.usual.source,
            target_language=self.languages.usual.target,
            directions=directions,
            languages=list(self.languages.mutual),
            step=self.run.step,
            engine=self.engine,
            parameters=self.translator.model.num_parameters,
            settings=self.translator.config.model_dump(mode="json") | {"workers": self.num_workers},
        )

    def choose(self, to: str | None, from_: str | None, *, names: tuple[str, str] = ("`to`", "`from`")) -> Direction:
        """The direction of a request; see `Languages.choose`."""
        try:
            return self.languages.choose(to, from_, names=names)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error

    def translation_job(
        self,
        texts: Sequence[str],
        options: Mapping[str, Any],
        direction: Direction | None = None,
        *,
        align: bool = False,
        shows_partial: bool = False,
        is_raw: bool = False,
        terminology: Terminology | None = None,
    ) -> Job:
        """A job that translates texts; its results are `TranslationAnswer`s, and partial texts.

        Args:
            is_raw: The texts are those of documents, whose number is not limited, and the results are `Translation`s.

        Raises:
            InputError: A setting is unknown, invalid, reserved for the server, or over its limit; or a text is.
        """
        self._check_texts(texts, at_most=None if is_raw else self.limits.texts)
        key, translator = self._with_options(options)
        to, from_ = (direction.target, direction.source) if direction else (None, None)

        def finish(translation: Translation) -> schema.TranslationAnswer | Translation:
            self.metrics.observe_translation(self.name, translation)
            if is_raw:
                return translation
            answer = schema.TranslationAnswer.model_validate(translation)
            answer.unknown_characters = "".join(filter(self._lacks, dict.fromkeys(translation.source)))
            if align:
                [(_, attention)] = translator.attend([translation], unit="subwords")
                answer.alignment = sorted((link.source, link.target) for link in attention.links)
            return answer

        # A sample depends on its line's number, and with `long: error` one text fails its whole batch.
        is_alone = translator.config.search == "sample" or translator.config.long == "error" or shows_partial
        return Job(
            texts,
            translator=translator,
            key=None if is_alone else key,
            finish=finish,
            shows_partial=shows_partial and translator.config.search == "beam",
            request=functools.partial(Request, to=to, from_=from_, terminology=terminology),
        )

    def alignment_job(self, translations: Sequence[Translation], options: Mapping[str, Any]) -> Job:
        """A job that aligns the words of translations; its result is a list of `Weights`."""
        _, translator = self._with_options(options)
        texts = [translation.source for translation in translations]
        return Job(texts, call=lambda check: list(word_weights(translator, translations, on_finished=check)))

    def attention_job(self, request: schema.AttentionRequest) -> Job:
        """A job that captures the cross-attention; its result is an `AttentionAnswer`.

        Raises:
            InputError: A text is empty or too long.
        """
        translator, source, target = self._toward(request), request.source, request.target
        self._check_texts([source, target], at_most=2)
        pair = read_sentence(translator, source, target=target)
        source_tag, target_tag = translator.tag_ids()
        longest = max(len(pair.source.pieces), len(pair.target_output.pieces))
        if longest > _ATTENTION_TOKENS:
            raise InputError(f"attention: {longest} tokens; the limit is {_ATTENTION_TOKENS}: shorten the sentence")

        def look(_: object) -> schema.AttentionAnswer:
            captured = capture_attention(self.translator.model, pair.ids)
            return schema.AttentionAnswer(
                model=self.name,
                source_tokens=pair.source.pieces,
                target_tokens=pair.target_output.pieces,
                num_tags=(len(source_tag), len(target_tag)),
                layers=[
                    layer.weights.double().round(decimals=4).tolist() for layer in captured if layer.kind == "cross"
                ],
            )

        return Job([source, target], call=look)

    async def terminology(self, terms: Mapping[str, str]) -> Terminology | None:
        """Terms of requests, after checking that the vocabulary can spell their translations; None: there are none.

        Raises:
            InputError: It cannot, or a term is empty.
        """
        return await asyncio.to_thread(self._read_terms, tuple(terms.items())) if terms else None

    def _build_terminology(self, terms: tuple[tuple[str, str], ...]) -> Terminology:
        try:
            terminology = Terminology(dict(terms))
        except ValueError as error:
            raise InputError(f"terminology: {error}") from error
        encode_terms(self.translator.tokenizers.target, terminology)
        return terminology

    async def answer(self, request: HttpRequest | None, job: Job, deadline: float | None = None) -> list[Any]:
        """Queue a job and wait for its results, in order; it is cancelled when the client disconnects.

        Args:
            request: Has the client's connection; None: it need not wait.
            deadline: Time of the event loop's clock; None: the seconds of the limits from now.

        Raises:
            HTTPException: The queue is full, or the client has disconnected.
            TimeoutError: The answer took too long.
        """

        async def watch(request: HttpRequest) -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            job.deliver(HTTPException(499, "the client has disconnected"))

        self.queue.submit(job)
        watching = asyncio.create_task(watch(request) if request else asyncio.sleep(0))
        try:
            results = job.results(deadline or job.loop.time() + self.limits.seconds)
            found = {result.number: result.value async for result in results}
            return [found[number] for number in sorted(found)]
        finally:
            watching.cancel()
            self.queue.cancel(job)

    async def translate_documents(
        self,
        request: HttpRequest | None,
        texts: Sequence[str],
        document_format: DocumentFormat,
        options: Mapping[str, Any],
        direction: Direction | None = None,
        terminology: Terminology | None = None,
        *,
        again: bool = False,
    ) -> list[DocumentTranslation]:
        """Translate documents in a thread, so that other requests do not wait while documents are parsed.

        Raises:
            InputError: No extra `documents`; or a setting or the number of sentences is over its limit.
            HTTPException: The queue is full, or the client has disconnected.
            TimeoutError: The answer took too long.
        """
        self._check_texts(texts, at_most=self.limits.texts, max_characters=self.limits.body_bytes)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.limits.document_seconds
        how: dict[str, Any] = {"is_raw": True, "terminology": terminology}

        def ask(make_job: Callable[[], Job]) -> list[Any]:
            async def answer() -> list[Any]:  # jobs belong to the event loop
                return await self.answer(request, make_job(), deadline)

            return asyncio.run_coroutine_threadsafe(answer(), loop).result()

        whole = {**options, "split_sentences": "never"}  # the document is divided into sentences
        by_sentence = self._with_options(options)[1].config.split_sentences != "never"

        def translate() -> list[DocumentTranslation]:
            return translate_documents(
                texts,
                document_format,
                lambda sentences: ask(lambda: self.translation_job(sentences, whole, direction, **how)),
                lambda made: ask(lambda: self.alignment_job(made, whole))[0] if made else [],
                direction,
                by_sentence=by_sentence,
                again=again,
            )

        async with asyncio.timeout_at(deadline):
            return await loop.run_in_executor(self.document_threads, translate)

    def _toward(self, request: schema.DirectedQuestion) -> Translator:
        return self.translator.toward(self.choose(request.to, request.from_))

    def _check_texts(self, texts: Sequence[str], *, at_most: int | None, max_characters: int | None = None) -> None:
        longest = max_characters or self.limits.characters
        if at_most is not None and len(texts) > at_most:
            raise InputError(f"{len(texts)} texts in a request; the limit is {at_most}: split the request")
        for number, text in enumerate(texts, start=1):
            if len(text) > longest:
                raise InputError(f"text {number} has {len(text)} characters; the limit is {longest}: split it")
            if schema.SURROGATE.search(text):
                raise InputError(f"text {number} contains a surrogate, which is not a character")

    def _with_options(self, options: Mapping[str, Any]) -> tuple[str, Translator]:
        """The translator with a request's options, and what identifies them."""
        try:
            key = json.dumps(options, sort_keys=True)
            return key, self._translator_for(key)
        except RecursionError as error:
            raise InputError("options: nested too deeply") from error

    def _build_translator(self, options_json: str) -> Translator:
        if len(options_json) > self.limits.characters:
            raise InputError(f"options have {len(options_json)} characters; the limit is {self.limits.characters}")
        options, own = json.loads(options_json), self.translator.config
        for name, value in options.items():
            if name in _FIXED:
                raise InputError(f"options.{name} cannot be set by a request; remove it")
            if name in _LARGEST and isinstance(value, int | float):
                limit = max(_LARGEST[name], getattr(own, name) or 0)
                if value > limit:
                    raise InputError(f"options.{name} = {value}: the limit is {limit}")
        wanted = options.get("n_best")
        if "beam_size" not in options and isinstance(wanted, int) and wanted > own.beam_size:
            options["beam_size"] = wanted  # a beam holds at least n_best hypotheses
        try:
            return self.translator.with_options(**options)
        except InputError as error:
            raise InputError(str(error).replace("decoding.", "options.")) from error


def find_model(models: Mapping[str, ServedModel], name: str | None) -> ServedModel:
    """The model with this name, or the first if it is None.

    Raises:
        HTTPException: No model has this name.
    """
    if name is not None and name not in models:
        raise HTTPException(404, f"model = {name!r} does not exist; choose from {', '.join(models)}")
    return next(iter(models.values())) if name is None else models[name]


def load_models(
    runs: Sequence[SavedRun | Path],
    limits: schema.Limits,
    metrics: Metrics,
    *,
    checkpoint: Checkpoint,
    options: dict[str, Any],
) -> dict[str, ServedModel]:
    """Load runs under the names of their directories, or under their paths if two names are the same.

    Args:
        options: Values of `DecodingConfig` that replace the runs' own.

    Raises:
        InputError, RunError: As in `load_translator`; or a run is given twice.
    """
    opened = [*map(open_run, runs)]
    names = map(escaped, distinct_names([run.path for run in opened]))  # answers must be UTF-8
    # All are loaded before any starts threads.
    loaded = [load_translator(run, checkpoint=checkpoint, options=options, token_scores=False) for run in opened]
    return {name: ServedModel(name, model, limits, metrics) for name, model in zip(names, loaded, strict=True)}
