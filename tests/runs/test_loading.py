"""A run is loaded as it was written, wherever it lies now, or refused; never half of it."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.decoding import Translator
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.runs.checkpoint import AVERAGE_PREFIX, WEIGHTS_PREFIX, add_prefix, write_tensors
from translate.runs.directory import RunDirectory, create_run
from translate.runs.loading import build_model, get_parameters, load_run, set_parameters

# There and back


@pytest.mark.parametrize("tie_embeddings, num_embeddings", [("all", 1), ("decoder", 2), ("none", 3)])
def test_round_trip(
    tmp_path: Path, tokenizers: Tokenizers, tiny_config, save, tie_embeddings: str, num_embeddings: int
) -> None:
    config = tiny_config(tie_embeddings=tie_embeddings)
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    model = build_model(config, tokenizers)
    save(run, model, "best", 13)
    # A tied embedding is in the file once, in fp32.
    stored = load_file(run.checkpoint("best"))
    assert sum(tensor.shape == (290, 8) for tensor in stored.values()) == num_embeddings
    assert sum(tensor.numel() for tensor in stored.values()) == model.num_parameters

    loaded = load_run(run.path)
    assert (loaded.directory, loaded.config, loaded.step) == (run.path, config, 13)
    assert loaded.tokenizers.source.model_bytes == tokenizers.source.model_bytes
    assert not loaded.model.training
    expected, actual = model.state_dict(), loaded.model.state_dict()
    assert expected.keys() == actual.keys()
    assert all(torch.equal(actual[name], expected[name]) for name in expected)
    is_tied = loaded.model.output.weight is loaded.model.decoder.embedder.tokens.weight
    assert is_tied == (tie_embeddings != "none")


def test_separate_vocabularies(tmp_path: Path, tiny_config, save, lines: list[str]) -> None:
    settings = {"tokenizer": {"vocab_size": 290, "vocabulary": "separate"}}
    config = Config.model_validate({**tiny_config(tie_embeddings="none").model_dump(), **settings})
    tokenizers = prepare_tokenizers(config.tokenizer, lines, [line.upper() for line in lines])
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    save(run, build_model(config, tokenizers), "best", 1)
    loaded = load_run(run.path).tokenizers
    assert loaded.source.model_bytes == tokenizers.source.model_bytes
    assert loaded.target.model_bytes == tokenizers.target.model_bytes != loaded.source.model_bytes


@pytest.mark.parametrize("by_link", [False, True])
def test_a_moved_or_linked_run_translates(
    tmp_path: Path,
    run: RunDirectory,
    model: Transformer,
    config: Config,
    tokenizers: Tokenizers,
    lines: list[str],
    by_link: bool,
) -> None:
    moved = tmp_path / "elsewhere" / "a run"
    moved.parent.mkdir()
    moved.symlink_to(run.path) if by_link else shutil.move(run.path, moved)
    loaded = load_run(moved)
    expected = Translator(model, tokenizers, config.decoding).translate(lines)
    assert Translator(loaded.model, loaded.tokenizers, loaded.config.decoding).translate(lines) == expected


def test_best_and_last_are_different_files(run: RunDirectory, config: Config, tokenizers: Tokenizers, save) -> None:
    later = build_model(config, tokenizers)
    save(run, later, "last", 11)
    assert load_run(run.path).step == load_run(run.path, checkpoint="best").step == 7
    last = load_run(run.path, checkpoint="last")
    assert last.step == 11
    assert torch.equal(last.model.output.weight, later.output.weight)
    assert not torch.equal(last.model.output.weight, load_run(run.path).model.output.weight)


def test_an_average_of_the_weights_comes_first(
    run: RunDirectory, model: Transformer, config: Config, tokenizers: Tokenizers
) -> None:
    average = build_model(config, tokenizers)
    tensors = add_prefix(get_parameters(model), WEIGHTS_PREFIX) | add_prefix(get_parameters(average), AVERAGE_PREFIX)
    write_tensors(run.checkpoint("last"), tensors, {"step": "5"})
    loaded = load_run(run.path, checkpoint="last").model
    assert torch.equal(loaded.output.weight, average.output.weight)


def test_a_run_of_format_2_loads(whole_run: RunDirectory, make_format_2) -> None:
    expected = load_run(whole_run.path)
    make_format_2(whole_run.path)
    for checkpoint, step in (("best", 7), ("last", 9)):
        loaded = load_run(whole_run.path, checkpoint=checkpoint)
        assert (loaded.config, loaded.step) == (expected.config, step)
        assert torch.equal(loaded.model.output.weight, expected.model.output.weight)


def test_a_run_of_format_1_loads(run: RunDirectory, model: Transformer) -> None:
    """As version 0.1.0 wrote it: no checksum anywhere, and safetensors' own order."""
    save_file(add_prefix(get_parameters(model), WEIGHTS_PREFIX), run.checkpoint("best"), {"step": "7"})
    description = json.loads(run.description.read_text())
    run.description.write_text(json.dumps(description | {"format": 1}))
    (run.path / "SHA256SUMS").unlink()
    assert torch.equal(load_run(run.path).model.output.weight, model.output.weight)


