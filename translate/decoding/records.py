"""A translation as a record for machines: all that is known of it, by name."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from translate.decoding.alignment import align_words, format_pharaoh
from translate.decoding.forced import Forced
from translate.decoding.requests import Translation
from translate.decoding.translator import Translator
from translate.decoding.words import group_words, word_confidences


class AlignedTranslation(NamedTuple):
    """A translation, and which of its words comes from which of the source's."""

    translation: Translation
    alignment: str  # as Pharaoh writes it, `source-target` by word


def align_translations(translator: Translator, translations: Iterable[Translation]) -> Iterator[AlignedTranslation]:
    """The translations with their word alignments, by the attention with which each is predicted.

    Reads no further ahead than the translator does.
    """
    remaining = iter(translations)
    while window := list(islice(remaining, translator.config.look_ahead_lines)):
        forced = translator.force([each.source for each in window], [each.ids for each in window])
        for translation, each in zip(window, forced, strict=True):
            yield AlignedTranslation(translation, _alignment(translator, translation, each))


def describe(aligned: AlignedTranslation, translator: Translator, *, number: int) -> dict[str, Any]:
    """The record of a line's translation.

    Returns:
        In JSON's types: `line` from 1, `source`, `translation`, `tokens`, `log_prob` in nats, `score` (what the search
        ranked it by), `token_log_probs` (with the end symbol's, if the search came to it), `words` with their
        probability and the geometric mean over their tokens, `alignment`, `flags`, and `n_best` behind the first.
    """
    translation = aligned.translation
    pieces = translator.tokenizers.target.pieces(translation.ids)
    confidence = word_confidences(pieces, translation.token_log_probs)
    return {
        "line": number,
        "source": translation.source,
        "source_tokens": translator.tokenizers.source.pieces(translation.source_ids),
        "translation": translation.text,
        "tokens": pieces,
        "log_prob": translation.log_prob,
        "score": translation.score,
        "token_log_probs": list(translation.token_log_probs),
        "words": [
            {"text": word.text, "probability": word.probability, "mean_probability": word.mean_probability}
            for word in confidence.words
        ],
        "alignment": aligned.alignment,
        "flags": sorted(translation.flags),
        "unmet": list(translation.unmet),
        "n_best": [
            {"translation": other.text, "log_prob": other.log_prob, "score": other.score}
            for other in translation.alternatives
        ],
    }


def moses_n_best(translation: Translation, *, number: int) -> Iterator[str]:
    """The lines of a sentence's n-best list as Moses writes them: number from 0 ||| text ||| features ||| score."""
    for each in (translation, *translation.alternatives):
        yield f"{number} ||| {each.text} ||| log_prob= {each.log_prob:.6f} ||| {each.score:.6f}"


def _alignment(translator: Translator, translation: Translation, forced: Forced) -> str:
    if not translation.ids or not translation.source_ids:
        return ""
    links = align_words(
        forced.attention,
        source_words=_word_positions(translator.tokenizers.source.pieces(translation.source_ids)),
        target_words=_word_positions(translator.tokenizers.target.pieces(translation.ids)),
    )
    return format_pharaoh(links)


def _word_positions(pieces: Sequence[str]) -> list[list[int]]:
    return [word.positions for word in group_words(pieces)]


@dataclasses.dataclass
class CorpusScore:
    """Sums over the pairs that were scored so far."""

    tokens: int = 0  # end symbols included
    log_prob: float = 0.0  # nats

    @property
    def perplexity(self) -> float:
        """By token: e to the mean negative log-probability; 1 of nothing."""
        return math.exp(-self.log_prob / max(self.tokens, 1))


def describe_scores(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], total: CorpusScore
) -> Iterator[dict[str, Any]]:
    """A record for each given translation: what the model thinks of it.

    Args:
        total: Gets the sums.

    Returns:
        In JSON's types: `line` from 1, `source`, `target`, `tokens`, `log_prob` in nats with the end symbol, `score`
        (log_prob divided by the length penalty), `perplexity` by token, and `token_log_probs`.
    """
    step = translator.config.look_ahead_lines
    for begin in range(0, len(sources), step):
        window = slice(begin, begin + step)
        ids = [translator.tokenizers.target.encode(target) for target in targets[window]]
        scores = translator.score(sources[window], ids)
        for number, (each, score) in enumerate(zip(ids, scores, strict=True), start=begin):
            pair = CorpusScore(len(score.token_log_probs), score.log_prob)
            total.tokens += pair.tokens
            total.log_prob += pair.log_prob
            yield {
                "line": number + 1,
                "source": sources[number],
                "target": targets[number],
                "tokens": translator.tokenizers.target.pieces(each),
                "log_prob": score.log_prob,
                "score": score.score,
                "perplexity": pair.perplexity,
                "token_log_probs": score.token_log_probs,
            }
