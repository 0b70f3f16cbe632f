"""The target tokens that may translate a sentence: with a large vocabulary, a short list makes decoding faster.

A sentence's list depends on that sentence alone, so its translation does not depend on the other sentences in a batch.
CTranslate2's vocabulary maps allow the words of the whole batch instead, so only our own engine has shortlists.
"""

import math
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from translate.data.augmentation import augment_corpus
from translate.data.batching import EncodedPair
from translate.data.lexicon import NULL_ID, Lexicon, learn_lexicon
from translate.data.streaming import TrainingStreams
from translate.data.text import SpacedText
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from translate.errors import InputError, RunError
from translate.runs.checkpoint import read_tensors, write_tensors
from translate.runs.checksums import DamageError
from translate.runs.run import SavedRun, open_run

MAX_PAIRS = 500_000  # to learn from; more would take memory and change little


class Shortlist(NamedTuple):
    """The target ids that are always allowed, and the ids that each source id allows in addition."""

    always: Bool[Tensor, " vocab"]  # includes EOS and UNK, never PAD or BOS
    translations: Int[Tensor, "source_vocab choices"]  # int32; filled up with EOS, which is always allowed

    def allowed(self, source_ids: Int[Tensor, "batch source"]) -> Bool[Tensor, "batch vocab"]:
        """The target ids that the translation of each sentence may have; EOS and padding add none."""
        chosen = self.translations[source_ids].flatten(1).long()  # (batch, source * choices)
        return self.always.repeat(len(source_ids), 1).scatter_(1, chosen, True)


def read_shortlist(run: SavedRun) -> Shortlist:
    """Read the shortlist of a run.

    Raises:
        InputError: The run has no shortlist.
        RunError: The shortlist is damaged, or was made for other vocabularies.
    """
    file = run.files.shortlist
    if not file.is_file():
        raise InputError(f"{run} has no {file.name}: make it with translate shortlist {run}")
    tensors = read_tensors(file).tensors
    if {name: tensor.dim() for name, tensor in tensors.items()} != {"always": 1, "translations": 2}:
        raise DamageError(file, "it does not have the tensors of a shortlist")
    shortlist = Shortlist(**tensors)
    sizes = [len(shortlist.translations), len(shortlist.always)]
    expected = [run.tokenizers.source.vocab_size, run.tokenizers.target.vocab_size]
    if sizes != expected:
        raise RunError(
            f"{file}: is a shortlist for vocabularies of {sizes[0]} and {sizes[1]} subwords, but the tokenizers have"
            f" {expected[0]} and {expected[1]}"
        )
    return shortlist


def select_shortlist(
    lexicon: Lexicon,
    *,
    source_counts: NDArray[np.int64],
    target_counts: NDArray[np.int64],
    vocabulary: Literal["joint", "separate"],
    num_frequent: int,
    num_translations: int,
) -> Shortlist:
    """Select the most frequent target ids, and the likeliest for each source id.

    Args:
        source_counts: The number of times that each source id occurs in the corpus.
        target_counts: The same for target ids.
        vocabulary: With a joint vocabulary a source token also allows itself, to copy names and numbers, if it occurs
            in a target of the corpus or in no source.
        num_frequent: Target ids that are always allowed; at most those that occur. A batch pays for them once, not for
            each sentence, so many frequent ids and few translations make the shortest lists for the same coverage.
        num_translations: Ids that each source token allows in addition to the frequent ones.

    Source: Jean et al. 2015, https://arxiv.org/abs/1412.2007, section 3.3 (candidate lists).
    """
    always = np.zeros(len(target_counts), dtype=np.bool_)
    most_frequent = np.argsort(-target_counts, kind="stable")[:num_frequent]
    always[most_frequent[target_counts[most_frequent] > 0]] = True
    always[[UNK_ID, EOS_ID]] = True
    always[[PAD_ID, BOS_ID]] = False

    translations = np.full((len(source_counts), num_translations), EOS_ID, dtype=np.int32)
    selectable = (lexicon.source_ids != NULL_ID) & ~always[lexicon.target_ids]
    selectable &= ~np.isin(lexicon.target_ids, [PAD_ID, BOS_ID])
    sources, targets = lexicon.source_ids[selectable], lexicon.target_ids[selectable]
    likeliest = np.lexsort((targets, -lexicon.probabilities[selectable], sources))
    sources, targets = sources[likeliest], targets[likeliest]
    rank = np.arange(len(sources)) - np.searchsorted(sources, sources)  # within the source id
    kept = rank < num_translations
    translations[sources[kept], rank[kept]] = targets[kept]
    if vocabulary == "joint":
        ids = np.arange(len(source_counts), dtype=np.int32)
        copied = (target_counts > 0) | (source_counts == 0)
        copied[[PAD_ID, UNK_ID, BOS_ID, EOS_ID]] = False
        translations = np.column_stack((translations, np.where(copied, ids, EOS_ID)))
    return Shortlist(torch.from_numpy(always), torch.from_numpy(translations))


def make_shortlist(run: SavedRun | Path, *, num_frequent: int, num_translations: int) -> int:
    """Learn the shortlist of a run from its training corpora, or from the first segment of streamed ones.

    Returns:
        The number of pairs that the shortlist was learnt from.

    Raises:
        InputError: The path is not a run, or the corpora named in its config are missing.
        RunError: The shortlist cannot be written.
    """
    run = open_run(run)
    config, tokenizers, languages = run.config, run.tokenizers, run.languages
    pairs: list[EncodedPair] = []
    corpora = [augment_corpus(corpus) for corpus in TrainingStreams(config.data).first]
    share = min(1.0, MAX_PAIRS / sum(len(texts.sources) for texts in corpora))
    for texts in corpora:
        spaced = (SpacedText(side, math.ceil(share * len(side))) for side in (texts.sources, texts.targets))
        sources, targets = (
            tokenizer.encode_lines(side, num_threads=torch.get_num_threads())
            for tokenizer, side in zip(tokenizers[:2], spaced, strict=True)
        )
        tag = tokenizers.source.tag_ids(texts.direction and languages.tags_of(texts.direction)[0])
        for source, target in zip(sources, targets, strict=True):
            if len(source) <= config.data.max_source_tokens and len(target) <= config.data.max_target_tokens:
                pairs.append(EncodedPair(tag + source, target))  # a language's tag allows its frequent words
    source_counts, target_counts = (
        np.bincount(np.fromiter(chain.from_iterable(pair[side] for pair in pairs), np.int64), minlength=vocab_size)
        for side, vocab_size in enumerate(tokenizer.vocab_size for tokenizer in tokenizers[:2])
    )
    shortlist = select_shortlist(
        learn_lexicon(pairs, target_vocab_size=len(target_counts)),
        source_counts=source_counts,
        target_counts=target_counts,
        vocabulary=tokenizers.vocabulary,
        num_frequent=num_frequent,
        num_translations=num_translations,
    )
    write_tensors(run.files.shortlist, shortlist._asdict(), {})
    return len(pairs)
