"""Trainings of a part of the weights: what is frozen stays, what is saved translates, and a continued one is exact."""

import math
from pathlib import Path

import pytest
import torch
from harness import state_of
from trainings import Digits, records_of, run_training, stop_training

from translate.config.schema import Config
from translate.data.tokenizer import load_tokenizers
from translate.decoding.loading import load_translator
from translate.evaluation.evaluate import evaluate
from translate.evaluation.test_sets import choose_test_sets
from translate.model.lora import is_lora
from translate.runs.checkpoint import read_tensors, write_tensors
from translate.runs.directory import RunDirectory
from translate.runs.run import open_run
from translate.runs.weights import build_model, get_parameters
from translate.training.setup import build_train_step

LORA = ("training.lora_rank=3", "training.lora_targets=[query,key,feed_forward]", "training.lora_dropout=0.1")


def initial_weights(config: Config, run: Path) -> dict[str, torch.Tensor]:
    torch.manual_seed(config.training.seed)
    return get_parameters(build_model(config, load_tokenizers(RunDirectory(run).tokenizer)))


def test_frozen_weights_stay_bit_for_bit_and_have_no_state(stateful: Digits, tmp_path: Path) -> None:
    """With a moving average, weight decay and accumulated gradients."""
    options = ("training.freeze=[embeddings,encoder.0]", "training.optimizer=adamw", "training.weight_decay=0.1")
    config = stateful(*options)
    said = run_training(config, tmp_path / "run")
    before = initial_weights(config, tmp_path / "run")
    frozen = {name for name in before if ".embedder." in name or name.startswith("encoder.layers.0.")}
    num_trained = sum(before[name].numel() for name in before.keys() - frozen)
    num_parameters = sum(tensor.numel() for tensor in before.values())
    assert f"Model: {num_trained:,} of {num_parameters:,} parameters are trained" in said
    run = RunDirectory(tmp_path / "run")
    last, best = read_tensors(run.checkpoint("last")).tensors, read_tensors(run.checkpoint("best")).tensors
    assert best.keys() == {f"model.{name}" for name in before}
    for name in before:
        is_same = [torch.equal(tensors[f"model.{name}"], before[name]) for tensors in (last, best)]
        assert is_same == [name in frozen] * 2, name
        kept = {f"average.{name}", *(f"optimizer.{name}/{entry}" for entry in ("exp_avg", "exp_avg_sq", "step"))}
        assert kept & last.keys() == (set() if name in frozen else kept)
    loaded = get_parameters(open_run(run.path).load_model("last").model)
    for name in before:  # the average, and the frozen weights
        assert torch.equal(loaded[name], last[f"model.{name}" if name in frozen else f"average.{name}"])


