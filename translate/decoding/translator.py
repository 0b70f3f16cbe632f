"""Text in, text out: lines are tokenized, searched by an engine in buffers, detokenized, and returned in order."""

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from translate.config.data import DataConfig, Direction
from translate.config.decoding import DecodingConfig
from translate.config.languages import Languages
from translate.config.load import override_decoding
from translate.config.schema import Config
from translate.data.batching import EncodedPair
from translate.data.tokenizer import Tokenizers
from translate.decoding.alignment import (
    ForcedDecoding,
    LineAttention,
    Unit,
    force_decode,
    format_pharaoh,
    line_attention,
)
from translate.decoding.constraints.phrases import encode_phrase, encode_placeholders
from translate.decoding.constraints.terminology import encode_terms
from translate.decoding.engines.engine import Engine, SearchJob
from translate.decoding.engines.own import OwnEngine
from translate.decoding.ranking import choose_translation, prefers_placeholders, rerank, spell
from translate.decoding.request import (
    OnFinished,
    Request,
    SearchInput,
    as_requests,
    ignore_progress,
    merge_phrases,
    read_buffers,
)
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.settings import build_scoring
from translate.decoding.splitting import join_translations, split_source, truncate_ids
from translate.decoding.translation import Score, Translation
from translate.errors import InputError
from translate.model import Transformer
from translate.placeholders import have_same_placeholders

OnTranslated = Callable[[int, Translation], object]
"""Receives the number of a line and its translation, in the thread that found it."""
OnPartial = Callable[[int, int, str], object]
"""Receives the number of a line, the number of a piece of it and its text so far, in the thread that searches."""


_WIDER = 4  # times as many hypotheses, some of which have no required placeholder twice
LEARNT_SHARE = 0.1  # of the training sources: where fewer have several sentences, a model often stops after the first


def check_search(config: DecodingConfig, *, num_layers: int, vocab_size: int) -> None:
    """Raise an InputError if the config names a decoder layer or a token of the target that does not exist."""
    if not -num_layers <= config.alignment_layer < num_layers:
        raise InputError(
            f"decoding.alignment_layer = {config.alignment_layer}: the decoder has layers 0 to"
            f" {num_layers - 1}; -1 is the last"
        )
    if (largest := max(map(max, config.forbidden_ids), default=0)) >= vocab_size:
        raise InputError(f"decoding.forbidden_ids: {largest} is not an id: the vocabulary has {vocab_size} subwords")


