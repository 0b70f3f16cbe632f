"""Checkpoints that a training keeps, and the average of them that it makes its best one."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import write_digits
from trainings import Digits, records_of, run_training

from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.runs.checkpoint import add_prefix, read_tensors, write_checkpoint
from translate.runs.directory import RunDirectory
from translate.runs.progress import Progress
from translate.runs.run import open_run
from translate.runs.verify import verify_run
from translate.runs.weights import get_parameters, read_weights
from translate.training import averaging, best_checkpoint, trainer
from translate.training.averaging import average_checkpoints, kept_windows, load_average

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# Eight validations in 30 steps of such a rate that an average is better than each of them.
NOISY = (
    *("training.max_steps=30", "training.learning_rate=0.05", "training.warmup_steps=0"),
    *("training.sample_translations=0", "training.validate_every=4", "training.keep_last=3", "training.keep_best=2"),
    *("training.average_kept=true", "training.best_metric=loss"),
)


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The run of a training that kept checkpoints and averaged them, and what it logged; only to be read."""
    directory = tmp_path_factory.mktemp("averaged")
    return directory / "run", run_training(write_digits(directory)(*NOISY), directory / "run")


def checkpoints_of(run: Path) -> dict[str, bytes]:
    """The best checkpoint and those that are kept, byte for byte."""
    return {path.name: path.read_bytes() for path in (run / "checkpoints").glob("*t*p*.safetensors")}


def test_what_is_kept_and_averaged(averaged: tuple[Path, list[str]]) -> None:
    path, said = averaged
    run, losses = RunDirectory(path), {each["step"]: each["loss"] for each in records_of(path, "validation")}
    assert list(losses) == [4, 8, 12, 16, 20, 24, 28, 30]
    best = sorted(losses, key=lambda step: losses[step])[:2]
    assert run.kept_steps() == sorted({24, 28, 30, *best})
    tried = records_of(path, "average")
    assert [each["averaged"] for each in tried][:3] == [[best[0]], [28, 30], [24, 28, 30]]
    assert tried[0]["loss"] == losses[best[0]], "the log's score of the best checkpoint"
    chosen = min(tried, key=lambda each: each["loss"])
    assert len(chosen["averaged"]) > 1, "else the rest shows nothing"
    tensors, metadata, _ = read_tensors(run.checkpoint("best"))
    assert metadata == {"step": "30", "averaged": " ".join(map(str, chosen["averaged"]))}
    singles = [read_tensors(run.checkpoint(f"step-{step}")).tensors for step in chosen["averaged"]]
    for name, tensor in tensors.items():
        mean = torch.stack([single[name].double() for single in singles]).mean(0)
        torch.testing.assert_close(tensor, mean.float(), rtol=0.0, atol=0.0)
    shown = ", ".join(map(str, chosen["averaged"]))
    assert f"Training ended after 30 steps; best checkpoint: the average of steps {shown}" in said
    assert any(line.startswith(f"Best checkpoint (the average of steps {shown}), beam 2: BLEU ") for line in said)
    assert [line.split(":")[0] for line in said if line.startswith("  ")][:3] == ["  best", "  last 2", "  last 3"]
    (evaluation,) = records_of(path, "evaluation")
    assert evaluation["averaged"] == chosen["averaged"] and "best_step" not in evaluation
    run = open_run(path)
    assert (run.weights().averaged, run.weights("step-24").averaged) == (tuple(chosen["averaged"]), ())
    report = {file.name: file.detail for file in verify_run(path).files}
    assert report["checkpoints/best.safetensors"].startswith(f"the average of steps {shown}, ")
    assert report["checkpoints/step-24.safetensors"] == "step 24, kept" and not verify_run(path).unsound


