"""The data of a training run: corpora are read, tokenizers trained or loaded, pairs encoded, filtered and batched.

On a CPU `training.batch_tokens: auto` is a constant. On CUDA it is found by training steps on batches of the longest
pairs, with twice as many tokens each time until memory runs out. The run's config then has the number.
"""

import gc
import logging
import math
import os
import time
from collections.abc import Iterable
from typing import NamedTuple

import torch

from translate.bleu import load_bleu
from translate.config.data import DataConfig, is_stream
from translate.config.languages import Languages
from translate.config.schema import Config
from translate.config.section import MOST
from translate.data.augmentation import augment_corpus, read_held_out
from translate.data.batching import EncodedPair, collate
from translate.data.cache import DataCache
from translate.data.corpora import ParallelCorpus, balance_directions, join_texts, repeat_by_weight
from translate.data.epochs import BatchSettings, TrainingBatches
from translate.data.extension import add_tags, extend_tokenizers
from translate.data.filtering import FilterReport, log_reports
from translate.data.streaming import Batches, StreamedBatches, TrainingStreams
from translate.data.tokenizer import EOS_ID, Tokenizers, load_tokenizers, prepare_tokenizers
from translate.decoding.counterparts import find_lacking
from translate.decoding.loading import resolve_auto
from translate.decoding.splitting import truncate_ids
from translate.decoding.translator import check_search, token_limits
from translate.distributed.process_group import SINGLE_PROCESS, World, read_environment
from translate.errors import InputError, RunError
from translate.model.device import OutOfMemory, measures_memory, threads_per_process
from translate.runs.directory import RunDirectory
from translate.training.optimizer import AveragedWeights
from translate.training.setup import setup_training
from translate.training.step import TrainStep
from translate.training.validation import resolve_search

logger = logging.getLogger(__name__)

_PAPER_STEP_TOKENS = 25_000  # Vaswani et al. 2017, section 5.1
_CPU_BATCH_TOKENS = 4096  # measured: larger batches keep the cores no busier, and make fewer steps of the same data
_SHARE_OF_FREE_MEMORY = 0.9  # on CUDA; the rest is for fragments and for buffers of other libraries


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
    num_seen: int  # all of them, each as often as it is seen
    num_epochs: float | None  # how often each is seen; None: some are streamed
    share: float  # of the pairs of all directions that are seen

    def __str__(self) -> str:
        seen = f"{self.num_seen:,} pairs ({self.share:.1%} of all)"
        if self.num_pairs is None:
            return f"{self.direction}: about {seen}, streamed"
        return f"{self.direction}: {seen}, {self.num_epochs:.2f} times its {self.num_pairs:,}"


class TrainingData(NamedTuple):
    """The data that a training run learns from and is validated on."""

    corpora: Corpora
    tokenizers: Tokenizers
    batches: Batches


