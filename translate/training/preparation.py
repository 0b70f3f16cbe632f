"""The data of a training: corpora are read, tokenizers trained or loaded, pairs encoded, filtered and batched."""

import logging
import os
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from translate.config.data import Corpus
from translate.config.schema import Config
from translate.config.section import MOST
from translate.data.augmentation import augment_corpus, read_held_out
from translate.data.cache import DataCache
from translate.data.corpora import ParallelCorpus, join_texts
from translate.data.epochs import BatchSettings, TrainingBatches
from translate.data.extension import add_source_tags, extend_tokenizers
from translate.data.filtering import log_reports
from translate.data.streaming import Batches, StreamedBatches, TrainingStreams
from translate.data.tokenizer import Tokenizers, load_tokenizers, prepare_tokenizers
from translate.decoding.translator import check_search
from translate.distributed.process_group import SINGLE_PROCESS, World, read_environment
from translate.errors import InputError
from translate.evaluation.metrics import check_bleu_tokenizer
from translate.model.device import threads_per_process
from translate.runs.directory import RunDirectory
from translate.training.auto_batch import resolve_batch_tokens

logger = logging.getLogger(__name__)


class Corpora(NamedTuple):
    """All corpora that a config names."""

    train: list[ParallelCorpus]  # of streamed corpora the first segment
    validation: ParallelCorpus | None
    test: dict[str, ParallelCorpus]
    streams: TrainingStreams | None = None  # where `train` comes from, if any corpus is streamed
    validation_also: Mapping[str, ParallelCorpus] = MappingProxyType({})


class TrainingData(NamedTuple):
    """What a training learns from, and is validated on."""

    corpora: Corpora
    tokenizers: Tokenizers
    batches: Batches


def prepare_data(
    config: Config, run: RunDirectory, *, device: torch.device, world: World, is_resumed: bool
) -> tuple[Config, TrainingData]:
    """Prepare the data of a training in all of its processes. A resumed run has its own tokenizers.

    Returns:
        The config with a number for `batch_tokens: auto`, and the data.

    Raises:
        InputError: A corpus or tokenizer cannot be used.
        RunError: A temporary file cannot be written, or not even a batch of one pair fits in memory.
        SystemExit: Another process has failed, and says why.
    """
    cache = DataCache()
    corpora = world.run_on_all_ranks(lambda: read_corpora(config))

    def load_or_make_tokenizers() -> Tokenizers:
        if is_resumed:
            return load_tokenizers(run.tokenizer)
        started = time.perf_counter()
        tokenizers = make_tokenizers(config, corpora, cache=cache)
        is_given = config.tokenizer.source_model is not None or config.training.initialize_from is not None
        how = "loaded" if is_given else "trained" if cache.num_made else "found in cache"
        if corpora.streams is not None and not is_given:
            how += " for the first segment of the streamed corpora"
        sizes = " and ".join(f"{each.vocab_size:,}" for each in dict.fromkeys(tokenizers[:2]))
        logger.info(
            f"Tokenizer {how} in {time.perf_counter() - started:.1f} s ({tokenizers.vocabulary}, {sizes} subwords)"
        )
        return tokenizers

    def encode() -> Batches:
        started, num_made = time.perf_counter(), cache.num_made
        batches = make_batches(config, corpora, tokenizers, cache=cache)
        how = f"read from {cache.folder}" if cache.num_made == num_made else "encoded"
        logger.info(f"Corpus {how} in {time.perf_counter() - started:.1f} s")
        return batches

    tokenizers = world.run_on_rank_0(load_or_make_tokenizers)
    if corpora.streams is None:
        batches = world.local_rank_0_first(encode)
    else:
        # Later segments are prepared in a thread, and so on their own connections.
        batches = make_batches(config, corpora, tokenizers, world=world.new_group(), is_resumed=is_resumed)
    log_reports(batches.filter_reports)
    world.run_on_rank_0(lambda: check_validation(config, corpora, tokenizers))
    config, batches, message = resolve_batch_tokens(config, batches, tokenizers=tokenizers, device=device, world=world)
    if message is not None:
        logger.info(message)
    return config, TrainingData(corpora, tokenizers, batches)


