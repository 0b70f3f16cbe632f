"""A training on a device other than the CPU: it learns the same, goes on there and here, and the host never waits."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import state_of, without_shape_checks, write_digits
from pretend_device import Crossings, PretendDevice
from trainings import Digits, records_of, run_training, stop_training

from translate.config.schema import Config, ModelConfig, TrainingConfig
from translate.data.batching import EncodedPair, collate
from translate.errors import RunError
from translate.model import Transformer
from translate.runs.checkpoint import read_tensors
from translate.runs.directory import RunDirectory
from translate.training.loss import SummedLoss, label_smoothed_loss
from translate.training.optimizer import AveragedWeights
from translate.training.setup import build_train_step
from translate.training.step import TrainStep

pytestmark = pytest.mark.usefixtures("no_shape_checks")

# All of a step but dropout, whose masks differ from device to device.
_STEPS = (
    *("training.max_steps=4", "training.log_every=2", "training.validate_every=2", "training.save_every=4"),
    *("training.accumulate_batches=2", "training.ema_decay=0.9", "training.max_gradient_norm=1", "training.r_drop=1"),
    *("training.average_kept=false", "training.sample_translations=0", "training.threads=1", "model.dropout=0"),
    *("decoding.beam_size=1", "decoding.max_length_constant=1"),
)


def steps_on(digits: Digits) -> Digits:
    return lambda device, *overrides: digits(
        *_STEPS, f"training.device={device}", f"decoding.device={device}", *overrides
    )


@pytest.fixture
def on(digits: Digits) -> Digits:
    """A function that gives the config of a short training on a device, with overrides."""
    return steps_on(digits)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of this training on the CPU; only to be read."""
    folder, num_threads = tmp_path_factory.mktemp("here"), torch.get_num_threads()
    with without_shape_checks():
        run_training(steps_on(write_digits(folder))("cpu"), folder / "run")
    torch.set_num_threads(num_threads)  # for the tests that follow
    return folder / "run"


def curves(run: Path) -> dict[str, list[float]]:
    """The losses and the gradient's norms of a run, in training and validation."""
    values: dict[str, list[float]] = {}
    for record in records_of(run):
        for name in ("loss", "gradient_norm"):
            if name in record:
                values.setdefault(f"{record['kind']} {name}", []).append(record[name])
    return values


def weights(run: Path) -> dict[str, torch.Tensor]:
    return read_tensors(RunDirectory(run).checkpoint("last")).tensors


def assert_close(
    here: dict[str, list[float]], there: dict[str, list[float]], *, relative: float, of_norm: float
) -> None:
    assert here.keys() == there.keys()
    for name in here:
        assert there[name] == pytest.approx(here[name], rel=of_norm if "norm" in name else relative), name


@pytest.mark.parametrize(
    ("overrides", "layout", "relative"),
    [
        (("training.precision=fp32", "training.batch_layout=packed"), "attention pads internally", 1e-5),
        (("training.precision=bf16",), "flash attention keeps the sentences apart", 2e-3),
    ],
    ids=["fp32-packed", "bf16-flash"],
)
def test_it_learns_what_it_learns_on_the_cpu(
    pretend: PretendDevice, on: Digits, tmp_path: Path, overrides: tuple[str, ...], layout: str, relative: float
) -> None:
    run_training(on("cpu", *overrides), tmp_path / "here")
    log = run_training(on("pretend", *overrides), tmp_path / "there")
    here, there = curves(tmp_path / "here"), curves(tmp_path / "there")
    assert {len(values) for name, values in here.items() if name.startswith(("train", "validation"))} == {2}
    assert_close(here, there, relative=relative, of_norm=20 * relative)
    assert any(line.startswith("Device: pretend, ") for line in log)
    assert any(layout in line for line in log)
    saved, expected = weights(tmp_path / "there"), weights(tmp_path / "here")
    assert saved.keys() == expected.keys()
    for name, tensor in saved.items() if relative < 1e-4 else ():
        # The bias of keys changes no attention: its gradient is rounding, which Adam makes as large as any other.
        if "input_projection.bias" not in name:
            torch.testing.assert_close(tensor, expected[name], rtol=1e-3, atol=1e-5)


