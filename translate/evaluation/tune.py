"""Chooses beam size and length penalty on a validation set."""

from collections.abc import Callable, Collection
from statistics import fmean
from typing import NamedTuple

from translate.config.schema import EvaluationConfig
from translate.data.corpora import ParallelCorpus
from translate.decoding import Translator
from translate.errors import InputError
from translate.evaluation.evaluate import evaluate

Settings = dict[str, int | float | str]  # values of `DecodingConfig`

_BEAM_SIZES = (1, 2, 4, 8)
_PENALTIES = [
    ("none", 0.0), ("gnmt", 0.3), ("gnmt", 0.6), ("gnmt", 1.0), ("gnmt", 1.5), ("average", 0.5), ("average", 1.0),
]  # fmt: skip
_NEGLIGIBLE = 0.05  # BLEU; a smaller gain is not worth a larger beam or another penalty


class TunedSettings(NamedTuple):
    """Settings and their BLEU on the validation set, or the mean of several."""

    settings: Settings
    bleu: float


def tune_decoding(
    translator: Translator,
    corpora: Collection[ParallelCorpus],
    config: EvaluationConfig,
    *,
    on_tried: Callable[[TunedSettings], object],
) -> TunedSettings:
    """Choose the beam size with the translator's own length penalty, and then the penalty with that beam size.

    A larger beam replaces a smaller one if it gains at least 0.05 BLEU, and so does the best penalty the translator's
    own. Only beam sizes that hold its `n_best` are tried.

    Args:
        corpora: Each is translated in its own direction.
        on_tried: Called with the settings of each search and its BLEU.

    Raises:
        InputError: The translator samples.
    """
    own = translator.config
    if not own.ranks_a_beam:
        raise InputError("only beam search can be tuned, but the settings sample or choose by minimum Bayes risk")

    def tried(settings: Settings) -> TunedSettings:
        searching = translator.with_options(n_best=1, **settings)
        scored = [
            evaluate(searching.toward(one.direction), one.sources, one.targets, config, effort="quick")
            for one in corpora
        ]
        found = TunedSettings(settings, fmean(one.score("BLEU") for one in scored))
        on_tried(found)
        return found

    def better(new: TunedSettings, old: TunedSettings) -> TunedSettings:
        return new if new.bleu >= old.bleu + _NEGLIGIBLE else old

    penalty: Settings = {"length_penalty_kind": own.length_penalty_kind, "length_penalty": own.length_penalty}
    sizes = sorted({*_BEAM_SIZES, own.beam_size})
    first, *larger = (size for size in sizes if size >= own.n_best)
    chosen = tried({"beam_size": first, **penalty})
    for size in larger:
        chosen = better(tried({"beam_size": size, **penalty}), chosen)
    if chosen.settings["beam_size"] == 1:
        return chosen  # greedy search ranks nothing
    others: list[Settings] = [dict(zip(penalty, each, strict=True)) for each in _PENALTIES]
    best = max((tried(chosen.settings | each) for each in others if each != penalty), key=lambda each: each.bleu)
    return better(best, chosen)
