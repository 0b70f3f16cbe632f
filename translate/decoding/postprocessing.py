"""From hypotheses to translations: those that were asked for, their texts, and the phrases that they lack."""

from collections.abc import Sequence

from jaxtyping import Bool
from torch import Tensor

from translate.config import DecodingConfig
from translate.data.tokenizer import Tokenizer
from translate.decoding.constraints.allocation import met_first, phrase_ids, unmet_phrases
from translate.decoding.limits import Piece
from translate.decoding.request import Request, Translation, one_line
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.mbr import choose_minimum_risk
from translate.decoding.search.plans import Line


class Postprocessing:
    """What follows a search.

    Args:
        begins_word: By target token.
    """

    def __init__(self, tokenizer: Tokenizer, config: DecodingConfig, *, begins_word: Bool[Tensor, " vocab"]) -> None:
        self._tokenizer = tokenizer
        self._config = config
        self._begins_word = begins_word

    def choose(self, hypotheses: list[Hypothesis], line: Line) -> list[Hypothesis]:
        """As many as are asked for; of minimum Bayes risk, the one that it chooses among those that lack least."""
        if line.required:
            hypotheses = met_first(hypotheses, line.required, begins_word=self._begins_word)
        if self._config.mbr == "none":
            return hypotheses[: self._config.n_best]
        if line.required:
            lacking = [len(self._unmet(each.ids, line.phrases, line.required)) for each in hypotheses]
            hypotheses = hypotheses[: lacking.count(lacking[0])]
        texts = [self._text(hypothesis.ids) for hypothesis in hypotheses]
        return [hypotheses[choose_minimum_risk(texts, utility=self._config.mbr).chosen]]

    def translation(self, piece: Piece, line: Line, hypotheses: list[Hypothesis]) -> Translation:
        """The best of a piece's hypotheses, the others behind it."""
        best, *others = (
            Translation(
                source=piece.source,
                text=self._text(hypothesis.ids),
                ids=hypothesis.ids,
                log_prob=hypothesis.log_prob,
                score=hypothesis.score,
                truncated=hypothesis.truncated,
                source_truncated=piece.is_cut,
                token_log_probs=hypothesis.token_log_probs,
                source_ids=line.source_ids,
                unmet=self._unmet(hypothesis.ids, line.phrases, line.required),
            )
            for hypothesis in hypotheses
        )
        return best._replace(alternatives=tuple(others)) if others else best

    def checked(self, request: Request, translation: Translation) -> Translation:
        """A translation in pieces, none of which was made to have the required phrases: which of them does it lack?"""
        if not translation.pieces or not request.required:
            return translation
        required = [phrase_ids(self._tokenizer, phrase) for phrase in request.required]
        best, *others = (
            each._replace(unmet=(*each.unmet, *self._unmet(each.ids, request.required, required)))
            for each in (translation, *translation.alternatives)
        )
        return best._replace(alternatives=tuple(others))

    def _unmet(self, ids: list[int], phrases: Sequence[str], required: list[list[int]]) -> tuple[str, ...]:
        """The phrases that a translation lacks."""
        if not phrases:
            return ()
        return tuple(phrases[number] for number in unmet_phrases(ids, required, begins_word=self._begins_word))

    def _text(self, ids: list[int]) -> str:
        return one_line(self._tokenizer.decode(ids))
