"""From the hypotheses of a search to a translation: reranking, required phrases, minimum Bayes risk, distinct texts.

Minimum Bayes risk scores every candidate with every candidate as the reference. The n-grams of each candidate are
counted once, and one matrix product per order compares all pairs, so a hundred candidates cost milliseconds.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import fsum

import torch
from jaxtyping import Float
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.data.text import in_one_line
from translate.data.tokenizer import Tokenizer, Tokenizers
from translate.decoding.constraints.phrases import build_word_tables, encode_phrase, unsatisfied_phrases
from translate.decoding.request import SearchInput
from translate.decoding.search.beam import Hypothesis
from translate.decoding.search.settings import build_scoring
from translate.decoding.translation import Translation
from translate.placeholders import find_placeholders, have_same_placeholders


def spell(ids: list[int], target: Tokenizer) -> str:
    """The text of a hypothesis, with spaces in place of line breaks and NUL, which byte fallback can generate."""
    return in_one_line(target.decode(ids))


def unmet_phrases(ids: Sequence[int], phrases: Sequence[str], target: Tokenizer) -> tuple[str, ...]:
    """The required phrases that a translation does not contain."""
    if not phrases:
        return ()
    wanted = [encode_phrase(target, phrase) for phrase in phrases]
    unmet = unsatisfied_phrases(ids, wanted, words=build_word_tables(target))
    return tuple(phrases[number] for number in unmet)


def prefers_placeholders(source: str, config: DecodingConfig) -> bool:
    """Whether hypotheses that keep the placeholders of this source come first; samples stay as they were drawn."""
    has_choice = config.mbr != "none" or (config.search == "beam" and config.beam_size > 1)
    return config.keep_placeholders == "prefer" and has_choice and bool(find_placeholders(source))


def choose_translation(
    given: SearchInput, hypotheses: Sequence[Hypothesis], tokenizers: Tokenizers, config: DecodingConfig
) -> Translation:
    """The best of a search's hypotheses as a translation, with other good ones as its alternatives.

    If several hypotheses spell the same text with different subwords, the best one is kept; samples may repeat a text.
    Hypotheses that omit the fewest phrases come first, and of those the ones that keep the placeholders, if
    `prefers_placeholders`. With `decoding.mbr` the best is the one with the least risk among these.
    """
    hypotheses, target = hypotheses or [Hypothesis([], [], 0.0, truncated=False)], tokenizers.target
    has_choice = prefers_placeholders(given.source, config)
    ranked = []
    for hypothesis in hypotheses:
        text, unmet = spell(hypothesis.ids, target), unmet_phrases(hypothesis.ids, given.phrases, target)
        is_broken = has_choice and not have_same_placeholders(given.source, text)
        ranked.append(((len(unmet), is_broken), hypothesis, text, unmet))
    # A hypothesis that was cut at its maximum length may omit phrases and still have the best score.
    ranked.sort(key=lambda candidate: candidate[0])
    if config.mbr != "none":
        ranked = [candidate for candidate in ranked if candidate[0] == ranked[0][0]][: config.mbr_candidates]
        utilities = expected_utilities([text for _, _, text, _ in ranked])
        ranked = [ranked[utilities.index(max(utilities))]]
    found: list[Translation] = []
    source_ids = given.source_ids[given.num_tags :]
    for _, hypothesis, text, unmet in ranked:
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
                source_ids=source_ids,
                unmet=unmet,
                tokens=target.pieces(hypothesis.ids),
                source_tokens=tokenizers.source.pieces(source_ids),
                direction=given.direction,
                tagged=hypothesis.tagged,
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
    lengths = torch.tensor([len(hypothesis.token_log_probs) for hypothesis in hypotheses])
    penalties = build_scoring(config).penalty(lengths).tolist()
    ranked = [
        hypothesis._replace(score=hypothesis.score + config.reverse_weight * log_prob / penalty)
        for hypothesis, log_prob, penalty in zip(hypotheses, reverse_log_probs, penalties, strict=True)
    ]
    return sorted(ranked, key=lambda hypothesis: -hypothesis.score)


def expected_utilities(candidates: Sequence[str]) -> list[float]:
    """The mean chrF of each candidate, from 0 to 100, with every candidate as the reference in turn.

    The candidate with the greatest expected utility has minimum Bayes risk. All candidates weigh the same, so a
    translation that was sampled twice counts twice. A candidate is also compared with itself, as in the papers.

    Source: Kumar and Byrne 2004, https://aclanthology.org/N04-1022; Eikema and Aziz 2020,
        https://arxiv.org/abs/2005.10283.
    """
    # fsum: the same in any order, so that a tie is a tie
    return [fsum(row) / len(candidates) for row in pairwise_chrf(candidates).tolist()]


def pairwise_chrf(texts: Sequence[str]) -> Float[Tensor, "hypotheses references"]:
    """The chrF, from 0 to 100, of each text with each text as the reference, as sacreBLEU's `sentence_score` gives it.

    It is the F-score of the mean precision and the mean recall over the orders of n-grams that both texts have.

    Source: Popović 2015, https://aclanthology.org/W15-3049; sacreBLEU's defaults.
    """
    from sacrebleu.metrics.chrf import CHRF  # not imported with this file: most translations are not compared

    precision = recall = num_orders = torch.zeros(len(texts), len(texts), dtype=torch.float64)
    for matches, totals in _compare_ngrams(["".join(text.split()) for text in texts], CHRF.CHAR_ORDER):
        at_least_one = totals.clamp(min=1)  # with no n-grams there are no matches either
        precision = precision + matches / at_least_one[:, None]
        recall = recall + matches / at_least_one[None, :]
        num_orders = num_orders + ((totals[:, None] > 0) & (totals[None, :] > 0))
    precision, recall = precision / num_orders.clamp(min=1), recall / num_orders.clamp(min=1)
    factor = CHRF.BETA**2
    score = 100 * (1 + factor) * precision * recall / (factor * precision + recall)
    return torch.where(precision + recall > 0, score, 0.0)


def _compare_ngrams(
    texts: Sequence[str], max_order: int
) -> Iterator[tuple[Float[Tensor, "hypotheses references"], Float[Tensor, " texts"]]]:
    """For each order, the number of n-grams that each pair of texts has in common, and the number that each text has.

    Each occurrence of an n-gram, the first, the second, …, has its own column, so a product gives the smaller count.
    """
    for order in range(1, max_order + 1):
        columns: dict[tuple[str, int], int] = {}
        present: list[tuple[int, int]] = []
        for row, text in enumerate(texts):
            counts = Counter(text[start : start + order] for start in range(len(text) - order + 1))
            occurrences = ((ngram, number) for ngram, count in counts.items() for number in range(count))
            present += [(row, columns.setdefault(column, len(columns))) for column in occurrences]
        table = torch.zeros(len(texts), len(columns))
        places = torch.tensor(present, dtype=torch.long).view(-1, 2)
        table[places[:, 0], places[:, 1]] = 1.0
        yield (table @ table.T).double(), table.sum(dim=1).double()  # small whole numbers, so exact
