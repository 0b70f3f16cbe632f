"""Required words and phrases: a beam search whose translations contain them, by sharing the beam out.

Hypotheses that have met few required tokens look better than those that have paid for them, and would crowd them out.
So they do not compete: the beam is divided over banks, each of the hypotheses that have met equally many.

Source: dynamic beam allocation, Post and Vilar 2018, https://arxiv.org/abs/1804.06609; for whole batches at once, Hu et
al. 2019, https://aclanthology.org/N19-1090.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from translate.decoding.constraints.phrases import PhraseTable, Progress, build_table, find_progress
from translate.decoding.output.words import SPACE
from translate.decoding.search.beam import BeamState, Choice, Hypothesis, choose_best
from translate.decoding.search.topk import largest
from translate.errors import InputError

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # a piece of byte fallback


class _Continuations(NamedTuple):
    """What may be chosen, the greatest total first."""

    totals: Float[Tensor, "batch candidates"]  # -inf: none
    parents: Int[Tensor, "batch candidates"]
    tokens: Int[Tensor, "batch candidates"]
    banks: Int[Tensor, "batch candidates"]  # required tokens met


class RequiredPhrases:
    """Chooses continuations so that each translation contains its sentence's phrases, as often as they are required.

    What counts is settled in `phrases.py`: a translation is read from left to right, the longest missing phrase is
    taken, no token serves two, and a phrase stands only as whole words: `▁dog` before `s` spells "dogs". The search
    forbids no such continuation, since the word may be wanted beside the phrase, or belong to another phrase
    ("doghouse"). If the next token ends the word, it counts as one more required token; if it continues the word, the
    phrase is missing again, and the hypothesis falls back into a bank of those that have met less. Each hypothesis's
    best token that begins a word is always a candidate, so that a model in love with "dogs" cannot prevent the "dog".

    Candidates are the best continuations of all hypotheses together, each one's best token and its best token that
    begins a word, and each one's next tokens of missing phrases, begun or not. Slots are dealt out in rounds: in
    each, every bank gives its best candidate, the fullest bank first, until no slot is open; so banks with few
    candidates leave their share to the others. The end symbol is no candidate while a phrase is missing. With fewer
    slots than banks the fullest win, so that a narrow beam, and greedy search above all, puts phrases in early.

    A hypothesis that gets to its maximum length is banked as it is, and may lack phrases: see `unmet_phrases` and
    `met_first`. A sentence without phrases gets what `choose_best` gives.

    Args:
        phrases: Of each sentence; one that is there twice is required twice.
        begins_word: See `begins_word_table`.

    Raises:
        ValueError: A phrase is empty, or has the end symbol.
    """

    def __init__(
        self,
        phrases: Sequence[Sequence[Sequence[int]]],
        *,
        begins_word: Bool[Tensor, " vocab"],
        end_id: int,
        device: torch.device | None = None,
    ) -> None:
        for sentence in phrases:
            for phrase in sentence:
                if not phrase or end_id in phrase:
                    raise ValueError(f"a required phrase must be ids without the end symbol {end_id}, not {phrase}")
        self._end_id = end_id
        self._begins_word = begins_word.index_fill(0, torch.tensor([end_id], device=begins_word.device), True).to(
            device
        )
        self._table = PhraseTable(*(part.to(device) for part in build_table(phrases)))
        self._most_phrases = max((len(sentence) for sentence in phrases), default=0)
        self._most_met = max((sum(len(phrase) + 1 for phrase in sentence) for sentence in phrases), default=0)

    def __call__(
        self, state: BeamState, added: Float[Tensor, "batch beam vocab"], sentences: Int[Tensor, " batch"]
    ) -> Choice:
        """See `beam.Choose`; `sentences` are places in `phrases`."""
        choice = choose_best(state, added, sentences)
        is_constrained = (self._table.counts[sentences] > 0).any(dim=1) & (state.totals > -math.inf).any(dim=1)
        rows = is_constrained.nonzero()[:, 0]
        if not len(rows):
            return choice
        table = PhraseTable(*(part[sentences[rows]] for part in self._table))
        constrained = self._choose(BeamState(*(part[rows] for part in state)), added.index_select(0, rows), table)
        return Choice(*(both.index_copy(0, rows, part) for both, part in zip(choice, constrained, strict=True)))

    def _choose(self, state: BeamState, added: Float[Tensor, "batch beam vocab"], table: PhraseTable) -> Choice:
        """Deal the open slots out to the banks. `added` is changed."""
        beam = added.shape[1]
        progress = self._find_progress(state.ids, state.lengths, table)
        is_missing = (progress.missing > 0).any(dim=2)
        added[:, :, self._end_id] = added[:, :, self._end_id].masked_fill(is_missing, -math.inf)
        totals, parents, tokens, banks = self._continuations(state, added, table, progress)

        num_banks = self._most_met + 1
        rounds = torch.nn.functional.one_hot(banks, num_banks).cumsum(dim=1).gather(2, banks[:, :, None])[:, :, 0]
        turns = rounds * num_banks - banks
        order = turns.masked_fill(totals == -math.inf, torch.iinfo(turns.dtype).max).argsort(dim=1)[:, :beam]
        is_open = torch.arange(beam, device=order.device) < (beam - state.num_finished)[:, None]
        chosen, places = (
            totals.gather(1, order).masked_fill(~is_open, -math.inf).sort(dim=1, descending=True, stable=True)
        )
        order = order.gather(1, places)
        return Choice(chosen, parents.gather(1, order), tokens.gather(1, order))

    def _continuations(
        self, state: BeamState, added: Float[Tensor, "batch beam vocab"], table: PhraseTable, progress: Progress
    ) -> _Continuations:
        """The distinct candidates, and the bank that each would come to."""
        _, beam, vocab = added.shape
        best_of_all = largest(added, beam, offsets=state.totals).indices
        barred = torch.zeros(vocab, dtype=added.dtype, device=added.device).masked_fill(~self._begins_word, -math.inf)
        best, best_words = _best_of_each(added), _best_of_each(added + barred)
        first = table.ids[:, None, :, 0].expand_as(progress.begun)
        next_ = table.ids[:, None].expand(-1, beam, -1, -1).gather(3, progress.begun[:, :, :, None])[:, :, :, 0]
        # A phrase that is not missing gives a candidate that is there already.
        wanted = torch.where((progress.missing > 0).repeat(1, 1, 2), torch.cat((first, next_), dim=2), best_words)
        of_each = torch.cat((best, best_words, wanted), dim=2)
        of_each = of_each + vocab * torch.arange(beam, device=added.device)[:, None]
        flat = torch.cat((best_of_all, of_each.flatten(1)), dim=1).sort(dim=1).values
        is_again = torch.nn.functional.pad(flat[:, 1:] == flat[:, :-1], (1, 0))
        totals = added.flatten(1).gather(1, flat) + state.totals.gather(1, flat // vocab)
        totals = totals.masked_fill(is_again, -math.inf)
        totals, order = totals.sort(dim=1, descending=True, stable=True)
        width = max(beam, int((totals > -math.inf).sum(dim=1).max()))  # what lies behind is no candidate anywhere
        totals, flat = totals[:, :width], flat.gather(1, order[:, :width])
        parents, tokens = flat // vocab, flat % vocab

        ids = state.ids.gather(1, parents[:, :, None].expand(-1, -1, state.ids.shape[2]))
        lengths = state.lengths + 1
        ids = ids.scatter(2, lengths[:, None, None].expand(-1, ids.shape[1], 1), tokens[:, :, None])
        return _Continuations(totals, parents, tokens, self._find_progress(ids, lengths, table).met)

    def _find_progress(
        self, ids: Int[Tensor, "batch beam capacity"], lengths: Int[Tensor, " batch"], table: PhraseTable
    ) -> Progress:
        return find_progress(ids, lengths, table, begins_word=self._begins_word, num_rounds=self._most_phrases)


def _best_of_each(added: Float[Tensor, "batch beam vocab"]) -> Int[Tensor, "batch beam 1"]:
    """The best token after each hypothesis."""
    rows = added.flatten(0, 1)[:, None]
    return largest(rows, 1, offsets=rows.new_zeros(len(rows), 1)).indices.unflatten(0, added.shape[:2])


def unmet_phrases(
    ids: Sequence[int], phrases: Sequence[Sequence[int]], *, begins_word: Bool[Tensor, " vocab"]
) -> list[int]:
    """Which of the required phrases a translation lacks, by their places in `phrases`; read as `phrases.py` says.

    Of a phrase that is required several times, the last ones are lacking.

    Args:
        ids: The translation, without the end symbol; its end is the end of a word.
        begins_word: See `begins_word_table`.
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


