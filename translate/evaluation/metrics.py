"""BLEU, chrF and TER of plain, detokenised text, computed by sacreBLEU and with its signatures."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.base import Score
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from translate._version import __version__
from translate.bleu import load_bleu
from translate.config.schema import EvaluationConfig
from translate.errors import InputError
from translate.placeholders import find_placeholders, have_same_placeholders
from translate.runs.report import Interval, Metric

logger = logging.getLogger(__name__)

References = Iterable[str] | Iterable[Iterable[str]]
"""One reference of each line; or a list of several, each with all lines, as sacreBLEU takes them."""

MOST_TER_WORDS = 500  # per line; TER's search for shifts takes about ten seconds there, and 40 at twice as many


class ScoreRow(NamedTuple):
    """A row of the table below. Reports, logs, curves, trackers and model cards take its facts from here."""

    name: str  # in reports, logs, tables, `metrics.jsonl` and trackers
    scorer: Callable[..., SacreMetric]  # made with the BLEU tokenizer, and options of all of sacreBLEU's metrics
    # quick: of validations too; full: of `translate eval` and `compare`; sources: there, if sources have placeholders
    effort: Literal["quick", "full", "sources"] = "quick"
    is_headline: bool = False  # in the log, in the table of curves, and in the header of model cards
    most_words: float = math.inf  # the score is left out if a line has more


class LineScores(SacreMetric):
    """The mean of scores of lines, for sacreBLEU's intervals and tests; it takes scores in place of translations."""

    def __init__(self, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.name, self.num_refs = name, 1

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        return [[score, 1.0] for score in hypotheses]

    def _aggregate_and_compute(self, stats: Any) -> Score:
        return self._compute_score_from_stats(np.sum(stats, axis=0))

    def _compute_score_from_stats(self, stats: Any) -> Score:
        return Score(self.name, float(stats[0] / stats[1]))

    def _check_corpus_score_args(self, hyps: Any, refs: Any) -> None:
        """Allow numbers."""

    # There is no text to prepare.
    _preprocess_segment = _extract_reference_info = _compute_segment_statistics = None  # type: ignore[assignment]


SCORES = (
    ScoreRow("BLEU", lambda tokenize, **options: BLEU(tokenize=tokenize, **options), is_headline=True),
    ScoreRow("BLEU-lc", lambda tokenize, **options: BLEU(tokenize=tokenize, lowercase=True, **options)),
    ScoreRow("chrF", lambda tokenize, **options: CHRF(**options), is_headline=True),
    ScoreRow("TER", lambda tokenize, **options: TER(**options), "full", most_words=MOST_TER_WORDS),
    ScoreRow("placeholders", lambda tokenize, **options: LineScores("placeholders"), "sources"),
)
HEADLINES = tuple(score for score in SCORES if score.is_headline)


def find_score(name: str) -> ScoreRow | None:
    """The row of a score; None: it is a program's score."""
    return next((score for score in SCORES if score.name == name), None)


def decimals(name: str) -> int:
    """The digits to show of a score; a program's score may be of any scale, so it has 4."""
    return 2 if find_score(name) else 4


def describe_headlines(record: Mapping[str, Any]) -> str:
    """The main scores of a record of `metrics.jsonl`, for the log: BLEU 41.93, chrF 61.92."""
    return ", ".join(f"{score.name} {record[score.name]:.2f}" for score in HEADLINES)


def read_recorded_scores(record: Mapping[str, Any], tokenizer: str, *, version: str | None) -> tuple["Metric", ...]:
    """The scores that a record of `metrics.jsonl` has, with the signature that sacreBLEU of this version gave them."""
    found = []
    for score in SCORES:
        if score.name in record:
            scorer = score.scorer(tokenizer)
            scorer.num_refs = 1
            signature = scorer.get_signature()
            signature.update("version", version)
            found.append(Metric(score.name, record[score.name], None, str(signature)))
    return tuple(found)


def list_references(references: References) -> list[list[str]]:
    """The references in the form of several, as lists."""
    given: list[Any] = list(references)
    return [given] if not given or isinstance(given[0], str) else [list(lines) for lines in given]


def check_lengths(lines: Sequence[str], references: References, *, name: str) -> None:
    """Check that each line has its references.

    Raises:
        InputError: The numbers of lines differ, or there are no lines.
    """
    listed = list_references(references)
    for of_lines in listed:
        if len(lines) != len(of_lines):
            hint = ", and each of several references is a list of all lines" if len(listed) > 1 else ""
            raise InputError(f"{len(lines)} {name} but {len(of_lines)} references: they must pair line by line{hint}")
    if not lines:
        raise InputError("there are no lines to score")


def score_translations(
    hypotheses: Sequence[str],
    references: References,
    config: EvaluationConfig,
    *,
    effort: Literal["quick", "full"] = "full",
) -> tuple[Metric, ...]:
    """The scores in `SCORES` of translations.

    Args:
        effort: "quick" omits the intervals, and TER, which takes seconds for a thousand lines; the other scores are
            the same.

    Raises:
        InputError: The numbers of lines differ, there are no lines, or the tokenizer's package is missing.

    Source: Post 2018, https://arxiv.org/abs/1804.08771; the interval: Koehn 2004, W04-3250.
    """
    references = list_references(references)
    check_lengths(hypotheses, references, name="translations")
    load_bleu(config.bleu_tokenizer)
    samples = config.bootstrap_samples if effort == "full" else 0
    chosen = choose_scores([hypotheses, *references], effort=effort)
    scorers = {score.name: score.scorer(config.bleu_tokenizer) for score in chosen}
    return tuple(score_corpus(name, scorer, hypotheses, references, samples) for name, scorer in scorers.items())


def choose_scores(texts: Sequence[Sequence[str]], *, effort: Literal["quick", "full"] = "full") -> list[ScoreRow]:
    """The scores in `SCORES` of this effort. A score that would take minutes for a line is left out with a warning."""
    lengths = [max(len(line.split()) for line in lines) for lines in zip(*texts, strict=True)]
    longest, chosen = max(lengths), [score for score in SCORES if score.effort in ("quick", effort)]
    for score in chosen:
        if longest > score.most_words:
            logger.warning(
                f"{score.name} is left out: line {lengths.index(longest) + 1} has {longest} words, and with more than"
                f" {score.most_words} per line it takes minutes; split such lines to get it"
            )
    return [score for score in chosen if longest <= score.most_words]


def kept_placeholders(sources: Sequence[str], translations: Sequence[str]) -> list[float]:
    """Of each source that has placeholders: 100 if its translation has the same ones, otherwise 0."""
    pairs = zip(sources, translations, strict=True)
    return [100.0 * have_same_placeholders(*pair) for pair in pairs if find_placeholders(pair[0])]


def score_placeholders(sources: Sequence[str], translations: Sequence[str], config: EvaluationConfig) -> list[Metric]:
    """The share of the lines with placeholders whose translation has the same ones; empty without such lines."""
    if not (kept := kept_placeholders(sources, translations)):
        return []
    metric = score_corpus("placeholders", LineScores("placeholders"), kept, (), config.bootstrap_samples)
    return [metric._replace(signature=describe_kept(len(kept)))]


def describe_kept(num_lines: int) -> str:
    """The signature of the score `placeholders`."""
    return f"lines:{num_lines}|version:{__version__}"


def score_corpus(
    name: str, scorer: SacreMetric, hypotheses: Sequence[Any], references: References, samples: int
) -> Metric:
    """The score by one of sacreBLEU's metrics, with a bootstrap interval of more than one sample."""
    _give_plain_floats(scorer)
    result = scorer.corpus_score(list(hypotheses), list_references(references), n_bootstrap=samples or 1)  # 1: none
    interval = None
    if samples > 1:
        mean, half = float(result._mean), float(result._ci)  # NumPy's floats are not JSON's
        lowest = 0.0 if find_score(name) else -math.inf  # a program's scores may be negative
        interval = Interval(max(mean - half, lowest), mean + half)
    return Metric(name, float(result.score), interval, str(scorer.get_signature()))


def _give_plain_floats(scorer: SacreMetric) -> None:
    """Make all resamples floats: sacreBLEU 2.6 mixes float and NumPy's float32, and then cannot take their mean."""
    compute = scorer._compute_score_from_stats

    def computed(stats: Any) -> Any:
        result = compute(stats)
        result.score = float(result.score)
        return result

    scorer._compute_score_from_stats = computed  # type: ignore[method-assign]
