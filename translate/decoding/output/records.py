"""A translation as a record for machines: all that is known of it, by name."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from translate.data.batching import EncodedPair
from translate.decoding.output.alignment import Link, align_words, format_pharaoh
from translate.decoding.output.words import group_words, word_confidences
from translate.decoding.request import Translation
from translate.decoding.score import Forced
from translate.decoding.translator import Translator
from translate.decoding.windows import read_windows


class AlignedTranslation(NamedTuple):
    """A translation, and which of its words comes from which of the source's."""

    translation: Translation
    alignment: str  # as Pharaoh writes it, `source-target` by word


def align_translations(translator: Translator, translations: Iterable[Translation]) -> Iterator[AlignedTranslation]:
    """The translations with their word alignments, by the attention with which each is predicted.

    Reads no further ahead than the translator does.
    """
    for window in read_windows(
        translations,
        max_items=translator.config.look_ahead_lines,
        count_characters=lambda translation: len(translation.source),
    ):
        parts = [part for translation in window for part in translation.parts]
        pairs = [EncodedPair(list(part.source_ids), list(part.ids)) for part in parts]
        forced = iter(translator.force(pairs))
        for translation in window:
            yield AlignedTranslation(translation, _alignment(translator, translation.parts, forced))


def describe(aligned: AlignedTranslation, translator: Translator, *, number: int) -> dict[str, Any]:
    """The record of a line's translation.

    Returns:
        In JSON's types: `line` from 1, `source`, `translation`, `tokens`, `log_prob` in nats, `score` (what the search
        ranked it by), `token_log_probs` (with the end symbol's, if the search came to it), `words` with their
        probability and the geometric mean over their tokens, `alignment`, `flags`, `unmet`, and `n_best` behind the
        first. Of a source that was split, `pieces` has what was translated by itself; its tokens' log-probabilities
        have the end symbol of each piece among them, and `log_prob` and `score` are sums over the pieces.
    """
    translation = aligned.translation
    target = translator.tokenizers.target
    words = [
        word
        for part in translation.parts
        for word in word_confidences(target.pieces(part.ids), part.token_log_probs).words
    ]
    return {
        "line": number,
        "source": translation.source,
        "source_tokens": translator.tokenizers.source.pieces(translation.source_ids),
        "translation": translation.text,
        "tokens": target.pieces(translation.ids),
        "log_prob": translation.log_prob,
        "score": translation.score,
        "token_log_probs": list(translation.token_log_probs),
        "words": [
            {"text": word.text, "probability": word.probability, "mean_probability": word.mean_probability}
            for word in words
        ],
        "alignment": aligned.alignment,
        "flags": sorted(translation.flags),
        "unmet": list(translation.unmet),
        "pieces": [{"source": piece.source} | _summary(piece) for piece in translation.pieces],
        "n_best": [_summary(other) for other in translation.alternatives],
    }


def _summary(translation: Translation) -> dict[str, Any]:
    return {"translation": translation.text, "log_prob": translation.log_prob, "score": translation.score}


def moses_n_best(translation: Translation, *, number: int) -> Iterator[str]:
    """The lines of a sentence's n-best list as Moses writes them: number from 0 ||| text ||| features ||| score."""
    for each in (translation, *translation.alternatives):
        yield f"{number} ||| {each.text} ||| log_prob= {each.log_prob:.6f} ||| {each.score:.6f}"


def _alignment(translator: Translator, parts: Sequence[Translation], forced: Iterator[Forced]) -> str:
    """The links of a line, its words counted through all that was translated by itself."""
    links: list[Link] = []
    source_offset = target_offset = 0
    is_inside_word = False
    for part in parts:
        attention = next(forced).attention
        source_words = _word_positions(translator.tokenizers.source.pieces(part.source_ids))
        target_words = _word_positions(translator.tokenizers.target.pieces(part.ids))
        if is_inside_word and source_words and not part.source[:1].isspace():
            source_offset -= 1  # the piece before ends with the beginning of this one's first word
        if source_words and target_words:
            found = align_words(attention, source_words=source_words, target_words=target_words)
            links += [Link(source + source_offset, target + target_offset) for source, target in found]
        source_offset += len(source_words)
        target_offset += len(target_words)
        is_inside_word = bool(source_words) and not part.source[-1:].isspace()
    return format_pharaoh(links)


def _word_positions(pieces: Sequence[str]) -> list[list[int]]:
    return [word.positions for word in group_words(pieces)]


@dataclasses.dataclass
class CorpusScore:
    """Sums over the pairs that were scored so far."""

    lines: int = 0
    tokens: int = 0  # end symbols included
    log_prob: float = 0.0  # nats
    cut: int = 0  # pairs of which a side was longer than its limit

    def add(self, other: "CorpusScore") -> None:
        """Add another sum to this one."""
        self.lines += other.lines
        self.tokens += other.tokens
        self.log_prob += other.log_prob
        self.cut += other.cut

    @property
    def perplexity(self) -> float:
        """By token: e to the mean negative log-probability; 1 of nothing."""
        return math.exp(-self.log_prob / max(self.tokens, 1))


def describe_scores(
    translator: Translator, pairs: Iterable[tuple[str, str]], total: CorpusScore
) -> Iterator[dict[str, Any]]:
    """A record for each given translation: what the model thinks of it. Reads no more than a window ahead.

    Args:
        pairs: Sources and their translations.
        total: Gets the sums.

    Returns:
        In JSON's types: `line` from 1, `source`, `target`, `tokens`, `log_prob` in nats with the end symbol, `score`
        (log_prob divided by the length penalty), `perplexity` by token, `token_log_probs`, and `flags`:
        source_truncated and target_truncated.
    """
    target = translator.tokenizers.target
    for window in read_windows(
        pairs, max_items=translator.config.look_ahead_lines, count_characters=lambda pair: len(pair[0]) + len(pair[1])
    ):
        ids = [target.encode(translation) for _, translation in window]
        scores = translator.score([source for source, _ in window], ids, first_number=total.lines)
        for (source, translation), score in zip(window, scores, strict=True):
            pair = CorpusScore(1, len(score.token_log_probs), score.log_prob, int(bool(score.flags)))
            total.add(pair)
            yield {
                "line": total.lines,
                "source": source,
                "target": translation,
                "tokens": target.pieces(score.ids),
                "log_prob": score.log_prob,
                "score": score.score,
                "perplexity": pair.perplexity,
                "token_log_probs": score.token_log_probs,
                "flags": sorted(score.flags),
            }
