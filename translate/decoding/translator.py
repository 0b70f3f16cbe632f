"""Text in, text out: lines are tokenized, searched with the longest first, detokenized, and returned in their order."""

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, overload

import torch

from translate.config.decoding import DecodingConfig
from translate.config.load import override_config
from translate.config.schema import Config
from translate.data.batching import EncodedPair
from translate.data.tokenizer import Tokenizers
from translate.decoding.constraints.phrases import build_word_tables, encode_phrase, unsatisfied_phrases
from translate.decoding.request import OnFinished, Request, Score, SearchInput, Translation, ignore_progress, one_line
from translate.decoding.score import ForcedDecoding, force_decode
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.loop import BeamSearch, OnStep
from translate.decoding.search.mbr import expected_utilities
from translate.decoding.search.model import CachedDecoder
from translate.decoding.search.scoring import build_scoring, maximum_lengths
from translate.decoding.search.settings import build_search_settings
from translate.decoding.splitting import fit_sources, join_translations, truncate_ids
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.model.device import explain_out_of_memory

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
OnFound = Callable[[int, list[Hypothesis]], object]
"""Is given the index of an input and its hypotheses, the best score first, in the thread that has found them."""
OnTranslated = Callable[[int, Translation], object]
"""Is given the number of a line and its translation, in the thread that has found it."""
OnPartial = Callable[[int, int, str], object]
"""Is given the number of a line, that of a piece of it and the text so far, in the thread that searches."""

BUFFER_CHARACTERS = 1_000_000  # a buffer of very long lines ends early
MANY_LINES = 500  # sentences that are searched together: for so many a faster engine pays
LINES_PER_WORKER = 4  # a worker searches so many lines or more together


def check_search(config: DecodingConfig, *, num_layers: int, is_reranked: bool = False) -> None:
    """Check that a model, with its number of decoder layers, can search as the config says.

    Raises:
        InputError: The config asks for a decoder layer that does not exist, or a reverse model is to rank samples.
    """
    if is_reranked and not config.ranks_a_beam:
        raise InputError("a reverse run ranks a beam: leave out decoding.search = sample and decoding.mbr")
    if not -num_layers <= config.alignment_layer < num_layers:
        raise InputError(
            f"decoding.alignment_layer = {config.alignment_layer}: the decoder has the layers 0 to"
            f" {num_layers - 1}; -1 is the last"
        )


