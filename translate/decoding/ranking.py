"""From the hypotheses of a search to a translation: reranking, required phrases, minimum Bayes risk, distinct texts."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import torch
from jaxtyping import Bool
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import Tokenizers
from translate.decoding.constraints.phrases import build_word_tables, unsatisfied_phrases
from translate.decoding.request import SearchInput, Translation, one_line
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.mbr import expected_utilities
from translate.decoding.search.scoring import build_scoring


@dataclasses.dataclass
class Ranking:
    """Chooses and spells the translations among the hypotheses of an input."""

    tokenizers: Tokenizers
    config: DecodingConfig
    has_token_scores: bool

    def text(self, ids: list[int]) -> str:
        """The text of a hypothesis, on one line."""
        return one_line(self.tokenizers.target.decode(ids))

    def translation(self, given: SearchInput, hypotheses: Sequence[Hypothesis]) -> Translation:
        """The best of a search's hypotheses as a translation, with other good ones as its alternatives.

        Of hypotheses that spell the same text with other subwords the best stays; samples may repeat a text. With
        `decoding.mbr` the best is the one of least risk among those that leave the fewest phrases out.
        """
        hypotheses = hypotheses or [Hypothesis([], [], 0.0, truncated=False)]
        ranked = [(each, self.unmet(each.ids, given.phrases, given.phrase_ids)) for each in hypotheses]
        # A hypothesis that was cut at its maximum length may leave phrases out and have the best score all the same.
        ranked.sort(key=lambda pair: len(pair[1]))
        if self.config.mbr != "none":
            ranked = [pair for pair in ranked if len(pair[1]) == len(ranked[0][1])]
            utilities = expected_utilities([self.text(each.ids) for each, _ in ranked], utility=self.config.mbr)
            ranked = [ranked[utilities.index(max(utilities))]]
        found: list[Translation] = []
        for hypothesis, unmet in ranked:
            text = self.text(hypothesis.ids)
            if self.config.search == "beam" and any(text == other.text for other in found):
                continue
            found.append(
                Translation(
                    source=given.source,
                    text=text,
                    ids=hypothesis.ids,
                    log_prob=hypothesis.log_prob,
                    score=hypothesis.score,
                    truncated=hypothesis.truncated,
                    source_truncated=given.source_truncated,
                    token_log_probs=hypothesis.token_log_probs if self.has_token_scores else (),
                    source_ids=given.source_ids,
                    unmet=unmet,
                    tokens=self.tokenizers.target.pieces(hypothesis.ids),
                    source_tokens=self.tokenizers.source.pieces(given.source_ids),
                )
            )
            if len(found) == self.config.n_best:
                break
        best, *others = found
        return best._replace(alternatives=tuple(others)) if others else best

    def rerank(self, hypotheses: Sequence[Hypothesis], reverse_log_probs: Sequence[float]) -> list[Hypothesis]:
        """Rank hypotheses by (log P(translation | source) + weight * log P(source | translation)) / penalty.

        Source: Yee et al. 2019, https://arxiv.org/abs/1908.05731, section 2, with one penalty for both and without the
            language model.
        """
        lengths = torch.tensor([len(each.token_log_probs) for each in hypotheses])
        penalties = build_scoring(self.config).penalty(lengths).tolist()
        ranked = [
            each._replace(score=each.score + self.config.reverse_weight * log_prob / penalty)
            for each, log_prob, penalty in zip(hypotheses, reverse_log_probs, penalties, strict=True)
        ]
        return sorted(ranked, key=lambda each: -each.score)

    def unmet(self, ids: Sequence[int], phrases: Sequence[str], phrase_ids: Sequence[list[int]]) -> tuple[str, ...]:
        """The required phrases that a translation does not contain."""
        if not phrases:
            return ()
        unmet = unsatisfied_phrases(ids, phrase_ids, begins_word=self._begins_word)
        return tuple(phrases[number] for number in unmet)

    @cached_property
    def _begins_word(self) -> Bool[Tensor, " vocab"]:
        return build_word_tables(self.tokenizers.target).begins_word
