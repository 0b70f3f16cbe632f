"""Weights, config and tokenizers that do not belong together are refused, before memory is given to them."""

import re
import resource
import shutil
from pathlib import Path

import pytest
import torch

from translate.config import Config
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.errors import InputError, RunError
from translate.runs import (
    RunDirectory,
    add_prefix,
    build_model,
    create_run,
    get_parameters,
    load_run,
    set_parameters,
    with_prefix,
    write_config,
)


def test_weights_of_another_model(run: RunDirectory) -> None:
    text = run.config.read_text()
    run.config.write_text(text.replace("d_ff: 12", "d_ff: 13"))
    with pytest.raises(RunError) as caught:
        load_run(run.path)
    feed_forward = "layers.0.feed_forward"
    assert str(caught.value) == (
        f"{run.checkpoint('best')} does not fit the model of its config: of another shape: "
        + ", ".join(
            f"{stack}.{feed_forward}.{name}"
            for stack in ("decoder", "encoder")
            for name in (
                "inner.bias is (12,), the model's (13,)",
                "inner.weight is (12, 8), the model's (13, 8)",
                "outer.weight is (8, 12), the model's (8, 13)",
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


@pytest.mark.parametrize("part", ["joint.model", "run.json too"])
def test_another_models_tokenizer(tmp_path: Path, run: RunDirectory, tiny_config, lines: list[str], part: str) -> None:
    config = Config.model_validate({**tiny_config().model_dump(), "tokenizer": {"vocab_size": 291}})
    other = prepare_tokenizers(config.tokenizer, lines, lines)
    if part == "joint.model":
        other.save(run.tokenizer)
        with pytest.raises(RunError) as caught:
            load_run(run.path)
        assert re.fullmatch(
            rf"{run.tokenizer}/joint.model: is damaged, or another model's tokenizer: its checksum should be"
            r" [0-9a-f]{12}…, but is [0-9a-f]{12}…; copy the run's own anew from where it came",
            str(caught.value),
        )
        return
    another = create_run(tmp_path / "other", config=config, tokenizers=other, command=[])
    shutil.copytree(run.checkpoints, another.checkpoints, dirs_exist_ok=True)
    with pytest.raises(RunError) as caught:
        load_run(another.path)
    assert str(caught.value) == (
        f"{another.checkpoint('best')}: the encoder's embedding has the shape (290, 8), but its tokenizer in this run"
        " has 291 subwords: it is another model's"
    )


def test_a_tokenizer_that_the_run_was_made_without(run: RunDirectory) -> None:
    shutil.copy(run.tokenizer / "joint.model", run.tokenizer / "source.model")
    with pytest.raises(RunError, match=rf"^{run.tokenizer}/source.model: this run was made without it; remove it$"):
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
        " of another shape: 0.bias is (7,), the model's (3,);"
        " of another type: 2.weight is torch.float16, the model's torch.float32"
    )
    assert all(torch.equal(tensor, before[name]) for name, tensor in get_parameters(model).items())
    set_parameters(model, {name: torch.full_like(tensor, 3.0) for name, tensor in before.items()}, name="b")
    assert all((tensor == 3.0).all() for tensor in get_parameters(model).values())


def test_prefixes() -> None:
    tensors = {"a": torch.zeros(1), "model.a": torch.ones(1)}
    assert with_prefix(add_prefix(tensors, "model."), "model.") == tensors
    assert list(with_prefix(tensors, "model.")) == ["a"]


# A model that cannot be


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"num_encoder_layers": 1000, "num_decoder_layers": 1000}, r"missing: decoder\.layers\.1\..* and 29960 more$"),
        ({"d_model": 65536, "d_ff": 1_000_000, "num_encoder_layers": 1000}, r"missing: .* more; of another shape: .* "),
        ({"positions": "learned", "max_positions": 1_000_000, "d_model": 65536}, "missing: decoder.embedder.positions"),
        (
            {"positions": "relative", "relative_buckets": 65536, "relative_max_distance": 10**6},
            "missing: decoder.embed",
        ),
    ],
)
def test_a_config_that_asks_for_an_absurd_model(
    run: RunDirectory, tiny_config, changes: dict[str, object], reason: str
) -> None:
    """Up to petabytes, of which nothing is allocated before the checkpoint's header is seen to have them not."""
    write_config(run, tiny_config(**changes))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RunError, match=rf"^{run.checkpoint('best')} does not fit the model of its config: {reason}"):
        load_run(run.path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 200_000  # KiB


@pytest.mark.parametrize("key", ["d_model", "d_ff", "num_encoder_layers", "num_decoder_layers", "max_positions"])
def test_a_config_beyond_all_bounds(run: RunDirectory, key: str) -> None:
    run.config.write_text(re.sub(rf"  {key}: \d+", f"  {key}: {2**62}", run.config.read_text()))
    with pytest.raises(InputError, match=rf"model\.{key} = {2**62}"):
        load_run(run.path)
