"""A run's shortlist, learnt from its training corpora and kept in its directory."""

import time
from pathlib import Path
from typing import NamedTuple

import torch

from translate.config import read_resolved_config
from translate.data.batching import EncodedPair
from translate.data.corpora import read_corpus
from translate.data.shortlist import build_shortlist
from translate.data.streaming import TrainingStreams
from translate.data.tokenizer import load_tokenizers
from translate.runs import open_run, write_tensors


class MadeShortlist(NamedTuple):
    """What was written."""

    file: Path
    num_pairs: int
    seconds: float


def make_shortlist(run_path: Path, *, num_frequent: int, num_translations: int) -> MadeShortlist:
    """Read the run's training corpora again, of streamed ones the first segment, and learn which words translate which.

    Raises:
        InputError: Not a run, or its corpora are not where its config says.
        RunError: It cannot be written.
    """
    started = time.perf_counter()
    run = open_run(run_path)
    config = read_resolved_config(run.config)
    tokenizers = load_tokenizers(run.tokenizer)
    pairs: list[EncodedPair] = []
    corpora = (
        TrainingStreams(config.data).first.corpora
        if config.data.is_streamed
        else [read_corpus(corpus, key=f"data.train.{index}") for index, corpus in enumerate(config.data.train)]
    )
    for texts in corpora:
        threads = torch.get_num_threads()
        sources = tokenizers.source.encode_lines(texts.sources, num_threads=threads)
        targets = tokenizers.target.encode_lines(texts.targets, num_threads=threads)
        limits = config.data.max_source_tokens, config.data.max_target_tokens
        pairs += [
            EncodedPair(source, target)
            for source, target in zip(sources, targets, strict=True)
            if len(source) <= limits[0] and len(target) <= limits[1]
        ]
    shortlist = build_shortlist(
        pairs,
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
        vocabulary=tokenizers.vocabulary,
        num_frequent=num_frequent,
        num_translations=num_translations,
    )
    write_tensors(run.shortlist, shortlist.to_tensors(), {})
    return MadeShortlist(run.shortlist, len(pairs), time.perf_counter() - started)
