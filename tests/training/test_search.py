"""A search: its space, which trials are trained, and how far. Most trainings here compute nothing."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness import state_of, write_reversed_digits

pytest.importorskip("optuna", reason="the extra `search` is not installed")

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from translate.config.load import load_config
from translate.config.schema import Config
from translate.errors import InputError, RunError
from translate.runs.directory import RunDirectory
from translate.training import Paused, Progress, search, train
from translate.training.search import Search, Space, read_space
from translate.training.train import NotReady

Start = Callable[..., Search]
RATE = "training.learning_rate"
RATES: Space = {RATE: CategoricalDistribution([f"0.00{number}" for number in range(1, 5)])}
TINY = """
data:
  train: [{kind: text, source: train.in, target: train.out}]
  validation: {kind: text, source: train.in, target: train.out}
tokenizer: {vocab_size: 40, byte_fallback: false}
model: {d_model: 8, num_heads: 2, d_ff: 8, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  {max_steps: 8, batch_tokens: 100, schedule: cosine, learning_rate: 0.01, warmup_steps: 1, precision: fp32, threads: 1,
   device: cpu, validate_every: 2, save_every: 5}
decoding: {max_length_factor: 1.0, max_length_constant: 1, beam_size: 1, device: cpu}
"""


@pytest.fixture
def base(tmp_path: Path) -> Config:
    write_reversed_digits(tmp_path, "train", num_pairs=20, draw=random.Random(1))
    (tmp_path / "tiny.yaml").write_text(TINY)
    return load_config(str(tmp_path / "tiny.yaml"), require_files=True).config


@pytest.fixture
def start(base: Config, tmp_path: Path) -> Start:
    """Opens the search, as a command that is given again does."""
    return lambda space=RATES, folder="search", **options: Search(tmp_path / folder, base, space, **options)


class FakeTraining:
    """Records a BLEU of 100 times the learning rate times the step, every two steps, and computes nothing."""

    def __init__(self) -> None:
        self.validated: list[tuple[str, int]] = []
        self.fails: set[str] = set()
        self.bleu = lambda rate, step: 100 * rate * step

    def __call__(
        self, config: Config, directory: Path, *, resume: bool, command: list[str], pause: Any, **_: Any
    ) -> Progress:
        if directory.name in self.fails:
            raise RunError("step 3: the loss is\nnot finite")
        run, settings = RunDirectory(directory), config.training
        directory.mkdir(exist_ok=True)
        progress = Progress("", step=len(run.metrics.read_text().splitlines()) * 2 if run.metrics.exists() else 0)
        while progress.step < settings.max_steps:
            if pause(progress):
                raise Paused
            progress.step += 2
            self.validated.append((directory.name, progress.step))
            bleu = self.bleu(settings.learning_rate, progress.step)
            record = {"kind": "validation", "step": progress.step, "BLEU": bleu, "loss": 1 / settings.max_steps}
            with run.metrics.open("a") as file:
                file.write(json.dumps(record | {"seconds": 30.0}) + "\n")
        return progress


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    monkeypatch.setattr(search, "train", fake := FakeTraining())
    return fake


def states(found: Search) -> dict[str, tuple[str, int]]:
    return {each.run: (each.state.split(":")[0], each.step) for each in found.results()}


def test_a_space_of_choices_and_ranges_in_sections_or_with_dots(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(
        "training.learning_rate: {low: 1e-4, high: 1e-2, log: true}\n"
        "model: {dropout: [0.1, 0.3], d_ff: {low: 16, high: 64}}\n"
        "training: {freeze: [[], [encoder]], ema_decay: [null, 0.9]}\n"
    )
    assert read_space(tmp_path / "space.yaml") == {
        "training.learning_rate": FloatDistribution(1e-4, 1e-2, log=True),
        "model.dropout": CategoricalDistribution(["0.1", "0.3"]),
        "model.d_ff": IntDistribution(16, 64),
        "training.freeze": CategoricalDistribution(["[]", '["encoder"]']),
        "training.ema_decay": CategoricalDistribution(["null", "0.9"]),
    }


@pytest.mark.parametrize(
    "text, named",
    [
        ("", "space.yaml"),
        ("model:\n  dropout: 0.1", "space.yaml:2:3: model.dropout = 0.1"),
        ("model.dropout: []", "model.dropout = []"),
        ("model.dropout: {low: 0.5, high: 0.1}", '{"low": 0.5, "high": 0.1}'),
        ("model.dropout: {low: 0, high: 0.1, log: true}", '"log": true'),
        ("model.dropout: {low: true, high: 2}", '"low": true'),
        ("model.dropout: {low: 0, high: .inf}", "Infinity"),
        ("model.dropout: {low: 0, high: 1, log: 1}", '"log": 1'),
        (f"model.dropout: {{low: 0, high: 1{'0' * 400}}}", "space.yaml:1:1: model.dropout"),
        ("model: {dropout: [0.1]}\nmodel.dropout: [0.2]", "space.yaml:2:1: model.dropout"),
        ("decoding.beam_size: [1]", "tune-decode"),
        ("data: {validation: {source: [a, b]}}", "data.validation.source"),
    ],
)
def test_a_space_that_cannot_be_read(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "space.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        read_space(tmp_path / "space.yaml")
    assert named in str(error.value)


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_every_choice_of_a_small_space_is_tried_once(start: Start, training: FakeTraining, sampler: Any) -> None:
    first, rest = start(), start()
    first.run(num_trials=2, sampler=sampler)
    two = {each.run: each.settings[RATE] for each in first.results()}
    rest.run(num_trials=20, sampler=sampler)
    results = rest.results()
    assert [each.settings[RATE] for each in results] == [0.001 * number for number in range(4, 0, -1)]
    assert {each.run for each in results} == {f"trial-{number:03}" for number in range(1, 5)}
    assert two.items() <= {each.run: each.settings[RATE] for each in results}.items()
    assert len(training.validated) == len(set(training.validated)) == 4 * 4, "nothing is trained twice"
    assert set(states(rest).values()) == {("ended", 8)}


@pytest.mark.parametrize("pruner", ["halving", "hyperband"])
def test_a_pruner_stops_what_is_worse(start: Start, training: FakeTraining, pruner: Any) -> None:
    found = start(pruner=pruner)
    found.run(num_trials=4, sampler="random")
    best, *_, worst = found.results()
    assert (best.state, best.step, best.settings[RATE]) == ("ended", 8, 0.004)
    assert worst.state == "pruned" and worst.step < 8


def test_the_same_seed_tries_the_same_settings(start: Start, training: FakeTraining) -> None:
    space: Space = {RATE: FloatDistribution(1e-4, 1e-2, log=True), "model.d_ff": IntDistribution(8, 64)}
    tried = []
    for number, seed in enumerate((1, 1, 2)):
        found = start(space, f"search-{number}")
        found.run(num_trials=1, sampler="random", seed=seed)
        found.run(num_trials=3, sampler="random", seed=seed)
        tried.append([each.settings for each in sorted(found.results())])
    assert tried[0] == tried[1] != tried[2] and len({str(each) for each in tried[0]}) == 3
    assert all(1e-4 <= each[RATE] <= 1e-2 and each["model.d_ff"] in range(8, 65) for each in tried[0])


def test_equal_bleu_is_ranked_by_loss_and_what_is_equal_has_no_best(
    start: Start, training: FakeTraining, tmp_path: Path
) -> None:
    training.bleu = lambda rate, step: 0.0
    found, best = start({RATE: RATES[RATE], "training.max_steps": IntDistribution(4, 5)}), tmp_path / "search/best.yaml"
    found.run(num_trials=1)
    assert found.best() is None and not best.exists(), "one trial is compared with nothing"
    found.run(num_trials=4)
    steps = [each.step for each in found.results()]
    assert steps == sorted(steps, reverse=True) and set(steps) == {4, 6}, "the longer ones have the smaller loss"
    assert found.best() is None and not best.exists()
    training.bleu = lambda rate, step: 50 * step * rate
    found.run(num_trials=5)
    first = found.results()[0]
    assert found.best() == first and best.read_text().startswith(f"# {first.run}, BLEU")
    assert found.verdict() == f"{first.run} is the best of 5 trials by BLEU"
    chosen = load_config(str(best), require_files=True).config
    assert (chosen.name, chosen.training.learning_rate) == ("tiny-best", first.settings[RATE])


def test_a_tie_in_bleu_is_named(start: Start, training: FakeTraining) -> None:
    training.bleu = lambda rate, step: 12.34
    found = start({"training.max_steps": CategoricalDistribution(["4", "8"])})
    found.run(num_trials=2)
    first = found.results()[0]
    assert found.best() == first and first.step == 8
    assert first.run in found.verdict() and "loss" in found.verdict() and "same BLEU" in found.verdict()


def test_the_budget_counts_the_time_of_all_calls(start: Start, training: FakeTraining, monkeypatch: Any) -> None:
    """Each look at the clock takes half a minute, as long as two steps with their validation."""
    clock = iter(range(0, 100_000, 30))
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    found = start()
    found.run(num_trials=2, minutes=2.0)
    (state, step), spent = states(found)["trial-001"], sum(each.minutes for each in found.results())
    assert state == "paused" and 0 < step < 8 and spent > 0
    done = len(training.validated)
    start().run(num_trials=2, minutes=spent)
    assert len(training.validated) == done, "there is no time left"
    found.run(num_trials=2, minutes=100.0)
    assert set(states(found).values()) == {("ended", 8)} and len(training.validated) == 2 * 4


def test_a_failure_is_a_row_and_is_tried_again(start: Start, training: FakeTraining, tmp_path: Path) -> None:
    """A training that fails, and a config that cannot be."""
    heads, space = "model.num_heads", {"model.num_heads": CategoricalDistribution(["2", "3"])}
    training.fails = {"trial-001", "trial-002"}
    with pytest.raises(RunError, match="all trials"):
        start(space).run(num_trials=2)
    failed = {each.settings[heads]: each.state for each in start(space).results()}
    assert failed[2] == "failed: step 3: the loss is not finite" and failed[3].startswith("failed: model.num_heads = 3")
    for row in (tmp_path / "search" / "results.tsv").read_text().splitlines()[1:]:
        assert row.split("\t")[1:3] == ["", ""] and row.endswith(tuple(failed.values()))
    training.fails.clear()
    start(space).run(num_trials=2)
    assert {each.settings[heads]: each.state.split(":")[0] for each in start(space).results()} == {
        2: "ended",
        3: "failed",
    }


def test_a_trial_is_a_name_and_never_a_path(start: Start, training: FakeTraining, tmp_path: Path) -> None:
    start().run(num_trials=1)
    journal = tmp_path / "search" / "journal.log"
    journal.write_text(journal.read_text().replace("trial-001", "../../victim"))
    with pytest.raises(InputError, match=r"journal\.log: '\.\./\.\./victim'"):
        start().run(num_trials=2)
    journal.write_text("{}\n")
    with pytest.raises(InputError, match=f"{journal} is damaged"):
        start()


def test_data_with_errors_end_a_search_that_may_then_get_another_config(
    base: Config, start: Start, training: FakeTraining, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, inspect: object, **options: object) -> None:
        assert inspect is list
        raise NotReady("fix 1 error")

    monkeypatch.setattr(search, "train", refuse)
    with pytest.raises(NotReady):
        start().run(num_trials=2, inspect=list)
    monkeypatch.setattr(search, "train", training)
    other = Search(tmp_path / "search", base.model_copy(update={"name": "other"}), RATES)
    other.run(num_trials=2)
    assert set(states(other).values()) == {("ended", 8)} and len(states(other)) == 2
    with pytest.raises(InputError, match="another config"):
        start()


def test_another_process_trains_another_trial(start: Start, training: FakeTraining, monkeypatch: Any) -> None:
    """The second search begins while the first one trains, and the first ends while the second one does."""
    first, second = start(), start()

    def train_while(config: Config, directory: Path, **options: Any) -> Progress:
        if directory.name == "trial-001":
            assert states(second) == {"trial-001": ("running", 0)}
            second.run(num_trials=2)
        return training(config, directory, **options)

    monkeypatch.setattr(search, "train", train_while)
    first.run(num_trials=2)
    assert states(first) == {"trial-001": ("ended", 8), "trial-002": ("ended", 8)}
    assert [run for run, _ in training.validated] == ["trial-002"] * 4 + ["trial-001"] * 4


@pytest.mark.parametrize(
    "named, space, pruner, change",
    [
        ("training.learning_rate", {"training.learning_rte": IntDistribution(1, 2)}, "none", "training.max_steps=8"),
        ("training.max_steps", {"training.max_steps": IntDistribution(4, 8)}, "halving", "training.max_steps=8"),
        ("training.validate_every = 5", RATES, "halving", "training.validate_every=5"),
        ("data.validation", RATES, "none", "data.validation=null"),
    ],
)
def test_what_no_search_can_begin_with(
    base: Config, tmp_path: Path, named: str, space: Space, pruner: Any, change: str
) -> None:
    with pytest.raises(InputError, match=named):
        Search(tmp_path / "search", load_config(str(tmp_path / "tiny.yaml"), [change]).config, space, pruner=pruner)
    assert not (tmp_path / "search").exists()


def test_a_directory_of_something_else(start: Start, base: Config, training: FakeTraining, tmp_path: Path) -> None:
    start().run(num_trials=1)
    with pytest.raises(InputError, match="another space"):
        start({RATE: FloatDistribution(0.1, 0.2)})
    with pytest.raises(InputError, match="another config"):
        Search(tmp_path / "search", base.model_copy(update={"name": "other"}), RATES)
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match=f"{taken}.*--dir"):
            Search(taken, base, RATES)


def test_a_trial_is_the_training_that_it_says(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search dies in its second training, and is begun again."""
    trainings: list[str] = []

    def train_or_die(config: Config, directory: Path, *, pause: Any, **options: Any) -> Progress:
        trainings.append(directory.name)

        def die(progress: Progress) -> bool:
            if progress.step == 3:
                raise KeyboardInterrupt
            return bool(pause(progress))

        return train(config, directory, pause=die if len(trainings) == 2 else pause, **options)

    monkeypatch.setattr(search, "train", train_or_die)
    found = start({RATE: CategoricalDistribution(["0.001", "0.02"])})
    with pytest.raises(KeyboardInterrupt):
        found.run(num_trials=2)
    assert {run: state for run, (state, _) in states(found).items()} == {"trial-001": "ended", "trial-002": "paused"}
    found.run(num_trials=2)
    assert trainings == ["trial-001", "trial-002", "trial-002"] and set(states(found).values()) == {("ended", 8)}
    config = load_config(str(tmp_path / "search" / "trial-002"), require_files=True).config
    train(config, tmp_path / "straight", resume=False, command=["test"])
    assert state_of(tmp_path / "search" / "trial-002") == state_of(tmp_path / "straight")
    assert found.best() is None and "0.00" in found.verdict(), "no trial has learnt to translate"
