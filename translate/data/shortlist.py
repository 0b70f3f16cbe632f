"""Which target ids a sentence may be translated with: a short list instead of the vocabulary makes decoding faster.

A sentence's list depends on that sentence alone, so a translation does not depend on what else is in its batch.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from translate.data.batching import EncodedPair
from translate.data.lexicon import NULL_ID, Lexicon, learn_lexicon
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from translate.errors import RunError


class Shortlist(NamedTuple):
    """For each sentence the ids that are always allowed, and the translations of each of its tokens."""

    always: Bool[Tensor, " vocab"]  # EOS and UNK among them, PAD and BOS never
    translations: Int[Tensor, "source_vocab choices"]  # int32; EOS where there are fewer, as it is allowed anyway

    def allowed(self, source_ids: Int[Tensor, "batch source"]) -> Bool[Tensor, "batch vocab"]:
        """For each sentence, the target ids that its translation may have.

        Args:
            source_ids: With or without EOS and padding: neither adds to the list.
        """
        chosen = self.translations[source_ids].flatten(1).long()  # (batch, source * choices)
        return self.always.repeat(len(source_ids), 1).scatter_(1, chosen, True)

    def candidates(self, source_ids: Sequence[int]) -> list[int]:
        """The list of one sentence, sorted; see `allowed`."""
        ids = torch.tensor([list(source_ids)], dtype=torch.long, device=self.always.device)
        found: list[int] = self.allowed(ids)[0].nonzero()[:, 0].tolist()
        return found

    def to(self, device: torch.device | str) -> "Shortlist":
        """The same shortlist on another device."""
        return Shortlist(self.always.to(device), self.translations.to(device))

    def to_tensors(self) -> dict[str, Tensor]:
        """What a file of it holds: what `from_tensors` reads."""
        return self._asdict()

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Tensor], *, source_vocab_size: int, target_vocab_size: int, name: str
    ) -> "Shortlist":
        """The shortlist that `to_tensors` gave.

        Args:
            name: What errors call it: the path of its file.

        Raises:
            RunError: It is no shortlist, or one of other vocabularies.
        """
        if tensors.keys() != set(cls._fields):
            raise RunError(f"{name}: is no shortlist: it has the tensors {sorted(tensors)}, not {sorted(cls._fields)}")
        always, translations = tensors["always"], tensors["translations"]
        kinds = always.dtype, always.dim(), translations.dtype, translations.dim()
        if kinds != (torch.bool, 1, torch.int32, 2):
            raise RunError(f"{name}: is no shortlist: its tensors have other types or dimensions")
        sizes = len(translations), len(always)
        if sizes != (source_vocab_size, target_vocab_size):
            raise RunError(
                f"{name}: is a shortlist for vocabularies of {sizes[0]} and {sizes[1]} subwords,"
                f" but the tokenizers have {source_vocab_size} and {target_vocab_size}"
            )
        if translations.numel() and not 0 <= int(translations.min()) <= int(translations.max()) < target_vocab_size:
            raise RunError(f"{name}: is damaged: a translation is outside the vocabulary of {target_vocab_size}")
        allowed = always.index_fill(0, translations.flatten().long(), True)
        if allowed[[PAD_ID, BOS_ID]].any() or not always[[UNK_ID, EOS_ID]].all():
            raise RunError(f"{name}: is damaged: it allows PAD or BOS, or does not always allow UNK and EOS")
        return cls(always, translations)


def build_shortlist(
    pairs: Sequence[EncodedPair],
    *,
    source_vocab_size: int,
    target_vocab_size: int,
    vocabulary: Literal["joint", "separate"],
    num_frequent: int = 1000,
    num_translations: int = 10,
) -> Shortlist:
    """Learns a shortlist from sentence pairs: the most frequent target ids, and the likeliest for each source token.

    Args:
        pairs: Token ids without special symbols.
        vocabulary: joint: what a target of the pairs has, or no source of them, may also be copied: names, numbers.
        num_frequent: Target ids that are always allowed; at most those that occur. In a batch they cost once, not for
            each sentence, so many of these and few translations make the shortest lists for what they cover.
        num_translations: Ids for each source token, none of them among the frequent.

    Raises:
        ValueError: A number is negative, or an id is outside its vocabulary.

    Source: Jean et al. 2015, https://arxiv.org/abs/1412.2007, section 3.3 (candidate lists).
    """
    lexicon = learn_lexicon(pairs, source_vocab_size=source_vocab_size, target_vocab_size=target_vocab_size)
    return select_shortlist(
        lexicon,
        source_counts=count_ids((pair.source for pair in pairs), vocab_size=source_vocab_size),
        target_counts=count_ids((pair.target for pair in pairs), vocab_size=target_vocab_size),
        vocabulary=vocabulary,
        num_frequent=num_frequent,
        num_translations=num_translations,
    )


def select_shortlist(
    lexicon: Lexicon,
    *,
    source_counts: NDArray[np.int64],
    target_counts: NDArray[np.int64],
    vocabulary: Literal["joint", "separate"],
    num_frequent: int,
    num_translations: int,
) -> Shortlist:
    """The shortlist of a lexicon; `build_shortlist` tells the arguments, and one lexicon serves to try several.

    Args:
        source_counts: How often each id of the vocabulary occurs in the pairs.

    Raises:
        ValueError: A number is negative.
    """
    if num_frequent < 0 or num_translations < 0:
        raise ValueError(
            f"num_frequent = {num_frequent} and num_translations = {num_translations} must not be negative"
        )
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


def count_ids(sentences: Iterable[Sequence[int]], *, vocab_size: int) -> NDArray[np.int64]:
    """How often each id of a vocabulary occurs."""
    return np.bincount(np.fromiter(chain.from_iterable(sentences), dtype=np.int64), minlength=vocab_size)
