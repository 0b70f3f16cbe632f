"""What a training is made from, before its first step: corpora read, tokenizers made, pairs encoded and filtered."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import BinaryIO, NamedTuple

from translate.config import Config, TokenizerConfig
from translate.config.section import MOST
from translate.data.cache import DataCache, entry_name, text_digest
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.epochs import TrainingBatches
from translate.data.streaming import Batches, StreamedBatches, TrainingStreams
from translate.data.texts import JoinedText
from translate.data.tokenizer import Tokenizer, Tokenizers, prepare_tokenizers
from translate.distributed.environment import read_environment
from translate.errors import InputError
from translate.model.device import threads_per_process

_CHUNK_LINES = 10_000  # that are in memory at once


class Corpora(NamedTuple):
    """All that a config names."""

    train: list[ParallelCorpus]  # of those that are streamed the first segment
    validation: ParallelCorpus | None
    test: dict[str, ParallelCorpus]
    streams: TrainingStreams | None = None  # where `train` is from, if any of them is streamed


def read_corpora(config: Config) -> Corpora:
    """Read all that will be needed now, so that a missing test set is known before the training and not after it.

    Raises:
        InputError: A corpus cannot be used, or there is none to train on; the message begins with its key.
    """
    if not config.data.train:
        raise InputError("data.train names no corpus: there is nothing to train on")
    streams = TrainingStreams(config.data) if config.data.is_streamed else None
    validation = config.data.validation
    return Corpora(
        [read_corpus(corpus, key=f"data.train.{index}") for index, corpus in enumerate(config.data.train)]
        if streams is None
        else streams.first.corpora,
        None if validation is None else read_corpus(validation, key="data.validation"),
        {name: read_corpus(corpus, key=f"data.test.{name}") for name, corpus in config.data.test.items()},
        streams,
    )


def make_tokenizers(
    config: Config,
    corpora: Sequence[ParallelCorpus],
    say: Callable[[str], None],
    *,
    cache: DataCache | None = None,
) -> Tokenizers:
    """The tokenizers that the config asks for, trained on the corpora or given ready.

    Args:
        cache: Where trained ones are read, or kept for the next time; None: they are not.
    """
    started = time.perf_counter()
    sources = JoinedText(corpus.sources for corpus in corpora)
    targets = JoinedText(corpus.targets for corpus in corpora)
    if cache is None or config.tokenizer.source_model is not None:
        tokenizers, origin = prepare_tokenizers(config.tokenizer, sources, targets), ""
    else:
        num_made = cache.num_made
        tokenizers = _trained_tokenizers(config.tokenizer, sources, targets, cache)
        origin = f", from {cache.folder}" if cache.num_made == num_made else ""
    sizes = f"joint vocabulary of {tokenizers.source.vocab_size}"
    if tokenizers.vocabulary == "separate":
        sizes = f"vocabularies of {tokenizers.source.vocab_size} and {tokenizers.target.vocab_size}"
    if config.data.is_streamed and config.tokenizer.source_model is None:
        origin = f", of the first segment of the streamed corpora{origin}"
    say(f"tokenizer: {sizes}{origin}, in {time.perf_counter() - started:.1f} s")
    return tokenizers


def _trained_tokenizers(
    config: TokenizerConfig, sources: Sequence[str], targets: Sequence[str], cache: DataCache
) -> Tokenizers:
    """Those trained on the same text before, or now."""
    settings = config.model_dump_json(exclude={"subword_sampling", "source_model", "target_model"})
    digests = text_digest(sources), text_digest(targets)
    sides = ["joint"] if config.vocabulary == "joint" else ["source", "target"]
    names = [entry_name("model", side, settings, *digests) for side in sides]
    models = [Tokenizer(file.content()) for name in names if (file := cache.find(name)) is not None]
    if len(models) == len(names):
        return Tokenizers(models[0], models[-1], config.vocabulary)
    tokenizers = prepare_tokenizers(config, sources, targets)
    for name, tokenizer in zip(names, tokenizers[:2], strict=False):  # a joint one is there twice
        cache.make(name, partial(_write_model, tokenizer))
    return tokenizers


def _write_model(tokenizer: Tokenizer, file: BinaryIO) -> None:
    file.write(tokenizer.model_bytes)


def make_batches(
    config: Config,
    corpora: Corpora,
    tokenizers: Tokenizers,
    say: Callable[[str], None],
    *,
    cache: DataCache | None = None,
    is_continued: bool = False,
) -> Batches:
    """The training corpora as batches; of streamed ones the first segment's are made, unless the run is continued.

    All processes of a training must make those of streamed corpora at once.

    Args:
        cache: As for `encode_corpora`; streamed corpora are not kept.
    """
    if corpora.streams is None:
        return encode_corpora(config, corpora.train, tokenizers, say, cache=cache)
    batch_tokens = config.training.batch_tokens
    batches = StreamedBatches(
        corpora.streams,
        tokenizers,
        limits=config.data,
        subword_sampling=config.tokenizer.subword_sampling,
        batch_tokens=MOST if batch_tokens == "auto" else batch_tokens,
        seed=config.training.seed,
        num_threads=_num_threads(config),
    )
    if not is_continued:
        batches.epoch(0)  # so that what cannot be used is known now
    return batches


def encode_corpora(
    config: Config,
    corpora: Sequence[ParallelCorpus],
    tokenizers: Tokenizers,
    say: Callable[[str], None],
    *,
    cache: DataCache | None = None,
) -> TrainingBatches:
    """The corpora as batches; what is left out of them is said.

    With `training.batch_tokens` = auto a batch has no limit until `resolve_batch_tokens` gives it one.

    Args:
        cache: Where token ids are read, or kept for the next time; None: they are not.
    """
    started = time.perf_counter()
    num_made = 0 if cache is None else cache.num_made
    batch_tokens = config.training.batch_tokens
    batches = TrainingBatches(
        corpora,
        tokenizers,
        limits=config.data,
        subword_sampling=config.tokenizer.subword_sampling,
        batch_tokens=MOST if batch_tokens == "auto" else batch_tokens,
        seed=config.training.seed,
        num_threads=_num_threads(config),
        cache=cache,
    )
    origin = f"from {cache.folder}" if cache is not None and cache.num_made == num_made else "made"
    say(f"token ids: {origin}, in {time.perf_counter() - started:.1f} s")
    for report in batches.filter_reports:
        for line in report.lines():
            say(line)
    return batches


def _num_threads(config: Config) -> int:
    """Those that are wanted, or this process's share of all cores; torch may have fewer, one for each worker."""
    threads = config.training.threads
    return threads_per_process(read_environment(os.environ).local_world_size) if threads is None else threads


