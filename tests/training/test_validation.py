"""Validation during a training: the same code as `translate eval`, and what it does when memory is out."""

import itertools
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from harness import state_of
from trainings import Digits, progress_of, records_of, run_training

from translate.config.decoding import DecodingConfig
from translate.config.load import load_config, override_config
from translate.config.schema import Config
from translate.data.corpora import ParallelCorpus
from translate.decoding import loading
from translate.decoding.loading import load_translator
from translate.errors import InputError, RunError
from translate.evaluation.evaluate import evaluate
from translate.evaluation.metrics import SCORES
from translate.evaluation.test_sets import choose_test_sets
from translate.model.device import LOADING_HINT, OutOfMemory
from translate.runs import weights
from translate.runs.run import open_run
from translate.training import best_checkpoint, state, validation

pytestmark = pytest.mark.usefixtures("no_shape_checks")

QUICK = [score for score in SCORES if score.effort == "quick"]

CUDA_MESSAGE = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139 GiB of which …"


@pytest.mark.parametrize(
    "metric, as_0_7_0",
    [
        ("bleu", "bc761d2d2ea8b3384c62d4aa41bc754420550bf997d9330fc4f882b754f6982e"),
        ("loss", "8429da5d22afc001e562a77d23a0c69607946e03235d58c00bbca855aaf026bd"),
    ],
)
def test_scores_of_older_runs_stay_comparable(monkeypatch: pytest.MonkeyPatch, metric: str, as_0_7_0: str) -> None:
    """A key that is added later counts only where it is set, or a resumed run would give up its best checkpoint."""
    monkeypatch.setattr(validation, "data_fingerprint", lambda *_: "data")
    corpus: Any = {"kind": "text", "source": "a", "target": "b"}
    values = {"name": "a", "data": {"train": [corpus], "validation": corpus}}
    config = load_config(values, {"training.best_metric": metric}).config
    nothing: Any = None
    read = [ParallelCorpus("a, b", [], [], 1.0)]
    assert validation.validation_fingerprint(read, nothing, config) == as_0_7_0
    changed = override_config(config, {"decoding.patience": 1})
    assert (validation.validation_fingerprint(read, nothing, changed) == as_0_7_0) is (metric == "loss")


