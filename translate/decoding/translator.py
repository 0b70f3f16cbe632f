"""Text in, text out: lines are encoded, searched longest first, decoded, and given back in their order."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import NamedTuple

import torch

from translate.config import Config, DecodingConfig, override_config
from translate.data.batching import EncodedPair
from translate.data.shortlist import Shortlist
from translate.data.tokenizer import Tokenizers
from translate.decoding.beam import Hypothesis
from translate.decoding.combined import ALONE, Combination, build_next_token_model
from translate.decoding.constraints import met_first, phrase_ids, unmet_phrases
from translate.decoding.forced import Forced, force_decode
from translate.decoding.mbr import choose_minimum_risk
from translate.decoding.plans import Line, build_plan, build_word_tables
from translate.decoding.requests import Request, Score, Translation
from translate.decoding.scoring import build_scoring, maximum_lengths
from translate.decoding.search import Sentences, search
from translate.errors import InputError, RunError
from translate.model import Transformer

LINES_PER_WORKER = 8  # with fewer, one worker with all threads is as fast


class Window(NamedTuple):
    """Lines that are searched together."""

    lines: list[Line]
    sentences: Sentences


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
        models = [model, *combination.ensemble, *([] if combination.contrast is None else [combination.contrast])]
        self.max_positions = min(
            (each.config.max_positions for each in models if each.config.positions == "learned"), default=None
        )

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

    def translate_stream(self, lines: Iterable[str | Request]) -> Iterator[Translation]:
        """The translation of each line, in order, reading no further ahead than `look_ahead_lines`."""
        requests = (Request(line) if isinstance(line, str) else line for line in lines)
        number = 0
        while window := list(islice(requests, self.config.look_ahead_lines)):
            yield from self._translate_window(window, first_number=number)
            number += len(window)

    def score(self, sources: Sequence[str], targets: Sequence[Sequence[int]]) -> list[Score]:
        """The log-probability of given translations, by the full forward pass: forced decoding.

        A source is cut to the positions that the model has, as in translating. By the first model alone and its whole
        vocabulary: an ensemble, a contrast or a shortlist has no say here.

        Args:
            targets: Subwords of each translation, without the end symbol.
        """
        scoring = build_scoring(self.config)
        scores = []
        for forced in self.force(sources, targets):
            total = sum(forced.token_log_probs)
            score = scoring.score(torch.tensor(total), torch.tensor(len(forced.token_log_probs)))
            scores.append(Score(total, float(score), forced.token_log_probs))
        return scores

    def force(self, sources: Sequence[str], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Forced decoding: token log-probabilities, and the attention for alignments."""
        encoded = self._encode(sources)
        pairs = [EncodedPair(self._cut(source), list(target)) for source, target in zip(encoded, targets, strict=True)]
        return force_decode(
            self.model, pairs, max_tokens=self.config.batch_tokens, attention_layer=self.config.alignment_layer
        )

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.tokenizers.source.encode_lines(lines, num_threads=torch.get_num_threads())

    def _cut(self, source_ids: list[int]) -> list[int]:
        """As much of a source as the model has positions for; the end symbol takes one."""
        return source_ids if self.max_positions is None else source_ids[: self.max_positions - 1]

    def _translate_window(self, requests: list[Request], *, first_number: int) -> Iterator[Translation]:
        encoded = self._encode([request.source for request in requests])
        lines = [
            Line(
                number=first_number + index,
                source_ids=self._cut(ids),
                prefix=self.tokenizers.target.encode(request.prefix),
                required=[phrase_ids(self.tokenizers.target, phrase) for phrase in request.required],
            )
            for index, (request, ids) in enumerate(zip(requests, encoded, strict=True))
        ]
        found = self._search(
            lines, [i for i, line in enumerate(lines) if line.source_ids and not requests[i].source.isspace()]
        )
        for index, (request, line) in enumerate(zip(requests, lines, strict=True)):
            is_cut = len(line.source_ids) < len(encoded[index])
            best, *others = [
                self._translation(request, line, hypothesis, is_cut=is_cut)
                for hypothesis in found.get(index, [Hypothesis([], [], 0.0, truncated=False)])
            ]
            yield best._replace(alternatives=tuple(others)) if others else best

    def _translation(self, request: Request, line: Line, hypothesis: Hypothesis, *, is_cut: bool) -> Translation:
        missing = (
            unmet_phrases(hypothesis.ids, line.required, begins_word=self.words.begins_word) if line.required else ()
        )
        return Translation(
            source=request.source,
            text=self._text(hypothesis.ids),
            ids=hypothesis.ids,
            log_prob=hypothesis.log_prob,
            score=hypothesis.score,
            truncated=hypothesis.truncated,
            source_truncated=is_cut,
            token_log_probs=hypothesis.token_log_probs,
            source_ids=line.source_ids,
            unmet=tuple(request.required[number] for number in missing),
        )

    def _text(self, ids: list[int]) -> str:
        """The text of the ids. Byte fallback can spell a line break, which would shift all lines after it."""
        return self.tokenizers.target.decode(ids).replace("\r", " ").replace("\n", " ")

    def _search(self, lines: list[Line], searched: list[int]) -> dict[int, list[Hypothesis]]:
        """The wanted hypotheses of lines, by their place.

        Raises:
            RunError: The model's weights are not finite.
        """
        if not searched:
            return {}
        lengths = torch.tensor([len(line.source_ids) + 1 for line in lines])
        limits = maximum_lengths(lengths, self.config, max_positions=self.max_positions)
        sentences = Sentences(lengths.tolist(), limits.tolist())
        # Neighbours of like length pad little; and what needs the most memory comes first.
        order = sorted(searched, key=lambda index: -sentences.source_lengths[index])
        workers = self._num_workers(len(order))
        stop = threading.Event()
        if workers == 1:
            found = self._search_part(lines, sentences, order, stop, num_threads=None)
        else:
            num_threads = torch.get_num_threads()
            try:
                with ThreadPoolExecutor(workers) as executor:
                    # Of n workers each takes every n-th line: as much work for each, and always the same.
                    parts = [
                        executor.submit(self._search_part, lines, sentences, order[first::workers], stop, num_threads=1)
                        for first in range(workers)
                    ]
                    found = {}
                    try:
                        for part in parts:
                            found |= part.result()
                    finally:
                        stop.set()  # before the executor waits for the others
            finally:
                torch.set_num_threads(num_threads)
        return {index: self._wanted(hypotheses, lines[index]) for index, hypotheses in found.items()}

    def _search_part(
        self,
        lines: list[Line],
        sentences: Sentences,
        order: list[int],
        stop: threading.Event,
        *,
        num_threads: int | None,
    ) -> dict[int, list[Hypothesis]]:
        """What one worker does: its sentences, one pool."""
        if num_threads is not None:
            torch.set_num_threads(num_threads)
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

    def _wanted(self, hypotheses: list[Hypothesis], line: Line) -> list[Hypothesis]:
        """As many as are asked for; of minimum Bayes risk, the one that it chooses among those that lack least."""
        if line.required:
            hypotheses = met_first(hypotheses, line.required, begins_word=self.words.begins_word)
        if self.config.mbr == "none":
            return hypotheses[: self.config.n_best]
        if line.required:
            lacking = [self._num_unmet(hypothesis, line) for hypothesis in hypotheses]
            hypotheses = hypotheses[: lacking.count(lacking[0])]
        texts = [self._text(hypothesis.ids) for hypothesis in hypotheses]
        return [hypotheses[choose_minimum_risk(texts, utility=self.config.mbr).chosen]]

    def _num_unmet(self, hypothesis: Hypothesis, line: Line) -> int:
        return len(unmet_phrases(hypothesis.ids, line.required, begins_word=self.words.begins_word))
