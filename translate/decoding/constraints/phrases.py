"""How far hypotheses have got with phrases: a pure function of their tokens, by comparing windows with a table.

Reading: from left to right; where a phrase stands that is still missing, the longest such is taken, and reading goes
on behind it. So no token serves two phrases, and of "the" and "the dog", "the dog" meets the second alone. A phrase
stands only where a word ends behind it: the next token begins a word, or there is none yet. Thus a phrase that is met
by the newest token is unmet again if the token after it continues its last word.

Reading takes one round for each phrase that a sentence requires, not one for each token. Each round looks at all
hypotheses of all sentences together.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

NO_TOKEN = -1  # stands behind the end of a hypothesis


class PhraseTable(NamedTuple):
    """The distinct phrases of each sentence, the longest first, then empty ones that are required no times."""

    ids: Int[Tensor, "batch phrases longest"]  # longest: at least one more than the longest phrase has
    lengths: Int[Tensor, "batch phrases"]
    counts: Int[Tensor, "batch phrases"]  # how often each is required


class Progress(NamedTuple):
    """What a hypothesis has of its sentence's phrases."""

    met: Int[Tensor, "batch beam"]  # required tokens, those of a phrase that is begun and word ends counted
    missing: Int[Tensor, "batch beam phrases"]  # how often each phrase is still to come
    begun: Int[Tensor, "batch beam phrases"]  # tokens of a missing phrase that the hypothesis ends with


class _Reading(NamedTuple):
    """Where the phrases were taken."""

    missing: Int[Tensor, "batch beam phrases"]
    reached: Int[Tensor, "batch beam"]  # the end of the last one; 0: none
    met_before: Int[Tensor, "batch beam target"]  # tokens and word ends of the phrases before each position
    is_inside: Bool[Tensor, "batch beam target"]  # in a phrase, and not its first token


def build_table(phrases: Sequence[Sequence[Sequence[int]]]) -> PhraseTable:
    """The table of each sentence's phrases; one that is there twice is required twice."""
    counters = [Counter(tuple(phrase) for phrase in sentence) for sentence in phrases]
    num_phrases = max(map(len, counters), default=0)
    longest = max((len(phrase) for counter in counters for phrase in counter), default=0)
    ids = torch.zeros(len(counters), num_phrases, longest + 1, dtype=torch.long)
    lengths, counts = (torch.zeros(len(counters), num_phrases, dtype=torch.long) for _ in range(2))
    for sentence, counter in enumerate(counters):
        for number, phrase in enumerate(sorted(counter, key=lambda phrase: -len(phrase))):
            ids[sentence, number, : len(phrase)] = torch.tensor(phrase)
            lengths[sentence, number] = len(phrase)
            counts[sentence, number] = counter[phrase]
    return PhraseTable(ids, lengths, counts)


def find_progress(
    ids: Int[Tensor, "batch beam capacity"],
    lengths: Int[Tensor, " batch"],
    table: PhraseTable,
    *,
    begins_word: Bool[Tensor, " vocab"],
    num_rounds: int,
) -> Progress:
    """What each hypothesis has of its sentence's phrases.

    A phrase counts with its tokens, and the end of its last word with one more, as soon as the next token settles it:
    a hypothesis for which that is still to be paid must not crowd out those that have paid. One that is begun counts
    with its tokens so far, instead of the complete ones that lie in it, if they are more. Abandoned, it counts nothing.

    Args:
        ids: The start symbol, then what was generated; anything behind it.
        lengths: Generated tokens.
        num_rounds: As many as a sentence requires phrases, or more.
    """
    position = torch.arange(max(1, int(lengths.max())), device=ids.device)
    tokens = ids[:, :, 1 : len(position) + 1].masked_fill(position >= lengths[:, None, None], NO_TOKEN)
    agrees = _agreement(tokens, table, begins_word)
    ends = position + table.lengths[:, None, :, None]
    is_complete = ends <= lengths[:, None, None, None]
    reading = _read(agrees & is_complete & (table.lengths > 0)[:, None, :, None], table, num_rounds=num_rounds)

    is_begun = agrees & ~is_complete & (reading.missing > 0)[:, :, :, None] & ~reading.is_inside[:, :, None]
    is_begun &= position < lengths[:, None, None, None]
    num_tokens = lengths[:, None] - position  # from a position to the end
    with_begun = (reading.met_before + num_tokens[:, None]) * is_begun.any(dim=2)
    complete = ((table.counts[:, None] - reading.missing) * (table.lengths[:, None] + 1)).sum(dim=2)
    is_unsettled = (reading.reached > 0) & (reading.reached == lengths[:, None])
    return Progress(
        met=torch.maximum(complete - is_unsettled.long(), with_begun.amax(dim=2)),
        missing=reading.missing,
        begun=(is_begun * num_tokens[:, None, None]).amax(dim=3),
    )


def _agreement(
    tokens: Int[Tensor, "batch beam target"], table: PhraseTable, begins_word: Bool[Tensor, " vocab"]
) -> Bool[Tensor, "batch beam phrases target"]:
    """Whether each phrase may stand at each position, as far as the hypothesis has got, with a word's end behind it."""
    num_offsets, width = table.ids.shape[2], tokens.shape[2]
    padded = F.pad(tokens, (0, num_offsets), value=NO_TOKEN)
    is_behind = padded == NO_TOKEN
    is_boundary = is_behind | begins_word[padded.clamp(min=0)]
    agrees = torch.ones((), dtype=torch.bool, device=tokens.device)
    for offset in range(num_offsets):
        window = slice(offset, offset + width)
        spells = padded[:, :, None, window] == table.ids[:, None, :, offset, None]
        spells |= is_behind[:, :, None, window]
        size = table.lengths[:, None, :, None]
        agrees = agrees & torch.where(size > offset, spells, is_boundary[:, :, None, window] | (size < offset))
    return agrees


def _read(stands: Bool[Tensor, "batch beam phrases target"], table: PhraseTable, *, num_rounds: int) -> _Reading:
    """Take phrases from left to right, the longest where several stand."""
    batch, beam, num_phrases, width = stands.shape
    position = torch.arange(width, device=stands.device)
    missing = table.counts[:, None].repeat(1, beam, 1)
    reached = torch.zeros(batch, beam, dtype=torch.long, device=stands.device)
    met_before = reached[:, :, None].repeat(1, 1, width)
    is_inside = torch.zeros_like(met_before, dtype=torch.bool)
    for _ in range(num_rounds):
        is_next = stands & (missing > 0)[:, :, :, None] & (position >= reached[:, :, None])[:, :, None]
        # The first maximum is the leftmost position, and there the longest phrase.
        is_found, start = is_next.any(dim=2).int().max(dim=2)
        here = is_next.gather(3, start[:, :, None, None].expand(-1, -1, num_phrases, 1))[:, :, :, 0]
        phrase = here.int().argmax(dim=2)
        size = table.lengths.gather(1, phrase) * is_found
        reached = torch.where(is_found > 0, start + size, reached)
        missing = missing.scatter_add(2, phrase[:, :, None], -is_found[:, :, None].long())
        met_before = met_before + (size + is_found)[:, :, None] * (position >= (start + size)[:, :, None])
        is_inside |= (position > start[:, :, None]) & (position < (start + size)[:, :, None])
    return _Reading(missing, reached, met_before, is_inside)