class Translator:
    """Translates lines of text.

    Args:
        engine: Searches for translations; a model in evaluation mode is searched by our own engine.
        reverse: Translates in the opposite direction; its log-probability of the source helps to rank the beam.
        languages: The languages of the model; None: as in a config that names none.
        direction: The direction of texts that do not name theirs; None: the model's only one.
        name: The run's name, for messages.
        multi_sentence_share: The share of the training sources with more than one sentence; None: not known.

    Raises:
        InputError: The config asks for something that the engine or the model does not support, or for something other
            than a beam with a reverse model; or the reverse model does not have the opposite direction.
    """

    def __init__(
        self,
        engine: Engine | Transformer,
        tokenizers: Tokenizers,
        config: DecodingConfig,
        *,
        reverse: "Translator | None" = None,
        languages: Languages | None = None,
        direction: Direction | None = None,
        name: str = "",
        multi_sentence_share: float | None = None,
    ) -> None:
        self.engine = OwnEngine(engine, tokenizers.target) if isinstance(engine, Transformer) else engine
        self.tokenizers, self.config, self.reverse, self.name = tokenizers, config, reverse, name
        self.languages = languages or Languages(DataConfig())
        self.direction = direction or self.languages.only
        self.multi_sentence_share = multi_sentence_share
        if reverse is not None and not config.ranks_a_beam:
            raise InputError("a reverse run reranks a beam: leave out decoding.search = sample and decoding.mbr")
        if self.direction and self.direction.source in self.languages.sources:  # otherwise a text may name its own
            self._check_reverse(self.direction)
        check_search(config, num_layers=len(self.model.decoder.layers), vocab_size=tokenizers.target.vocab_size)
        self.engine.check(config)
        # The most tokens of a source with its tag, and of a given translation without one. End symbols do not count.
        positions, has_target_tag = self.engine.position_limit, self.languages.tags in ("target", "both")
        sources = config.max_source_tokens, positions and positions - 1
        targets = config.max_target_tokens, positions and positions - 1 - has_target_tag
        self.source_limit, self.target_limit = (
            min((most for most in limits if most is not None), default=None) for limits in (sources, targets)
        )

    def _check_reverse(self, there: Direction) -> None:
        """Check that the reverse model, if there is one, translates back."""
        if (reverse := self.reverse) is None:
            return
        back = reverse.languages.respell(Direction(there.target, there.source))
        if back.target not in reverse.languages.targets_of(back.source):
            raise InputError(
                f"{reverse.name} translates {reverse.languages}, but the reverse of {self.name} translates"
                f" {there.target} → {there.source}; name the language of the text with --from if it is unknown"
            )

    @property
    def splits_sentences(self) -> bool:
        """Whether each sentence of a source is translated alone; see `decoding.split_sentences`."""
        is_new = (self.multi_sentence_share or 0.0) < LEARNT_SHARE
        return self.config.split_sentences == "always" or (self.config.split_sentences == "auto" and is_new)

    @property
    def model(self) -> Transformer:
        """The model to translate with; of an ensemble, the first one."""
        return self.engine.model

    def with_options(self, **options: object) -> "Translator":
        """The same translator with some of its settings changed.

        Raises:
            InputError: A setting does not exist, its value is invalid, or it is fixed when a run is loaded.
        """
        for key in ("engine", "precision", "device"):
            if key in options:
                raise InputError(f"decoding.{key} is fixed when a run is loaded; give it to translate.load")
        return self.replace(config=override_decoding(Config(decoding=self.config), options).decoding)

    def toward(
        self, direction: Direction | None = None, *, to: str | None = None, from_: str | None = None
    ) -> "Translator":
        """The same translator, whose texts have this direction, or these languages, unless they name theirs.

        Raises:
            InputError: As in `Languages.choose`.
        """
        direction = self.languages.respell(direction) if direction else self.direction
        if to or from_:
            direction = self.languages.choose(to, from_)
        return self if direction == self.direction else self.replace(direction=direction)

    def replace(self, **arguments: Any) -> "Translator":
        """The same translator with other values of the constructor's arguments, which it checks again."""
        names = ("engine", "tokenizers", "config", "reverse", "languages", "direction", "name", "multi_sentence_share")
        return Translator(**{name: getattr(self, name) for name in names} | arguments)

    def __repr__(self) -> str:
        name, config = f"{type(self).__name__} {self.name}, {self.languages}", self.config
        return f"<{name}: {self.model.num_parameters:,} parameters, {config.precision}, {config.brief}>"

    def translate(
        self,
        lines: str | Request | Iterable[str | Request],
        *,
        align: bool | None = None,
        to: str | None = None,
        from_: str | None = None,
        **options: object,
    ) -> Any:
        """Translate one line, or several in order. A line without any word has an empty translation.

        Args:
            align: Whether to align the words too, which takes a forward pass; None: only if `lines` is a single line.
            to: The language of the translations; None: the translator's, or the model's only one.
            from_: The language of the lines; None: the translator's if the model has that direction, otherwise the only
                one, or any if the model is not told the language.
            options: Settings of `DecodingConfig` for this call, such as `beam_size=4`.

        Returns:
            A `Translation` for a single line, and otherwise a list of them.

        Raises:
            TypeError: Something is neither a `str` nor a `Request`.
            InputError: A setting does not exist or its value is invalid, the model does not have the language, or a
                line cannot be translated.
        """
        translator = self.with_options(**options) if options else self
        if to or from_:
            translator = translator.toward(self.languages.choose(to, from_, default=self.direction))
        is_one = isinstance(lines, str | Request)
        translations = translator.translate_stream([lines] if isinstance(lines, str | Request) else lines)
        if is_one if align is None else align:
            translations = translator.align(translations)
        found = list(translations)
        return found[0] if is_one else found

    def translate_stream(
        self,
        lines: Iterable[str | Request],
        *,
        first_number: int = 0,
        on_finished: OnFinished = ignore_progress,
        on_translated: OnTranslated | None = None,
        on_partial: OnPartial | None = None,
        check: Callable[[], object] | None = None,
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, reading no further ahead than `look_ahead_lines`.

        Args:
            first_number: The number of the first line in the whole input, from 0; it seeds sampling and names lines.
            on_finished: Shows progress. A line that is translated in pieces counts when the last piece is found.
            on_translated: Receives each translation as soon as it is found, in any order.
            on_partial: Receives the text so far of each line, after each step of the search. The engine ctranslate2
                never calls it; with auto, our own model searches.
            check: Is called between the steps of the search, or between CTranslate2's batches, which are then small,
                from any thread; what it raises ends the search.

        Raises:
            TypeError: Something is neither a `str` nor a `Request`.
            InputError: A source is too long and decoding.long = error, or constraints contradict each other.
        """
        for buffer in read_buffers(as_requests(lines), max_items=self.config.look_ahead_lines):
            yield from self._translate_buffer(buffer, first_number, on_finished, on_translated, on_partial, check)
            first_number += len(buffer)

    def align(self, translations: Iterable[Translation]) -> Iterator[Translation]:
        """Yield the translations with their word alignments, reading no further ahead than `look_ahead_lines`."""
        for translation, attention in self.attend(translations):
            yield translation._replace(alignment=format_pharaoh(attention.links))

    def attend(
        self,
        translations: Iterable[Translation],
        *,
        unit: Unit = "words",
        on_finished: OnFinished = ignore_progress,
    ) -> Iterator[tuple[Translation, LineAttention]]:
        """Yield each translation with the attention of its forced decoding, reading ahead as `align` does."""
        for buffer in read_buffers(translations, max_items=self.config.look_ahead_lines):
            parts = [part for translation in buffer for part in translation.parts]
            # The last token of a truncated part may be at the last position; the token before it predicts it.
            ids = [part.ids[:-1] if part.truncated else part.ids for part in parts]
            pairs = [EncodedPair(list(part.source_ids), target) for part, target in zip(parts, ids, strict=True)]
            forced = iter(self.force(pairs, directions=[part.direction for part in parts], on_finished=on_finished))
            for translation in buffer:
                yield translation, line_attention(translation, forced, self.tokenizers, unit=unit)

    def force(
        self,
        pairs: Sequence[EncodedPair],
        *,
        directions: Sequence[Direction | None] | None = None,
        has_attention: bool = True,
        on_finished: OnFinished = ignore_progress,
    ) -> list[ForcedDecoding]:
        """Forced decoding: token log-probabilities, and the attention that alignments are made from.

        Args:
            pairs: Token ids without language tags, which are added here and are not in the result either.
            directions: The direction of each pair; None: the translator's.

        Raises:
            OutOfMemory: The device does not have enough memory.
        """
        tags = [self.tag_ids(direction) for direction in directions or [None] * len(pairs)]
        forced = force_decode(
            self.model,
            [EncodedPair(tag + ids.source, start + ids.target) for (tag, start), ids in zip(tags, pairs, strict=True)],
            max_tokens=self.config.batch_tokens,
            attention_layer=self.config.alignment_layer if has_attention else None,
            on_finished=on_finished,
        )
        return [decoded.after(len(start), len(tag)) for decoded, (tag, start) in zip(forced, tags, strict=True)]

    @functools.cached_property
    def _tags(self) -> frozenset[int]:
        """Tags of languages and corpora, which a model may write within a translation; they never come out."""
        return self.tokenizers.target.tag_tokens(self.languages.every_tag)

    def tag_ids(self, direction: Direction | None = None) -> tuple[list[int], list[int]]:
        """The tokens before each source and before each target in a direction; None: the translator's."""
        if self.languages.tags is None:
            return [], []
        before, start = self.languages.tags_of(direction or self.direction or self.languages.choose())
        return self.tokenizers.source.tag_ids(before), self.tokenizers.target.tag_ids(start)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[Sequence[int]],
        *,
        first_number: int = 0,
        on_finished: OnFinished = ignore_progress,
    ) -> list[Score]:
        """The log-probability of given translations, by the full forward pass (forced decoding).

        A side that is longer than its limit is cut, unless decoding.long = error; a given translation cannot be split.
        Only the first model of an ensemble is used.

        Args:
            targets: Subwords of each translation, without the end symbol.
            first_number: The number of the first line in the whole input, from 0, for errors.

        Raises:
            InputError: A side is longer than its limit, and decoding.long = error.
        """
        encoded = self.tokenizers.source.encode_lines(sources, num_threads=torch.get_num_threads())
        tag_ids, _ = self.tag_ids()
        num_tags = len(tag_ids)
        pairs = [
            EncodedPair(
                truncate_ids(tag_ids + source, self.source_limit, self.config, side="source", line=line)[num_tags:],
                truncate_ids(list(target), self.target_limit, self.config, side="target", line=line),
            )
            for line, (source, target) in enumerate(zip(encoded, targets, strict=True), start=first_number)
        ]
        scoring = build_scoring(self.config)
        scores = []
        found = self.force(pairs, has_attention=False, on_finished=on_finished)
        for source, target, pair, forced in zip(encoded, targets, pairs, found, strict=True):
            total = sum(forced.token_log_probs)
            score = float(scoring.score(torch.tensor(total), torch.tensor(len(forced.token_log_probs))))
            flags = {"source_truncated"} if len(pair.source) < len(source) else set()
            flags |= {"target_truncated"} if len(pair.target) < len(target) else set()
            scores.append(Score(total, score, forced.token_log_probs, pair.target, frozenset(flags)))
        return scores

    def _translate_buffer(
        self,
        requests: Sequence[Request],
        first_number: int,
        on_finished: OnFinished,
        on_translated: OnTranslated | None,
        on_partial: OnPartial | None,
        check: Callable[[], object] | None,
    ) -> Iterator[Translation]:
        """Yield the translations of the lines in a buffer, which are searched together."""
        pieces = self._inputs(requests, first_number=first_number)
        inputs = list(itertools.chain.from_iterable(pieces))
        lock = threading.Lock()
        parts: list[dict[int, Translation]] = [{} for _ in requests]  # of each line, by the number of the piece
        joined: dict[int, Translation] = {}

        def on_piece(given: SearchInput, translation: Translation) -> None:
            line = given.line - first_number
            with lock:
                parts[line][given.piece] = translation
                is_last = len(parts[line]) == len(pieces[line])
                if is_last:
                    on_finished(1)
            if is_last:
                in_order = [part for _, part in sorted(parts[line].items())]
                joined[line] = join_translations(requests[line], in_order, self.tokenizers.target)
                if on_translated is not None:
                    on_translated(first_number + line, joined[line])

        def on_step(index: int, ids: list[int]) -> None:
            assert on_partial is not None
            text = spell([token for token in ids if token not in self._tags], self.tokenizers.target)
            on_partial(inputs[index].line, inputs[index].piece, text)

        self._search(inputs, on_piece, on_step if on_partial else None, check)
        for given in inputs:
            if not given.has_words:  # the engine skips it
                on_piece(given, self._translation(given, []))
        yield from (joined[line] for line in range(len(requests)))

    def _search(
        self,
        inputs: Sequence[SearchInput],
        on_piece: Callable[[SearchInput, Translation], object],
        on_step: Callable[[int, list[int]], object] | None,
        check: Callable[[], object] | None,
    ) -> None:
        """Search for the inputs that have words, and pass on the translation of each as soon as it is found.

        Any hypothesis of a beam may be the one that keeps the placeholders. If none does, a second search with more
        hypotheses requires them; if that does not help, the best of the first search stays.
        """
        config, is_beam = self.config, self.config.ranks_a_beam
        required = {
            index: encode_placeholders(self.tokenizers.target, given.source)
            for index, given in enumerate(inputs)
            if is_beam and given.has_words and prefers_placeholders(given.source, config)
        }
        lost: dict[int, Translation] = {}  # the best of the beams without them

        def on_found(index: int, hypotheses: list[Hypothesis]) -> None:
            hypotheses = [hypothesis.without(self._tags) for hypothesis in hypotheses]
            given, translation = inputs[index], self._translation(inputs[index], hypotheses)
            if required.get(index) and not have_same_placeholders(given.source, translation.text):
                if index not in lost:
                    lost[index] = translation
                    return
                translation = lost[index]
            on_piece(given, translation)

        job = SearchJob(inputs, config, on_found, on_step, check)
        whole = config.model_copy(update={"n_best": config.beam_size})
        ranked = {*range(len(inputs))} if self.reverse else required.keys()  # whose whole beam is of interest
        for settings, wanted in ((config, {*range(len(inputs))} - ranked), (whole, ranked)):
            if wanted:
                self.engine.search(job.part(sorted(wanted))._replace(config=settings))
        if again := sorted(lost):
            wide = _WIDER * config.beam_size
            part = job._replace(config=config.model_copy(update={"beam_size": wide, "n_best": wide})).part(again)
            strict = [
                inputs[index]._replace(phrase_ids=[*inputs[index].phrase_ids, *required[index]]) for index in again
            ]
            self.engine.search(part._replace(inputs=strict))

    def _inputs(self, requests: Sequence[Request], *, first_number: int) -> list[list[SearchInput]]:
        """The inputs of each line with their constraints: the line, or its pieces if it is split."""
        tokenizers, limit = self.tokenizers, self.source_limit
        sources = [request.source for request in requests]
        encoded = tokenizers.source.encode_lines(sources, num_threads=torch.get_num_threads())
        inputs_by_line: list[list[SearchInput]] = []
        for line, (request, ids) in enumerate(zip(requests, encoded, strict=True), start=first_number):
            direction = self.languages.choose(request.to, request.from_, default=self.direction)
            self._check_reverse(direction)
            tag_ids, start_ids = self.tag_ids(direction)
            pieces = [(request.source, ids)]
            if self.config.long == "split" or limit is None or len(tag_ids + ids) <= limit:  # else it is cut or refused
                most = None if limit is None else limit - len(tag_ids)
                how: dict[str, Any] = {"by_sentence": self.splits_sentences, "language": direction.source}
                pieces = split_source(request, ids, tokenizers.source, limit=most, **how)
            term_ids = encode_terms(tokenizers.target, request.terminology) if request.terminology else {}
            inputs_by_line.append([])
            for number, (text, text_ids) in enumerate(pieces):
                kept = truncate_ids(tag_ids + text_ids, limit, self.config, side="source", line=line)
                terms = request.terminology.matches(text) if request.terminology else []
                if self.config.no_repeat_ngram:  # it may not occur twice
                    terms = list(dict.fromkeys(terms))
                phrases = merge_phrases(() if len(pieces) > 1 else request.required, terms)
                has_prefix = number == 0 and bool(request.prefix.strip())
                encode = functools.partial(encode_phrase, tokenizers.target, place=f"line {line + 1}: ")
                given = SearchInput(
                    line=line,
                    piece=number,
                    source=text,
                    source_ids=kept,
                    source_truncated=len(kept) < len(tag_ids) + len(text_ids),
                    direction=direction,
                    num_tags=len(tag_ids),
                    start_ids=start_ids,
                    prefix_ids=encode(request.prefix, is_prefix=True) if has_prefix else [],
                    phrases=phrases,
                    phrase_ids=[term_ids.get(phrase) or encode(phrase) for phrase in phrases],
                )
                inputs_by_line[-1].append(given)
        return inputs_by_line

    def _translation(self, given: SearchInput, hypotheses: list[Hypothesis]) -> Translation:
        """The translation of an input. If there is a reverse model, it reranks the hypotheses first."""
        if self.reverse is not None and hypotheses:
            texts = [spell(hypothesis.ids, self.tokenizers.target) for hypothesis in hypotheses]
            there, reverse = given.direction, self.reverse
            if there and (self.languages.has_choice or reverse.languages.tags):
                reverse = reverse.toward(to=there.source, from_=there.target)
            scores = reverse.score(texts, [reverse.tokenizers.target.encode(given.source)] * len(texts))
            hypotheses = rerank(hypotheses, [score.log_prob for score in scores], self.config)
        return choose_translation(given, hypotheses, self.tokenizers, self.config)
