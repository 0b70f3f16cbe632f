"""Translate and score: the one code path of validation during training and of `translate eval` afterwards."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from translate.config import EvaluationConfig
from translate.decoding import Translation, Translator
from translate.evaluation.metrics import Metric, score_translations


class Evaluation(NamedTuple):
    """Translations of a test set and their scores."""

    translations: list[Translation]
    metrics: tuple[Metric, ...]

    def score(self, name: str) -> float:
        """The score of the metric of that name."""
        return next(metric.score for metric in self.metrics if metric.name == name)


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    config: EvaluationConfig,
    *,
    effort: Literal["quick", "full"] = "full",
    watch: Callable[[Iterable[Translation]], Iterable[Translation]] = iter,
) -> Evaluation:
    """Translate the sources and score the detokenised translations against the references.

    Args:
        effort: As `score_translations` takes it.
        watch: Wraps the stream of translations, to show progress.

    Raises:
        InputError: Different numbers of lines, or none.
    """
    translations = list(watch(translator.translate_stream(sources)))
    metrics = score_translations([translation.text for translation in translations], references, config, effort=effort)
    return Evaluation(translations, metrics)