def test_frozen_leading_layers_have_no_graph(digits: Digits, tmp_path: Path) -> None:
    run_training(digits("training.max_steps=1"), tmp_path / "run")
    tokenizers = load_tokenizers(RunDirectory(tmp_path / "run").tokenizer)
    ids = torch.tensor([[5, 6, 7]])
    for freeze, has_graph in (("encoder,embeddings", False), ("encoder", True), ("embeddings", True)):
        config = digits(f"training.freeze=[{freeze}]")
        model = build_model(config, tokenizers)
        build_train_step(model.train(), config.training, device=torch.device("cpu"))
        assert model.encoder(ids).hidden.requires_grad == has_graph
        assert model(ids, ids).requires_grad


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_lora_that_is_stopped_or_dies_and_continues_is_never_stopped(
    stateful: Digits, tmp_path: Path, optimizer: str
) -> None:
    optimizer = f"training.optimizer={optimizer}"
    config = stateful(*LORA, "training.precision=bf16", "training.freeze=[encoder.0]", optimizer)
    run_training(config, tmp_path / "straight")
    for number in (3, 12):
        torch.manual_seed(99)
        stop_training(config, tmp_path / "run", in_step=number)
    stop_training(config, tmp_path / "run", in_validation=14, what=KeyboardInterrupt)
    run_training(config, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == state_of(tmp_path / "straight")


@pytest.mark.parametrize("frozen", ["fp32", "bf16"])
def test_a_last_checkpoint_of_version_0_13_translates_and_continues(
    stateful: Digits, tmp_path: Path, frozen: str
) -> None:
    """It has merged matrices too, for translating: a resumed run leaves them out, and is as if never stopped."""
    config = stateful(*LORA, "training.precision=bf16", f"training.frozen_precision={frozen}")
    run_training(config, tmp_path / "straight")
    stop_training(config, tmp_path / "run", in_step=12)
    file = RunDirectory(tmp_path / "run").checkpoint("last")
    tensors, metadata, _ = read_tensors(file)
    weights = open_run(tmp_path / "run").weights("last").tensors
    adapted = {f"{name.split('.lora.')[0]}.weight".removeprefix("model.") for name in tensors if ".lora." in name}
    merged = {f"merged.{name}": torch.full_like(weights[name], math.nan) for name in weights.keys() & adapted}
    assert merged and all(tensor.dtype == torch.float32 for tensor in merged.values())
    write_tensors(file, tensors | merged, metadata)
    again = open_run(tmp_path / "run").weights("last").tensors
    assert again.keys() == weights.keys() and all(torch.equal(again[name], weights[name]) for name in again)
    load_translator(tmp_path / "run", checkpoint="last")
    run_training(config, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == state_of(tmp_path / "straight")


def test_lora_saves_what_it_validates_and_all_that_it_needs(digits: Digits, tmp_path: Path) -> None:
    """Scores in the log are those of the saved weights, which are a plain model's: with an average and without."""
    for decay in ("null", "0.5"):
        options = ("training.max_steps=12", "training.validate_every=6", "training.learning_rate=0.05")
        config = digits(*LORA, *options, "training.lora_alpha=30", f"training.ema_decay={decay}")
        run = RunDirectory(tmp_path / decay)
        run_training(config, run.path)
        before = initial_weights(config, run.path)
        best, last = (read_tensors(run.checkpoint("best")).tensors, read_tensors(run.checkpoint("last")).tensors)
        assert best.keys() == {f"model.{name}" for name in before}
        updates = {name.removeprefix("model.") for name in last if is_lora(name) and name.startswith("model.")}
        adapted = {f"{name.split('.lora.')[0]}.weight" for name in updates}
        # An encoder and a decoder layer: three attentions with one fused matrix each, two feed-forward layers of two.
        assert len(adapted) == 3 + 2 * 2 and len(updates) == 3 * 2 * 2 + 2 * 2 * 2
        assert {name for name in before if not torch.equal(best[f"model.{name}"], before[name])} == adapted
        assert {name for name in before if not torch.equal(last[f"model.{name}"], before[name])} == set()
        assert {name.split(".")[0] for name in last} == {"model", "optimizer"} | (
            {"average"} if decay == "0.5" else set()
        )
        averages = {name for name in last if name.startswith("average.")}
        assert averages == ({f"average.{name}" for name in updates} if decay == "0.5" else set())
        moments = {name.split("/")[0].removeprefix("optimizer.") for name in last if name.startswith("optimizer.")}
        assert moments == updates

        validations = records_of(run.path, "validation")
        ((_, corpus),) = choose_test_sets(config, name="validation").items()
        quick = {"beam_size": 1, "max_length_constant": 3, "engine": "translate", "precision": "fp32"}
        for checkpoint in ("best", "last"):
            translator = load_translator(run.path, checkpoint=checkpoint, options=quick).translator
            evaluation = evaluate(translator, corpus.sources, corpus.targets, config.evaluation)
            step = open_run(run.path).load_model(checkpoint).step
            (record,) = [record for record in validations if record["step"] == step]
            assert (record["BLEU"], record["chrF"]) == (evaluation.score("BLEU"), evaluation.score("chrF"))
            scores = translator.score(corpus.sources, [translator.tokenizers.target.encode(x) for x in corpus.targets])
            num_tokens = sum(len(score.token_log_probs) for score in scores)
            assert record["loss"] == pytest.approx(-sum(score.log_prob for score in scores) / num_tokens, rel=1e-12)
