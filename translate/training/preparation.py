"""The data of a training run: corpora are read, tokenizers trained or loaded, pairs encoded, filtered and batched."""

import logging
import os
import time
from collections.abc import Iterable
from typing import NamedTuple

import torch

from translate.bleu import load_bleu
from translate.config.data import DataConfig, is_stream
from translate.config.languages import UNKNOWN, Languages
from translate.config.schema import Config
from translate.config.section import MOST
from translate.data.augmentation import augment_corpus, read_held_out
from translate.data.cache import DataCache
from translate.data.corpora import ParallelCorpus, balance_directions, join_texts, repeat_by_weight
from translate.data.epochs import BatchSettings, TrainingBatches
from translate.data.extension import add_tags, extend_tokenizers
from translate.data.filtering import FilterReport, log_reports
from translate.data.streaming import Batches, StreamedBatches, TrainingStreams
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.decoding.counterparts import find_lacking
from translate.decoding.loading import resolve_auto
from translate.decoding.sentences import split_sentences
from translate.decoding.translator import check_search
from translate.distributed.process_group import SINGLE_PROCESS, World, read_environment
from translate.errors import InputError
from translate.model.device import threads_per_process
from translate.runs.run import SavedRun, open_run
from translate.training.batch_size import resolve_batch_tokens, resume_batch_tokens
from translate.training.validation import resolve_search

logger = logging.getLogger(__name__)

_SAMPLED_SOURCES = 10_000  # in which sentences are counted


class Corpora(NamedTuple):
    """All corpora that a config names; held-out corpora by key."""

    train: list[ParallelCorpus]  # of streamed corpora the first segment
    streams: TrainingStreams | None  # the source of `train`, if any corpus is streamed
    held_out: dict[str, ParallelCorpus]  # those below, and the test sets
    validation: dict[str, ParallelCorpus]
    validation_also: dict[str, ParallelCorpus]


class DirectionCount(NamedTuple):
    """How often a training run sees the pairs of a direction."""

    direction: str
    num_pairs: int | None  # different ones, without those that are left out; None: some are streamed
    num_seen: int  # how many pairs are seen, with repetitions
    num_epochs: float | None  # how often a pair is seen on average; None: some are streamed
    share: float  # of the pairs of all directions that are seen

    def __str__(self) -> str:
        seen = f"{self.num_seen:,} pairs ({self.share:.1%} of all)"
        if self.num_pairs is None:
            return f"{self.direction}: about {seen}, streamed"
        return f"{self.direction}: {seen}, {self.num_epochs:.2f} times its {self.num_pairs:,}"


class TrainingData(NamedTuple):
    """The data that a training run learns from and is validated on, with the config that prepared it."""

    config: Config  # with numbers in place of `batch_tokens: auto` and `step_tokens`
    corpora: Corpora
    tokenizers: Tokenizers
    batches: Batches
    batch_size: str | None  # how `auto` became a number; None: the config or the run had one
    multi_sentence_share: float | None  # of the training sources with more than one sentence; None: see `Description`


def prepare_data(
    config: Config,
    *,
    device: torch.device,
    world: World = SINGLE_PROCESS,
    cache: DataCache | None = None,
    resumed: SavedRun | None = None,
) -> TrainingData:
    """Prepare the data of a training run in all of its processes, and check that validations can use it.

    Args:
        cache: Where tokenizers and token ids are kept for the next start; None: nowhere.
        resumed: The run that is resumed, which has tokenizers and a batch size; None: a new run.

    Raises:
        InputError: A corpus or a setting cannot be used.
        RunError: Not even a batch of the longest pair fits in memory.
    """
    if resumed is not None:
        saved = world.run_on_rank_0(lambda: resumed.config)
        config = resume_batch_tokens(config, saved, place=str(resumed))
    corpora = world.run_on_all_ranks(lambda: read_corpora(config))

    def load_or_make_tokenizers() -> Tokenizers:
        if resumed is not None:
            return resumed.tokenizers
        started = time.perf_counter()
        tokenizers = make_tokenizers(config, corpora, cache=cache)
        is_given = config.tokenizer.source_model is not None or config.training.initialize_from is not None
        how = "loaded" if is_given else "trained" if cache is None or cache.num_made else "found in cache"
        sizes = " and ".join(f"{tokenizer.vocab_size:,}" for tokenizer in dict.fromkeys(tokenizers[:2]))
        seconds = time.perf_counter() - started
        logger.info(f"Tokenizer {how} in {seconds:.1f} s ({tokenizers.vocabulary}, {sizes} subwords)")
        return tokenizers

    def encode() -> Batches:
        started, num_made = time.perf_counter(), 0 if cache is None else cache.num_made
        batches = make_batches(config, corpora, tokenizers, cache=cache)
        how = "encoded" if cache is None or cache.num_made > num_made else f"read from {cache.folder}"
        logger.info(f"Corpus {how} in {time.perf_counter() - started:.1f} s")
        return batches

    tokenizers = world.run_on_rank_0(load_or_make_tokenizers)
    if corpora.streams is None:
        batches = world.local_rank_0_first(encode)
    else:
        # Later segments are prepared in a thread, and so on their own connections.
        batches = make_batches(config, corpora, tokenizers, world=world.new_group(), is_resumed=resumed is not None)
    log_reports(batches.filter_reports)
    for seen in count_directions(config.data, corpora.train, batches.filter_reports):
        logger.info(f"Each epoch, {seen}")
    world.run_on_rank_0(lambda: check_validation(config, corpora, tokenizers))
    share = world.run_on_rank_0(lambda: measure_multi_sentence_share(config, batches, resumed))
    config, batches, message = resolve_batch_tokens(config, batches, tokenizers=tokenizers, device=device, world=world)
    if message:
        logger.info(message)
    return TrainingData(config, corpora, tokenizers, batches, message, share)


