"""Training data before the first step: corpora read, tokenizers trained or given, pairs encoded and filtered."""

import logging
import os
import time
from collections.abc import Sequence
from typing import NamedTuple

from translate.config import Config
from translate.config.section import MOST
from translate.data.cache import DataCache
from translate.data.corpora import JoinedText, ParallelCorpus, read_corpus
from translate.data.epochs import TrainingBatches
from translate.data.streaming import Batches, StreamedBatches, TrainingStreams
from translate.data.tokenizer import Tokenizers, load_tokenizers, prepare_tokenizers
from translate.distributed.environment import read_environment
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.errors import InputError
from translate.model.device import threads_per_process
from translate.runs import RunDirectory

logger = logging.getLogger(__name__)


class Corpora(NamedTuple):
    """All corpora that a config names."""

    train: list[ParallelCorpus]  # of streamed corpora the first segment
    validation: ParallelCorpus | None
    test: dict[str, ParallelCorpus]
    streams: TrainingStreams | None = None  # where `train` comes from, if any corpus is streamed


class TrainingData(NamedTuple):
    """What a training reads."""

    corpora: Corpora
    tokenizers: Tokenizers
    batches: Batches


def prepare_data(config: Config, run: RunDirectory, *, world: World, is_continued: bool) -> TrainingData:
    """Prepare the data of a training in all of its processes, and log what was done and what was left out.

    Args:
        run: Its tokenizers are loaded if the training is continued.

    Raises:
        InputError: A corpus or tokenizer cannot be used.
        RunError: A temporary file cannot be written.
        SystemExit: Another process has failed, and says why.
    """
    cache = DataCache()
    corpora = world.run_on_all_ranks(lambda: read_corpora(config))

    def prepare_tokenizers() -> Tokenizers:
        if is_continued:
            return load_tokenizers(run.tokenizer)
        started, num_made = time.perf_counter(), cache.num_made
        tokenizers = make_tokenizers(config, corpora.train, cache=cache)
        vocabulary = f"joint vocabulary of {tokenizers.source.vocab_size}"
        if tokenizers.vocabulary == "separate":
            vocabulary = f"vocabularies of {tokenizers.source.vocab_size} and {tokenizers.target.vocab_size}"
        how = "loaded" if config.tokenizer.source_model is not None else "trained"
        if how == "trained" and config.data.is_streamed:
            how = "trained on the first segment of the streamed corpora"
        if how != "loaded" and cache.num_made == num_made:
            how = f"{how} before, found in {cache.folder}"
        logger.info(f"Tokenizer {how} in {time.perf_counter() - started:.1f} s: {vocabulary}")
        return tokenizers

    tokenizers = world.run_on_rank_0(prepare_tokenizers)
    if corpora.streams is not None:
        # Its processes meet on connections of their own, because later segments are prepared in a thread.
        batches = make_batches(config, corpora, tokenizers, world=world.new_group(), is_continued=is_continued)
        if is_continued:
            return TrainingData(corpora, tokenizers, batches)
    else:
        batches = world.local_rank_0_first(lambda: _encode_and_log(config, corpora, tokenizers, cache))
    for report in batches.filter_reports:
        for line in report.lines():
            logger.info(line)
    return TrainingData(corpora, tokenizers, batches)


def _encode_and_log(config: Config, corpora: Corpora, tokenizers: Tokenizers, cache: DataCache) -> Batches:
    started, num_made = time.perf_counter(), cache.num_made
    batches = make_batches(config, corpora, tokenizers, cache=cache)
    how = f"read from {cache.folder}" if cache.num_made == num_made else "encoded"
    logger.info(f"Corpus {how} in {time.perf_counter() - started:.1f} s")
    return batches


def read_corpora(config: Config) -> Corpora:
    """Read all corpora that will be needed, so that a missing test set is found before the training and not after it.

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


def make_tokenizers(config: Config, corpora: Sequence[ParallelCorpus], *, cache: DataCache | None = None) -> Tokenizers:
    """The tokenizers that the config asks for, given ready or trained on the corpora.

    Args:
        cache: Where trained models are read, or kept for the next time; None: they are not.
    """
    sources = JoinedText(corpus.sources for corpus in corpora)
    targets = JoinedText(corpus.targets for corpus in corpora)
    return prepare_tokenizers(config.tokenizer, sources, targets, cache=cache)


def make_batches(
    config: Config,
    corpora: Corpora,
    tokenizers: Tokenizers,
    *,
    cache: DataCache | None = None,
    world: World = SINGLE_PROCESS,
    is_continued: bool = False,
) -> Batches:
    """The batches of the training corpora; of streamed ones the first segment is prepared, unless the run is continued.

    With `training.batch_tokens` = auto, batches are unlimited until `with_batch_tokens` gives them a limit.

    Args:
        cache: Where token ids are read, or kept for the next time; None: they are not. Streamed corpora are not kept.
        world: The processes that share the encoding of streamed corpora, with connections that nothing else uses.
    """
    if corpora.streams is None:
        return encode_corpora(config, corpora.train, tokenizers, cache=cache)
    batches = StreamedBatches(
        corpora.streams,
        tokenizers,
        limits=config.data,
        subword_sampling=config.tokenizer.subword_sampling,
        batch_tokens=_batch_tokens(config),
        seed=config.training.seed,
        processes=world,
        num_threads=_num_threads(config),
    )
    if not is_continued:
        batches.epoch(0)  # so that data which cannot be used is found now
    return batches


def encode_corpora(
    config: Config, corpora: Sequence[ParallelCorpus], tokenizers: Tokenizers, *, cache: DataCache | None = None
) -> TrainingBatches:
    """The batches of corpora that are not streamed; see `make_batches`."""
    return TrainingBatches(
        corpora,
        tokenizers,
        limits=config.data,
        subword_sampling=config.tokenizer.subword_sampling,
        batch_tokens=_batch_tokens(config),
        seed=config.training.seed,
        num_threads=_num_threads(config),
        cache=cache,
    )


def _batch_tokens(config: Config) -> int:
    return MOST if config.training.batch_tokens == "auto" else config.training.batch_tokens


def _num_threads(config: Config) -> int:
    """The threads of the config, or this process's share of all cores; torch may have fewer, one for each worker."""
    threads = config.training.threads
    return threads_per_process(read_environment(os.environ).local_world_size) if threads is None else threads


def check_validation_lengths(config: Config, validation: ParallelCorpus, tokenizers: Tokenizers) -> None:
    """Check that learned positions suffice for the validation corpus.

    Raises:
        InputError: A target is too long.
    """
    if config.model.positions != "learned":
        return
    for number, target in enumerate(validation.targets, start=1):
        length = len(tokenizers.target.encode(target)) + 1
        if length > config.model.max_positions:
            raise InputError(
                f"data.validation: the target of pair {number} has {length} tokens, more than model.max_positions ="
                f" {config.model.max_positions}; raise that, leave the pair out, or use other model.positions"
            )
