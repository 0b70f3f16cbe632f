"""Our own search: sentences are shared among the CPU's workers, or are all searched together on another device.

`BeamSearch` in `search/loop.py` searches one share; its `step` is one step of beam search.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import torch

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import Tokenizer
from translate.decoding.constraints.phrases import build_word_tables, encode_forbidden
from translate.decoding.engines.engine import SearchJob
from translate.decoding.search.loop import BeamSearch
from translate.decoding.search.model import CachedDecoder, Caches
from translate.decoding.search.settings import build_search_settings, maximum_lengths
from translate.errors import InputError, RunError
from translate.memory import configure_memory, release_free_memory
from translate.model import Transformer
from translate.model.device import explain_out_of_memory

LINES_PER_WORKER = 4  # a worker searches at least this many lines together


class OwnEngine:
    """Searches with our own model; every setting and every constraint is supported.

    Args:
        model: The model in evaluation mode; in training mode its dropout would stay on.
        target: The tokenizer of translations.
        ensemble: Other models with the same tokenizers, whose probabilities are averaged with this model's.
        forbidden: Words and phrases that no translation contains in the subwords that the tokenizer makes of them.
    """

    def __init__(
        self,
        model: Transformer,
        target: Tokenizer,
        *,
        ensemble: Sequence[Transformer] = (),
        forbidden: Sequence[str] = (),
    ) -> None:
        self.model, self.models = model, [model, *ensemble]
        self.forbidden = [ids for phrase in forbidden for ids in encode_forbidden(target, phrase)]
        self.words, self.never_generated = build_word_tables(target), target.never_generated
        learned = [model.config.max_positions for model in self.models if model.config.positions == "learned"]
        self.position_limit = min(learned, default=None)

    def check(self, config: DecodingConfig) -> None:
        """See `Engine.check`: it supports all settings."""

    def prepare(self, num_lines: int | None = None) -> Literal["translate"]:
        """See `Engine.prepare`."""
        return "translate"

    def search(self, job: SearchJob) -> None:
        """See `Engine.search`.

        On a CPU, `decoding.workers` threads or fewer search. Each runs torch with one thread: torch's own threads would
        wait for each other after every product, and on a busy machine that takes ten times as long as the product.
        """
        inputs, config = job.inputs, job.config
        order = [index for index, given in enumerate(inputs) if given.has_words]
        if not order:
            return
        # Neighbours of similar length need little padding, and the batch that needs the most memory comes first.
        order.sort(key=lambda index: -len(inputs[index].source_ids))
        stop = threading.Event()  # set when a worker has failed, or the search is interrupted
        with explain_out_of_memory(
            f"the search for the translations of {len(inputs)} texts of up to {len(inputs[order[0]].source_ids) + 1}"
            " tokens",
            hint=f"Lower decoding.batch_tokens (now {config.batch_tokens}), decoding.beam_size (now"
            f" {config.beam_size}) or decoding.max_source_tokens (--max-source-tokens).",
        ):
            start_search = self._build_search(job)
            if self.model.device.type != "cpu":
                _search_share(start_search(), job, order, stop)
                return
            num_workers = max(1, min(config.workers or torch.get_num_threads(), len(order) // LINES_PER_WORKER))

            def work(worker: int) -> None:
                torch.set_num_threads(1)
                try:
                    # Every n-th sentence: all workers get equal work, and the same sentences each time.
                    _search_share(start_search(), job, order[worker::num_workers], stop)
                except BaseException:
                    stop.set()  # at once: `map` gives the error after the results of the workers before
                    raise

            num_threads = torch.get_num_threads()
            configure_memory()
            try:
                with ThreadPoolExecutor(num_workers) as executor:
                    try:
                        for _ in executor.map(work, range(num_workers)):
                            pass
                    finally:
                        stop.set()  # before the executor waits for the other workers
            finally:
                torch.set_num_threads(num_threads)
                release_free_memory()  # otherwise a server keeps the memory of its largest request

    def _build_search(self, job: SearchJob) -> Callable[[], BeamSearch[Caches]]:
        """Everything that the workers share; the result starts the search of one worker."""
        inputs, config, device = job.inputs, job.config, self.model.device
        source_lengths = torch.tensor([len(given.source_ids) + 1 for given in inputs])
        tags = [token for given in inputs for token in given.start_ids]  # one for each input, or none at all
        if len(tags) not in (0, len(inputs)):
            raise RunError("the tag of a target language has several tokens in this run's vocabulary: train it again")
        limit = self.position_limit and self.position_limit - bool(tags)
        prefix_tokens = torch.tensor([len(given.prefix_ids) for given in inputs])
        max_lengths = maximum_lengths(
            source_lengths, config, position_limit=limit, prefix_tokens=prefix_tokens
        ).tolist()
        for given, most in zip(inputs, max_lengths, strict=True):
            if len(given.prefix_ids) >= most:
                raise InputError(
                    f"line {given.line + 1}: the prefix has {len(given.prefix_ids)} tokens, but the model has positions"
                    f" for {most - 1}: shorten it"
                )
        settings = build_search_settings(config, inputs, forbidden=self.forbidden, words=self.words, device=device)
        model = CachedDecoder(
            self.models,
            [given.source_ids for given in inputs],
            beam_size=settings.beam_size,
            max_length=max(max_lengths),
            num_read=bool(tags),
            never=self.never_generated,
        )
        return functools.partial(
            BeamSearch,
            model,
            settings,
            start_ids=tags,
            source_lengths=source_lengths.tolist(),
            max_lengths=max_lengths,
            max_tokens=config.batch_tokens,
            device=device,
        )


def _search_share(search: BeamSearch[Caches], job: SearchJob, order: Sequence[int], stop: threading.Event) -> None:
    """Search the sentences of one worker, until all are done or another worker fails."""

    def is_stopped() -> bool:
        if job.check is not None:
            job.check()
        return stop.is_set()

    for sentence, hypotheses in search.run(order, is_stopped=is_stopped, on_step=job.on_step):
        if not hypotheses:
            raise RunError(
                f"line {job.inputs[sentence].line + 1}: the model gives no probability to any word: its weights are not"
                " finite, or the constraints forbid every word"
            )
        job.on_found(sentence, hypotheses)
