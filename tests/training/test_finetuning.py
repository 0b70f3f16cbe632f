"""A training that begins with another run's weights: its first loss, its first checkpoint, and what else it scores."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import state_of
from torch.nn import functional as F
from trainings import records_of, run_training, stop_training

from translate.config.load import load_config
from translate.config.schema import Config
from translate.data.tokenizer import PAD_ID
from translate.distributed.process_group import DistributedEnvironment, World
from translate.errors import InputError
from translate.lint.dry_run import dry_run
from translate.model import Transformer
from translate.runs.checkpoint import read_tensors, write_tensors
from translate.runs.directory import RunDirectory
from translate.runs.initial import read_initial_weights
from translate.runs.metrics import best_record, read_metrics
from translate.runs.run import open_run
from translate.runs.summary import summarize_run
from translate.runs.verify import verify_run
from translate.runs.weights import build_model, get_parameters
from translate.training import setup, trainer
from translate.training.batch_size import override_training
from translate.training.best_checkpoint import BestCheckpoint
from translate.training.preparation import prepare_data
from translate.training.setup import choose_place
from translate.training.state import Training

pytestmark = pytest.mark.usefixtures("no_shape_checks")

Tune = Callable[..., Config]

_CONFIG = """
data:
  train: [{kind: text, source: new.in, target: new.out}]
  validation: {kind: text, source: validation.in, target: validation.out}
  validation_also: {old: {kind: text, source: train.in, target: train.out}}
training:
  {initialize_from: base, max_steps: 4, batch_tokens: 100, schedule: constant, learning_rate: 0.001, warmup_steps: 0,
   precision: fp32, device: cpu, validate_every: 3, save_every: 2, log_every: 1, sample_translations: 0}
decoding: {max_length_factor: 1.0, max_length_constant: 3, device: cpu}
"""


@pytest.fixture
def tune(straight: Path, tmp_path: Path) -> Tune:
    """A function that gives the config of a fine-tuning of `base`, with overrides; all files are in tmp_path."""
    for name in ("train.in", "train.out", "validation.in", "validation.out"):
        shutil.copy(straight.parent / name, tmp_path)
    for side in ("in", "out"):
        lines = (tmp_path / f"train.{side}").read_text().splitlines(keepends=True)
        (tmp_path / f"new.{side}").write_text("".join(lines[:30]) + "1 2 % 3\n")
    shutil.copytree(straight, tmp_path / "base")
    (tmp_path / "tune.yaml").write_text(_CONFIG)
    return lambda *overrides: load_config(str(tmp_path / "tune.yaml"), overrides, require_files=True).config


def round_weights(run: Path) -> None:
    """Store the weights of a run in bf16."""
    best = RunDirectory(run).checkpoint("best")
    tensors, metadata, _ = read_tensors(best)
    write_tensors(best, {name: tensor.bfloat16() for name, tensor in tensors.items()}, metadata)


@pytest.mark.parametrize("what", ["training.freeze=[encoder,decoder.0]", "training.lora_rank=3"])
def test_frozen_weights_in_bf16(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Their products are in bf16 anyway: a base run in bf16 gives the same steps, and a continued run is exact."""
    round_weights(tmp_path / "base")
    config = tune(what, "training.precision=bf16", "training.frozen_precision=bf16")
    run_training(config, tmp_path / "straight")
    stop_training(config, tmp_path / "run", in_step=3)
    drawn: list[bool] = []

    def build(*args: Any, doing: str | None, **options: Any) -> Transformer:
        drawn.append(doing is None)
        return build_model(*args, doing=doing, **options)

    with monkeypatch.context() as patch:
        patch.setattr(setup, "build_model", build)
        run_training(config, tmp_path / "run", resume=True)
    assert drawn == [False]
    assert state_of(tmp_path / "run") == state_of(tmp_path / "straight")
    run_training(tune(what, "training.precision=bf16"), tmp_path / "fp32")
    losses = [[each["loss"] for each in records_of(tmp_path / name, "validation")] for name in ("straight", "fp32")]
    runs = [open_run(tmp_path / name).load_model("last").model for name in ("straight", "fp32")]
    assert all(parameter.dtype == torch.float32 for run in runs for parameter in run.parameters())
    if "lora" in what:
        assert losses[0][0] == losses[1][0] != losses[0][1]  # A is drawn otherwise, and B is zero
    else:
        assert losses[0] == losses[1]
        assert all(torch.equal(one, other) for one, other in zip(*(run.parameters() for run in runs), strict=True))
    stored = read_tensors(RunDirectory(tmp_path / "straight").checkpoint("best")).tensors
    narrow = {name for name, tensor in stored.items() if tensor.dtype == torch.bfloat16}
    changed = "decoder.layers.1" if "freeze" in what else "input_projection.weight"
    frozen = {name for name in stored if ".layers." in name and "norm" not in name and changed not in name}
    assert narrow == frozen
    with pytest.raises(InputError, match=r"training\.frozen_precision = 'bf16' needs training\.precision = 'bf16'"):
        tune(what, "training.frozen_precision=bf16")
    for nothing in ("training.freeze=[]", "training.freeze=[embeddings]"):
        with pytest.raises(InputError, match=r"training\.frozen_precision = 'bf16' needs training\.lora_rank"):
            tune(nothing, "training.precision=bf16", "training.frozen_precision=bf16")
    with pytest.raises(InputError, match=r"\(now 2\); use training\.frozen_precision=fp32"):
        choose_place(config, World(DistributedEnvironment(world_size=2), None))


