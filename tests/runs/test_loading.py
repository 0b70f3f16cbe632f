"""A run is loaded as it was written, wherever it lies now, or refused; never half of it."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import translate
from translate.config import Config
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.decoding import Translator
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.runs import (
    AVERAGE_PREFIX,
    FORMAT,
    WEIGHTS_PREFIX,
    RunDirectory,
    add_prefix,
    build_model,
    create_run,
    get_parameters,
    load_run,
    open_run,
    write_tensors,
)

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


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
def test_every_kind_of_model_fits_what_is_expected_of_it(
    tmp_path: Path, tokenizers: Tokenizers, tiny_config, save, positions: str
) -> None:
    """What is expected of a checkpoint is known without building the model; it must be what the model has."""
    for norm in ("pre", "post"):
        config = tiny_config(positions=positions, norm=norm, num_encoder_layers=2, num_decoder_layers=3)
        run = create_run(tmp_path / norm, config=config, tokenizers=tokenizers, command=[])
        model = build_model(config, tokenizers)
        save(run, model, "best", 1)
        assert torch.equal(load_run(run.path).model.output.weight, model.output.weight)


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
    write_tensors(run.checkpoint("last"), tensors | {"random.cpu": torch.get_rng_state()}, {"step": "5"})
    loaded = load_run(run.path, checkpoint="last").model
    assert torch.equal(loaded.output.weight, average.output.weight)


def test_a_run_of_a_version_without_checksums_loads(run: RunDirectory, model: Transformer) -> None:
    """As version 0.1.0 wrote it: no checksum anywhere, and safetensors' own order."""
    save_file(add_prefix(get_parameters(model), WEIGHTS_PREFIX), run.checkpoint("best"), {"step": "7"})
    description = json.loads(run.description.read_text())
    del description["sha256"], description["tokenizer"]
    description["format"] = 1
    run.description.write_text(json.dumps(description))
    run.config.write_text("".join(run.config.read_text().splitlines(keepends=True)[1:]))
    assert torch.equal(load_run(run.path).model.output.weight, model.output.weight)


# Refused


def test_no_directory_and_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^{tmp_path}/nowhere: no such run directory$"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(InputError, match=rf"^{tmp_path} is no run directory: it is empty$"):
        open_run(tmp_path)
    (tmp_path / "letter.txt").write_text("")
    with pytest.raises(InputError, match=rf"^{tmp_path} is no run directory: it has no run.json$"):
        open_run(tmp_path)
    with pytest.raises(InputError, match=rf"^{tmp_path}/letter.txt: is a file, no run directory$"):
        open_run(tmp_path / "letter.txt")


def test_a_half_copied_run(run: RunDirectory) -> None:
    run.description.unlink()
    with pytest.raises(InputError) as caught:
        load_run(run.path)
    assert str(caught.value) == (
        f"{run.path} is an incomplete run directory: it has config.yaml, tokenizer, checkpoints, but no run.json; copy"
        " it again, whole, or train it again"
    )


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "Expecting property name"),
        ("", "Expecting value"),
        ("[]", "list indices"),
        ("{}", "format"),
        ("[" * 100_000, "recursion"),
        ('{"format": 1}', "versions"),
        ('{"format": "one", "versions": {"translate": "0.1"}}', "'one'"),
        ('{"format": 1, "versions": {"translate": "\\u001b[31mred"}}', "is no version or date"),
        ('{"format": 1, "versions": {"translate": 1}}', "'1' is no version or date"),
        ('{"format": 1, "versions": {"translate": "1"}, "tokenizer": {}}', "tokenizer names no files"),
        ('{"format": 1, "versions": {"translate": "1"}, "tokenizer": {"joint.model": "5"}}', "no sha256 of joint"),
        ("\udcff", "can't decode byte 0xff"),
    ],
)
def test_a_damaged_description(run: RunDirectory, text: str, reason: str) -> None:
    run.description.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InputError) as caught:
        open_run(run.path)
    assert str(caught.value).startswith(f"{run.description} is damaged: ") and reason in str(caught.value)


def test_a_description_that_was_changed(run: RunDirectory) -> None:
    text = run.description.read_text(encoding="utf-8")
    run.description.write_text(text.replace("train", "brain"), encoding="utf-8")
    with pytest.raises(RunError) as caught:
        open_run(run.path)
    assert re.fullmatch(
        rf"{run.description}: damaged: its checksum should be [0-9a-f]{{12}}…, but is [0-9a-f]{{12}}…;"
        ' copy it anew from where it came; if it was edited on purpose, remove its line "sha256"',
        str(caught.value),
    )
    # And so it can be done.
    edited = re.sub(r',\n  "sha256": "[0-9a-f]{64}"', "", text.replace("train", "brain"))
    run.description.write_text(edited, encoding="utf-8")
    assert load_run(run.path).step == 7


def test_a_newer_format(run: RunDirectory) -> None:
    run.description.write_text(json.dumps({"format": FORMAT + 1, "versions": {"translate": "9.8.7"}}))
    with pytest.raises(InputError) as caught:
        load_run(run.path)
    assert str(caught.value) == (
        f"{run.path} was written by translate 9.8.7 in format 3; this is {translate.__version__}, which reads up to 2"
    )


def test_a_config_may_be_edited_but_not_cut(run: RunDirectory) -> None:
    """Of a config that ends early, the defaults would make another model in silence."""
    text = run.config.read_text()
    run.config.write_text(text.replace("beam_size: 2", "beam_size: 3"))
    assert load_run(run.path).config.decoding.beam_size == 3
    assert load_run(run.path).config.decoding.beam_size == 3
    for kept, lacking in [
        (0, "name, data, tokenizer, model, training, decoding, evaluation"),
        (text.index("decoding:"), "decoding, evaluation"),
        (text.index("training:"), "training, decoding, evaluation"),
    ]:
        run.config.write_text(text[:kept])
        with pytest.raises(InputError) as caught:
            load_run(run.path)
        assert str(caught.value) == (
            f"{run.config}: is incomplete: it lacks {lacking}; a run's config says every value, so copy it anew from"
            " where it came"
        )
    run.config.write_text(re.sub(r"  (positions|norm): .*\n", "", text))
    with pytest.raises(InputError, match="is incomplete: it lacks model.norm, model.positions; a run's config"):
        load_run(run.path)


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


def test_a_checkpoint_that_is_something_else(run: RunDirectory, model: Transformer) -> None:
    """A pickle, as `torch.save` makes it, is not loaded; nor tensors that say no step."""
    torch.save(model.state_dict(), run.checkpoint("best"))
    with pytest.raises(RunError, match=rf"^{run.checkpoint('best')}: damaged: its header should have [0-9]+ bytes"):
        load_run(run.path)
    for metadata in ({}, {"step": "seven"}, {"step": "٧"}, {"step": "-1"}):
        save_file(add_prefix(get_parameters(model), WEIGHTS_PREFIX), run.checkpoint("best"), metadata)
        with pytest.raises(RunError, match=rf"^{run.checkpoint('best')}: does not say its step; it is no checkpoint"):
            load_run(run.path)
