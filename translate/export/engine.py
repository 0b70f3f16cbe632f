"""CTranslate2 as an engine in the place of `decoding.Translator`: text in, text out, nearly the same translations.

CTranslate2's beam search differs from ours: a finished hypothesis leaves its slot to another one, and the only length
penalty is length^alpha. So it searches without a penalty, until the likeliest hypothesis and somewhat more than
`beam_size` in all are finished, and the run's own scoring ranks them here. Greedy search is the same.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from translate.config import DecodingConfig, read_resolved_config
from translate.data.batching import batch_by_tokens
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, load_tokenizers
from translate.decoding import Translation, Translator
from translate.decoding.request import SearchInput, one_line
from translate.decoding.search.scoring import build_scoring, maximum_lengths
from translate.decoding.splitting import find_limit, fit_sources, join_translations
from translate.decoding.translator import read_buffers, search_memory_hint
from translate.errors import InputError, RunError
from translate.export.ctranslate2 import convert_run, import_ctranslate2, max_positions
from translate.model.device import explain_out_of_memory, num_cores
from translate.runs import Checkpoint, load_run, open_run

ComputeType = Literal["float32", "int8", "bfloat16"]

_COMPUTE_TYPES: dict[str, ComputeType] = {
    "fp32": "float32",
    "int8": "int8",
    "bf16": "bfloat16",
}  # by decoding.precision
_FINISHED_PER_SLOT = 1.2  # hypotheses finished for each of `beam_size`; with fewer the search stops before ours would


class _Found(NamedTuple):
    """A finished hypothesis."""

    ids: list[int]  # without the end symbol
    log_prob: float  # nats, of the ids and the end symbol
    score: float
    truncated: bool


class _Sentence(NamedTuple):
    """A sentence to translate."""

    number: int  # in its buffer of lines
    pieces: list[str]
    limit: int  # the most tokens to generate, with the end symbol


class CTranslate2Translator:
    """Translates lines of text with a run's model, which is converted to CTranslate2 and kept in the run.

    Args:
        config: Settings of the search; None: those of the run. `workers` is the number of threads, each of which
            searches its own sentences; null: one for each core.
        compute_type: The arithmetic, instead of that of the config's `precision`.

    Raises:
        InputError: The package is not installed, or CTranslate2 lacks a setting of the config; the error names the key.
        RunError: The run is damaged or cannot be written to, or the converted model gives other numbers.
    """

    def __init__(
        self,
        run_path: Path,
        config: DecodingConfig | None = None,
        *,
        checkpoint: Checkpoint = "best",
        compute_type: ComputeType | None = None,
    ) -> None:
        run = open_run(run_path)
        run_config = read_resolved_config(run.config)
        self.config = config or run_config.decoding_settings()
        check_search_is_supported(self.config)
        self.tokenizers = load_tokenizers(run.tokenizer)
        self.num_workers = self.config.workers or num_cores()
        self._run_path, self._checkpoint = run_path, checkpoint
        is_learned = run_config.model.positions == "learned"
        self.max_positions = run_config.model.max_positions if is_learned else None
        self.source_limit = find_limit("source", self.config, max_positions=self.max_positions)
        self._table_positions = max_positions(run_config.model)
        self._ours: Translator | None = None  # loaded for sentences that are longer than the exported table
        target = self.tokenizers.target
        self._ids = {piece: number for number, piece in enumerate(target.pieces(range(target.vocab_size)))}
        self._never = [[piece] for piece in target.pieces([PAD_ID, BOS_ID])]
        self._translator = _load(
            convert_run(run_path, checkpoint=checkpoint),
            compute_type=compute_type or _COMPUTE_TYPES[self.config.precision],
            device=self.config.device,
            num_workers=self.num_workers,
        )

    def translate(self, lines: Iterable[str]) -> list[Translation]:
        """The translation of each line, in order. A line without any word gives an empty translation."""
        return list(self.translate_stream(lines))

    def translate_stream(self, lines: Iterable[str]) -> Iterator[Translation]:
        """The translation of each line, in order, reading no further ahead than `look_ahead_lines`.

        Raises:
            InputError: A source is longer than the limit, and decoding.long = error.
        """
        number = 0
        for window in read_buffers(lines, max_items=self.config.look_ahead_lines, count_characters=len):
            yield from self._translate_window(window, first_number=number)
            number += len(window)

    def _translate_window(self, lines: list[str], *, first_number: int) -> Iterator[Translation]:
        fitted = fit_sources(
            lines,
            self.tokenizers.source,
            self.source_limit,
            long=self.config.long,
            first_number=first_number,
            num_threads=self.num_workers,
        )
        translated = self._translate_pieces([piece for pieces in fitted for piece in pieces])
        for line, pieces in zip(lines, fitted, strict=True):
            yield join_translations(line, [next(translated) for _ in pieces])

    def _translate_pieces(self, pieces: list[SearchInput]) -> Iterator[Translation]:
        lengths = [len(piece.source_ids) + 1 for piece in pieces]
        limits = maximum_lengths(torch.tensor(lengths), self.config, max_positions=self.max_positions).tolist()
        has_words = [bool(piece.source_ids) and not piece.source.isspace() for piece in pieces]
        longest = [max(lengths[index], limits[index]) for index in range(len(pieces))]
        fits = [self._table_positions is None or length <= self._table_positions for length in longest]
        sentences = [
            _Sentence(index, self.tokenizers.source.pieces(piece.source_ids), limits[index])
            for index, piece in enumerate(pieces)
            if has_words[index] and fits[index]
        ]
        with explain_out_of_memory(
            f"the search for the translations of {len(sentences)} texts of up to {max(lengths, default=0)} tokens",
            hint=search_memory_hint(self.config),
        ):
            found = self._search(sentences)
        for index, piece in enumerate(pieces):
            if has_words[index] and not fits[index]:
                yield self._translate_long(piece.source)
                continue
            hypotheses = found.get(index, [_Found([], 0.0, 0.0, truncated=False)])
            best, *others = (self._translation(piece, each) for each in hypotheses[: self.config.n_best])
            yield best._replace(alternatives=tuple(others)) if others else best

    def _translation(self, piece: SearchInput, hypothesis: _Found) -> Translation:
        return Translation(
            source=piece.source,
            text=one_line(self.tokenizers.target.decode(hypothesis.ids)),
            ids=hypothesis.ids,
            log_prob=hypothesis.log_prob,
            score=hypothesis.score,
            truncated=hypothesis.truncated,
            source_truncated=piece.source_truncated,
            source_ids=piece.source_ids,
        )

    def _translate_long(self, line: str) -> Translation:
        """Translate with our own search, whose table of positions grows."""
        if self._ours is None:
            run = load_run(self._run_path, checkpoint=self._checkpoint)
            self._ours = Translator(run.model, run.tokenizers, self.config)
        return self._ours.translate([line])[0]

    def _search(self, sentences: list[_Sentence]) -> dict[int, list[_Found]]:
        """The hypotheses of each sentence by its number, the best score first.

        A batch has one maximum length, the largest of its sentences. A sentence that reached its own maximum is
        searched again, with others of the same maximum. So is a sentence with a symbol that ours never generates: only
        then is the symbol suppressed, because that changes the probabilities of the other tokens.

        Raises:
            RunError: The model's weights are not finite.
        """
        found: dict[int, list[_Found]] = {}
        again: list[_Sentence] = []
        for batch, results in self._run(self._batches(sentences), never=None):
            longest = max(sentence.limit for sentence in batch)
            for sentence, result in zip(batch, results, strict=True):
                reached = max(map(len, result.hypotheses))
                is_within = reached < sentence.limit or sentence.limit == longest
                if is_within and not any([piece] in self._never for piece in itertools.chain(*result.hypotheses)):
                    found[sentence.number] = self._ranked(result)
                else:
                    again.append(sentence)
        again.sort(key=lambda sentence: sentence.limit)
        groups = [list(group) for _, group in itertools.groupby(again, key=lambda sentence: sentence.limit)]
        for batch, results in self._run(groups, never=self._never):
            found |= {sentence.number: self._ranked(result) for sentence, result in zip(batch, results, strict=True)}
        if not all(found.values()):
            raise RunError("the model gives no probability to any word: its weights are not finite")
        return found

    def _batches(self, sentences: list[_Sentence]) -> list[list[_Sentence]]:
        """Batches of similar lengths within `batch_tokens`, the longest first, and enough of them for all workers."""
        lengths = [(len(sentence.pieces) + 1) * self.config.beam_size for sentence in sentences]
        order = sorted(range(len(sentences)), key=lambda index: -lengths[index])
        max_tokens = min(self.config.batch_tokens, -(-sum(lengths) // self.num_workers))
        return [[sentences[i] for i in batch] for batch in batch_by_tokens(lengths, order=order, max_tokens=max_tokens)]

    def _run(
        self, batches: Sequence[list[_Sentence]], *, never: list[list[str]] | None
    ) -> Iterator[tuple[list[_Sentence], list[Any]]]:
        """Each batch with CTranslate2's results; all batches wait in its queue, from which its workers take them."""
        beam_size = self.config.beam_size
        num_finished = 1 if beam_size == 1 else round(beam_size * _FINISHED_PER_SLOT)
        waiting = [
            self._translator.translate_batch(
                [sentence.pieces for sentence in batch],
                asynchronous=True,
                beam_size=beam_size,
                num_hypotheses=num_finished,
                patience=num_finished / beam_size,
                length_penalty=0,
                min_decoding_length=0,
                max_decoding_length=max(sentence.limit for sentence in batch),
                max_input_length=0,  # no limit
                suppress_sequences=never,
                return_scores=True,
                return_end_token=True,
            )
            for batch in batches
        ]
        for batch, results in zip(batches, waiting, strict=True):
            yield batch, [result.result() for result in results]

    def _ranked(self, result: Any) -> list[_Found]:
        scoring = build_scoring(self.config)
        hypotheses = []
        for pieces, log_prob in zip(result.hypotheses, result.scores, strict=True):
            ids = [self._ids[piece] for piece in pieces]
            score = float(scoring.score(torch.tensor(log_prob), torch.tensor(len(ids))))
            is_ended = ids[-1] == EOS_ID
            hypotheses.append(_Found(ids[:-1] if is_ended else ids, log_prob, score, truncated=not is_ended))
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


