"""Phrases that a translation must contain: their spelling, how far a translation has got, and a search for them.

A translation is read from left to right. Where a phrase stands that is still missing, the longest such phrase is
taken, and reading goes on behind it. So no token serves two phrases, and of "the" and "the dog", "the dog" satisfies
the second alone. A phrase stands only where a word ends behind it: the next token begins a word, or there is none yet.
So a phrase that ends with the newest token is missing again if the token after it continues its last word.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from translate.data.tokenizer import BOS_ID, BYTE_PIECE, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from translate.decoding.output.words import SPACE
from translate.decoding.search.beam import BeamState, Candidates, NextTokenScores, largest, select_best
from translate.errors import InputError

_NO_TOKEN = -1  # stands behind the end of a hypothesis


class WordTables(NamedTuple):
    """Where words begin and end, by target token."""

    begins_word: Bool[Tensor, " vocab"]  # the token does not continue the word before it
    leaves_word_open: Bool[Tensor, " vocab"]  # the next token may continue the word


def build_word_tables(tokenizer: Tokenizer) -> WordTables:
    """The tables of a target vocabulary.

    A piece begins a word if its first character is no letter, mark or digit: `▁` for a space, or punctuation, as the
    `'s` in "dog's". A piece leaves a word open if its last character is one: `▁dog`, but not `.`. The special symbols
    begin a word and leave none open. A piece of byte fallback counts as its character if that is ASCII, and otherwise
    as a letter; behind it a word is always open.
    """
    begins_word, leaves_word_open = [], []
    for token, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size))):
        is_special = token in (PAD_ID, UNK_ID, BOS_ID, EOS_ID)
        byte = BYTE_PIECE.fullmatch(piece)
        first = chr(int(byte[1], 16)) if byte else piece[:1]
        continues = is_word_character(first) or (byte is not None and not first.isascii())
        begins_word.append(is_special or piece.startswith(SPACE) or not continues)
        leaves_word_open.append(not is_special and (byte is not None or is_word_character(piece[-1])))
    return WordTables(torch.tensor(begins_word), torch.tensor(leaves_word_open))


def is_word_character(character: str) -> bool:
    """Whether a character belongs to words: a letter, a mark on one, or a digit, of any script."""
    return unicodedata.category(character)[0] in "LMN"


def encode_phrase(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids that spell a phrase in a translation, as words of their own: "dog" begins with the space before it.

    Only this spelling counts; the tokenizer gives it wherever the words stand between spaces.

    Raises:
        InputError: The phrase has no text, or the vocabulary cannot spell it.
    """
    ids = tokenizer.encode(text)
    if not ids:
        raise InputError(f"the phrase {text!r} is empty; name a word, or leave it out")
    if UNK_ID in ids:
        unknown = [character for character in dict.fromkeys(text) if UNK_ID in tokenizer.encode(character)] or [text]
        raise InputError(f"the phrase {text!r}: the target vocabulary cannot spell {', '.join(map(repr, unknown))}")
    return ids


def unsatisfied_phrases(
    ids: Sequence[int], phrases: Sequence[Sequence[int]], *, begins_word: Bool[Tensor, " vocab"]
) -> list[int]:
    """Which of the required phrases a translation lacks, by their places in `phrases`.

    Of a phrase that is required several times, the last ones are lacking.

    Args:
        ids: The translation, without the end symbol; its end is the end of a word.
    """
    missing = sorted(range(len(phrases)), key=lambda place: -len(phrases[place]))
    position = 0
    while position < len(ids) and missing:
        for place in missing:
            end = position + len(phrases[place])
            if list(ids[position:end]) == list(phrases[place]) and (end == len(ids) or bool(begins_word[ids[end]])):
                missing.remove(place)
                position = end
                break
        else:
            position += 1
    return sorted(missing)