def test_it_learns_the_same_on_a_device_that_is_like_apples(
    pretend: PretendDevice, on: Digits, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without events, pinned memory, fused optimizers, flash attention and double precision."""
    monkeypatch.setattr("translate.model.device._LIKE_APPLES", {"pretend"})
    with pretend.counting() as crossings:
        run_training(on("pretend"), tmp_path / "there")
    assert_close(curves(here), curves(tmp_path / "there"), relative=1e-5, of_norm=2e-4)
    assert not crossings.event_waits  # which a training on such a device would not survive


def test_stopped_and_continued_is_never_stopped(pretend: PretendDevice, stateful: Digits, tmp_path: Path) -> None:
    config = stateful(
        *("training.device=pretend", "decoding.device=pretend", "training.precision=bf16", "training.max_steps=5"),
        *("model.attention_dropout=0", "training.threads=1", "data.validation=null"),
    )
    run_training(config, tmp_path / "straight")
    stop_training(config, tmp_path / "stopped", in_step=3)
    torch.manual_seed(99)  # whatever happened in between
    run_training(config, tmp_path / "stopped", resume=True)
    assert state_of(tmp_path / "stopped") == state_of(tmp_path / "straight")


def test_a_run_goes_on_on_another_device(pretend: PretendDevice, on: Digits, here: Path, tmp_path: Path) -> None:
    stop_training(on("pretend"), tmp_path / "moved", in_step=3)
    log = run_training(on("cpu"), tmp_path / "moved", resume=True)
    assert any(f"device cpu ({torch.backends.cpu.get_cpu_capability()}) (it was pretend (Pre" in line for line in log)
    assert_close(curves(here), curves(tmp_path / "moved"), relative=1e-5, of_norm=2e-4)
    assert weights(tmp_path / "moved").keys() == weights(here).keys()


def crossings_of_steps(config: Config, run: Path, pretend: PretendDevice) -> list[Crossings]:
    """What crosses in each step but the last, with all that the training does between it and the next one."""
    counted: list[Crossings] = []
    step = TrainStep.__call__

    def note(*args: Any, **kwargs: Any) -> Any:
        counted.append(pretend.crossings.copy())
        return step(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainStep, "__call__", note)
        run_training(config, run)
    _, *counted = counted  # without the trial of settings
    return [after.since(before) for before, after in zip(counted, counted[1:], strict=False)]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])  # padded and packed
def test_the_host_waits_for_no_step_between_log_lines(
    pretend: PretendDevice, on: Digits, tmp_path: Path, precision: str
) -> None:
    config = on(
        *("pretend", "training.max_steps=8", "training.log_every=4", "training.validate_every=8"),
        *("training.save_every=8", "training.log_every_minutes=null", "model.dropout=0.1"),
        f"training.precision={precision}",
    )
    steps = crossings_of_steps(config, tmp_path / "run", pretend)
    assert len(steps) == 7
    for number, crossings in enumerate(steps, start=1):
        is_logged = number % 4 == 0  # the totals of the window come together; the host waits for nothing else
        assert crossings.synchronisations.total() == is_logged, crossings.synchronisations
        # One copy for each micro-batch, of five batches in an epoch.
        assert crossings.to_device.total() == (1 if number % 3 == 0 else 2)
        assert {line.split(":")[0] for line in crossings.to_device} == {"model/device.py"}
        # The loss and the gradient's norm come without waiting, and are looked at one step later.
        assert crossings.to_host.total() == 1 + is_logged
        assert {line.split(":")[0] for line in crossings.to_host} == {"model/device.py"}
        assert crossings.event_waits.total() == (number > 1)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ({"positions": "rotary", "dropout": 0.1, "attention_dropout": 0.1}, {"precision": "bf16", "r_drop": 1.0}),
        ({"positions": "relative", "norm": "post"}, {"precision": "bf16", "batch_layout": "packed"}),
        ({"positions": "learned"}, {"precision": "fp32", "optimizer": "adamw"}),
        ({"activation": "swiglu"}, {"precision": "fp32", "optimizer": "muon"}),
        ({"tie_embeddings": "none", "output_bias": True}, {"precision": "fp32", "lora_rank": 2}),
    ],
)
def test_no_kind_of_model_makes_the_host_wait(
    pretend: PretendDevice, model: dict[str, Any], settings: dict[str, Any]
) -> None:
    sizes: dict[str, Any] = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "dropout": 0.0}
    config = ModelConfig(**(sizes | model), num_decoder_layers=1)
    batch = collate([EncodedPair([5] * (1 + n % 4), [6 + n] * (1 + n % 3)) for n in range(7)], range(7))

    def losses(device: torch.device) -> list[float]:
        torch.manual_seed(1)
        transformer = Transformer(config, source_vocab_size=23, target_vocab_size=23, pad_id=0).to(device).train()
        step = build_train_step(transformer, TrainingConfig(**settings, threads=1), device=device)
        average, results, per_step = AveragedWeights(transformer, decay=0.9), [], []
        for number in range(1, 4):
            with pretend.counting() as crossings:
                results.append(step([batch, batch], number=number, learning_rate=1e-3).loss)
                average.update(transformer, step=number)
            assert not crossings.synchronisations
            per_step.append((crossings.to_device, crossings.to_host))
        assert per_step[0] == per_step[1] == per_step[2]
        step.check_last_step()
        return [float(loss) for loss in results]

    there, here = losses(pretend.device), losses(torch.device("cpu"))
    if "dropout" not in model:  # whose masks differ from device to device
        assert there == pytest.approx(here, rel={"bf16": 3e-3, "fp32": 1e-5}[settings["precision"]])


def tiny_step(pretend: PretendDevice, **settings: Any) -> TrainStep:
    sizes = ModelConfig(d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1)
    transformer = Transformer(sizes, source_vocab_size=23, target_vocab_size=23, pad_id=0).to(pretend.device).train()
    return build_train_step(transformer, TrainingConfig(**settings), device=pretend.device)


def test_fp16_waits_for_the_norm_that_decides_whether_a_step_is_repeated(pretend: PretendDevice) -> None:
    step, batch = tiny_step(pretend, precision="fp16"), collate([EncodedPair([5, 6], [7])], [0])
    with pretend.counting() as crossings:
        step([batch], number=1, learning_rate=1e-3)
    ((line, number),) = crossings.synchronisations.items()
    assert line.startswith("training/step.py:") and number == 1


@pytest.mark.parametrize("what", ["loss and gradients", "only the loss"])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_loss_that_is_not_finite_is_found_one_step_later(
    pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, optimizer: str, what: str
) -> None:
    """Its error names it and its shapes."""
    step, batch = tiny_step(pretend, precision="fp32", optimizer=optimizer), collate([EncodedPair([5, 6], [7])], [0])
    transformer = step.model
    step([batch], number=1, learning_rate=1e-3)
    before = [parameter.tolist() for parameter in transformer.parameters()]
    factor, addend = (math.nan, 0.0) if what == "loss and gradients" else (1.0, math.nan)

    def spoiled(*given: Any, **options: Any) -> SummedLoss:
        found = label_smoothed_loss(*given, **options)
        return found._replace(loss=found.loss * factor + addend)

    with monkeypatch.context() as patch:
        patch.setattr("translate.training.step.label_smoothed_loss", spoiled)
        step([batch], number=2, learning_rate=1e-3)
    assert [parameter.tolist() for parameter in transformer.parameters()] == before  # the step made no update
    with pytest.raises(RunError, match=r"^step 2: the loss is nan .* on 1 pair of up to 3 source and 2 target"):
        step([collate([EncodedPair([5], [7])], [0])], number=3, learning_rate=1e-3)
    assert [parameter.tolist() for parameter in transformer.parameters()] == before


@pytest.mark.parametrize("validated", [[2], []])
def test_weights_of_a_step_that_failed_are_not_validated(
    pretend: PretendDevice, on: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validated: list[int]
) -> None:
    """Whether the next thing is a validation or a step, the error names the step that failed."""
    losses = itertools.count(1)  # two batches a step

    def spoiled(*given: Any, **options: Any) -> SummedLoss:
        found = label_smoothed_loss(*given, **options)
        return found._replace(loss=found.loss * (math.nan if next(losses) > 6 else 1.0))

    monkeypatch.setattr("translate.training.step.label_smoothed_loss", spoiled)
    with pytest.raises(RunError, match="step 4: the loss is nan"):
        rarely = () if validated else ("training.max_steps=8", "training.validate_every=8", "training.log_every=8")
        run_training(on("pretend", "training.r_drop=0", "training.save_every=8", *rarely), tmp_path / "run")
    assert [record["step"] for record in records_of(tmp_path / "run", "validation")] == validated