def check_search_is_supported(config: DecodingConfig) -> None:
    """Check that CTranslate2 has all settings of a search.

    Raises:
        InputError: It lacks some; the error names them.
    """
    needed = {
        "search": "beam",
        "coverage_penalty": 0.0,
        "min_length_factor": 0.0,
        "min_length_constant": 0,
        "diversity_groups": 1,
        "mbr": "none",
        "no_repeat_ngram": 0,
        "repetition_penalty": 1.0,
        "shortlist": False,
    }
    others = [f"decoding.{key} = {getattr(config, key)!r}" for key in needed if getattr(config, key) != needed[key]]
    if others:
        raise InputError(f"the engine ctranslate2 cannot search as {', '.join(others)} asks; use the engine translate")


def _load(folder: Path, *, compute_type: ComputeType, device: str, num_workers: int) -> Any:
    """CTranslate2's translator of a converted model."""
    ctranslate2 = import_ctranslate2()
    name, _, index = device.partition(":")
    num_gpus = ctranslate2.get_cuda_device_count()
    if name == "auto":
        name = "cuda" if num_gpus else "cpu"
    if name == "mps" or (name == "cuda" and int(index or 0) >= num_gpus):
        raise InputError(f"device = {device}: CTranslate2 has no such device here; use device=auto or device=cpu")
    supported = ctranslate2.get_supported_compute_types(name)
    if compute_type not in supported:
        raise InputError(
            f"compute type {compute_type}: CTranslate2 has it not on this {name}; it has {', '.join(sorted(supported))}"
        )
    return ctranslate2.Translator(
        str(folder),
        device=name,
        device_index=int(index or 0),
        compute_type=compute_type,
        inter_threads=num_workers,
        intra_threads=1,
        max_queued_batches=-1,  # as many as a window has
    )