def dying_after(number: int, original: Callable[..., None]) -> Callable[..., None]:
    """The same function, which at its n-th call does its work and then ends the training as if it were killed."""
    calls = itertools.count(1)

    def die(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if next(calls) == number:
            raise KeyboardInterrupt

    return die


def test_killed_anywhere_and_continued_has_the_same_files(
    averaged: tuple[Path, list[str]], digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, run = digits(*NOISY), tmp_path / "run"
    for module, name, number in (
        (best_checkpoint.BestCheckpoint, "write", 2),  # after step 8, which will be validated again
        (trainer, "save_last", 3),  # what is kept no longer has not been removed
        (trainer, "remove_superseded", 2),
        (averaging, "write_checkpoint", 1),  # the single best is kept; the average is not written yet
        (averaging, "write_checkpoint", 2),  # the best is an average, and the end is not recorded
        (best_checkpoint, "write_checkpoint", 1),  # the single best has just taken its place again
    ):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, name, dying_after(number, getattr(module, name)))
            run_training(config, run, resume=True)
    run_training(config, run, resume=True)
    assert checkpoints_of(run) == checkpoints_of(averaged[0])
    for kind in ("validation", "average", "evaluation"):
        ours, expected = ([{**each, "seconds": 0} for each in records_of(path, kind)] for path in (run, averaged[0]))
        assert ours == expected


def test_a_run_that_goes_further_never_averaged_before(
    averaged: tuple[Path, list[str]], digits: Digits, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run_training(digits(*NOISY, "training.max_steps=24"), run)
    said = run_training(digits(*NOISY), run, resume=True)
    assert (
        "best.safetensors was an average of checkpoints; it is step-20.safetensors again while training continues"
        in said
    )
    assert checkpoints_of(run) == checkpoints_of(averaged[0])


@pytest.fixture
def tiny(digits: Digits, averaged: tuple[Path, list[str]], tmp_path: Path) -> tuple[RunDirectory, Transformer]:
    """A copy of a run to write into, and a model of it."""
    loaded = open_run(Path(shutil.copytree(averaged[0], tmp_path / "copy"))).load_model()
    return loaded.run.files, loaded.model


def test_a_mean_is_summed_in_fp64(tiny: tuple[RunDirectory, Transformer]) -> None:
    """1 + 2^-24 twice: sums in fp32 round it away each time."""
    run, model = tiny
    for step, value in ((24, 1.0), (28, 2.0**-24), (30, 2.0**-24)):
        tensors = {name: torch.full_like(weight, value) for name, weight in get_parameters(model).items()}
        write_checkpoint(run, f"step-{step}", add_prefix(tensors, "model."), {"step": str(step)})
    mean = average_checkpoints(run, ["step-24", "step-28", "step-30"], model)
    expected = torch.tensor((1 + 2.0**-23) / 3)
    assert expected != torch.tensor(1.0) / 3
    assert all((tensor == expected).all() for tensor in mean.tensors.values())
    assert (mean.step, mean.averaged) == (30, (24, 28, 30))
    assert mean.tensors.keys() == get_parameters(model).keys(), "tied weights once"


def test_a_single_checkpoint_is_read_and_not_summed(
    tiny: tuple[RunDirectory, Transformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the evaluation at the end fits where a validation does. Frozen layers may be saved in bf16."""
    run, model = tiny
    tensors, metadata, _ = read_tensors(run.checkpoint("step-28"))
    narrow = {name: tensor.bfloat16() if "layers.0" in name else tensor for name, tensor in tensors.items()}
    write_checkpoint(run, "step-28", narrow, metadata)
    saved = read_weights(run, "step-28")
    monkeypatch.setattr(averaging, "read_weights", lambda *_: saved)
    single = average_checkpoints(run, ["step-28"], model)
    assert all(tensor is saved.tensors[name] for name, tensor in single.tensors.items())
    assert load_average(run, ["step-28"], model) == single.averaged == (28,)
    for name, weight in get_parameters(model).items():
        assert weight.dtype == torch.float32 and torch.equal(weight, narrow[f"model.{name}"].float())


def test_what_cannot_be_averaged(tiny: tuple[RunDirectory, Transformer]) -> None:
    run, model = tiny
    with pytest.raises(
        InputError, match=r"best\.safetensors is itself the average of steps .*: name single checkpoints"
    ):
        average_checkpoints(run, ["best", "last"], model)
    tensors, metadata, _ = read_tensors(run.checkpoint("step-28"))
    name = min(tensors)
    write_checkpoint(run, "step-28", {**tensors, name: tensors[name][:1]}, metadata)
    with pytest.raises(RunError, match=r"step-28\.safetensors does not fit the model of its config: different: "):
        average_checkpoints(run, ["step-28", "step-30"], model)


def test_windows_by_hand() -> None:
    progress = Progress("data", kept={2: 5.0, 4: 9.0, 6: None, 8: 9.0})
    assert kept_windows(progress, last=3, best=3) == {
        "last 2": ("step-6", "step-8"),
        "last 3": ("step-4", "step-6", "step-8"),
        "best 2": ("step-4", "step-8"),
        "best 3": ("step-2", "step-4", "step-8"),
    }
    assert kept_windows(progress, last=0, best=2) == {"best 2": ("step-4", "step-8")}
    assert kept_windows(progress, last=1, best=0) == {}
