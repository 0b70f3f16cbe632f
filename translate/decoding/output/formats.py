"""Lines of output: translations as text, as Moses n-best lists or as JSON records; alignments; records of scores."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal

from translate.config.data import Direction
from translate.config.languages import UNKNOWN
from translate.data.tokenizer import EOS_ID
from translate.decoding.request import OnFinished, ignore_progress, read_buffers
from translate.decoding.translation import Translation
from translate.decoding.translator import Translator

OutputFormat = Literal["text", "jsonl"]


def format_translations(
    translations: Iterable[Translation],
    translator: Translator,
    *,
    output_format: OutputFormat,
    write_alignment: Callable[[str], object] | None = None,
    first_number: int = 0,
) -> Iterator[str]:
    """Yield the lines to write, without line ends.

    Args:
        translator: The translator that made the translations.
        write_alignment: Called with each alignment before its translation is yielded; None: only records have them.
        first_number: The number of the first translation in the whole input, from 0.
    """
    if output_format == "jsonl" or write_alignment is not None:
        translations = translator.align(translations)
    for number, translation in enumerate(translations, start=first_number):
        if write_alignment is not None:
            write_alignment(translation.alignment or "")
        if output_format == "jsonl":
            yield json.dumps(describe(translation, translator, number=number + 1), ensure_ascii=False)
        elif translator.config.n_best > 1:
            yield from moses_n_best(translation, number=number)
        else:
            yield translation.text


def moses_n_best(translation: Translation, *, number: int) -> Iterator[str]:
    """Yield a sentence's n-best list as Moses writes it: number from 0 ||| text ||| features ||| score."""
    for entry in (translation, *translation.alternatives):
        yield f"{number} ||| {entry.text} ||| log_prob= {entry.log_prob:.6f} ||| {entry.score:.6f}"


def describe(translation: Translation, translator: Translator, *, number: int) -> dict[str, Any]:
    """The JSON record of a translation with its alignment.

    Returns:
        JSON types: `line` from 1, `source`, `source_language` (null: the model is not told it) and `target_language` if
        the model has a choice, `source_tokens`, `translation`, `tokens` (the scored ones, with the
        end symbol `</s>` last if the search reached it: other subwords of the same text have another score), `log_prob`
        in nats, `score` (the search ranked by it), `token_log_probs` (one for each of `tokens`), `words` with their
        probability and the geometric mean over their tokens, `alignment`, `flags`, `unmet`, `pieces`, and `n_best`
        without the first. For a source that was split, `pieces` has the translation of each piece; `tokens` then has
        the end symbol of each piece, and `log_prob` and `score` are sums over pieces.
    """
    target = translator.tokenizers.target

    def summary(made: Translation) -> dict[str, Any]:
        ids = [part.ids + [EOS_ID] * (len(part.token_log_probs) - len(part.ids)) for part in made.parts]
        return {
            "translation": made.text,
            "tokens": target.pieces(list(chain.from_iterable(ids))),
            "log_prob": made.log_prob,
            "score": made.score,
            "token_log_probs": list(made.token_log_probs),
        }

    return {
        "line": number,
        "source": translation.source,
        **_languages(translation.direction, translator),
        "source_tokens": list(translation.source_tokens),
        **summary(translation),
        "words": [word._asdict() for word in translation.words],
        "alignment": translation.alignment,
        "flags": sorted(translation.flags),
        "unmet": list(translation.unmet),
        "pieces": [{"source": piece.source} | summary(piece) for piece in translation.pieces],
        "n_best": [summary(other) for other in translation.alternatives],
    }


def _languages(direction: Direction | None, translator: Translator) -> dict[str, str | None]:
    """The languages of a line in its record, if the model has a choice."""
    if direction is None or not translator.languages.has_choice:
        return {}
    source = None if direction.source == UNKNOWN else direction.source
    return {"source_language": source, "target_language": direction.target}


def _finite(number: float) -> float | None:
    """The number, or None if JSON cannot express it."""
    return number if math.isfinite(number) else None


@dataclasses.dataclass
class CorpusScore:
    """Sums over the pairs scored so far."""

    lines: int = 0
    tokens: int = 0  # end symbols included
    log_prob: float = 0.0  # nats
    cut: int = 0  # pairs with a side longer than its limit

    @property
    def perplexity(self) -> float:
        """The perplexity per token: e to the mean negative log-probability; 1 if there are no tokens."""
        return math.exp(-self.log_prob / max(self.tokens, 1))


def score_records(
    translator: Translator,
    pairs: Iterable[tuple[str, str]],
    total: CorpusScore,
    *,
    on_finished: OnFinished = ignore_progress,
) -> Iterator[dict[str, Any]]:
    """Yield the JSON record of each given translation's score, reading no further ahead than `look_ahead_lines`.

    Args:
        pairs: Sources and their translations.
        total: Receives the sums.
        on_finished: Shows progress.

    Returns:
        JSON types: `line` from 1, `source`, `target`, the languages as in `describe`, `tokens` (those that were scored,
        the end symbol `</s>` last), `log_prob` in nats, `score` (log_prob divided by the length penalty), `perplexity`
        per token, `token_log_probs` (one for each of `tokens`), and `flags`: source_truncated and target_truncated.
        Numbers of a translation with a token of probability 0 are null where they are infinite.
    """
    target = translator.tokenizers.target
    for buffer in read_buffers(pairs, max_items=translator.config.look_ahead_lines):
        ids = [target.encode(translation) for _, translation in buffer]
        sources = [source for source, _ in buffer]
        scores = translator.score(sources, ids, first_number=total.lines, on_finished=on_finished)
        languages = _languages(translator.direction, translator)
        for (source, translation), score in zip(buffer, scores, strict=True):
            total.lines += 1
            total.tokens += len(score.token_log_probs)
            total.log_prob += score.log_prob
            total.cut += bool(score.flags)
            yield {
                "line": total.lines,
                "source": source,
                "target": translation,
                **languages,
                "tokens": target.pieces([*score.ids, EOS_ID]),
                "log_prob": _finite(score.log_prob),
                "score": _finite(score.score),
                "perplexity": _finite(math.exp(-score.log_prob / len(score.token_log_probs))),
                "token_log_probs": list(map(_finite, score.token_log_probs)),
                "flags": sorted(score.flags),
            }
