"""Decoding on a device other than the CPU: the same translations, and how often the host waits for the device.

The host waits once in each position, to learn which sentences are done, and once more where some leave, for their
hypotheses. What else a search needs is in `CASES`.
"""

import copy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from harness import Toy, assert_same, write_run
from pretend_device import Crossings, PretendDevice

import translate
from translate.config.decoding import DecodingConfig
from translate.config.schema import Config
from translate.decoding import Request, Translator
from translate.decoding.constraints.terminology import Terminology
from translate.decoding.search.loop import BeamSearch
from translate.decoding.search.model import CachedDecoder
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("no_shape_checks")


class Case(NamedTuple):
    """A search, and how often the host may wait: in each position, and when sentences join or rows are dropped."""

    options: dict[str, Any] = {}
    others: dict[str, Any] = {}  # runs and phrases for `translate.load`
    request: dict[str, Any] = {}  # constraints on every other line
    in_position: int = 1
    at_change: int = 0
    at_start: int = 0


# A processor asks whether it has anything to do, or how long the longest hypothesis is; sampling asks whether rounding
# has hit a word of no probability, and whether the nucleus is among the 64 most probable words.
CASES = {
    "greedy": Case({"beam_size": 1}),
    "beam": Case(),
    "n-best": Case({"n_best": 3}),
    "minimum": Case({"min_length_constant": 3}),
    "ensemble": Case(others={"ensemble": "other"}),
    "sample": Case({"search": "sample", "n_best": 2}, in_position=2),
    "nucleus": Case({"search": "sample", "n_best": 2, "top_k": 30, "top_p": 0.9, "epsilon": 1e-3}, in_position=3),
    "no repeats": Case({"no_repeat_ngram": 2}, in_position=2),
    "repetition": Case({"repetition_penalty": 1.3}, in_position=2),
    "forbidden": Case(others={"forbidden": ["dog", "green house"]}, in_position=2, at_start=1),
    "prefix": Case(request={"prefix": "the dog"}, in_position=2, at_start=2),
    # Which sentences have phrases, how long hypotheses are (twice), how many candidates and how many banks there are.
    "required": Case(request={"required": ["street"]}, in_position=6, at_start=1),
    "terminology": Case(request={"terminology": Terminology({"Hund": "house"})}, in_position=6, at_start=1),
}


@pytest.fixture(scope="module")
def runs(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, `toy` and `other`, that were trained on the device."""
    folder = tmp_path_factory.mktemp("runs")
    config = Config(model=toy.model.config, decoding=DecodingConfig(device="pretend", beam_size=3))
    other = copy.deepcopy(toy.model)
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    for name, model in (("toy", toy.model), ("other", other)):
        write_run(folder / name, config, toy.tokenizers, model)
    return folder


def load(runs: Path, case: Case, **options: Any) -> Translator:
    others = dict(case.others)
    if "ensemble" in others:
        others["ensemble"] = [runs / others["ensemble"]]
    batch_tokens = min(50 * case.options.get("beam_size", 3), 150)  # so that sentences join while others are searched
    same = {"engine": "translate", "precision": "fp32", "workers": 1, "batch_tokens": batch_tokens}
    return translate.load(runs / "toy", **others, **same, **case.options, **options)


def short(toy: Toy) -> list[str]:
    """Nine sentences of one to four words: each operation of the device takes Python some 50 microseconds."""
    return [line for line in toy.sources if len(line.split()) <= 4][:9]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Positions decoded, positions in which sentences left, and changes: sentences joined, or rows were dropped."""
    counts = Counter[str]()

    def count(owner: type, method: str, counted: Callable[[Any], dict[str, int]]) -> None:
        original = getattr(owner, method)

        def replaced(*arguments: Any) -> Any:
            result = original(*arguments)
            counts.update(counted(result))
            return result

        monkeypatch.setattr(owner, method, replaced)

    count(BeamSearch, "step", lambda found: {"positions": 1, "departures": bool(found)})
    for method in ("start", "select_rows"):
        count(CachedDecoder, method, lambda _: {"changes": 1})
    return counts


@pytest.mark.parametrize("name", CASES)
def test_translations_are_those_of_the_cpu(
    name: str, runs: Path, toy: Toy, pretend: PretendDevice, calls: Counter[str]
) -> None:
    """And the host waits no more often than the search needs; what it copies does not grow with positions."""
    case = CASES[name]
    lines = [Request(line, **(case.request if number % 2 else {})) for number, line in enumerate(short(toy))]
    expected = load(runs, case, device="cpu").translate(lines, align=False)
    translator = load(runs, case)
    assert translator.model.device == pretend.device
    calls.clear()
    with pretend.counting() as crossings:
        found = translator.translate(lines, align=False)
    assert_same(found, expected)
    check_crossings(case, crossings, calls, num_models=1 + len(case.others.keys() & {"ensemble"}))


def check_crossings(case: Case, crossings: Crossings, calls: Counter[str], *, num_models: int) -> None:
    assert calls["changes"] > 3 and calls["positions"] > 2 * calls["departures"]  # a case that tells them apart
    waits = case.at_start + case.in_position * calls["positions"] + case.at_change * calls["changes"]
    assert crossings.synchronisations.total() <= waits + calls["departures"], f"{calls}: {crossings}"
    # Sources, rows of the state and of each model's cache, numbers of the new sentences; rows of those that leave.
    copies = 10 + (4 + num_models) * calls["changes"] + calls["departures"]
    assert crossings.to_device.total() <= copies < crossings.to_device.total() + calls["positions"], (
        f"{calls}: {crossings}"  # one more in each position would be too many
    )
    # The host asks early how many slots of a cache are needed: see `DecoderCache.reorder`.
    assert crossings.event_waits.total() <= num_models * calls["positions"] / 4, f"{calls}: {crossings}"


def test_scores_are_those_of_the_cpu(runs: Path, toy: Toy, pretend: PretendDevice) -> None:
    """The host waits for one result of each batch, and gives it two or three tensors."""
    targets = [toy.tokenizers.target.encode(line) for line in toy.references]
    expected = load(runs, CASES["beam"], device="cpu").score(toy.sources, targets)
    translator = load(runs, CASES["beam"])
    with pretend.counting() as crossings:
        found = translator.score(toy.sources, targets)
    for score, other in zip(found, expected, strict=True):
        assert score.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
        assert score.score == pytest.approx(other.score, abs=1e-4)
    aligned, there = translator.translate(toy.sources[:3], align=True), load(runs, CASES["beam"], device="cpu")
    assert [each.alignment for each in aligned] == [
        each.alignment for each in there.translate(toy.sources[:3], align=True)
    ]
    assert aligned[0].alignment
    num_batches = crossings.to_host.total()
    assert 1 < num_batches < len(toy.sources)
    assert crossings.synchronisations.total() <= 4 * num_batches, crossings


def test_a_run_of_another_device_works_on_the_cpu(runs: Path, toy: Toy) -> None:
    """And without `device` the error says what to do."""
    with pytest.raises(InputError, match="device = pretend: this machine has no such device; .*device=cpu"):
        translate.load(runs / "toy")
    assert translate.load(runs / "toy", device="cpu").translate(toy.sources[0], align=False).text
