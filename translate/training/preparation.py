"""What a training is made from, before its first step: corpora read, tokenizers made, pairs encoded and filtered."""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from translate.config import Config
from translate.data.corpora import ParallelCorpus, read_corpus
from translate.data.epochs import TrainingBatches
from translate.data.texts import JoinedText
from translate.data.tokenizer import Tokenizers
from translate.data.tokenizer_training import prepare_tokenizers
from translate.errors import InputError

_CHUNK_LINES = 10_000  # that are in memory at once


class Corpora(NamedTuple):
    """All that a config names."""

    train: list[ParallelCorpus]
    validation: ParallelCorpus | None
    test: dict[str, ParallelCorpus]


def read_corpora(config: Config) -> Corpora:
    """Read all that will be needed now, so that a missing test set is known before the training and not after it.

    Raises:
        InputError: A corpus cannot be used, or there is none to train on; the message begins with its key.
    """
    if not config.data.train:
        raise InputError("data.train names no corpus: there is nothing to train on")
    train = [read_corpus(corpus, key=f"data.train.{index}") for index, corpus in enumerate(config.data.train)]
    validation = config.data.validation
    return Corpora(
        train,
        None if validation is None else read_corpus(validation, key="data.validation"),
        {name: read_corpus(corpus, key=f"data.test.{name}") for name, corpus in config.data.test.items()},
    )


def make_tokenizers(config: Config, corpora: Sequence[ParallelCorpus], say: Callable[[str], None]) -> Tokenizers:
    """The tokenizers that the config asks for, trained on the corpora or given ready."""
    started = time.perf_counter()
    sources = JoinedText(corpus.sources for corpus in corpora)
    targets = JoinedText(corpus.targets for corpus in corpora)
    tokenizers = prepare_tokenizers(config.tokenizer, sources, targets)
    sizes = f"joint vocabulary of {tokenizers.source.vocab_size}"
    if tokenizers.vocabulary == "separate":
        sizes = f"vocabularies of {tokenizers.source.vocab_size} and {tokenizers.target.vocab_size}"
    say(f"tokenizer: {sizes}, in {time.perf_counter() - started:.1f} s")
    return tokenizers


def encode_corpora(
    config: Config, corpora: Sequence[ParallelCorpus], tokenizers: Tokenizers, say: Callable[[str], None]
) -> TrainingBatches:
    """The corpora as batches; what is left out of them is said."""
    batches = TrainingBatches(
        corpora,
        tokenizers,
        limits=config.data,
        subword_sampling=config.tokenizer.subword_sampling,
        batch_tokens=config.training.batch_tokens,
        seed=config.training.seed,
        num_threads=torch.get_num_threads(),
    )
    for report in batches.filter_reports:
        for line in report.lines():
            say(line)
    return batches


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


def fingerprint(corpora: Iterable[ParallelCorpus], tokenizers: Tokenizers) -> str:
    """A checksum of all that is trained on, in its order."""
    digest = hashlib.sha256(tokenizers.source.model_bytes + tokenizers.target.model_bytes)
    for corpus in corpora:
        digest.update(f"{len(corpus.sources)} {corpus.weight}\n".encode())
        for lines in (corpus.sources, corpus.targets):
            for first in range(0, len(lines), _CHUNK_LINES):
                if first:
                    digest.update(b"\n")
                digest.update("\n".join(lines[first : first + _CHUNK_LINES]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
