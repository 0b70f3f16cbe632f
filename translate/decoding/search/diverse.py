"""Diverse beam search: a beam in groups, each of which pays for the tokens that the groups before it have just chosen.

The state has a row for each group, as if groups were sentences of their own; those of one sentence are neighbours.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.decoding.search.beam import BeamState, Choice, choose_best


class DiverseGroups:
    """Chooses the best continuations in each group, after a penalty for what earlier groups chose in this step.

    The penalty steers the choice alone: the totals kept are free of it, so hypotheses are ranked by what the model says
    of them, and the first group is an ordinary beam search.

    Source: Vijayakumar et al. 2018, https://arxiv.org/abs/1610.02424, algorithm 1, with their Hamming diversity: a
    token costs `strength` for each time that an earlier group chose it.
    """

    def __init__(self, num_groups: int, *, strength: float) -> None:
        """
        Args:
            strength: Nats for each time; 0: the groups find the same.

        Raises:
            ValueError: A setting is out of its range.
        """
        if num_groups < 1:
            raise ValueError(f"num_groups = {num_groups}: must be at least 1")
        if not 0.0 <= strength < math.inf:
            raise ValueError(f"strength = {strength}: must be finite and at least 0")
        self._num_groups = num_groups
        self._strength = strength

    def __call__(
        self, state: BeamState, added: Float[Tensor, "batch beam vocab"], sentences: Int[Tensor, " batch"]
    ) -> Choice:
        """The continuations of each group; all groups of a sentence have to be there."""
        num_groups = self._num_groups
        rows, beam = added.shape[:2]
        assert rows % num_groups == 0, f"{rows} rows are not whole sentences of {num_groups} groups"
        costs = added.new_zeros((rows // num_groups, 0))  # of the tokens chosen so far, one by one
        chosen = torch.zeros_like(costs, dtype=torch.long)
        choices = []
        for group in range(num_groups):
            of_group = slice(group, None, num_groups)
            group_state = BeamState(*(field[of_group] for field in state))
            choice = self._choose(group_state, added[of_group], sentences[of_group], chosen=chosen, costs=costs)
            choices.append(choice)
            chosen = torch.cat((chosen, choice.tokens), dim=1)
            is_chosen = (choice.totals > -math.inf).to(costs.dtype)
            costs = torch.cat((costs, is_chosen * self._strength), dim=1)
        return Choice(*(torch.stack(fields, dim=1).view(rows, beam) for fields in zip(*choices, strict=True)))

    def _choose(
        self,
        state: BeamState,
        added: Float[Tensor, "batch beam vocab"],
        sentences: Int[Tensor, " batch"],
        *,
        chosen: Int[Tensor, "batch chosen"],
        costs: Float[Tensor, "batch chosen"],
    ) -> Choice:
        """The choice of one group, given what earlier ones chose."""
        if not chosen.shape[1] or not self._strength:
            return choose_best(state, added, sentences)
        beam = added.shape[1]
        lowered = added.scatter_add(2, _for_each_slot(chosen, beam), -_for_each_slot(costs, beam))
        choice = choose_best(state, lowered, sentences)
        flat = choice.parents * added.shape[2] + choice.tokens
        totals = state.totals.gather(1, choice.parents) + added.flatten(1).gather(1, flat)
        return choice._replace(totals=totals.masked_fill(choice.totals == -math.inf, -math.inf))


def _for_each_slot(values: Tensor, beam: int) -> Tensor:
    return values[:, None].expand(-1, beam, -1)
