"""Diverse beam search: a beam in groups, each of which pays for the tokens that earlier groups have just selected.

The state has a row for each group, as if groups were sentences of their own; those of one sentence are neighbours.
"""

import dataclasses
import math

import torch

from translate.decoding.search.beam import BeamState, Candidates, NextTokenScores, select_best


@dataclasses.dataclass(frozen=True)
class DiverseGroups:
    """Selects the best continuations of each group, after a penalty for what earlier groups selected in this step.

    The penalty steers the selection alone: the scores that are kept are free of it, so hypotheses are ranked by the
    model's probabilities, and the first group is an ordinary beam search.

    Args:
        strength: The penalty of a token, in nats, for each time that an earlier group selected it; 0: all groups find
            the same.

    Source: Vijayakumar et al. 2018, https://arxiv.org/abs/1610.02424, algorithm 1, with their Hamming diversity.
    """

    num_groups: int
    strength: float

    def __call__(self, state: BeamState, scores: NextTokenScores) -> Candidates:
        """Selects group by group; all groups of a sentence have to be there."""
        num_groups = self.num_groups
        rows, beam, vocab = scores.shape
        assert rows % num_groups == 0, f"{rows} rows are not whole sentences of {num_groups} groups"
        penalties = scores.new_zeros((rows // num_groups, 0))  # of the tokens selected so far, one by one
        selected = torch.zeros_like(penalties, dtype=torch.long)
        by_group = []
        for group in range(num_groups):
            of_group = slice(group, None, num_groups)
            group_state, group_scores = state.select_rows(of_group), scores[of_group]
            pays = group > 0 and self.strength > 0
            penalized = group_scores
            if pays:
                tokens, costs = (each[:, None].expand(-1, beam, -1) for each in (selected, penalties))
                penalized = group_scores.scatter_add(2, tokens, -costs)
            candidates = select_best(group_state, penalized)
            is_selected = candidates.cumulative_scores > -math.inf
            if pays:
                flat = candidates.beam_indices * vocab + candidates.tokens
                free = group_state.cumulative_scores.gather(1, candidates.beam_indices)
                free += group_scores.flatten(1).gather(1, flat)
                is_empty = candidates.cumulative_scores == -math.inf  # what is not a number stays so
                candidates = candidates._replace(cumulative_scores=free.masked_fill(is_empty, -math.inf))
            by_group.append(candidates)
            selected = torch.cat((selected, candidates.tokens), dim=1)
            penalties = torch.cat((penalties, is_selected * self.strength), dim=1)
        return Candidates(*(torch.stack(fields, dim=1).view(rows, beam) for fields in zip(*by_group, strict=True)))
