"""The target tokens that may translate a sentence: with a large vocabulary, a short list makes decoding faster.

A sentence's list depends on that sentence alone, so its translation does not depend on the other sentences in a batch.
CTranslate2's vocabulary maps allow the words of the whole batch instead, so only our own engine has shortlists.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from translate.errors import InputError, RunError
from translate.runs.checkpoint import read_tensors
from translate.runs.directory import RunDirectory
from translate.runs.loading import LoadedRun


class Shortlist(NamedTuple):
    """The target ids that are always allowed, and the ids that each source id allows in addition."""

    always: Bool[Tensor, " vocab"]  # includes EOS and UNK, never PAD or BOS
    translations: Int[Tensor, "source_vocab choices"]  # int32; filled up with EOS, which is always allowed

    def allowed(self, source_ids: Int[Tensor, "batch source"]) -> Bool[Tensor, "batch vocab"]:
        """The target ids that the translation of each sentence may have; EOS and padding add none."""
        chosen = self.translations[source_ids].flatten(1).long()  # (batch, source * choices)
        return self.always.repeat(len(source_ids), 1).scatter_(1, chosen, True)


def read_shortlist(run: LoadedRun) -> Shortlist:
    """Read the shortlist of a run.

    Raises:
        InputError: The run has no shortlist.
        RunError: The shortlist is damaged, or one for other vocabularies.
    """
    file = RunDirectory(run.directory).shortlist
    if not file.is_file():
        raise InputError(f"{run.directory} has no {file.name}: make it with translate shortlist {run.directory}")
    tensors = read_tensors(file).tensors
    dimensions = {"translations": 2, "always": 1}
    found = [tensors.get(name, torch.tensor(0)) for name in dimensions]
    sizes = [len(each) if each.dim() == number else 0 for each, number in zip(found, dimensions.values(), strict=True)]
    expected = [run.tokenizers.source.vocab_size, run.tokenizers.target.vocab_size]
    if sizes != expected:
        raise RunError(
            f"{file}: is a shortlist for vocabularies of {sizes[0]} and {sizes[1]} subwords, but the tokenizers have"
            f" {expected[0]} and {expected[1]}"
        )
    return Shortlist(tensors["always"], tensors["translations"])