class PhraseTable(NamedTuple):
    """The distinct phrases of each sentence, the longest first, padded with empty ones that are not required."""

    ids: Int[Tensor, "batch phrases longest"]  # longest: at least one more than the longest phrase has
    lengths: Int[Tensor, "batch phrases"]
    counts: Int[Tensor, "batch phrases"]  # how often each phrase is required


class PhraseProgress(NamedTuple):
    """What a hypothesis has of its sentence's phrases."""

    num_satisfied: Int[Tensor, "batch beam"]  # required tokens; those of a phrase that is begun and word ends count
    missing: Int[Tensor, "batch beam phrases"]  # how often each phrase is still to come
    begun: Int[Tensor, "batch beam phrases"]  # tokens of a missing phrase that the hypothesis ends with


def build_table(phrases: Sequence[Sequence[Sequence[int]]]) -> PhraseTable:
    """The table of each sentence's phrases; a phrase that is listed twice is required twice."""
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
) -> PhraseProgress:
    """What each hypothesis has of its sentence's phrases: a pure function of its tokens.

    A phrase counts with its tokens. The end of its last word counts as one more token as soon as the next token
    settles it: a hypothesis that has not paid for that yet must not crowd out those that have. A phrase that is begun
    counts with its tokens so far, instead of the complete phrases that lie in it, if those are fewer. Once abandoned,
    it counts nothing.

    Args:
        ids: The start symbol, then what was generated; anything behind it.
        lengths: Generated tokens.
    """
    position = torch.arange(max(1, int(lengths.max())), device=ids.device)
    tokens = ids[:, :, 1 : len(position) + 1].masked_fill(position >= lengths[:, None, None], _NO_TOKEN)
    agrees = _agreement(tokens, table, begins_word)
    ends = position + table.lengths[:, None, :, None]
    is_complete = ends <= lengths[:, None, None, None]
    stands = agrees & is_complete & (table.lengths > 0)[:, None, :, None]

    batch, beam, num_phrases, width = stands.shape
    missing = table.counts[:, None].repeat(1, beam, 1)
    reached = torch.zeros(batch, beam, dtype=torch.long, device=ids.device)  # the end of the last phrase
    num_before = reached[:, :, None].repeat(1, 1, width)  # tokens and word ends of the phrases before each position
    is_inside = torch.zeros_like(num_before, dtype=torch.bool)  # in a phrase, and not its first token
    for _ in range(int(table.counts.sum(dim=1).max())):  # each round takes the next phrase in all hypotheses
        is_next = stands & (missing > 0)[:, :, :, None] & (position >= reached[:, :, None])[:, :, None]
        # The first maximum is the leftmost position, and there the longest phrase.
        is_found, start = is_next.any(dim=2).int().max(dim=2)
        here = is_next.gather(3, start[:, :, None, None].expand(-1, -1, num_phrases, 1))[:, :, :, 0]
        phrase = here.int().argmax(dim=2)
        size = table.lengths.gather(1, phrase) * is_found
        reached = torch.where(is_found > 0, start + size, reached)
        missing = missing.scatter_add(2, phrase[:, :, None], -is_found[:, :, None].long())
        num_before = num_before + (size + is_found)[:, :, None] * (position >= (start + size)[:, :, None])
        is_inside |= (position > start[:, :, None]) & (position < (start + size)[:, :, None])

    is_begun = agrees & ~is_complete & (missing > 0)[:, :, :, None] & ~is_inside[:, :, None]
    is_begun &= position < lengths[:, None, None, None]
    num_tokens = lengths[:, None] - position  # from a position to the end
    with_begun = (num_before + num_tokens[:, None]) * is_begun.any(dim=2)
    complete = ((table.counts[:, None] - missing) * (table.lengths[:, None] + 1)).sum(dim=2)
    is_unsettled = (reached > 0) & (reached == lengths[:, None])
    return PhraseProgress(
        num_satisfied=torch.maximum(complete - is_unsettled.long(), with_begun.amax(dim=2)),
        missing=missing,
        begun=(is_begun * num_tokens[:, None, None]).amax(dim=3),
    )