class Translator:
    """Translates lines of text with a model and its tokenizers.

    Args:
        model: The model, in evaluation mode; in training mode its dropout would stay on.
        ensemble: Other models with the same tokenizers, whose probabilities are averaged with this model's.
        reverse: Translates the other way; the beam is ranked by its log-probability of the source too.
        forbidden: Words and phrases that no translation contains.
        name: What it is called when it is shown, such as its run and languages.

    Raises:
        InputError: The config asks for a decoder layer that does not exist, or for anything but a beam with a reverse
            model.
    """

    many_lines_note = ""  # is logged once, when `MANY_LINES` or more are searched together
    _token_scores = True  # whether translations have the log-probabilities of their tokens

    def __init__(
        self,
        model: Transformer,
        tokenizers: Tokenizers,
        config: DecodingConfig,
        *,
        ensemble: Sequence[Transformer] = (),
        reverse: "Translator | None" = None,
        forbidden: Sequence[str] = (),
        name: str = "",
    ) -> None:
        check_search(config, num_layers=len(model.decoder.layers), is_reranked=reverse is not None)
        self.model = model
        self.tokenizers = tokenizers
        self.config = config
        self.models = [model, *ensemble]
        self.reverse = reverse
        self.forbidden = forbidden
        self.name = name
        self.words = build_word_tables(tokenizers.target)
        self.position_limit = min(
            (each.config.max_positions for each in self.models if each.config.positions == "learned"), default=None
        )
        # The most tokens of a text without its end symbol; None: no limit.
        positions = None if self.position_limit is None else self.position_limit - 1
        self.source_limit, self.target_limit = (
            min((limit for limit in (tokens, positions) if limit is not None), default=None)
            for tokens in (config.max_source_tokens, config.max_target_tokens)
        )

    def with_options(self, **options: object) -> "Translator":
        """The same translator with some of its settings changed.

        Raises:
            InputError: A setting does not exist, its value is invalid, or it is fixed when a run is loaded.
        """
        for key in ("engine", "precision", "device"):
            if key in options:
                raise InputError(f"decoding.{key} is fixed when a run is loaded; give it to translate.load")
        overrides = {f"decoding.{key}": value for key, value in options.items()}
        return Translator(
            self.model,
            self.tokenizers,
            override_config(Config(decoding=self.config), overrides).decoding,
            ensemble=self.models[1:],
            reverse=self.reverse,
            forbidden=self.forbidden,
            name=self.name,
        )

    def __repr__(self) -> str:
        size, config = self.model.num_parameters, self.config
        search = f"beam {config.beam_size}" if config.search == "beam" else "sampling"
        return f"<{type(self).__name__} {self.name}: {size:,} parameters, {config.precision}, {search}>"

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is an iterable of str too
        self, lines: str | Request, *, align: bool | None = ..., **options: object
    ) -> Translation: ...

    @overload
    def translate(
        self, lines: Iterable[str | Request], *, align: bool | None = ..., **options: object
    ) -> list[Translation]: ...

    def translate(
        self, lines: str | Request | Iterable[str | Request], *, align: bool | None = None, **options: object
    ) -> Translation | list[Translation]:
        """The translation of a line, or of each of several in order. A line without any word has an empty translation.

        Args:
            lines: One line, or a list or any other iterable of lines. A `Request` is a line with constraints.
            align: Also align the words, which takes a forward pass; None: only those of one line.
            options: Settings of `DecodingConfig` for this call, such as `beam_size=4`.

        Raises:
            TypeError: Something is neither a `str` nor a `Request`.
            InputError: A setting does not exist or its value is invalid, or a line cannot be translated.
        """
        from translate.decoding.output.formats import align_translations

        translator = self.with_options(**options) if options else self
        is_one = isinstance(lines, str | Request)
        translations = translator.translate_stream(_check_lines([lines] if is_one else lines))
        if is_one if align is None else align:
            translations = align_translations(translator, translations)
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
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, reading no further ahead than `look_ahead_lines`.

        Args:
            first_number: The number of the first line in the whole input, from 0; it seeds sampling and names lines.
            on_finished: Shows progress. A line that is translated in pieces counts when the last piece is found.
            on_translated: Is given each translation as soon as it is found, in any order.
            on_partial: Is given what the search has so far of each line, after each step. With the engine ctranslate2
                it is never called, and with auto this package searches.

        Raises:
            InputError: A source is too long and decoding.long = error, or constraints contradict each other.
        """
        requests = (Request(line) if isinstance(line, str) else line for line in lines)
        for buffer in read_buffers(requests, max_items=self.config.look_ahead_lines):
            yield from self._translate_buffer(
                buffer,
                first_number=first_number,
                on_finished=on_finished,
                on_translated=on_translated,
                on_partial=on_partial,
            )
            first_number += len(buffer)

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
        Only the first model is used, not an ensemble.

        Args:
            targets: Subwords of each translation, without the end symbol.
            first_number: The number of the first line in the whole input, from 0, for errors.
            on_finished: Shows progress.

        Raises:
            InputError: A side is longer than its limit, and decoding.long = error.
        """
        encoded = self.tokenizers.source.encode_lines(sources, num_threads=torch.get_num_threads())
        pairs = [
            EncodedPair(
                truncate_ids(source, self.source_limit, self.config, side="source", line=line),
                truncate_ids(list(target), self.target_limit, self.config, side="target", line=line),
            )
            for line, (source, target) in enumerate(zip(encoded, targets, strict=True), start=first_number)
        ]
        scoring = build_scoring(self.config)
        scores = []
        found = self.force(pairs, on_finished=on_finished)
        for source, target, pair, forced in zip(encoded, targets, pairs, found, strict=True):
            total = sum(forced.token_log_probs)
            score = float(scoring.score(torch.tensor(total), torch.tensor(len(forced.token_log_probs))))
            flags = {"source_truncated"} if len(pair.source) < len(source) else set()
            flags |= {"target_truncated"} if len(pair.target) < len(target) else set()
            scores.append(Score(total, score, forced.token_log_probs, pair.target, frozenset(flags)))
        return scores

    def force(self, pairs: Sequence[EncodedPair], *, on_finished: OnFinished = ignore_progress) -> list[ForcedDecoding]:
        """Forced decoding: token log-probabilities, and the attention that alignments are made from.

        Raises:
            OutOfMemory: The device has not enough memory.
        """
        longest = max((max(len(pair.source), len(pair.target)) + 1 for pair in pairs), default=0)
        with explain_out_of_memory(
            f"the forced decoding of {len(pairs)} pairs of up to {longest} tokens",
            hint=f"Lower decoding.batch_tokens (now {self.config.batch_tokens}), decoding.max_source_tokens"
            " (--max-source-tokens) or decoding.max_target_tokens.",
        ):
            return force_decode(
                self.model,
                pairs,
                max_tokens=self.config.batch_tokens,
                attention_layer=self.config.alignment_layer,
                on_finished=on_finished,
            )

    def _translate_buffer(
        self,
        requests: list[Request],
        *,
        first_number: int,
        on_finished: OnFinished,
        on_translated: OnTranslated | None,
        on_partial: OnPartial | None,
    ) -> Iterator[Translation]:
        """Yield the translations of the lines in a buffer, which are searched together."""
        target = self.tokenizers.target
        sources = [request.source for request in requests]
        tokenizer = self.tokenizers.source
        inputs_by_line = fit_sources(sources, tokenizer, self.source_limit, self.config, first_number=first_number)
        inputs = []
        for request, pieces in zip(requests, inputs_by_line, strict=True):
            for each in pieces:
                terms = () if request.terminology is None else request.terminology.matches(each.source)
                phrases = (*(() if len(pieces) > 1 else request.required), *terms)
                prefix_ids = target.encode(request.prefix) if each.piece == 0 else []
                phrase_ids = [encode_phrase(target, phrase) for phrase in phrases]
                inputs.append(each._replace(prefix_ids=prefix_ids, phrases=phrases, phrase_ids=phrase_ids))
        pieces_left, lock = Counter(each.line for each in inputs), threading.Lock()
        ends = list(itertools.accumulate(map(len, inputs_by_line)))  # where the pieces of each line end in `inputs`
        made: dict[int, Translation] = {}
        joined: dict[int, Translation] = {}

        def join(line: int) -> None:
            request, pieces = requests[line], inputs_by_line[line]
            parts = [made[index] for index in range(ends[line] - len(pieces), ends[line])]
            joined[line] = self._join(request, parts)
            if on_translated is not None:
                on_translated(first_number + line, joined[line])

        def on_found(index: int, hypotheses: list[Hypothesis]) -> None:
            made[index] = self._translation(inputs[index], hypotheses)  # while the search goes on
            line = inputs[index].line
            with lock:
                pieces_left[line] -= 1
                is_last = pieces_left[line] == 0
                if is_last:
                    on_finished(1)
            if is_last:
                join(line - first_number)

        def on_step(index: int, ids: list[int]) -> None:
            if on_partial is not None:
                each = inputs[index]
                on_partial(each.line, each.piece, one_line(self.tokenizers.target.decode(ids)))

        longest = max(len(each.source_ids) + 1 for each in inputs)
        with explain_out_of_memory(
            f"the search for the translations of {len(inputs)} texts of up to {longest} tokens",
            hint=f"Lower decoding.batch_tokens (now {self.config.batch_tokens}), decoding.beam_size (now"
            f" {self.config.beam_size}) or decoding.max_source_tokens (--max-source-tokens).",
        ):
            self._search(inputs, on_found, None if on_partial is None else on_step)
        on_finished(sum(left > 0 for left in pieces_left.values()))  # lines without words are not searched
        made |= {index: self._translation(each, []) for index, each in enumerate(inputs) if index not in made}
        for line in range(len(requests)):
            if line not in joined:
                join(line)
            yield joined.pop(line)

    def _join(self, request: Request, parts: Sequence[Translation]) -> Translation:
        """The translation of a line from those of its pieces."""
        joined = join_translations(request.source, parts)
        if not (joined.pieces and request.required):
            return joined
        # The pieces were searched without these phrases.
        required = [encode_phrase(self.tokenizers.target, phrase) for phrase in request.required]
        best, *others = (
            each._replace(unmet=(*each.unmet, *self._unmet(each.ids, request.required, required)))
            for each in (joined, *joined.alternatives)
        )
        return best._replace(alternatives=tuple(others))

    def _search(self, inputs: list[SearchInput], on_found: OnFound, on_step: OnStep | None = None) -> None:
        """Find the hypotheses of each input that has a word.

        On a CPU it searches with `decoding.workers` threads or fewer. Each runs torch with one thread: torch's own
        would wait for each other after every product, and on a busy machine ten times as long as the product takes.
        """
        order = [index for index, each in enumerate(inputs) if each.source_ids and not each.source.isspace()]
        if self.many_lines_note and len(order) >= MANY_LINES:
            logger.info(self.many_lines_note)
            self.many_lines_note = ""
        # Neighbours of similar length need little padding, and the batch that needs the most memory comes first.
        order.sort(key=lambda index: -len(inputs[index].source_ids))
        stop = threading.Event()  # set when a worker has failed, or the search is interrupted
        if self.model.device.type != "cpu":
            self._search_sentences(inputs, order, stop, on_found, on_step)
            return
        wanted = self.config.workers or torch.get_num_threads()
        num_workers = max(1, min(wanted, len(order) // LINES_PER_WORKER))

        def search_share(worker: int) -> None:
            torch.set_num_threads(1)
            # Every n-th sentence: each worker has equal work, and always the same sentences.
            self._search_sentences(inputs, order[worker::num_workers], stop, on_found, on_step)

        num_threads = torch.get_num_threads()
        try:
            with ThreadPoolExecutor(num_workers) as executor:
                try:
                    for _ in executor.map(search_share, range(num_workers)):
                        pass
                finally:
                    stop.set()  # before the executor waits for the other workers
        finally:
            torch.set_num_threads(num_threads)

    def _search_sentences(
        self,
        inputs: list[SearchInput],
        order: Sequence[int],
        stop: threading.Event,
        on_found: OnFound,
        on_step: OnStep | None,
    ) -> None:
        """The work of one worker: searches its sentences, until all are done or another worker fails."""
        device = self.model.device
        source_lengths = torch.tensor([len(each.source_ids) + 1 for each in inputs])
        max_lengths = maximum_lengths(source_lengths, self.config, position_limit=self.position_limit).tolist()
        settings = build_search_settings(
            self.config,
            inputs,
            forbidden=[encode_phrase(self.tokenizers.target, phrase) for phrase in self.forbidden],
            words=self.words,
            device=device,
            is_reranked=self.reverse is not None,
        )
        with torch.inference_mode():
            model = CachedDecoder(
                self.models,
                [each.source_ids for each in inputs],
                self.config,
                beam_size=settings.beam_size,
                max_length=max(max_lengths),
            )
            search = BeamSearch(
                model,
                settings,
                source_lengths=source_lengths.tolist(),
                max_lengths=max_lengths,
                max_tokens=self.config.batch_tokens,
                device=device,
            )
            for sentence, hypotheses in search.run(order, stop=stop, on_step=on_step):
                if not hypotheses:
                    raise RunError(
                        f"line {inputs[sentence].line + 1}: the model gives no probability to any word: its weights"
                        " are not finite, or the constraints forbid every word"
                    )
                on_found(sentence, hypotheses)

    def _translation(self, given: SearchInput, hypotheses: list[Hypothesis]) -> Translation:
        """The best of a search's hypotheses as a translation, with other good ones as its alternatives.

        Of hypotheses that spell one text with other subwords the best stays; samples may repeat a text. With
        `decoding.mbr` the best is the one of least risk among those that lack the fewest phrases.
        """
        if self.reverse is not None and hypotheses:
            hypotheses = self._rerank(given.source, hypotheses, self.reverse)
        hypotheses = hypotheses or [Hypothesis([], [], 0.0, truncated=False)]
        ranked = [(each, self._unmet(each.ids, given.phrases, given.phrase_ids)) for each in hypotheses]
        # A hypothesis that was cut at its maximum length may lack phrases and have the best score all the same.
        ranked.sort(key=lambda pair: len(pair[1]))
        if self.config.mbr != "none":
            ranked = [pair for pair in ranked if len(pair[1]) == len(ranked[0][1])]
            texts = [one_line(self.tokenizers.target.decode(hypothesis.ids)) for hypothesis, _ in ranked]
            utilities = expected_utilities(texts, utility=self.config.mbr)
            ranked = [ranked[utilities.index(max(utilities))]]
        found: list[Translation] = []
        for hypothesis, unmet in ranked:
            text = one_line(self.tokenizers.target.decode(hypothesis.ids))
            if self.config.search == "beam" and any(text == other.text for other in found):
                continue
            found.append(
                Translation(
                    source=given.source,
                    text=text,
                    ids=hypothesis.ids,
                    log_prob=hypothesis.log_prob,
                    score=hypothesis.score,
                    truncated=hypothesis.truncated,
                    source_truncated=given.source_truncated,
                    token_log_probs=hypothesis.token_log_probs if self._token_scores else (),
                    source_ids=given.source_ids,
                    unmet=unmet,
                    tokens=self.tokenizers.target.pieces(hypothesis.ids),
                    source_tokens=self.tokenizers.source.pieces(given.source_ids),
                )
            )
            if len(found) == self.config.n_best:
                break
        best, *others = found
        return best._replace(alternatives=tuple(others)) if others else best

    def _rerank(self, source: str, hypotheses: Sequence[Hypothesis], reverse: "Translator") -> list[Hypothesis]:
        """Rank hypotheses anew: (log P(translation | source) + weight * log P(source | translation)) / penalty.

        Source: Yee et al. 2019, https://arxiv.org/abs/1908.05731, section 2, with one penalty for both and without the
            language model.
        """
        source_ids = reverse.tokenizers.target.encode(source)
        texts = [one_line(self.tokenizers.target.decode(each.ids)) for each in hypotheses]
        scores = reverse.score(texts, [source_ids] * len(texts))
        lengths = torch.tensor([len(each.token_log_probs) for each in hypotheses])
        penalties = build_scoring(self.config).penalty(lengths).tolist()
        ranked = [
            each._replace(score=each.score + self.config.reverse_weight * score.log_prob / penalty)
            for each, score, penalty in zip(hypotheses, scores, penalties, strict=True)
        ]
        return sorted(ranked, key=lambda each: -each.score)

    def _unmet(self, ids: list[int], phrases: Sequence[str], required: Sequence[list[int]]) -> tuple[str, ...]:
        """The phrases that a translation lacks."""
        if not required:
            return ()
        unmet = unsatisfied_phrases(ids, required, begins_word=self.words.begins_word)
        return tuple(phrases[number] for number in unmet)


def _check_lines(lines: Any) -> Iterator[str | Request]:
    """Yield the same lines, each of which is text or a request.

    Raises:
        TypeError: One is not, or `lines` are no lines.
    """
    wanted = "translate() takes a str, or a list of str"
    if isinstance(lines, bytes | bytearray | Mapping) or not isinstance(lines, Iterable):
        raise TypeError(f"{wanted}, and this is {type(lines).__name__}: {lines!r:.80}")
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str | Request):
            raise TypeError(f"{wanted}, and item {number} of this one is {type(line).__name__}: {line!r:.80}")
        yield line


def read_buffers(
    items: Iterable[Item], *, max_items: int, count_characters: Callable[[Any], int] = lambda item: len(item.source)
) -> Iterator[list[Item]]:
    """Yield the items in order, a buffer at a time; the lines in a buffer are sorted by length and searched together.

    No item beyond the end of a buffer is read before the next buffer is asked for.

    Args:
        max_items: Items in a buffer; fewer if they have `BUFFER_CHARACTERS` characters together.
    """
    buffer: list[Item] = []
    characters = 0
    for item in items:
        buffer.append(item)
        characters += count_characters(item)
        if len(buffer) == max_items or characters >= BUFFER_CHARACTERS:
            yield buffer
            buffer, characters = [], 0
    if buffer:
        yield buffer