def prepare_data(
    config: Config, run: RunDirectory, *, device: torch.device, world: World, is_resumed: bool
) -> tuple[Config, TrainingData]:
    """Prepare the data of a training run in all of its processes. A resumed run has its own tokenizers.

    Returns:
        The config with a number for `batch_tokens: auto`, and the data.
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
        sizes = " and ".join(f"{each.vocab_size:,}" for each in dict.fromkeys(tokenizers[:2]))
        seconds = time.perf_counter() - started
        logger.info(f"Tokenizer {how} in {seconds:.1f} s ({tokenizers.vocabulary}, {sizes} subwords)")
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
    for seen in count_directions(config.data, corpora.train, batches.filter_reports):
        logger.info(f"Each epoch, {seen}")
    world.run_on_rank_0(lambda: check_validation(config, corpora, tokenizers))
    config, batches, message = resolve_batch_tokens(config, batches, tokenizers=tokenizers, device=device, world=world)
    if message:
        logger.info(message)
    return config, TrainingData(corpora, tokenizers, batches)


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


def make_tokenizers(config: Config, corpora: Corpora, *, cache: DataCache | None = None) -> Tokenizers:
    """The tokenizers of a config, loaded or trained on its training corpora; see `prepare_tokenizers`.

    Fine-tuning takes its base run's tokenizers, and extends them if the config says so. Tags of corpora are
    added to all. The text is augmented as in an epoch, but without typos, which should not become subwords. With
    `data.sampling_temperature` it is sampled as in an epoch too.
    """
    texts = [augment_corpus(corpus, with_typos=False) for corpus in corpora.train]
    if (config.data.sampling_temperature or 1.0) > 1.0:
        texts = list(map(repeat_by_weight, texts))
    sources, targets = join_texts(texts)
    if config.training.initialize_from is not None:
        tokenizers = load_tokenizers(RunDirectory(config.training.initialize_from).tokenizer)
        for tag in map(config.data.language_tag.format, config.tokenizer.add_languages):
            if tokenizers.source.tag_id(tag) is not None:
                raise InputError(f"tokenizer.add_languages: the vocabulary already has {tag}; choose another code")
        tokenizers = extend_tokenizers(tokenizers, config.tokenizer, sources, targets)
    else:
        tokenizers = prepare_tokenizers(config.tokenizer, sources, targets, cache=cache)
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
        InputError: They cannot, or a line of a validation corpus is too long and decoding.long = error.
    """
    at_end, languages = config.decoding_settings(), Languages(config.data)
    resolve_auto(at_end, others=find_lacking(config.model, "ctranslate2"))
    if not corpora.validation:
        return
    vocab_size = tokenizers.target.vocab_size
    check_search(config.decoding, num_layers=config.model.num_decoder_layers, vocab_size=vocab_size)
    if config.decoding.shortlist:
        raise InputError("decoding.shortlist = True: only a trained run can have one; leave it out")
    resolve_search(config.validation_search(), device="cpu")
    positions = config.model.max_positions if config.model.positions == "learned" else None
    source_limit, target_limit = token_limits(at_end, positions=positions, languages=languages)
    validation = corpora.validation | corpora.validation_also
    for key, corpus in validation.items() if at_end.long == "error" else ():
        tag, _ = languages.tags_of(config.data.direction_of(config.data.corpora()[key]))
        tag_ids, num_threads = tokenizers.source.tag_ids(tag), torch.get_num_threads()
        sources = tokenizers.source.encode_lines(corpus.sources, num_threads=num_threads)
        targets = tokenizers.target.encode_lines(corpus.targets, num_threads=num_threads)
        try:
            for line, (source, target) in enumerate(zip(sources, targets, strict=True)):
                truncate_ids(tag_ids + source, source_limit, at_end, side="source", line=line)
                truncate_ids(target, target_limit, at_end, side="target", line=line)
        except InputError as error:
            raise InputError(f"{key}: {error}") from error


def resolve_step_tokens(config: Config) -> Config:
    """The config with `accumulate_batches` in place of `step_tokens`, if the size of a batch is known."""
    settings = config.training
    if settings.step_tokens is None or settings.batch_tokens == "auto":
        return config
    num_batches = max(1, round(settings.step_tokens / settings.num_batch_tokens))  # the nearest number
    return override_training(config, step_tokens=None, accumulate_batches=num_batches)


