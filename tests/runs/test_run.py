"""A run is loaded as it was written, wherever it is now, or refused; never half of it."""

import copy
import shutil
from pathlib import Path

import pytest
import torch
from harness import tiny_config, write_weights
from safetensors.torch import load_file

from translate.config.schema import Config
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.decoding import Translator
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.runs import weights
from translate.runs.checkpoint import AVERAGE_PREFIX, WEIGHTS_PREFIX, add_prefix, write_tensors
from translate.runs.directory import RunDirectory, create_run
from translate.runs.run import open_run
from translate.runs.weights import build_model, get_parameters, set_parameters


@pytest.mark.parametrize(
    ("tying", "vocabulary", "num_embeddings"),
    [("all", "joint", 1), ("decoder", "joint", 2), ("none", "joint", 3), ("none", "separate", 3)],
)
def test_round_trip(tmp_path: Path, lines: list[str], tying: str, vocabulary: str, num_embeddings: int) -> None:
    config = tiny_config(model={"tie_embeddings": tying}, tokenizer={"vocab_size": 290, "vocabulary": vocabulary})
    targets = lines if vocabulary == "joint" else [line.upper() for line in lines]
    tokenizers = prepare_tokenizers(config.tokenizer, lines, targets)
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    model = build_model(config, tokenizers)
    write_weights(run, model, "best", 13)
    # A tied embedding is in the file once, in fp32.
    stored = load_file(run.checkpoint("best"))
    assert sum(tensor.shape == (290, 8) for tensor in stored.values()) == num_embeddings
    assert sum(tensor.numel() for tensor in stored.values()) == model.num_parameters

    generator = torch.get_rng_state()
    loaded = open_run(run.path).load_model()
    assert torch.equal(torch.get_rng_state(), generator)  # no weights were drawn
    assert (loaded.run.path, loaded.config, loaded.step) == (run.path, config, 13)
    for side, expected_side in zip(loaded.tokenizers[:2], tokenizers[:2], strict=True):
        assert side.model_bytes == expected_side.model_bytes
    assert loaded.tokenizers.vocabulary == vocabulary
    assert not loaded.model.training
    expected, actual = model.state_dict(), loaded.model.state_dict()
    assert expected.keys() == actual.keys()
    assert all(torch.equal(actual[name], expected[name]) for name in expected)
    is_tied = loaded.model.output.weight is loaded.model.decoder.embedder.tokens.weight
    assert is_tied == (tying != "none")


@pytest.mark.parametrize("by_link", [False, True])
def test_a_moved_or_linked_run_translates(
    tmp_path: Path, run: RunDirectory, model: Transformer, tokenizers: Tokenizers, lines: list[str], by_link: bool
) -> None:
    moved = tmp_path / "elsewhere" / "a run"
    moved.parent.mkdir()
    moved.symlink_to(run.path) if by_link else shutil.move(run.path, moved)
    loaded = open_run(moved).load_model()
    expected = Translator(model, tokenizers, loaded.config.decoding).translate(lines)
    assert Translator(loaded.model, loaded.tokenizers, loaded.config.decoding).translate(lines) == expected


def test_best_last_and_an_average(run: RunDirectory, config: Config, tokenizers: Tokenizers) -> None:
    later, average = (build_model(config, tokenizers) for _ in range(2))
    write_weights(run, later, "last", 11)
    assert open_run(run.path).load_model().step == open_run(run.path).load_model("best").step == 7
    last = open_run(run.path).load_model("last")
    assert last.step == 11 and torch.equal(last.model.output.weight, later.output.weight)
    assert not torch.equal(last.model.output.weight, open_run(run.path).load_model().model.output.weight)
    tensors = add_prefix(get_parameters(later), WEIGHTS_PREFIX) | add_prefix(get_parameters(average), AVERAGE_PREFIX)
    write_tensors(run.checkpoint("last"), tensors, {"step": "5"})
    assert torch.equal(open_run(run.path).load_model("last").model.output.weight, average.output.weight)


def test_a_kept_checkpoint(run: RunDirectory, model: Transformer) -> None:
    with pytest.raises(InputError, match=r"step-5\.safetensors; .*none \(training\.keep_last\)$"):
        open_run(run.path).load_model("step-5")
    write_weights(run, model, "step-5", 5)
    assert (open_run(run.path).load_model("step-5").step, run.kept_steps()) == (5, [5])
    with pytest.raises(InputError, match=r"step-6\.safetensors; .*step-5$"):
        open_run(run.path).load_model("step-6")
    for name in ("step-05", "step-", "../best", "previous", "best\n"):
        with pytest.raises(InputError, match="best, last, or .*step-4000$"):
            open_run(run.path).load_model(name)


def test_missing_parts(run: RunDirectory, model: Transformer) -> None:
    with pytest.raises(InputError, match=rf"^{run.path} .*last\.safetensors$"):
        open_run(run.path).load_model("last")
    write_tensors(run.checkpoint("best"), add_prefix(get_parameters(model), WEIGHTS_PREFIX), {"step": "seven"})
    with pytest.raises(RunError, match=rf"^{run.checkpoint('best')}: .*its step"):
        open_run(run.path).load_model()
    run.checkpoint("best").rename(run.checkpoint("last"))
    with pytest.raises(InputError, match=r"best\.safetensors; .*checkpoint last$"):
        open_run(run.path).load_model()


def test_widening_needs_twice_the_memory_of_bf16(
    run: RunDirectory, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = list[int]()
    write_weights(run, copy.deepcopy(model).bfloat16(), "best", 7)
    monkeypatch.setattr(weights, "check_free_memory", lambda num_bytes, *_, **__: needed.append(num_bytes))
    assert open_run(run.path).load_model().model.output.weight.dtype == torch.float32
    assert needed == [2 * model.num_parameters]  # besides the bytes of the file, checked before they are read


def test_set_parameters_lists_all_that_is_wrong_and_changes_nothing() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 5), torch.nn.Linear(1, 1, bias=False))
    before = {name: tensor.clone() for name, tensor in get_parameters(model).items()}
    given = {"0.weight": torch.ones(3, 2), "0.bias": torch.ones(7), "1.wait": torch.ones(1), "1.bias": torch.ones(5)}
    given["2.weight"] = torch.ones(1, 1, dtype=torch.float16)
    given["0.bias"] = given["0.bias"].bfloat16()
    with pytest.raises(RunError) as caught:
        set_parameters(model, given, name="a.safetensors")
    assert str(caught.value).startswith("a.safetensors ") and str(caught.value).endswith(
        ": missing: 1.weight; unexpected: 1.wait; different: 0.bias is (7,) bfloat16, the model's (3,) float32,"
        " 2.weight is (1, 1) float16, the model's (1, 1) float32"
    )
    assert all(torch.equal(tensor, before[name]) for name, tensor in get_parameters(model).items())
    set_parameters(model, {name: torch.full_like(tensor, 3.0) for name, tensor in before.items()}, name="b")
    assert all((tensor == 3.0).all() for tensor in get_parameters(model).values())
