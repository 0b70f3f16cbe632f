"""Which settings of the search are tried, and which are chosen."""

from typing import Any

import pytest

from translate.config.data import Direction
from translate.config.decoding import DecodingConfig
from translate.config.schema import EvaluationConfig
from translate.data.corpora import ParallelCorpus
from translate.decoding import Translator
from translate.errors import InputError
from translate.evaluation.evaluate import Evaluation
from translate.evaluation.tune import TunedSettings, tune_decoding
from translate.runs.report import Metric

EN_DE = Direction("en", "de")


class Settings(Translator):
    """Stands for a translator: it knows its settings."""

    def __init__(self, direction: Direction | None = None, **options: Any) -> None:
        self.config, self.direction = DecodingConfig(**options), direction

    def toward(self, direction: Direction | None) -> "Settings":
        return Settings(**self.config.model_dump(exclude_unset=True), direction=direction)

    def with_options(self, **options: object) -> "Settings":
        return Settings(**{**self.config.model_dump(exclude_unset=True), **options})


def tune(monkeypatch: pytest.MonkeyPatch, bleu: Any, **options: Any) -> tuple[TunedSettings, list[TunedSettings]]:
    """Tune where a function of the config says the BLEU."""

    def evaluate(translator: Any, *others: Any, effort: str) -> Evaluation:
        less = 10 if translator.direction == EN_DE else 0  # the mean of both directions is 5 less
        return Evaluation([], (Metric("BLEU", bleu(translator.config) - less, None, ""),))

    monkeypatch.setattr("translate.evaluation.tune.evaluate", evaluate)
    tried: list[TunedSettings] = []
    corpora = [ParallelCorpus("", ["a"], ["b"], 1.0, direction=each) for each in (Direction("de", "en"), EN_DE)]
    return tune_decoding(Settings(**options), corpora, EvaluationConfig(), on_tried=tried.append), tried


def test_beam_size_first_and_then_the_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    def bleu(config: DecodingConfig) -> float:
        gain = {1: 0.0, 2: 1.0, 4: 1.5, 5: 1.52, 8: 1.54}[config.beam_size]
        return 30 + gain + (config.length_penalty == 1.0 and config.length_penalty_kind == "average")

    chosen, tried = tune(monkeypatch, bleu)
    assert chosen.settings == {"beam_size": 4, "length_penalty_kind": "average", "length_penalty": 1.0}
    assert chosen.bleu == 27.5 and chosen in tried
    assert [each.settings["beam_size"] for each in tried] == [1, 2, 4, 5, 8] + [4] * 6
    assert len({str(each.settings) for each in tried}) == len(tried)  # nothing is tried twice


def test_what_is_chosen_gains_enough_over_what_it_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beam of 2, or an average of 0.5, would be less than 0.05 from the best, but gains too little itself."""

    def bleu(config: DecodingConfig) -> float:
        gain = {1: 0.0, 2: 0.03, 4: 0.03, 5: 0.06, 8: 0.06}[config.beam_size]
        penalty = (config.length_penalty_kind, config.length_penalty)
        return 30 + gain + {("average", 0.5): 0.04, ("average", 1.0): 0.07, ("gnmt", 0.0): 0.0}.get(penalty, 0.0)

    chosen, _ = tune(monkeypatch, bleu, length_penalty=0.0)
    assert chosen.settings == {"beam_size": 5, "length_penalty_kind": "average", "length_penalty": 1.0}


def test_own_settings_stay_where_others_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, _ = tune(monkeypatch, lambda config: 30 + 0.04 * (config.length_penalty_kind == "none"), length_penalty=0.7)
    assert chosen.settings == {"beam_size": 1, "length_penalty_kind": "gnmt", "length_penalty": 0.7}


def test_what_is_chosen_agrees_with_the_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"n_best": 3, "beam_size": 6}
    chosen, tried = tune(monkeypatch, lambda config: 30.0, **own)
    assert [each.settings["beam_size"] for each in tried[:2]] == [4, 6]
    for each in (chosen, *tried):
        DecodingConfig(**own | each.settings)


def test_sampling_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"search": "sample"}, {"mbr": "chrf"}):
        with pytest.raises(InputError, match="only beam search"):
            tune(monkeypatch, lambda config: 0.0, **options)