def resolve_batch_tokens(
    config: Config, batches: Batches, *, tokenizers: Tokenizers, device: torch.device, world: World = SINGLE_PROCESS
) -> tuple[Config, Batches, str | None]:
    """The config and its batches with a number for `batch_tokens: auto`, and `step_tokens` resolved.

    Args:
        batches: The training batches; with `auto` they have no limit yet.
        world: The processes that train together; they use a size that fits all of their devices.

    Returns:
        The config, the batches, and a message about the number that `auto` became; None: the config had a number.

    Raises:
        InputError: `step_tokens` is less than the length of the longest pair.
        RunError: Not even a batch of the longest pair fits in memory.
    """
    if config.training.batch_tokens != "auto":
        return resolve_step_tokens(config), batches, None
    longest, step_tokens = batches.longest, config.training.step_tokens
    most = step_tokens or max(_PAPER_STEP_TOKENS, longest)
    if longest > most:
        raise InputError(
            f"training.step_tokens = {step_tokens} is less than the {longest} tokens that the longest pair may have;"
            " raise it, or lower data.max_source_tokens and data.max_target_tokens"
        )
    if measures_memory(device):
        found = world.run_on_all_ranks(
            lambda: largest_fitting_batch(config, longest=longest, most=most, tokenizers=tokenizers, device=device)
        )
        tokens, limit = min(world.all_gather(found)), f"the most that fit in the free memory of {device}, with a margin"
    else:
        tokens, limit = min(most, max(_CPU_BATCH_TOKENS, longest)), f"larger batches are no faster on {device.type}"
    if tokens == most:
        limit = "as training.step_tokens asks" if step_tokens else "for more, set training.step_tokens"
    if step_tokens is not None:  # equal batches, rather than full ones and a remainder
        tokens = max(longest, step_tokens // math.ceil(step_tokens / tokens))
    config = resolve_step_tokens(override_training(config, batch_tokens=tokens))
    num = config.training.accumulate_batches
    message = f"training.batch_tokens = auto: {tokens} tokens, {num} batch{'es' * (num > 1)} per step ({limit})"
    return config, batches.with_batch_tokens(tokens), message


def largest_fitting_batch(
    config: Config, *, longest: int, most: int, tokenizers: Tokenizers, device: torch.device
) -> int:
    """The tokens of a batch that fit in a GPU's free memory with a margin: doubled until memory runs out.

    Args:
        longest: Tokens of the longest side of any pair, with its special symbol.
        most: The most tokens of interest, at least `longest`.
    """
    module = torch.get_device_module(device)
    index = module.current_device() if device.index is None else device.index
    free, total = module.mem_get_info(index)
    room = int(_SHARE_OF_FREE_MEMORY * (free + module.memory_reserved(index)))
    fitting, tokens = 0, longest
    module.set_per_process_memory_fraction(room / total, index)
    try:
        trial = override_training(config, batch_tokens=longest, compile=False)
        train_step = setup_training(trial, tokenizers, device=device, batch_tokens=(longest, longest))
        decay, step_tokens = config.training.ema_decay, config.training.step_tokens or 0
        average = None if decay is None else AveragedWeights(train_step.model, decay=decay)  # only takes up memory
        # The first step creates the optimizer's state, so only later ones use the full amount.
        if _fits(train_step, longest, longest=longest, is_accumulated=False):
            while fitting < most and _fits(train_step, tokens, longest=longest, is_accumulated=step_tokens > tokens):
                fitting, tokens = tokens, min(2 * tokens, most)
        del average, train_step
    except OutOfMemory:  # the model alone needs more
        pass
    finally:
        module.set_per_process_memory_fraction(1.0, index)
    _free_memory(device)
    if fitting == 0:
        raise RunError(
            f"training.batch_tokens = 'auto': a pair of {longest} tokens on each side does not fit in the memory that"
            f" {device} has free, {room / 2**30:.1f} GiB with a margin. Lower data.max_source_tokens and"
            " data.max_target_tokens, or make the model smaller: model.d_model, model.d_ff, layers."
        )
    return fitting


def _fits(train_step: TrainStep, tokens: int, *, longest: int, is_accumulated: bool) -> bool:
    """Whether memory is enough for a step on batches of only the longest pairs, which need the most."""
    pair = EncodedPair([EOS_ID] * (longest - 1), [EOS_ID] * (longest - 1))
    num_pairs = math.ceil(tokens / longest)
    batch = collate([pair] * num_pairs, range(num_pairs))
    try:
        # A second batch adds its gradient to one that is there already; more batches need no more memory.
        train_step([batch] * (1 + is_accumulated), number=1, learning_rate=0.0)  # leaves the weights unchanged
        train_step.check_last_step()
        is_enough = True
    except OutOfMemory:
        is_enough = False
    train_step.optimizer.zero_grad(set_to_none=True)
    _free_memory(train_step.precision.device)  # only here have the exception and its tensors been freed
    return is_enough


def _free_memory(device: torch.device) -> None:
    gc.collect()
    torch.get_device_module(device).empty_cache()


def override_training(config: Config, **values: object) -> Config:
    """The config with other values in its section `training`."""
    return config.model_copy(update={"training": config.training.model_copy(update=values)})
