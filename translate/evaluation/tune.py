"""Chooses beam size and length penalty on a validation set."""

from collections.abc import Callable, Collection
from statistics import fmean
from typing import NamedTuple

from translate.config.load import override_config
from translate.config.schema import EvaluationConfig
from translate.data.corpora import ParallelCorpus
from translate.decoding import Translator
from translate.decoding.loading import load_translator
from translate.errors import InputError
from translate.evaluation.evaluate import evaluate
from translate.runs.directory import Checkpoint, write_config
from translate.runs.lock import lock_run
from translate.runs.run import SavedRun

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

    @property
    def penalty(self) -> str:
        """The length penalty, such as "gnmt 0.6"."""
        kind = str(self.settings["length_penalty_kind"])
        return kind if kind == "none" else f"{kind} {self.settings['length_penalty']:g}"


def tune_run(
    run: SavedRun,
    corpora: Collection[ParallelCorpus],
    *,
    checkpoint: Checkpoint,
    is_saved: bool,
    on_tried: Callable[[TunedSettings], object],
) -> tuple[TunedSettings, dict[str, int | float | str]]:
    """Choose the search settings of a run with `tune_decoding`, and save them as its defaults if they are wanted.

    Returns:
        The settings, and their values by the key of the config.

    Raises:
        InputError: The run samples, or another process trains in it: raised before the searches.
    """
    if is_saved:
        with lock_run(run.path):
            pass
    loaded = load_translator(run, checkpoint=checkpoint, token_scores=False)
    chosen = tune_decoding(loaded.translator, corpora, run.config.evaluation, on_tried=on_tried)
    changes = {f"decoding.{key}": value for key, value in chosen.settings.items()}
    if is_saved:
        with lock_run(run.path):
            # The config is read again, because training may have continued with other settings in the meantime.
            write_config(run.files, override_config(SavedRun(run.path).config, changes))
    return chosen, changes


def tune_decoding(
    translator: Translator,
    corpora: Collection[ParallelCorpus],
    config: EvaluationConfig,
    *,
    on_tried: Callable[[TunedSettings], object],
) -> TunedSettings:
    """Choose the beam size with the translator's own length penalty, and then the penalty with that beam size.

    A larger beam replaces a smaller one only if it gains at least 0.05 BLEU, and the best penalty replaces the
    translator's own only if it gains as much. Only beam sizes that hold its `n_best` are tried.

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
    others: list[Settings] = [dict(zip(penalty, values, strict=True)) for values in _PENALTIES]
    best = max((tried(chosen.settings | other) for other in others if other != penalty), key=lambda found: found.bleu)
    return better(best, chosen)
