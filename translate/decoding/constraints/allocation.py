"""Required words and phrases: a beam search whose translations contain them, by sharing the beam out.

Hypotheses that have satisfied few required tokens look better than those that have paid for them, and would crowd them
out. So they do not compete: the beam is divided over banks, each of the hypotheses that have satisfied equally many.

Source: dynamic beam allocation, Post and Vilar 2018, https://arxiv.org/abs/1804.06609; for whole batches at once, Hu et
al. 2019, https://aclanthology.org/N19-1090.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from translate.decoding.constraints.phrases import PhraseProgress, PhraseTable, build_table, find_progress
from translate.decoding.search.beam import BeamState, Candidates, NextTokenScores, largest, select_best


class RequiredPhrases:
    """Selects candidates so that each translation contains its sentence's phrases, as often as they are required.

    `phrases.py` defines what it means to contain a phrase. A phrase stands only as whole words: `▁dog` before `s`
    spells "dogs". The search forbids no such continuation, since the word may be wanted beside the phrase, or belong to
    another phrase ("doghouse"). If the next token ends the word, it counts as one more required token. If it continues
    the word, the phrase is missing again, and the hypothesis falls back into a bank of those that have satisfied less.
    Each hypothesis's best token that begins a word is always a candidate, so that a model that prefers "dogs" cannot
    prevent the "dog".

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

        rounds = torch.nn.functional.one_hot(banks, self._num_banks).cumsum(dim=1).gather(2, banks[:, :, None])
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
        is_again = torch.nn.functional.pad(flat[:, 1:] == flat[:, :-1], (1, 0))
        totals = scores.flatten(1).gather(1, flat) + state.cumulative_scores.gather(1, flat // vocab)
        totals = totals.masked_fill(is_again, -math.inf)
        totals, order = totals.sort(dim=1, descending=True, stable=True)
        width = max(beam, int((totals > -math.inf).sum(dim=1).max()))  # what lies behind is no candidate anywhere
        totals, flat = totals[:, :width], flat.gather(1, order[:, :width])
        candidates = Candidates(totals, flat // vocab, flat % vocab)

        ids = state.ids.gather(1, candidates.beam_indices[:, :, None].expand(-1, -1, state.ids.shape[2]))
        lengths = state.lengths + 1
        position = lengths[:, None, None].expand(-1, ids.shape[1], 1)
        ids = ids.scatter(2, position, candidates.tokens[:, :, None])
        return candidates, find_progress(ids, lengths, table, begins_word=self._begins_word).num_satisfied


def _best_of_each(scores: NextTokenScores) -> Int[Tensor, "batch beam 1"]:
    """The best token after each hypothesis."""
    rows = scores.flatten(0, 1)[:, None]
    return largest(rows, 1, offsets=rows.new_zeros(len(rows), 1))[1].unflatten(0, scores.shape[:2])