def refuse_long_validation(config: Config, validation: ParallelCorpus, tokenizers: Tokenizers) -> None:
    if config.model.positions != "learned":
        return
    for number, target in enumerate(validation.targets, start=1):
        length = len(tokenizers.target.encode(target)) + 1
        if length > config.model.max_positions:
            raise InputError(
                f"data.validation: the target of pair {number} has {length} tokens, more than model.max_positions ="
                f" {config.model.max_positions}; raise that, leave the pair out, or use other model.positions"
            )


def fingerprint(
    corpora: Iterable[ParallelCorpus], tokenizers: Tokenizers, *, streams: TrainingStreams | None = None
) -> str:
    """A checksum of all that is trained on, in its order; of streams, of what they are called and `corpora`."""
    digest = hashlib.sha256(tokenizers.source.model_bytes + tokenizers.target.model_bytes)
    if streams is not None:
        digest.update(f"{streams.identity}\n".encode())
    for corpus in corpora:
        digest.update(f"{len(corpus.sources)} {corpus.weight}\n".encode())
        for lines in (corpus.sources, corpus.targets):
            for first in range(0, len(lines), _CHUNK_LINES):
                if first:
                    digest.update(b"\n")
                digest.update("\n".join(lines[first : first + _CHUNK_LINES]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
