"""From the hypotheses of a search to a translation: reranking, required phrases, minimum Bayes risk, distinct texts."""

import re
from collections.abc import Sequence

import torch

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import Tokenizer, Tokenizers
from translate.decoding.constraints.phrases import build_word_tables, encode_phrase, unsatisfied_phrases
from translate.decoding.request import SearchInput, Translation
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.mbr import expected_utilities
from translate.decoding.search.settings import build_scoring

_LINE_BREAKS = re.compile("[\\0\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def spell(ids: list[int], target: Tokenizer) -> str:
    """The text of a hypothesis with spaces for line breaks and NUL, all of which byte fallback can generate."""
    return _LINE_BREAKS.sub(" ", target.decode(ids))


def unmet_phrases(ids: Sequence[int], phrases: Sequence[str], target: Tokenizer) -> tuple[str, ...]:
    """The required phrases that a translation does not contain."""
    if not phrases:
        return ()
    wanted = [encode_phrase(target, phrase) for phrase in phrases]
    unmet = unsatisfied_phrases(ids, wanted, begins_word=build_word_tables(target).begins_word)
    return tuple(phrases[number] for number in unmet)


def choose_translation(
    given: SearchInput, hypotheses: Sequence[Hypothesis], tokenizers: Tokenizers, config: DecodingConfig
) -> Translation:
    """The best of a search's hypotheses as a translation, with other good ones as its alternatives.

    Of hypotheses that spell the same text with other subwords the best stays; samples may repeat a text. With
    `decoding.mbr` the best is the one of least risk among those that leave the fewest phrases out.
    """
    hypotheses = hypotheses or [Hypothesis([], [], 0.0, truncated=False)]
    ranked = [(each, unmet_phrases(each.ids, given.phrases, tokenizers.target)) for each in hypotheses]
    # A hypothesis that was cut at its maximum length may leave phrases out and have the best score all the same.
    ranked.sort(key=lambda pair: len(pair[1]))
    if config.mbr != "none":
        ranked = [pair for pair in ranked if len(pair[1]) == len(ranked[0][1])]
        texts = [spell(each.ids, tokenizers.target) for each, _ in ranked]
        utilities = expected_utilities(texts, utility=config.mbr)
        ranked = [ranked[utilities.index(max(utilities))]]
    found: list[Translation] = []
    for hypothesis, unmet in ranked:
        text = spell(hypothesis.ids, tokenizers.target)
        if config.search == "beam" and any(text == other.text for other in found):
            continue
        has_token_scores = len(hypothesis.token_log_probs) == len(hypothesis.ids) + (not hypothesis.truncated)
        found.append(
            Translation(
                source=given.source,
                text=text,
                ids=hypothesis.ids,
                log_prob=hypothesis.log_prob,
                score=hypothesis.score,
                truncated=hypothesis.truncated,
                source_truncated=given.source_truncated,
                token_log_probs=hypothesis.token_log_probs if has_token_scores else (),
                source_ids=given.source_ids,
                unmet=unmet,
                tokens=tokenizers.target.pieces(hypothesis.ids),
                source_tokens=tokenizers.source.pieces(given.source_ids),
            )
        )
        if len(found) == config.n_best:
            break
    return found[0]._replace(alternatives=tuple(found[1:]))


def rerank(
    hypotheses: Sequence[Hypothesis], reverse_log_probs: Sequence[float], config: DecodingConfig
) -> list[Hypothesis]:
    """Rank hypotheses by (log P(translation | source) + weight * log P(source | translation)) / penalty.

    Source: Yee et al. 2019, https://arxiv.org/abs/1908.05731, section 2, with one penalty for both and without the
        language model.
    """
    lengths = torch.tensor([len(each.token_log_probs) for each in hypotheses])
    penalties = build_scoring(config).penalty(lengths).tolist()
    ranked = [
        each._replace(score=each.score + config.reverse_weight * log_prob / penalty)
        for each, log_prob, penalty in zip(hypotheses, reverse_log_probs, penalties, strict=True)
    ]
    return sorted(ranked, key=lambda each: -each.score)