def met_first(
    hypotheses: Sequence[Hypothesis], phrases: Sequence[Sequence[int]], *, begins_word: Bool[Tensor, " vocab"]
) -> list[Hypothesis]:
    """The hypotheses with the fewest phrases lacking first, those with equally many in their order.

    One that was cut at its maximum length never paid for what it lacks, and so may have the best score.
    """
    return sorted(hypotheses, key=lambda each: len(unmet_phrases(each.ids, phrases, begins_word=begins_word)))


def phrase_ids(tokenizer: Tokenizer, text: str) -> list[int]:
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


def begins_word_table(tokenizer: Tokenizer) -> Bool[Tensor, " vocab"]:
    """Whether the word before a piece has come to its end, so that the piece does not continue it.

    It has if the piece's first character is no letter, mark or digit: `▁` for a space, or punctuation, as the `'s` in
    "dog's". The special symbols end a word too. A piece of byte fallback counts as its character if that is ASCII, and
    otherwise as part of a letter.
    """
    table = []
    for token, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size))):
        byte = _BYTE.fullmatch(piece)
        character = chr(int(byte[1], 16)) if byte else piece[:1]
        is_part = is_word_character(character) or (byte is not None and not character.isascii())
        table.append(token in (PAD_ID, UNK_ID, BOS_ID, EOS_ID) or piece.startswith(SPACE) or not is_part)
    return torch.tensor(table)


def is_word_character(character: str) -> bool:
    """Whether it belongs to words: a letter, a mark on one, or a digit, of any script."""
    return unicodedata.category(character)[0] in "LMN"
