"""Diverse beam search: a selection of candidates for groups of hypotheses that differ."""

import dataclasses
import math

import torch

from translate.decoding.search.beam import BeamState, Candidates, NextTokenScores, select_best


@dataclasses.dataclass(frozen=True)
class DiverseGroups:
    """Diverse beam search: the best continuations of each group, penalized for tokens that earlier groups selected.

    The state has a row for each group, as if groups were sentences; a sentence's groups are neighbours. The penalty
    affects only the selection: it is not part of the scores that are kept, so hypotheses are ranked by the model's
    probabilities, and the first group is an ordinary beam search.

    Args:
        strength: The penalty of a token, in nats, for each time that an earlier group selected it.

    Source: Vijayakumar et al. 2018, https://arxiv.org/abs/1610.02424, algorithm 1, with their Hamming diversity.
    """

    num_groups: int
    strength: float

    def __call__(self, state: BeamState, scores: NextTokenScores) -> Candidates:
        """Selects group by group; all groups of a sentence have to be there."""
        _, beam, vocab = scores.shape
        penalized = scores.unflatten(0, (-1, self.num_groups)).clone()  # (sentences, groups, beam, vocab)
        by_group = []
        for group in range(self.num_groups):
            of_group = slice(group, None, self.num_groups)
            group_state, group_scores = state.select_rows(of_group), scores[of_group]
            selected = select_best(group_state, penalized[:, group])
            is_selected = selected.cumulative_scores != -math.inf
            costs, tokens = is_selected[:, :beam] * self.strength, selected.tokens
            later = penalized[:, group + 1 :]
            shape = (*later.shape[:3], beam)
            later.scatter_add_(3, tokens[:, None, None, :beam].expand(shape), -costs[:, None, None].expand(shape))
            free = group_state.cumulative_scores.gather(1, selected.beam_indices)
            free += group_scores.flatten(1).gather(1, selected.beam_indices * vocab + tokens)
            by_group.append(selected._replace(cumulative_scores=free.masked_fill(~is_selected, -math.inf)))
        return Candidates(*(torch.stack(fields, dim=1).flatten(0, 1) for fields in zip(*by_group, strict=True)))
