"""Minimum Bayes risk: of the candidate translations of one sentence, the one that the others agree with most.

Every candidate is judged against every candidate as if that were the reference. The n-grams of each candidate are
counted once, and one matrix product for each order compares all pairs, so a hundred candidates cost milliseconds.
"""

from collections import Counter
from collections.abc import Sequence
from math import fsum
from operator import mul
from typing import Literal

import torch
from jaxtyping import Float
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

Utility = Literal["chrf", "bleu"]
"""How good a translation is, given a reference: sacreBLEU's sentence chrF, or its sentence BLEU."""


def expected_utilities(candidates: Sequence[str], *, utility: Utility) -> list[float]:
    """How good each candidate is on average, in points of 100, if each of the candidates may be the right translation.

    The candidate with the greatest expected utility has minimum Bayes risk. All candidates weigh the same, so a
    translation that was sampled twice weighs twice. A candidate is compared with itself too, as in the papers.

    Source: Kumar and Byrne 2004, https://aclanthology.org/N04-1022; Eikema and Aziz 2020,
        https://arxiv.org/abs/2005.10283.
    """
    copies = Counter(candidates)  # in the order of their first occurrence
    rows = pairwise_utilities(list(copies), utility=utility).tolist()
    # fsum: the same in any order, so that a tie is a tie
    means = [fsum(map(mul, row, copies.values())) / len(candidates) for row in rows]
    by_text = dict(zip(copies, means, strict=True))
    return [by_text[text] for text in candidates]


def pairwise_utilities(texts: Sequence[str], *, utility: Utility) -> Float[Tensor, "hypotheses references"]:
    """The utility, in points of 100, of each text given each text as the reference: sacreBLEU's `sentence_score`."""
    return _chrf(texts) if utility == "chrf" else _bleu(texts)


def _chrf(texts: Sequence[str]) -> Float[Tensor, "hypotheses references"]:
    """The F-score of the mean precision and the mean recall over the orders that both texts have.

    Source: Popović 2015, https://aclanthology.org/W15-3049; sacreBLEU's defaults.
    """
    characters = ["".join(text.split()) for text in texts]
    lengths = _lengths(characters)
    precision = recall = num_orders = torch.zeros(len(texts), len(texts), dtype=torch.float64)
    for order in range(1, CHRF.CHAR_ORDER + 1):
        matches = _num_matches(characters, order)
        totals = (lengths - order + 1).clamp(min=0)
        at_least_one = totals.clamp(min=1)  # where there are none, none match either
        precision = precision + matches / at_least_one[:, None]
        recall = recall + matches / at_least_one[None, :]
        num_orders = num_orders + ((totals[:, None] > 0) & (totals[None, :] > 0))
    precision, recall = precision / num_orders.clamp(min=1), recall / num_orders.clamp(min=1)
    factor = CHRF.BETA**2
    score = 100 * (1 + factor) * precision * recall / (factor * precision + recall)
    return torch.where(precision + recall > 0, score, 0.0)


def _bleu(texts: Sequence[str]) -> Float[Tensor, "hypotheses references"]:
    """BLEU over the orders that the hypothesis has; the k-th order without a match counts as 1 / 2^k matches.

    Source: Chen and Cherry 2014, https://aclanthology.org/W14-3346, smoothing 3; sacreBLEU's `exp` and
        `effective_order`.
    """
    metric = BLEU()
    words = [tuple(metric.tokenizer(text.rstrip()).split()) for text in texts]
    lengths = _lengths(words)
    log_precision = num_smoothed = torch.zeros(len(texts), len(texts), dtype=torch.float64)
    has_match = torch.zeros(len(texts), len(texts), dtype=torch.bool)
    for order in range(1, metric.max_ngram_order + 1):
        matches = _num_matches(words, order)
        totals = (lengths - order + 1).clamp(min=0)[:, None]
        is_smoothed = (totals > 0) & (matches == 0)
        num_smoothed = num_smoothed + is_smoothed
        precision = torch.where(is_smoothed, 0.5**num_smoothed, matches) / totals.clamp(min=1)
        log_precision = log_precision + torch.where(totals > 0, precision.log(), 0.0)
        has_match = has_match | (matches > 0)
    effective_order = lengths.clamp(min=1, max=metric.max_ngram_order)[:, None]
    brevity = (1 - lengths[None, :] / lengths[:, None]).clamp(max=0)
    return torch.where(has_match, 100 * (brevity + log_precision / effective_order).exp(), 0.0)


def _lengths(texts: Sequence[str | tuple[str, ...]]) -> Float[Tensor, " texts"]:
    return torch.tensor([len(text) for text in texts], dtype=torch.float64)


def _num_matches(texts: Sequence[str | tuple[str, ...]], order: int) -> Float[Tensor, "hypotheses references"]:
    """The number of n-grams that each two texts have in common; one that occurs twice in both counts twice.

    Each occurrence of an n-gram, the first, the second, …, has its own column, so a product gives the smaller count.
    """
    columns: dict[tuple[str | tuple[str, ...], int], int] = {}
    present: list[tuple[int, int]] = []
    for row, text in enumerate(texts):
        counts = Counter(text[start : start + order] for start in range(len(text) - order + 1))
        for ngram, count in counts.items():
            for occurrence in range(count):
                present.append((row, columns.setdefault((ngram, occurrence), len(columns))))
    table = torch.zeros(len(texts), len(columns))
    places = torch.tensor(present, dtype=torch.long).view(-1, 2)
    table[places[:, 0], places[:, 1]] = 1.0
    return (table @ table.T).double()  # small whole numbers, so exact