def test_a_validation_holds_frozen_weights_once(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs them in fp32. Only matrices that LoRA changes are there twice: in bf16, and merged in fp32."""
    totals: dict[str, list[int]] = {"bf16": [], "fp32": []}
    original = BestCheckpoint._score

    def score(self: BestCheckpoint, model: Transformer, *arguments: Any) -> Any:
        parts = [weight.untyped_storage() for each in (self.model, model) for weight in each.parameters()]
        totals[self.run.path.name].append(sum({part.data_ptr(): part.nbytes() for part in parts}.values()))
        return original(self, model, *arguments)

    monkeypatch.setattr(BestCheckpoint, "_score", score)
    overrides = ("training.lora_rank=3", "training.precision=bf16", "training.max_steps=1")
    for name in totals:
        run_training(tune(*overrides, f"training.frozen_precision={name}"), tmp_path / name)
    model = open_run(tmp_path / "base").load_model().model
    adapted = [weight for name, weight in model.named_parameters() if "input_projection.weight" in name]
    assert totals["fp32"][0] - totals["bf16"][0] == 2 * sum(weight.numel() for weight in adapted) > 0


def test_a_dry_run_with_frozen_weights_in_bf16(tune: Tune) -> None:
    config = tune("training.lora_rank=3", "training.precision=bf16", "training.frozen_precision=bf16")
    data = prepare_data(config, device=torch.device("cpu"))
    initial = read_initial_weights(config)
    result = dry_run(data, data.batches.epoch(0), device=torch.device("cpu"), initial=initial, max_seconds=0.0)
    assert result.seconds_per_validation is not None


def test_the_first_loss_is_that_of_the_run(tune: Tune, tmp_path: Path) -> None:
    """Computed by the run's own model on the same batch, without the training's code."""
    still = ("model.dropout=0", "model.attention_dropout=0", "model.activation_dropout=0")
    config = tune(*still, "tokenizer.subword_sampling=null", "training.max_steps=1")
    said = run_training(config, tmp_path / "new")
    loaded, data = open_run(tmp_path / "base").load_model(), prepare_data(config, device=torch.device("cpu"))
    assert data.tokenizers.source.model_bytes == loaded.tokenizers.source.model_bytes
    batch = data.batches.epoch(0)[0]
    with torch.no_grad():
        logits = loaded.model(batch.source_ids, batch.target_input_ids)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.target_output_ids.flatten(), ignore_index=PAD_ID)
    (record,) = records_of(tmp_path / "new", "train")
    assert record["nll"] == pytest.approx(float(loss), rel=1e-5)
    (bleu,) = [each["BLEU"] for each in records_of(tmp_path / "base", "validation") if each["step"] == loaded.step]
    assert f"Starting from {tmp_path / 'base'} (step {loaded.step}, BLEU {bleu:.2f})" in said


def test_step_0_has_the_runs_weights_and_the_rest_is_exact_without_that_run(tune: Tune, tmp_path: Path) -> None:
    config = tune("training.ema_decay=0.9")
    assert config.model.attention_dropout == 0.1 and config.tokenizer.subword_sampling == 0.1  # as the run has it
    run_training(config, tmp_path / "straight")
    stop_training(config, tmp_path / "new", in_step=1, what=KeyboardInterrupt)
    run = RunDirectory(tmp_path / "new")
    before = read_tensors(RunDirectory(tmp_path / "base").checkpoint("best"), prefixes=("model.",)).tensors
    best, last = (read_tensors(run.checkpoint(which), prefixes=("model.",)).tensors for which in ("best", "last"))
    assert before.keys() == best.keys() == last.keys()
    assert all(torch.equal(before[name], best[name]) and torch.equal(before[name], last[name]) for name in before)
    assert not verify_run(tmp_path / "new").unsound
    description = json.loads(run.description.read_text())["initialized_from"]
    assert summarize_run(run.path).base == f"{tmp_path / 'base'}, step {description['step']}"
    assert (description["run"], description["step"]) == ("../base", open_run(tmp_path / "base").load_model().step)
    shutil.rmtree(tmp_path / "base")
    resumed = load_config(str(tmp_path / "new"), require_files=True).config
    said = run_training(resumed, tmp_path / "new", resume=True)
    assert "Continuing from step 0" in said and not any(each.startswith("Starting from") for each in said)
    assert state_of(tmp_path / "new") == state_of(tmp_path / "straight")
    with pytest.raises(InputError, match=r"training\.initialize_from: .*base: no such run directory"):
        run_training(resumed, tmp_path / "again")


def test_stopped_in_the_first_validation_it_resumes_without_that_run(tune: Tune, tmp_path: Path) -> None:
    run_training(tune(), tmp_path / "straight")
    stop_training(tune(), tmp_path / "new", in_validation=0)
    shutil.rmtree(tmp_path / "base")
    resumed = load_config(str(tmp_path / "new"), require_files=True).config
    run_training(resumed, tmp_path / "new", resume=True)
    assert state_of(tmp_path / "new") == state_of(tmp_path / "straight")


def test_killed_before_anything_was_saved(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(training: Training) -> None:
        raise KeyboardInterrupt

    run_training(tune(), tmp_path / "straight")
    for name in ("new", "other"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(trainer, "save_last", die)
            run_training(tune(), tmp_path / name)
    with pytest.raises(InputError, match=r"training\.initialize_from = None \(the run has .*base\)"):
        run_training(override_training(tune(), initialize_from=None), tmp_path / "new", resume=True)
    new = load_config(str(tmp_path / "base")).config
    with pytest.raises(InputError, match=r"training\.initialize_from = .*new \(the run has None\)"):
        run_training(override_training(new, initialize_from=tmp_path / "new"), tmp_path / "base", resume=True)
    run_training(tune(), tmp_path / "new", resume=True)
    assert state_of(tmp_path / "new") == state_of(tmp_path / "straight")
    shutil.copy(RunDirectory(tmp_path / "base").checkpoint("last"), RunDirectory(tmp_path / "base").checkpoint("best"))
    with pytest.raises(InputError, match=r"other has no checkpoint yet, and .*best\.safetensors has changed"):
        run_training(tune(), tmp_path / "other", resume=True)


def test_other_sets_are_scored_and_choose_nothing(tune: Tune, tmp_path: Path) -> None:
    said = run_training(tune(), tmp_path / "new")
    for kind in ("validation", "validation/old"):
        assert [each["step"] for each in records_of(tmp_path / "new", kind)] == [0, 3, 4]
    assert sum(each.startswith("  old: BLEU ") for each in said) == 3
    best = best_record(read_metrics(RunDirectory(tmp_path / "new")), "bleu")
    assert best is not None
    assert best["BLEU"] == max(each["BLEU"] for each in records_of(tmp_path / "new", "validation"))


def test_an_extended_vocabulary_is_trained_saved_and_tuned_again(tune: Tune, tmp_path: Path) -> None:
    extending = ("tokenizer.add_characters=true", "tokenizer.add_pieces=[<a>]")
    said = run_training(tune(*extending), tmp_path / "new")
    base, new = open_run(tmp_path / "base").load_model(), open_run(tmp_path / "new").load_model("last")
    size = base.tokenizers.source.vocab_size
    assert f"Vocabulary extended by 2 to {size + 2} subwords: <a>, %" in said
    assert new.tokenizers.source.pieces([size, size + 1]) == ["<a>", "%"]
    assert new.tokenizers.source.decode(new.tokenizers.source.encode("1 % 2")) == "1 % 2"
    (embedding,) = [each for each in get_parameters(new.model).values() if len(each) == size + 2]
    assert embedding.shape[1] == 16 and new.config.tokenizer.vocab_size == base.config.tokenizer.vocab_size
    run_training(load_config(str(tmp_path / "new")).config, tmp_path / "new", resume=True)
    third = tune(f"training.initialize_from={tmp_path / 'new'}", *extending, "training.max_steps=1")
    said = run_training(third, tmp_path / "third")
    assert not any("Vocabulary extended" in each for each in said)
    assert open_run(tmp_path / "third").tokenizers.source.vocab_size == size + 2


def test_lora_adapts_the_runs_weights_and_its_result_is_begun_with_in_turn(tune: Tune, tmp_path: Path) -> None:
    config = tune("training.lora_rank=2", "training.freeze=[encoder.0]", "training.learning_rate=0.05")
    run_training(config, tmp_path / "new")
    before, after = (get_parameters(open_run(tmp_path / name).load_model(which).model) for name, which in (
        ("base", "best"), ("new", "last")
    ))  # fmt: skip
    adapted = {f"decoder.layers.0.{kind}_attention.input_projection.weight" for kind in ("self", "cross")}
    assert {name for name in before if not torch.equal(before[name], after[name])} == adapted
    again = tune(f"training.initialize_from={tmp_path / 'new'}", "training.initialize_checkpoint=last")
    stop_training(again, tmp_path / "again", in_step=1, what=KeyboardInterrupt)
    begun = read_tensors(RunDirectory(tmp_path / "again").checkpoint("best"), prefixes=("model.",)).tensors
    assert all(torch.equal(begun[name], after[name]) for name in after)
