"""Text in, text out: lines are encoded, searched longest first, decoded, and given back in their order."""

import functools
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import torch

from translate.config import Config, DecodingConfig, override_config
from translate.data.batching import EncodedPair
from translate.data.shortlist import Shortlist
from translate.data.tokenizer import Tokenizers
from translate.decoding.constraints.allocation import phrase_ids
from translate.decoding.limits import Piece, find_limit, fit_pair, fit_sources, join_translations, search_memory_told
from translate.decoding.postprocessing import Postprocessing
from translate.decoding.request import Request, Score, Translation
from translate.decoding.score import Forced, force_decode
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.ensemble import ALONE, Combination, build_next_token_model
from translate.decoding.search.loop import Sentences, search
from translate.decoding.search.plans import Line, build_plan, build_word_tables
from translate.decoding.search.scoring import build_scoring, maximum_lengths
from translate.decoding.windows import read_windows
from translate.decoding.workers import share_out
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.model.device import explain_out_of_memory

LINES_PER_WORKER = 8  # with fewer, one worker with all threads is as fast


class Translator:
    """Translates lines of text with a model and its tokenizers.

    Args:
        model: Used as it is; put it into evaluation mode, else dropout stays on.
        combination: Other models that have their say.
        shortlist: Needed for `decoding.shortlist`.
        forbidden: Words and phrases that no translation contains.

    Raises:
        InputError: Settings that this model cannot follow.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: Tokenizers,
        config: DecodingConfig,
        *,
        combination: Combination = ALONE,
        shortlist: Shortlist | None = None,
        forbidden: Sequence[str] = (),
    ) -> None:
        if config.shortlist and shortlist is None:
            raise InputError(
                "decoding.shortlist: none was loaded; make it with `translate shortlist RUN`, and load the run with"
                " shortlist=True"
            )
        num_layers = len(model.decoder.layers)
        if not -num_layers <= config.alignment_layer < num_layers:
            raise InputError(
                f"decoding.alignment_layer = {config.alignment_layer}: the decoder has the layers 0 to"
                f" {num_layers - 1}; -1 is the last"
            )
        self.model = model
        self.tokenizers = tokenizers
        self.config = config
        self.combination = combination
        self.shortlist = None if shortlist is None else shortlist.to(model.device)
        self.forbidden = forbidden
        self.words = build_word_tables(tokenizers.target)
        self.postprocessing = Postprocessing(tokenizers.target, config, begins_word=self.words.begins_word)
        models = [model, *combination.ensemble, *([] if combination.contrast is None else [combination.contrast])]
        self.max_positions = min(
            (each.config.max_positions for each in models if each.config.positions == "learned"), default=None
        )
        self.source_limit = find_limit("source", config, max_positions=self.max_positions)
        self.target_limit = find_limit("target", config, max_positions=self.max_positions)

    def with_options(self, **options: object) -> "Translator":
        """The same translator with some of its settings changed.

        Raises:
            InputError: No such setting, or not such a value; or one that is settled when a model is loaded.
        """
        for key in ("precision", "device"):
            if key in options:
                raise InputError(f"decoding.{key} is settled when a run is loaded")
        return Translator(
            self.model,
            self.tokenizers,
            override_config(
                Config(decoding=self.config), {f"decoding.{key}": options[key] for key in options}
            ).decoding,
            combination=self.combination,
            shortlist=self.shortlist,
            forbidden=self.forbidden,
        )

    def translate(self, lines: Iterable[str | Request], **options: object) -> list[Translation]:
        """The translation of each line, in order. A line without any word gives an empty translation.

        Args:
            options: Settings of `DecodingConfig` for this call, such as `beam_size=4`.
        """
        translator = self.with_options(**options) if options else self
        return list(translator.translate_stream(lines))

    def translate_stream(self, lines: Iterable[str | Request], *, first_number: int = 0) -> Iterator[Translation]:
        """The translation of each line, in order, reading no further ahead than `look_ahead_lines`.

        Args:
            first_number: Of the first line among all, from 0: it settles what is sampled, and errors name it.

        Raises:
            InputError: A source is longer than the limit, and decoding.long = error; or wishes that cannot be.
        """
        requests = (Request(line) if isinstance(line, str) else line for line in lines)
        number = first_number
        for window in read_windows(
            requests, max_items=self.config.look_ahead_lines, count_characters=lambda request: len(request.source)
        ):
            yield from self._translate_window(window, first_number=number)
            number += len(window)

    def score(self, sources: Sequence[str], targets: Sequence[Sequence[int]], *, first_number: int = 0) -> list[Score]:
        """The log-probability of given translations, by the full forward pass: forced decoding.

        What is longer than the limits is cut, unless decoding.long = error: a given translation cannot be split. By the
        first model alone and its whole vocabulary: an ensemble, a contrast or a shortlist has no say here.

        Args:
            targets: Subwords of each translation, without the end symbol.
            first_number: Of the first line among all, from 0, for errors.

        Raises:
            InputError: A side is longer than its limit, and decoding.long = error.
        """
        encoded = self.tokenizers.source.encode_lines(sources, num_threads=torch.get_num_threads())
        pairs = [
            fit_pair(
                EncodedPair(source, list(target)),
                self.source_limit,
                self.target_limit,
                number=number,
                is_error=self.config.long == "error",
            )
            for number, (source, target) in enumerate(zip(encoded, targets, strict=True), start=first_number)
        ]
        scoring = build_scoring(self.config)
        scores = []
        for fitted, forced in zip(pairs, self.force([each.pair for each in pairs]), strict=True):
            total = sum(forced.token_log_probs)
            score = scoring.score(torch.tensor(total), torch.tensor(len(forced.token_log_probs)))
            scores.append(Score(total, float(score), forced.token_log_probs, fitted.pair.target, fitted.flags))
        return scores

    def force(self, pairs: Sequence[EncodedPair]) -> list[Forced]:
        """Forced decoding: token log-probabilities, and the attention for alignments.

        Raises:
            OutOfMemory: The device's memory is not enough.
        """
        longest = max((max(len(pair.source), len(pair.target)) + 1 for pair in pairs), default=0)
        with explain_out_of_memory(
            f"the forced decoding of {len(pairs)} pairs of up to {longest} tokens",
            hint=f"Lower decoding.batch_tokens (now {self.config.batch_tokens}), decoding.max_source_tokens"
            " (--max-source-tokens) or decoding.max_target_tokens.",
        ):
            return force_decode(
                self.model, pairs, max_tokens=self.config.batch_tokens, attention_layer=self.config.alignment_layer
            )

    def _translate_window(self, requests: list[Request], *, first_number: int) -> Iterator[Translation]:
        fitted = fit_sources(
            [request.source for request in requests],
            self.tokenizers.source,
            self.source_limit,
            long=self.config.long,
            first_number=first_number,
            num_threads=torch.get_num_threads(),
        )
        lines = [
            self._line(request, piece, number=number, place=place, is_split=len(pieces) > 1)
            for number, (request, pieces) in enumerate(zip(requests, fitted, strict=True), start=first_number)
            for place, piece in enumerate(pieces)
        ]
        sources = [piece for pieces in fitted for piece in pieces]
        found = self._search(
            lines, [i for i, piece in enumerate(sources) if piece.source_ids and not piece.source.isspace()]
        )
        translated = iter(
            self.postprocessing.translation(piece, line, found.get(index, [Hypothesis([], [], 0.0, truncated=False)]))
            for index, (piece, line) in enumerate(zip(sources, lines, strict=True))
        )
        for request, pieces in zip(requests, fitted, strict=True):
            joined = join_translations(request.source, [next(translated) for _ in pieces])
            yield self.postprocessing.checked(request, joined)

    def _line(self, request: Request, piece: Piece, *, number: int, place: int, is_split: bool) -> Line:
        """A piece with the wishes for it."""
        terms = () if request.terminology is None else request.terminology.matches(piece.source)
        phrases = (*(() if is_split else request.required), *terms)
        return Line(
            number=number,
            piece=place,
            source_ids=piece.source_ids,
            prefix=self.tokenizers.target.encode(request.prefix) if place == 0 else [],
            phrases=phrases,
            required=[phrase_ids(self.tokenizers.target, phrase) for phrase in phrases],
        )

    def _search(self, lines: list[Line], searched: list[int]) -> dict[int, list[Hypothesis]]:
        """The wanted hypotheses of lines, by their place.

        Raises:
            RunError: The model's weights are not finite.
            OutOfMemory: The device's memory is not enough.
        """
        if not searched:
            return {}
        lengths = torch.tensor([len(line.source_ids) + 1 for line in lines])
        limits = maximum_lengths(lengths, self.config, max_positions=self.max_positions)
        sentences = Sentences(lengths.tolist(), limits.tolist())
        # Neighbours of like length pad little; and what needs the most memory comes first.
        order = sorted(searched, key=lambda index: -sentences.source_lengths[index])
        search_part = functools.partial(self._search_part, lines, sentences)
        with search_memory_told(self.config, num_texts=len(order), longest=max(sentences.source_lengths)):
            found = share_out(order, search_part, num_workers=self._num_workers(len(order)))
        return {index: self.postprocessing.choose(hypotheses, lines[index]) for index, hypotheses in found.items()}

    def _search_part(
        self, lines: list[Line], sentences: Sentences, order: Sequence[int], stop: threading.Event
    ) -> dict[int, list[Hypothesis]]:
        """What one worker does: its sentences, one pool."""
        device = self.model.device
        plan = build_plan(
            self.config,
            lines,
            sentences,
            forbidden=[phrase_ids(self.tokenizers.target, phrase) for phrase in self.forbidden],
            words=self.words,
            device=device,
        )
        found: dict[int, list[Hypothesis]] = {}
        with torch.inference_mode():
            model = build_next_token_model(
                self.model,
                self.combination,
                [line.source_ids for line in lines],
                self.config,
                beam_size=plan.beam_size,
                max_length=max(sentences.max_lengths),
                shortlist=self.shortlist if self.config.shortlist else None,
                also_allowed=[[*line.prefix, *chain.from_iterable(line.required)] for line in lines],
            )
            results = search(model, sentences, plan, order=order, max_tokens=self.config.batch_tokens, device=device)
            for sentence, hypotheses in results:
                if not hypotheses:
                    raise RunError(
                        f"line {lines[sentence].number + 1}: the model gives no probability to any word: its weights"
                        " are not finite, or the rules of the search leave none"
                    )
                found[sentence] = hypotheses
                if stop.is_set():
                    break
        return found

    def _num_workers(self, num_lines: int) -> int:
        if self.model.device.type != "cpu":
            return 1
        wanted = self.config.workers or torch.get_num_threads()
        return max(1, min(wanted, num_lines // LINES_PER_WORKER))