def read_corpora(config: Config) -> Corpora:
    """Read all corpora that will be needed, to find a missing test set before training, not after it.

    Raises:
        InputError: A corpus cannot be used, or there is none to train on, or the translations could not be scored; the
            message begins with the key.
    """
    data = config.data
    load_bleu(config.evaluation.bleu_tokenizer)
    if not data.train:
        raise InputError("data.train names no corpus: there is nothing to train on")
    streams, held_out = TrainingStreams(data), read_held_out(config, data.corpora())
    return Corpora(
        balance_directions(streams.first, data.sampling_temperature),
        streams if data.is_streamed else None,
        held_out,
        {key: held_out[key] for key in data.corpora("validation")},
        {key: held_out[key] for key in data.corpora("validation_also")},
    )


def count_directions(
    data: DataConfig, corpora: Iterable[ParallelCorpus], reports: Iterable[FilterReport], *, num_epochs: float = 1.0
) -> list[DirectionCount]:
    """How often each direction is seen in some epochs; empty if there is only one, or nothing is filtered yet.

    In streamed corpora, every segment counts like the first.
    """
    seen: dict[str, tuple[int, float]] = {}
    for corpus, report in zip(corpora, reports, strict=False):
        pairs, count = seen.get(str(corpus.direction), (0, 0.0))
        seen[str(corpus.direction)] = pairs + report.num_kept, count + num_epochs * corpus.weight * report.num_kept
    total = sum(count for _, count in seen.values()) or 1.0
    streamed = {str(data.direction_of(corpus)) for corpus in data.train if is_stream(corpus)}
    found = []
    for direction, (pairs, count) in seen.items() if len(seen) > 1 else ():
        known = (None, None) if direction in streamed else (pairs, count / max(1, pairs))
        found.append(DirectionCount(direction, known[0], round(count), known[1], count / total))
    return found


def measure_multi_sentence_share(config: Config, batches: Batches, resumed: SavedRun | None) -> float | None:
    """The share of the training sources with more than one sentence, by a sample; a resumed run keeps what it has."""
    if resumed is not None:
        return resumed.description.multi_sentence_share
    sources, (language, *others) = batches.sample_sources(_SAMPLED_SOURCES), Languages(config.data).sources
    counts = [len(split_sentences(source.strip(), UNKNOWN if others else language)) for source in sources]
    return round(sum(count > 1 for count in counts) / max(1, len(counts)), 4)


def make_tokenizers(config: Config, corpora: Corpora, *, cache: DataCache | None = None) -> Tokenizers:
    """The tokenizers of a config, loaded or trained on its training corpora; see `prepare_tokenizers`.

    Fine-tuning takes its base run's tokenizers. All get the pieces that the config adds, if they lack them, and the
    tags of corpora. The text is augmented as in an epoch, but without typos and copied text, which should not become
    subwords. With `data.sampling_temperature` it is sampled as in an epoch too.
    """
    texts = [augment_corpus(corpus, with_noise=False) for corpus in corpora.train]
    if (config.data.sampling_temperature or 1.0) > 1.0:
        texts = list(map(repeat_by_weight, texts))
    sources, targets = join_texts(texts)
    if config.training.initialize_from is not None:
        tokenizers = open_run(config.training.initialize_from).tokenizers
        for tag in map(config.data.language_tag.format, config.tokenizer.add_languages):
            if any(side.tag_id(tag) is not None for side in tokenizers[:2]):
                raise InputError(f"tokenizer.add_languages: the vocabulary already has {tag}; choose another code")
    else:
        tokenizers = prepare_tokenizers(config.tokenizer, sources, targets, cache=cache)
    tokenizers = extend_tokenizers(tokenizers, config.tokenizer, sources, targets)
    return add_tags(tokenizers, *Languages(config.data).all_tags)


def make_batches(
    config: Config,
    corpora: Corpora,
    tokenizers: Tokenizers,
    *,
    cache: DataCache | None = None,
    world: World = SINGLE_PROCESS,
    is_resumed: bool = False,
) -> Batches:
    """The batches of the training corpora; if they are streamed, a new run prepares the first segment here.

    With `training.batch_tokens` = auto, batches are unlimited until `with_batch_tokens` gives them a limit.

    Args:
        cache: Where token ids are kept for the next start; None: nowhere. The token ids of streams are never kept.
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
    """Check that validations and the evaluation at the end can do what the config says, and so can its engine.

    Raises:
        InputError: They cannot.
    """
    resolve_auto(config.decoding_settings(), others=find_lacking(config.model, "ctranslate2"))
    if not corpora.validation:
        return
    vocab_size = tokenizers.target.vocab_size
    check_search(config.decoding, num_layers=config.model.num_decoder_layers, vocab_size=vocab_size)
    resolve_search(config.validation_search(), device="cpu")