def _agreement(
    tokens: Int[Tensor, "batch beam target"], table: PhraseTable, begins_word: Bool[Tensor, " vocab"]
) -> Bool[Tensor, "batch beam phrases target"]:
    """Whether each phrase may stand at each position, as far as the hypothesis has got, with a word's end behind it."""
    num_offsets, width = table.ids.shape[2], tokens.shape[2]
    padded = F.pad(tokens, (0, num_offsets), value=_NO_TOKEN)
    is_behind = padded == _NO_TOKEN
    is_boundary = is_behind | begins_word[padded.clamp(min=0)]
    agrees = torch.ones((), dtype=torch.bool, device=tokens.device)
    for offset in range(num_offsets):
        window = slice(offset, offset + width)
        spells = padded[:, :, None, window] == table.ids[:, None, :, offset, None]
        spells |= is_behind[:, :, None, window]
        size = table.lengths[:, None, :, None]
        agrees = agrees & torch.where(size > offset, spells, is_boundary[:, :, None, window] | (size < offset))
    return agrees


class RequiredPhrases:
    """Selects candidates so that each translation contains its sentence's phrases, as often as they are required.

    Hypotheses that have satisfied few required tokens look better than those that have paid for them, and would crowd
    them out. So they do not compete: the beam is divided over banks, each of the hypotheses that have satisfied equally
    many.

    A phrase stands only as whole words: `▁dog` before `s` spells "dogs". The search forbids no such continuation, since
    the word may be wanted beside the phrase, or belong to another phrase ("doghouse"). If the next token ends the word,
    it counts as one more required token. If it continues the word, the phrase is missing again, and the hypothesis
    falls back into a bank of those that have satisfied less. Each hypothesis's best token that begins a word is always
    a candidate, so that a model that prefers "dogs" cannot prevent the "dog".

    Candidates are the best continuations of all hypotheses together, each hypothesis's best token and its best token
    that begins a word, and its next tokens of missing phrases, begun or not. Slots are dealt out in rounds: in each
    round, every bank gives its best candidate, the fullest bank first, until no slot is open. So banks with few
    candidates leave their share to the others. The end symbol is no candidate while a phrase is missing. With fewer
    slots than banks the fullest banks win, so that a narrow beam, above all greedy search, puts phrases in early.

    A hypothesis that reaches its maximum length finishes as it is, and may lack phrases: see `unsatisfied_phrases`. A
    sentence without phrases gets what `select_best` gives.

    Args:
        phrases: The phrases of each sentence, without the end symbol; one that is listed twice is required twice.
        begins_word: See `WordTables`; True for the end symbol.

    Source: dynamic beam allocation, Post and Vilar 2018, https://arxiv.org/abs/1804.06609; for whole batches at
    once, Hu et al. 2019, https://aclanthology.org/N19-1090.
    """

    def __init__(
        self, phrases: Sequence[Sequence[Sequence[int]]], *, begins_word: Bool[Tensor, " vocab"], end_id: int
    ) -> None:
        self._end_id = end_id
        self._begins_word = begins_word
        self._table = PhraseTable(*(part.to(begins_word.device) for part in build_table(phrases)))
        self._num_banks = 1 + max((sum(len(phrase) + 1 for phrase in sentence) for sentence in phrases), default=0)

    def __call__(self, state: BeamState, scores: NextTokenScores) -> Candidates:
        """See `beam.SelectCandidates`."""
        candidates = select_best(state, scores)
        is_open = (state.cumulative_scores > -math.inf).any(dim=1)
        rows = ((self._table.counts[state.sentences] > 0).any(dim=1) & is_open).nonzero()[:, 0]
        if not len(rows):
            return candidates
        constrained = self._select(state.select_rows(rows), scores.index_select(0, rows))
        return Candidates(*(old.index_copy(0, rows, new) for old, new in zip(candidates, constrained, strict=True)))

    def _select(self, state: BeamState, scores: NextTokenScores) -> Candidates:
        """Deal the open slots out to the banks. `scores` is changed."""
        beam = scores.shape[1]
        table = PhraseTable(*(part[state.sentences] for part in self._table))
        progress = find_progress(state.ids, state.lengths, table, begins_word=self._begins_word)
        is_missing = (progress.missing > 0).any(dim=2)
        scores[:, :, self._end_id] = scores[:, :, self._end_id].masked_fill(is_missing, -math.inf)
        candidates, banks = self._continuations(state, scores, table, progress)

        rounds = F.one_hot(banks, self._num_banks).cumsum(dim=1).gather(2, banks[:, :, None])
        turns = rounds[:, :, 0] * self._num_banks - banks
        is_none = candidates.cumulative_scores == -math.inf
        order = turns.masked_fill(is_none, torch.iinfo(turns.dtype).max).argsort(dim=1)[:, :beam]
        is_open = torch.arange(beam, device=order.device) < (beam - state.num_finished)[:, None]
        selected = candidates.cumulative_scores.gather(1, order).masked_fill(~is_open, -math.inf)
        selected, places = selected.sort(dim=1, descending=True, stable=True)
        order = order.gather(1, places)
        return Candidates(selected, candidates.beam_indices.gather(1, order), candidates.tokens.gather(1, order))

    def _continuations(
        self, state: BeamState, scores: NextTokenScores, table: PhraseTable, progress: PhraseProgress
    ) -> tuple[Candidates, Int[Tensor, "batch candidates"]]:
        """All distinct candidates, the greatest cumulative score first, and the bank that each would come to."""
        _, beam, vocab = scores.shape
        best_of_all = largest(scores, beam, offsets=state.cumulative_scores)[1]
        barred = torch.zeros(vocab, dtype=scores.dtype, device=scores.device).masked_fill(~self._begins_word, -math.inf)
        best, best_words = _best_of_each(scores), _best_of_each(scores + barred)
        first = table.ids[:, None, :, 0].expand_as(progress.begun)
        next_ = table.ids[:, None].expand(-1, beam, -1, -1).gather(3, progress.begun[:, :, :, None])[:, :, :, 0]
        # A phrase that is not missing gives a candidate that is there already.
        wanted = torch.where((progress.missing > 0).repeat(1, 1, 2), torch.cat((first, next_), dim=2), best_words)
        of_each = torch.cat((best, best_words, wanted), dim=2)
        of_each = of_each + vocab * torch.arange(beam, device=scores.device)[:, None]
        flat = torch.cat((best_of_all, of_each.flatten(1)), dim=1).sort(dim=1).values
        is_again = F.pad(flat[:, 1:] == flat[:, :-1], (1, 0))
        cumulative = scores.flatten(1).gather(1, flat) + state.cumulative_scores.gather(1, flat // vocab)
        cumulative = cumulative.masked_fill(is_again, -math.inf)
        cumulative, order = cumulative.sort(dim=1, descending=True, stable=True)
        width = max(beam, int((cumulative > -math.inf).sum(dim=1).max()))  # what lies behind is no candidate anywhere
        cumulative, flat = cumulative[:, :width], flat.gather(1, order[:, :width])
        candidates = Candidates(cumulative, flat // vocab, flat % vocab)

        ids = state.ids.gather(1, candidates.beam_indices[:, :, None].expand(-1, -1, state.ids.shape[2]))
        lengths = state.lengths + 1
        position = lengths[:, None, None].expand(-1, ids.shape[1], 1)
        ids = ids.scatter(2, position, candidates.tokens[:, :, None])
        return candidates, find_progress(ids, lengths, table, begins_word=self._begins_word).num_satisfied


def _best_of_each(scores: NextTokenScores) -> Int[Tensor, "batch beam 1"]:
    """The best token after each hypothesis."""
    rows = scores.flatten(0, 1)[:, None]
    return largest(rows, 1, offsets=rows.new_zeros(len(rows), 1))[1].unflatten(0, scores.shape[:2])