@pytest.mark.parametrize("precision", ["auto", "bf16"])
def test_validation_bleu_is_what_evaluation_gives(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    """With the options that docs/training.md names; and in the end, with the settings of the run.

    In the precision of the decoding settings; with auto that of CTranslate2, if it is there.
    """
    monkeypatch.setattr(loading, "MANY_LINES", 1)
    config = digits(
        *("training.max_steps=40", "training.validate_every=20", "training.ema_decay=0.9", "decoding.beam_size=4"),
        *("decoding.max_length_factor=2", "decoding.max_length_constant=20", f"decoding.precision={precision}"),
    )
    said = run_training(config, tmp_path / "run")
    records = [record for record in state_of(tmp_path / "run").metrics if record["kind"] != "train"]
    assert [(record["kind"], record["step"]) for record in records] == [
        ("validation", 20),
        ("validation", 40),
        ("evaluation", 40),
    ]
    assert config.data.validation is not None
    ((_, corpus),) = choose_test_sets(config, name="validation").items()
    as_in_training = {"beam_size": 1, "max_length_constant": 10}
    for record, checkpoint, options in ((records[1], "last", as_in_training), (records[2], "best", {})):
        which = {} if precision == "auto" else {"engine": "translate"}
        translator = load_translator(tmp_path / "run", checkpoint=checkpoint, options={**options, **which}).translator
        loaded = open_run(tmp_path / "run").load_model(checkpoint)
        evaluation = evaluate(translator, corpus.sources, corpus.targets, loaded.config.evaluation)
        assert {score.name: evaluation.score(score.name) for score in QUICK}.items() <= record.items()
        num_truncated = sum(translation.truncated for translation in evaluation.translations)
        assert record["num_truncated"] == num_truncated and loaded.step == record.get("best_step", 40)
    line = f"Best checkpoint (step {records[2]['best_step']}), beam 4: BLEU {records[2]['BLEU']:.2f}, chrF "
    assert len([each for each in said if each.startswith(line)]) == 1 and records[1]["chrF"] > 0
    best = max(records[:2], key=lambda record: record["BLEU"])
    assert records[2]["best_step"] == best["step"], "chosen by scores of one kind"
    for record in records[:2]:
        cut = f"  {record['num_truncated']} of 23 translations were cut at their maximum length"
        assert (cut in said) == (record["num_truncated"] > 0)


def test_weights_are_gathered_one_after_the_other(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As weights that are sharded must be, or a device would have room for all of them twice."""
    gathered: list[weakref.ref[torch.Tensor]] = []

    def gather(tensor: torch.Tensor) -> torch.Tensor:
        assert not any(full() is not None for full in gathered)
        full = tensor.clone()
        gathered.append(weakref.ref(full))
        return full

    monkeypatch.setattr(best_checkpoint, "full_tensor", gather)
    run_training(digits("training.max_steps=2", "training.validate_every=2"), tmp_path / "run")
    assert len(gathered) > 10


def test_references_beyond_the_learned_positions_are_cut(digits: Digits, tmp_path: Path) -> None:
    limits = ("model.max_positions=4", "data.max_source_tokens=3", "data.max_target_tokens=3")
    run_training(digits("model.positions=learned", *limits, "training.max_steps=1"), tmp_path / "run")
    assert [each["kind"] for each in records_of(tmp_path / "run")] == ["validation", "train", "evaluation"]


def test_a_validation_is_a_plain_quick_search() -> None:
    def search(beam_size: int = 1, **decoding: Any) -> DecodingConfig:
        given = {
            "training.validation_beam_size": beam_size,
            **{f"decoding.{key}": each for key, each in decoding.items()},
        }
        return override_config(Config(), given).validation_search()

    found = search(3, search="sample", n_best=7, max_length_factor=3.0, length_penalty=0.9)
    assert (found.search, found.beam_size, found.n_best) == ("beam", 3, 1)
    assert (found.max_length_factor, found.max_length_constant, found.length_penalty) == (3.0, 10, 0.9)
    assert search().beam_size == 1
    assert search(max_length_constant=4).max_length_constant == 4
    assert search(min_length_constant=15).max_length_constant == 15


@pytest.mark.parametrize(
    ("error", "start", "hint"),
    [
        (
            torch.OutOfMemoryError(CUDA_MESSAGE),
            "out of memory on the validation (CUDA out of memory. Tried to allocate 20.00 MiB).",
            "decoding.batch_tokens (now 8192)",
        ),
        (InputError("line 7: bad"), "line 7: bad", ""),
    ],
    ids=["without memory", "of bad input"],
)
def test_a_validation_that_fails_can_be_done_later(
    digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, start: str, hint: str
) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise error

    with monkeypatch.context() as patch, pytest.raises((InputError, RunError)) as caught:
        patch.setattr(validation, "evaluate", refused)
        run_training(digits("training.validation_beam_size=2"), tmp_path / "run")
    assert str(caught.value).startswith(start) and hint in str(caught.value)
    said = run_training(digits("training.validation_beam_size=1"), tmp_path / "run", resume=True)
    assert "Continuing from step 6" in said


@pytest.mark.parametrize(
    ("module", "name", "number", "doing"),
    [
        (best_checkpoint, "merge_lora", 3, "the validation"),
        (best_checkpoint, "merge_lora", 2, "saving the best weights"),
        (weights, "Transformer", 3, "the validation"),
        (state, "get_parameters", 3, "saving a checkpoint"),
    ],
)
def test_memory_that_runs_out_while_weights_are_copied_is_explained(
    digits: Digits,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    number: int,
    doing: str,
) -> None:
    """And if a validation cannot begin, the steps since the last save are kept."""
    config = digits("training.validate_every=3", "training.patience=null")
    original, calls = getattr(module, name), itertools.count(1)

    def fail(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            raise MemoryError
        return original(*args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(OutOfMemory) as caught:
        patch.setattr(module, name, fail)
        run_training(config, tmp_path / "run")
    assert str(caught.value) == f"out of memory on {doing}. {LOADING_HINT}"
    if doing == "the validation":
        assert progress_of(tmp_path / "run")["step"] == 6
