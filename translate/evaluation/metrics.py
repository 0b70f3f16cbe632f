"""BLEU, chrF and TER of plain, detokenised text, computed by sacreBLEU and carrying its signatures."""

import logging
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from translate.config.schema import EvaluationConfig
from translate.errors import InputError

logger = logging.getLogger(__name__)

MOST_TER_WORDS = 500  # of a line; TER's search for shifts takes about ten seconds there, and 40 at twice as many


class Interval(NamedTuple):
    """A 95 % bootstrap interval."""

    low: float
    high: float


class Metric(NamedTuple):
    """A corpus score."""

    name: str  # such as "BLEU"; "BLEU-lc" is BLEU of lowercased text
    score: float  # in points, of 100
    interval: Interval | None
    signature: str  # sacreBLEU's signature: what anyone needs to compute the same number


def check_bleu_tokenizer(config: EvaluationConfig) -> None:
    """Check that the package of the tokenizer is installed, before a training or search whose result is to be scored.

    Raises:
        InputError: It is not.
    """
    try:
        BLEU(tokenize=config.bleu_tokenizer)
    except (ImportError, RuntimeError) as error:
        name = config.bleu_tokenizer
        package = f"sacrebleu[{name.removesuffix('-mecab')}]"
        raise InputError(
            f"evaluation.bleu_tokenizer = {name}: its package is not installed; install it with"
            f" pip install '{package}', or choose another tokenizer, such as 13a"
        ) from error


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    config: EvaluationConfig,
    *,
    effort: Literal["quick", "full"] = "full",
) -> tuple[Metric, ...]:
    """BLEU, lowercased BLEU, chrF and TER of translations against one reference each.

    Args:
        effort: "quick" omits the intervals, and TER, which takes seconds for a thousand lines; the other scores are
            the same. TER is also left out, with a warning, if a line has more than `MOST_TER_WORDS` words.

    Raises:
        InputError: The numbers of lines differ, there are no lines, or the tokenizer's package is missing.

    Source: Post 2018, https://arxiv.org/abs/1804.08771; the interval: Koehn 2004, W04-3250.
    """
    if len(hypotheses) != len(references):
        raise InputError(
            f"{len(hypotheses)} translations but {len(references)} references: they must pair line by line"
        )
    if not references:
        raise InputError("there are no lines to score")
    check_bleu_tokenizer(config)
    samples = config.bootstrap_samples if effort == "full" else 0
    scorers: dict[str, SacreMetric] = {
        "BLEU": BLEU(tokenize=config.bleu_tokenizer),
        "BLEU-lc": BLEU(tokenize=config.bleu_tokenizer, lowercase=True),
        "chrF": CHRF(),
    }
    longest = [max(len(line.split()) for line in pair) for pair in zip(hypotheses, references, strict=True)]
    if effort == "full" and max(longest) > MOST_TER_WORDS:
        line = longest.index(max(longest))
        logger.warning(
            f"TER is left out: line {line + 1} has {longest[line]} words, and for lines of more than {MOST_TER_WORDS}"
            " TER takes minutes; split such lines to have it"
        )
    elif effort == "full":
        scorers["TER"] = TER()
    metrics = []
    for name, scorer in scorers.items():
        _give_plain_floats(scorer)
        result = scorer.corpus_score(list(hypotheses), [list(references)], n_bootstrap=samples or 1)  # 1: none
        interval = None
        if samples > 1:
            mean, half = float(result._mean), float(result._ci)  # NumPy's floats are not JSON's
            interval = Interval(mean - half, mean + half)
        metrics.append(Metric(name, float(result.score), interval, str(scorer.get_signature())))
    return tuple(metrics)


def _give_plain_floats(scorer: SacreMetric) -> None:
    """Make all resamples floats: sacreBLEU 2.6 mixes float and NumPy's float32, and then cannot take their mean."""
    compute = scorer._compute_score_from_stats

    def computed(stats: Any) -> Any:
        result = compute(stats)
        result.score = float(result.score)
        return result

    scorer._compute_score_from_stats = computed  # type: ignore[method-assign]