def read_corpora(config: Config) -> Corpora:
    """Read all corpora that will be needed, so that a missing test set is found before the training, not after it.

    Raises:
        InputError: A corpus cannot be used, or there is none to train on, or the translations could not be scored; the
            message begins with the key.
    """
    data = config.data

    def by_name(kind: str, corpora: Mapping[str, Corpus]) -> dict[str, ParallelCorpus]:
        return {name: read_held_out(corpus, key=f"data.{kind}.{name}") for name, corpus in corpora.items()}

    check_bleu_tokenizer(config.evaluation)
    if not data.train:
        raise InputError("data.train names no corpus: there is nothing to train on")
    streams = TrainingStreams(data)
    return Corpora(
        streams.first,
        None if data.validation is None else read_held_out(data.validation, key="data.validation"),
        by_name("test", data.test),
        streams if data.is_streamed else None,
        by_name("validation_also", data.validation_also),
    )


def make_tokenizers(config: Config, corpora: Corpora, *, cache: DataCache | None = None) -> Tokenizers:
    """The tokenizers of a config, loaded or trained on its training corpora; see `prepare_tokenizers`.

    Fine-tuning takes its base run's tokenizers, and extends them if the config says so. Tags of corpora are
    added to all. The text is augmented as in an epoch, but without typos, which should not become subwords.
    """
    sources, targets = join_texts(augment_corpus(corpus, with_typos=False) for corpus in corpora.train)
    if config.training.initialize_from is not None:
        tokenizers = load_tokenizers(RunDirectory(config.training.initialize_from).tokenizer)
        tokenizers = extend_tokenizers(tokenizers, config.tokenizer, sources, targets)
    else:
        tokenizers = prepare_tokenizers(config.tokenizer, sources, targets, cache=cache)
    return add_source_tags(tokenizers, config.data.source_tags)


def make_batches(
    config: Config,
    corpora: Corpora,
    tokenizers: Tokenizers,
    *,
    cache: DataCache | None = None,
    world: World = SINGLE_PROCESS,
    is_resumed: bool = False,
) -> Batches:
    """The batches of the training corpora; of streamed ones, a new run prepares the first segment here.

    With `training.batch_tokens` = auto, batches are unlimited until `with_batch_tokens` gives them a limit.

    Args:
        cache: Where token ids are read, or kept for the next time; None: they are not. Those of streams never are.
        world: The processes that share the encoding of streams, with connections that nothing else uses.
    """
    settings = config.training
    batch_tokens = MOST if settings.batch_tokens == "auto" else settings.batch_tokens
    # By default this process's share of all cores; torch may have fewer, one per worker.
    num_threads = settings.threads or threads_per_process(read_environment(os.environ).local_world_size)
    batch_settings = BatchSettings(
        config.data, config.tokenizer.subword_sampling, batch_tokens, settings.seed, num_threads
    )
    if corpora.streams is None:
        return TrainingBatches(corpora.train, tokenizers, batch_settings, cache=cache)
    batches = StreamedBatches(corpora.streams, tokenizers, batch_settings, world=world)
    if not is_resumed:
        batches.epoch(0)  # so that unusable data is found now
    return batches


def check_validation(config: Config, corpora: Corpora, tokenizers: Tokenizers) -> None:
    """Check that the model can search as the config says, and has enough learned positions for the validation corpora.

    Raises:
        InputError: It cannot, or a target is too long.
    """
    validation = {"data.validation": corpora.validation} if corpora.validation is not None else {}
    validation |= {f"data.validation_also.{name}": corpus for name, corpus in corpora.validation_also.items()}
    if not validation:
        return
    check_search(config.decoding, num_layers=config.model.num_decoder_layers)
    if config.decoding.shortlist:
        raise InputError("decoding.shortlist = True: only a trained run can have one; leave it out")
    if config.model.positions != "learned":
        return
    for key, corpus in validation.items():
        for number, target in enumerate(corpus.targets, start=1):
            length = len(tokenizers.target.encode(target)) + 1
            if length > config.model.max_positions:
                raise InputError(
                    f"{key}: the target of pair {number} has {length} tokens, more than model.max_positions ="
                    f" {config.model.max_positions}; leave the pair out, or raise that or use other model.positions"
                    " for a new model"
                )