@pytest.mark.parametrize("name", ["run.json", "tokenizer/joint.model", "checkpoints/best.safetensors"])
def test_damage_in_a_run_of_format_2_is_refused(whole_run: RunDirectory, make_format_2, name: str) -> None:
    make_format_2(whole_run.path)
    path = whole_run.path / name
    content = path.read_bytes()
    for place in (len(content) // 3, len(content) - 4):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises((RunError, InputError), match="damaged"):
            load_run(whole_run.path)


# Refused


def test_a_kept_checkpoint(run: RunDirectory, model: Transformer, save) -> None:
    with pytest.raises(
        InputError, match=r"has no checkpoint step-5.safetensors; kept are none \(training.keep_last\)$"
    ):
        load_run(run.path, checkpoint="step-5")
    save(run, model, "step-5", 5)
    assert (load_run(run.path, checkpoint="step-5").step, run.kept_steps()) == (5, [5])
    with pytest.raises(InputError, match=r"has no checkpoint step-6.safetensors; kept are step-5$"):
        load_run(run.path, checkpoint="step-6")
    for name in ("step-05", "step-", "../best", "previous", "best\n"):
        with pytest.raises(
            InputError, match="is no checkpoint: should be best, last, or a kept one such as step-4000$"
        ):
            load_run(run.path, checkpoint=name)


def test_a_missing_checkpoint(run: RunDirectory) -> None:
    with pytest.raises(InputError, match=rf"^{run.path} has no checkpoint last.safetensors$"):
        load_run(run.path, checkpoint="last")
    run.checkpoint("best").rename(run.checkpoint("last"))
    with pytest.raises(InputError, match=r"has no checkpoint best.safetensors; .* --checkpoint last$"):
        load_run(run.path)


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer/joint.model"])
def test_a_missing_part_is_named(run: RunDirectory, name: str) -> None:
    (run.path / name).unlink()
    with pytest.raises(InputError, match=re.escape(str((run.path / name).parent))):
        load_run(run.path)


def test_a_checkpoint_without_a_step(run: RunDirectory, model: Transformer) -> None:
    write_tensors(run.checkpoint("best"), add_prefix(get_parameters(model), WEIGHTS_PREFIX), {"step": "seven"})
    with pytest.raises(RunError, match=rf"^{run.checkpoint('best')}: does not name its step; it is no checkpoint"):
        load_run(run.path)


# Weights, config and tokenizers that do not belong together


def test_weights_of_another_model(run: RunDirectory) -> None:
    text = run.config.read_text()
    run.config.write_text(text.replace("d_ff: 12", "d_ff: 13"))
    with pytest.raises(RunError) as caught:
        load_run(run.path)
    feed_forward = "layers.0.feed_forward"
    assert str(caught.value) == (
        f"{run.checkpoint('best')} does not fit the model of its config: different: "
        + ", ".join(
            f"{stack}.{feed_forward}.{name}"
            for stack in ("decoder", "encoder")
            for name in (
                "inner.bias is (12,) float32, the model's (13,) float32",
                "inner.weight is (12, 8) float32, the model's (13, 8) float32",
                "outer.weight is (8, 12) float32, the model's (8, 13) float32",
            )
        )
    )


def test_a_deeper_model_has_hundreds_of_names_of_which_ten_are_said(
    run: RunDirectory, tokenizers: Tokenizers, tiny_config, config: Config, save
) -> None:
    save(run, build_model(tiny_config(num_encoder_layers=20), tokenizers), "best", 7)
    with pytest.raises(RunError) as caught:
        load_run(run.path)
    message = str(caught.value)
    # A layer has 12 tensors: two projections with biases in attention, two in the feed-forward layer, two norms.
    assert re.search(r"config: unexpected: encoder\.layers\.1\.\S+,( \S+,){8} \S+ and 218 more$", message)
    assert len(message) < 1000


@pytest.mark.parametrize("part", ["joint.model", "whole run"])
def test_another_models_tokenizer(tmp_path: Path, run: RunDirectory, tiny_config, lines: list[str], part: str) -> None:
    config = Config.model_validate({**tiny_config().model_dump(), "tokenizer": {"vocab_size": 291}})
    other = prepare_tokenizers(config.tokenizer, lines, lines)
    if part == "joint.model":
        other.save(run.tokenizer)
        with pytest.raises(RunError) as caught:
            load_run(run.path)
        assert str(caught.value).startswith(f"{run.tokenizer}/joint.model: damaged: its checksum should be ")
        return
    another = create_run(tmp_path / "other", config=config, tokenizers=other, command=[])
    shutil.copytree(run.checkpoints, another.checkpoints, dirs_exist_ok=True)
    with pytest.raises(RunError) as caught:
        load_run(another.path)
    assert str(caught.value) == (
        f"{another.checkpoint('best')} does not fit the model of its config: different:"
        " encoder.embedder.tokens.weight is (290, 8) float32, the model's (291, 8) float32"
    )


def test_a_tokenizer_that_the_run_was_made_without(run: RunDirectory) -> None:
    shutil.copy(run.tokenizer / "joint.model", run.tokenizer / "source.model")
    with pytest.raises(InputError, match=rf"^{run.tokenizer}: has joint.model beside source.model or target.model; "):
        load_run(run.path)


def test_set_parameters_lists_all_that_is_wrong_and_changes_nothing() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 5), torch.nn.Linear(1, 1, bias=False))
    before = {name: tensor.clone() for name, tensor in get_parameters(model).items()}
    given = {"0.weight": torch.ones(3, 2), "0.bias": torch.ones(7), "1.wait": torch.ones(1), "1.bias": torch.ones(5)}
    given["2.weight"] = torch.ones(1, 1, dtype=torch.float16)
    with pytest.raises(RunError) as caught:
        set_parameters(model, given, name="a.safetensors")
    assert str(caught.value) == (
        "a.safetensors does not fit the model of its config: missing: 1.weight; unexpected: 1.wait;"
        " different: 0.bias is (7,) float32, the model's (3,) float32,"
        " 2.weight is (1, 1) float16, the model's (1, 1) float32"
    )
    assert all(torch.equal(tensor, before[name]) for name, tensor in get_parameters(model).items())
    set_parameters(model, {name: torch.full_like(tensor, 3.0) for name, tensor in before.items()}, name="b")
    assert all((tensor == 3.0).all() for tensor in get_parameters(model).values())


@pytest.mark.parametrize("key", ["d_model", "d_ff", "num_encoder_layers", "num_decoder_layers", "max_positions"])
def test_a_config_beyond_all_bounds(run: RunDirectory, key: str) -> None:
    run.config.write_text(re.sub(rf"  {key}: \d+", f"  {key}: {2**62}", run.config.read_text()))
    with pytest.raises(InputError, match=rf"model\.{key} = {2**62}"):
        load_run(run.path)
