"""A search: its space, its samples, which trial is trained next; and that its trials are the trainings that they say.

Most tests have a training that records a BLEU and computes nothing: 100 times the learning rate times the step.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from translate import search as searching
from translate.config.load import load_config
from translate.config.schema import Config
from translate.errors import InputError, RunError
from translate.runs.directory import RunDirectory
from translate.search import Range, Search, Space, read_space, sample_settings
from translate.training import Paused, Progress, train

Start = Callable[..., Search]
Validations = list[tuple[str, int]]

TINY = """
data:
  train: [{kind: text, source: train.in, target: train.out}]
  validation: {kind: text, source: train.in, target: train.out}
tokenizer: {vocab_size: 40, byte_fallback: false}
model: {d_model: 8, num_heads: 2, d_ff: 8, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  {max_steps: 8, batch_tokens: 100, schedule: cosine, learning_rate: 0.01, warmup_steps: 1, precision: fp32, threads: 1,
   device: cpu, validate_every: 2, save_every: 5}
decoding: {max_length_factor: 1.0, max_length_constant: 1, device: cpu}
"""
RATES: Space = {"training.learning_rate": [0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008]}


@pytest.fixture
def base(write_reversed_digits: Callable[..., None], tmp_path: Path) -> Config:
    write_reversed_digits(tmp_path, "train", num_pairs=20, draw=random.Random(1))
    (tmp_path / "tiny.yaml").write_text(TINY)
    return load_config(str(tmp_path / "tiny.yaml"), require_files=True).config


@pytest.fixture
def start(base: Config, tmp_path: Path) -> Start:
    """Makes the search, as a command that is given again does."""

    def start(space: Space = RATES, *, strategy: Any = "halving", num_trials: int = 8, **options: Any) -> Search:
        return Search(tmp_path / "search", base, space, strategy=strategy, num_trials=num_trials, **options)

    return start


@pytest.fixture
def validations(monkeypatch: pytest.MonkeyPatch) -> Validations:
    """The validations of trainings that compute nothing, by trial and step."""
    done: Validations = []

    def train(config: Config, directory: Path, *, resume: bool, command: list[str], pause: Any) -> Progress:
        assert resume
        run, settings = RunDirectory(directory), config.training
        directory.mkdir(exist_ok=True)
        progress = Progress("", step=len(run.metrics.read_text().splitlines()) * 2 if run.metrics.exists() else 0)
        while progress.step < settings.max_steps:
            if pause(progress):
                raise Paused
            progress.step += 2
            done.append((directory.name, progress.step))
            record = {"kind": "validation", "step": progress.step, "BLEU": 100 * settings.learning_rate * progress.step}
            with run.metrics.open("a") as file:
                file.write(json.dumps(record) + "\n")
        return progress

    monkeypatch.setattr(searching, "train", train)
    return done


def rates(search: Search) -> dict[str, float]:
    return {each.name: each.settings["training.learning_rate"] for each in search.trials}


# The space


def test_a_space_of_choices_and_ranges_in_sections_or_with_dots(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(
        "training.learning_rate: {low: 1e-4, high: 1e-2, log: true}\n"
        "model: {dropout: [0.1, 0.3], d_ff: {low: 16, high: 64}}\n"
        "training: {freeze: [[], [encoder]], ema_decay: [null, 0.9]}\n"
    )
    assert read_space(tmp_path / "space.yaml") == {
        "training.learning_rate": Range(1e-4, 1e-2, log=True),
        "model.dropout": [0.1, 0.3],
        "model.d_ff": Range(16, 64),
        "training.freeze": [[], ["encoder"]],
        "training.ema_decay": [None, 0.9],
    }


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "space.yaml: has no key; a line is such as model.dropout: [0.1, 0.2, 0.3]"),
        ("model:\n  dropout: 0.1", "space.yaml:2:3: model.dropout = 0.1: should be a list of choices, or a range such"),
        ("model.dropout: []", "model.dropout = []: should be a list"),
        ("model.dropout: {low: 0.5, high: 0.1}", "log: true}, with low < high"),
        ("model.dropout: {low: 0, high: 0.1, log: true}", "and above 0 if log is true"),
        ("model.dropout: {low: a, high: b}", "should be a list"),
        ("model.dropout: {low: 0.1, hihg: 0.2}", "should be a list"),
        ("model.dropout: {low: 0, high: .inf}", "should be a list"),
        ("model.dropout: {low: 0, high: 1, log: 1}", "should be a list"),
        ("model: {dropout: [0.1]}\nmodel.dropout: [0.2]", "space.yaml:2:1: model.dropout is given twice"),
        ("decoding.beam_size: [1]", "space.yaml:1:1: decoding.beam_size decides how trials are scored"),
        ("data: {validation: {source: [a, b]}}", "data.validation.source decides how trials are scored, and is"),
    ],
)
def test_a_space_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "space.yaml").write_text(text)
    with pytest.raises(InputError) as error:
        read_space(tmp_path / "space.yaml")
    assert message in str(error.value)


def test_samples_differ_and_more_of_them_begin_with_the_same() -> None:
    space: Space = {"a": [1, 2], "b": Range(1, 3), "c": Range(0.5, 0.9)}
    many = sample_settings(space, number=50, seed=1)
    assert sample_settings(space, number=10, seed=1) == many[:10] != sample_settings(space, number=10, seed=2)
    assert {each["b"] for each in many} == {1, 2, 3} and all(0.5 <= each["c"] <= 0.9 for each in many)
    grid = sample_settings({"a": [1, 2], "b": Range(1, 3)}, number=50, seed=1)
    assert len(grid) == len({json.dumps(each) for each in grid}) == 6


@pytest.mark.parametrize("range_, middle", [(Range(1, 99), 50), (Range(0.0, 1.0), 0.5), (Range(1e-4, 1.0, True), 1e-2)])
def test_half_of_the_numbers_lie_below_the_middle_of_a_range(range_: Range, middle: float) -> None:
    draw = random.Random(1)
    numbers = [range_.sample(draw) for _ in range(2000)]
    assert min(numbers) >= range_.low and max(numbers) <= range_.high
    assert sum(each < middle for each in numbers) / 2000 == pytest.approx(0.5, abs=0.04)
    assert all(f"{each:.3g}" == f"{each:.10g}" for each in numbers), "three digits"


def test_whole_numbers_of_a_logarithmic_range_reach_both_ends() -> None:
    draw = random.Random(1)
    numbers = [Range(1, 8, log=True).sample(draw) for _ in range(500)]
    assert set(numbers) == set(range(1, 9)) and all(isinstance(each, int) for each in numbers)
    assert numbers.count(1) > 3 * numbers.count(8)


# What is trained


def test_halving_trains_the_better_half_on(start: Start, validations: Validations) -> None:
    """The higher the rate, the better is a trial at every step."""
    search = start()
    search.run()
    assert search.rungs == [2, 4]
    best = sorted(rates(search), key=lambda name: -rates(search)[name])
    reached = {name: max(step for each, step in validations if each == name) for name in best}
    assert [reached[name] for name in best] == [8, 8, 4, 4, 2, 2, 2, 2]
    assert len(validations) == len(set(validations)) == 2 * 4 + 2 * 2 + 4 * 1, "nothing is trained twice"
    table = search.table()
    assert table[0] == ["trial", "BLEU", "step", "minutes", "training.learning_rate", "state"]
    assert table[1] == [best[0], "6.40", "8", "0.0", "0.008", "ended"]
    assert [row[0] for row in table[1:3]] == best[:2] and table[-1][-1] == "paused"


def test_a_random_search_trains_each_trial_to_its_own_end(start: Start, validations: Validations) -> None:
    search = start({"training.max_steps": [4, 8]}, strategy="random", num_trials=2)
    search.run()
    assert {each.settings["training.max_steps"]: (each.state, each.step) for each in search.trials} == {
        4: ("ended", 4),
        8: ("ended", 8),
    }
    search = start({"training.max_steps": [4, 8]}, strategy="random", num_trials=2)
    validations.clear()
    search.run()
    assert validations == [] and [each.state for each in search.trials] == ["ended", "ended"]


def test_more_trials_continue_a_search(
    start: Start, validations: Validations, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first = start(num_trials=3)
    first.run()
    validations.clear()
    more = start(num_trials=20)
    more.run()
    assert more.trials[0].settings == first.trials[0].settings and len(more.trials) == 8
    assert "20 trials were asked for, and the space has 8" in caplog.text
    assert [each.name for each in more.trials if (each.name, 2) in validations] == [
        f"trial-{number:03}" for number in range(4, 9)
    ]
    assert more.ranking[0].settings == {"training.learning_rate": 0.008}
    assert len(start(num_trials=3).trials) == 8, "none is forgotten"


def test_the_budget_counts_the_time_of_all_calls(
    start: Start, validations: Validations, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each look at the clock takes half a minute, so that time passes while trials train."""
    caplog.set_level("INFO")
    minutes = 0.0

    def clock() -> float:
        nonlocal minutes
        minutes += 0.5
        return 60 * minutes

    monkeypatch.setattr(searching.time, "monotonic", clock)
    search = start(strategy="random", num_trials=2)
    search.run(minutes=2)
    assert [each.state for each in search.trials] == ["paused", "waiting"] and 0 < search.trials[0].step < 8
    assert "The budget of 2 minutes is used up, with 2 of 2 trials not at their end; the same" in caplog.text
    spent, done = search.trials[0].seconds, len(validations)
    again = start(strategy="random", num_trials=2)
    again.run(minutes=spent / 60)
    assert len(validations) == done, "there is no time left"
    again.run(minutes=100)
    assert [each.state for each in again.trials] == ["ended", "ended"] and len(validations) == 8


def test_a_failure_is_a_row_and_is_tried_again(
    start: Start, validations: Validations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    original, failing = searching.train, [True]

    def train(config: Config, directory: Path, **options: Any) -> Progress:
        if directory.name == "trial-002" and failing:
            raise RunError("step 3: the loss is\nnot finite")
        return original(config, directory, **options)

    monkeypatch.setattr(searching, "train", train)
    search = start(strategy="random", num_trials=3)
    search.run()
    assert [each.state for each in search.trials] == ["ended", "failed", "ended"]
    row = ["trial-002", "", "0", "0.0", str(rates(search)["trial-002"]), "failed: step 3: the loss is not finite"]
    assert search.table()[-1] == row
    assert (tmp_path / "search" / "results.tsv").read_text().splitlines()[-1] == "\t".join(row)
    failing.clear()
    again = start(strategy="random", num_trials=3)
    assert again.table()[-1] == row
    again.run()
    assert [each.state for each in again.trials] == ["ended", "ended", "ended"] and not again.trials[1].reason


def test_all_have_failed(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def train(*args: Any, **options: Any) -> Progress:
        raise InputError("no memory")

    monkeypatch.setattr(searching, "train", train)
    with pytest.raises(RunError, match="^all trials have failed; trial-001: no memory$"):
        start(num_trials=2).run()
    assert not (tmp_path / "search" / "best.yaml").exists()


# The directory


@pytest.mark.parametrize(
    "changed, name", [({"strategy": "random"}, "strategy"), ({"seed": 2}, "seed"), ({"space": {"a": [1]}}, "space")]
)
def test_another_search_needs_another_directory(
    start: Start, validations: Validations, changed: dict[str, Any], name: str
) -> None:
    start().run()
    with pytest.raises(InputError, match=f"search holds a search with another {name}, and only --minutes and --trials"):
        start(**changed)


def test_what_no_search_can_begin_with(start: Start, base: Config, tmp_path: Path) -> None:
    def fails(message: str, space: Space = RATES, *, config: Config = base, **options: Any) -> None:
        with pytest.raises(InputError, match=message):
            Search(tmp_path / "search", config, space, **{"strategy": "halving", "num_trials": 2, **options})
        assert not (tmp_path / "search").exists()

    fails(r"unknown key training\.learning_rte \(space\.yaml\); did you mean training\.learning_rate\?",
          {"training.learning_rte": [1]}, place="space.yaml")  # fmt: skip
    fails(r"model\.num_heads = 3 must divide model\.d_model = 8", {"model.num_heads": [2, 3]}, strategy="random")
    fails("two trials or more, and there is one", num_trials=1)
    fails("cannot be searched too", {"training.max_steps": [4, 8]})
    every = base.model_copy(update={"training": base.training.model_copy(update={"validate_every": 5})})
    fails(r"training\.validate_every = 5 of training\.max_steps = 8: try training\.validate_every=1", config=every)
    unvalidated = base.model_copy(update={"data": base.data.model_copy(update={"validation": None})})
    fails(r"compares trials on data\.validation, and the config has none", config=unvalidated)
    for taken, content in (("file", None), ("full", "mine.txt")):
        (tmp_path / taken).mkdir() if content else (tmp_path / taken).touch()
        (tmp_path / taken / content).touch() if content else None
        with pytest.raises(InputError, match=f"{taken} is neither empty nor a search: choose another --dir"):
            Search(tmp_path / taken, base, RATES, strategy="random", num_trials=1)
    (tmp_path / "full" / "search.json").write_text("{}")
    with pytest.raises(InputError, match=r"search\.json is damaged: KeyError"):
        Search(tmp_path / "full", base, RATES, strategy="random", num_trials=1)


def test_one_search_at_a_time(start: Start, validations: Validations, tmp_path: Path) -> None:
    search = start()
    busy = pytest.raises(InputError, match="process .* is searching here: wait for it, or choose another --dir")
    with searching.hold_lock(tmp_path / "search" / "lock", busy=""), busy:
        search.run()
    start().run()  # a lock alone, of a process that was killed at once, is no foreign file


# The trainings themselves


def test_trials_are_the_trainings_that_they_say(
    start: Start,
    base: Config,
    tmp_path: Path,
    state_of: Callable[[Path], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search dies in its third training, and is begun again."""
    trainings = 0

    def die(progress: Progress) -> bool:
        raise KeyboardInterrupt

    def train_or_die(*args: Any, **options: Any) -> Progress:
        nonlocal trainings
        trainings += 1
        return train(*args, **options | ({"pause": die} if trainings == 3 else {}))

    space: Space = {"training.learning_rate": [0.001, 0.02], "model.d_ff": [8]}
    monkeypatch.setattr(searching, "train", train_or_die)
    with pytest.raises(KeyboardInterrupt):
        start(space, num_trials=2).run()
    search = start(space, num_trials=2)
    assert [(each.state, each.step) for each in search.trials] == [("paused", 4), ("paused", 4)]
    search.run()
    assert trainings == 4
    (ended,) = (each for each in search.trials if each.state == "ended")
    train(search.configs[ended.name], tmp_path / "straight", resume=False, command=["test"])
    assert state_of(tmp_path / "search" / ended.name) == state_of(tmp_path / "straight")
    best = search.ranking[0]
    scores = [each["BLEU"] for each in state_of(tmp_path / "search" / best.name).metrics if "BLEU" in each]
    assert best.bleu == max(scores) and best.seconds > 0
    chosen = load_config(str(tmp_path / "search" / "best.yaml"), require_files=True).config
    assert chosen == search.configs[best.name].model_copy(update={"name": "tiny-best"})
    assert chosen.training.learning_rate == best.settings["training.learning_rate"]
