"""Scores texts as `translate eval` does: with sacreBLEU and other programs, and with a warning about wrong texts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from translate.config.schema import EvaluationConfig
from translate.evaluation.metrics import (
    References,
    list_references,
    score_placeholders,
    score_translations,
)
from translate.evaluation.mistakes import find_mistakes
from translate.evaluation.programs import MetricProgram, score_with
from translate.runs.report import Metric


@dataclasses.dataclass(frozen=True)
class Scorer:
    """The scores that are wanted for each text."""

    config: EvaluationConfig
    programs: Sequence[MetricProgram] = ()

    def score(
        self,
        hypotheses: Sequence[str],
        references: References,
        sources: Sequence[str] | None = None,
        *,
        metrics: Sequence[Metric] | None = None,
    ) -> dict[str, Any]:
        """The scores of translations for JSON, with signs that the wrong texts were scored.

        Args:
            metrics: SacreBLEU's scores of translations that a model has just made; None: compute them.

        Raises:
            InputError: The numbers of lines differ, there are no lines, or the tokenizer's package is missing.
        """
        name = "the translations"
        made_here = [name] if metrics else []
        metrics = metrics or score_translations(hypotheses, references, self.config)
        known = list_references(references)[0]
        programs = score_with(self.programs, sources or [], hypotheses, known, self.config)
        kept = score_placeholders(sources, hypotheses, self.config) if sources else []
        tokenizer = self.config.bleu_tokenizer
        warnings = find_mistakes({name: hypotheses}, references, sources, tokenizer, translated_here=made_here)
        scores = [metric._asdict() for metric in (*metrics, *kept, *programs)]
        return {"metrics": scores, "warnings": list(warnings)}
