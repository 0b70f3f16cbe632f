"""A run directory: written whole or not at all, read back as it was, and refused with a reason if it is not right."""

import contextlib
import json
import re
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import translate
from translate import run as run_module
from translate.config import Config, read_resolved_config
from translate.data.tokenizer import Tokenizers
from translate.data.tokenizer_training import prepare_tokenizers
from translate.decoding import Translator
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.run import (
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
    read_tensors,
    set_parameters,
    with_prefix,
    write_tensors,
    write_text,
)

LINES = ["Ein Hund läuft.", "Zwei Hunde schlafen im Gras.", "Die Straße ist grün."]
COMMAND = ["translate", "train", "größe.yaml"]


def tiny_config(**model: object) -> Config:
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return Config.model_validate(
        {
            "name": "tiny",
            "tokenizer": {"vocab_size": 290},
            "model": {**sizes, **model},
            "decoding": {"beam_size": 2, "max_length_factor": 0.0, "max_length_constant": 4, "device": "cpu"},
        }
    )


CONFIG = tiny_config()


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return prepare_tokenizers(CONFIG.tokenizer, LINES, LINES)


def save(run: RunDirectory, model: Transformer, which: str, step: int, *, prefix: str = WEIGHTS_PREFIX) -> None:
    path = run.path / "checkpoints" / f"{which}.safetensors"
    write_tensors(path, add_prefix(get_parameters(model), prefix), {"step": str(step)})


@pytest.fixture
def model(tokenizers: Tokenizers) -> Transformer:
    return build_model(CONFIG, tokenizers).eval()


@pytest.fixture
def run(tmp_path: Path, tokenizers: Tokenizers, model: Transformer) -> RunDirectory:
    run = create_run(tmp_path / "runs" / "tiny", config=CONFIG, tokenizers=tokenizers, command=COMMAND)
    save(run, model, "best", 7)
    return run


def no_temporary_files(directory: Path) -> bool:
    return not [path for path in directory.rglob("*") if ".tmp" in path.name or ".part" in path.name]


# There and back


@pytest.mark.parametrize("tie_embeddings, num_embeddings", [("all", 1), ("decoder", 2), ("none", 3)])
def test_round_trip(tmp_path: Path, tokenizers: Tokenizers, tie_embeddings: str, num_embeddings: int) -> None:
    config = tiny_config(tie_embeddings=tie_embeddings)
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=COMMAND)
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
    assert no_temporary_files(tmp_path)


def test_what_a_new_run_holds(run: RunDirectory) -> None:
    assert read_resolved_config(run.config) == CONFIG
    assert re.search(r"^  label_smoothing: 0.1$", run.config.read_text(), flags=re.M)  # defaults are said too
    description = json.loads(run.description.read_text(encoding="utf-8"))
    assert description["format"] == FORMAT == 1
    assert description["command"] == COMMAND
    assert {"translate", "python", "torch", "sentencepiece", "sacrebleu"} == set(description["versions"])
    assert description["versions"]["translate"] == translate.__version__
    assert (run.tokenizer / "joint.model").is_file()


def test_separate_vocabularies(tmp_path: Path) -> None:
    settings = {"tokenizer": {"vocab_size": 290, "vocabulary": "separate"}}
    config = Config.model_validate({**tiny_config(tie_embeddings="none").model_dump(), **settings})
    tokenizers = prepare_tokenizers(config.tokenizer, LINES, [line.upper() for line in LINES])
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=COMMAND)
    save(run, build_model(config, tokenizers), "best", 1)
    loaded = load_run(run.path).tokenizers
    assert loaded.source.model_bytes == tokenizers.source.model_bytes
    assert loaded.target.model_bytes == tokenizers.target.model_bytes != loaded.source.model_bytes


def test_a_moved_run_translates(tmp_path: Path, run: RunDirectory, model: Transformer, tokenizers: Tokenizers) -> None:
    moved = tmp_path / "elsewhere" / "a run"
    moved.parent.mkdir()
    shutil.move(run.path, moved)
    loaded = load_run(moved)
    expected = Translator(model, tokenizers, CONFIG.decoding).translate(LINES)
    assert Translator(loaded.model, loaded.tokenizers, loaded.config.decoding).translate(LINES) == expected


def test_best_and_last_are_different_files(run: RunDirectory, tokenizers: Tokenizers) -> None:
    later = build_model(CONFIG, tokenizers)
    save(run, later, "last", 11)
    assert load_run(run.path).step == load_run(run.path, checkpoint="best").step == 7
    last = load_run(run.path, checkpoint="last")
    assert last.step == 11
    assert torch.equal(last.model.output.weight, later.output.weight)
    assert not torch.equal(last.model.output.weight, load_run(run.path).model.output.weight)


def test_an_average_of_the_weights_comes_first(run: RunDirectory, model: Transformer, tokenizers: Tokenizers) -> None:
    average = build_model(CONFIG, tokenizers)
    tensors = add_prefix(get_parameters(model), WEIGHTS_PREFIX) | add_prefix(get_parameters(average), AVERAGE_PREFIX)
    write_tensors(run.checkpoint("last"), tensors | {"random.cpu": torch.get_rng_state()}, {"step": "5"})
    loaded = load_run(run.path, checkpoint="last").model
    assert torch.equal(loaded.output.weight, average.output.weight)


def test_whoever_may_read_the_config_may_read_the_weights(run: RunDirectory) -> None:
    """safetensors makes files that their owner alone can read; a run is also for colleagues and servers."""
    assert run.checkpoint("best").stat().st_mode == run.config.stat().st_mode


# Refused


def test_an_existing_run_is_not_overwritten(run: RunDirectory, tokenizers: Tokenizers) -> None:
    before = run.description.read_bytes()
    with pytest.raises(InputError) as caught:
        create_run(run.path, config=CONFIG, tokenizers=tokenizers, command=["other"])
    assert str(caught.value) == (
        f"{run.path} already holds a run: continue it with --resume, choose another directory with --run, or remove it"
    )
    assert run.description.read_bytes() == before


def test_a_file_where_the_run_should_be(tmp_path: Path, tokenizers: Tokenizers) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match=rf"{tmp_path}/run is a file, not a directory for a run"):
        create_run(tmp_path / "run", config=CONFIG, tokenizers=tokenizers, command=COMMAND)
    with pytest.raises(RunError, match=rf"{tmp_path}/run/deeper: cannot be written: Not a directory"):
        create_run(tmp_path / "run" / "deeper", config=CONFIG, tokenizers=tokenizers, command=COMMAND)


def test_an_empty_or_half_made_directory_is_taken(tmp_path: Path, tokenizers: Tokenizers) -> None:
    """A run that was killed before it was whole has no description, and is begun again."""
    (tmp_path / "run" / "tokenizer").mkdir(parents=True)
    (tmp_path / "run" / "config.yaml").write_text("half of")
    run = create_run(tmp_path / "run", config=CONFIG, tokenizers=tokenizers, command=COMMAND)
    assert read_resolved_config(open_run(run.path).config) == CONFIG


def test_no_directory_and_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^{tmp_path}/nowhere: no such run directory$"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(
        InputError, match=rf"^{tmp_path} is no run directory, or an incomplete one: it has no run.json$"
    ):
        open_run(tmp_path)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "Expecting property name"),
        ("", "Expecting value"),
        ("[]", "list indices"),
        ("{}", "format"),
        ('{"format": 1}', "versions"),
        ('{"format": "one", "versions": {"translate": "0.1"}}', "'one'"),
        ("\udcff", "can't decode byte 0xff"),
    ],
)
def test_a_damaged_description(run: RunDirectory, text: str, reason: str) -> None:
    run.description.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InputError) as caught:
        open_run(run.path)
    assert str(caught.value).startswith(f"{run.description} is damaged: ") and reason in str(caught.value)


def test_a_newer_format(run: RunDirectory) -> None:
    run.description.write_text(json.dumps({"format": FORMAT + 1, "versions": {"translate": "9.8.7"}}))
    with pytest.raises(InputError) as caught:
        load_run(run.path)
    assert str(caught.value) == (
        f"{run.path} was written by translate 9.8.7 in format 2; this is {translate.__version__}, which reads up to 1"
    )


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


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_cut_checkpoint(run: RunDirectory, kept: int) -> None:
    content = run.checkpoint("best").read_bytes()
    run.checkpoint("best").write_bytes(content[:kept])
    with pytest.raises(RunError, match=rf"^{run.checkpoint('best')}: damaged or unreadable: "):
        load_run(run.path)


def test_a_checkpoint_that_is_something_else(run: RunDirectory, model: Transformer) -> None:
    """A pickle, as `torch.save` makes it, is not loaded; nor tensors that say no step."""
    torch.save(model.state_dict(), run.checkpoint("best"))
    with pytest.raises(RunError, match=rf"^{run.checkpoint('best')}: damaged or unreadable: "):
        load_run(run.path)
    for metadata in ({}, {"step": "seven"}):
        save_file(add_prefix(get_parameters(model), WEIGHTS_PREFIX), run.checkpoint("best"), metadata)
        with pytest.raises(RunError, match=rf"^{run.checkpoint('best')}: does not say its step; it is no checkpoint"):
            load_run(run.path)


def test_weights_of_another_model(run: RunDirectory, model: Transformer) -> None:
    text = run.config.read_text()
    run.config.write_text(text.replace("d_ff: 12", "d_ff: 13"))
    with pytest.raises(RunError) as caught:
        load_run(run.path)
    assert f"{run.checkpoint('best')} does not fit the model of its config: " in str(caught.value)
    assert "shape (12, 8), but the model has (13, 8)" in str(caught.value)


def test_set_parameters_lists_all_that_is_wrong_and_changes_nothing() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 5))
    before = {name: tensor.clone() for name, tensor in get_parameters(model).items()}
    given = {"0.weight": torch.ones(3, 2), "0.bias": torch.ones(7), "1.wait": torch.ones(1), "1.bias": torch.ones(5)}
    with pytest.raises(RunError) as caught:
        set_parameters(model, given, name="a.safetensors")
    assert str(caught.value) == (
        "a.safetensors does not fit the model of its config: 0.bias: shape (7,), but the model has (3,);"
        " missing: 1.weight; unexpected: 1.wait"
    )
    assert all(torch.equal(tensor, before[name]) for name, tensor in get_parameters(model).items())
    set_parameters(model, {name: torch.full_like(tensor, 3.0) for name, tensor in before.items()}, name="b")
    assert all((tensor == 3.0).all() for tensor in get_parameters(model).values())


def test_prefixes() -> None:
    tensors = {"a": torch.zeros(1), "model.a": torch.ones(1)}
    assert with_prefix(add_prefix(tensors, "model."), "model.") == tensors
    assert list(with_prefix(tensors, "model.")) == ["a"]


# Written whole or not at all


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 2000 bytes: a real failure of `write`, for root too.

    Only around the write itself: what else the process writes, such as pytest's own files, must not fail too.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    write_tensors(path, {"a": torch.arange(3)}, {"step": "1"})
    before = path.read_bytes()
    with (
        full_disk(),
        pytest.raises(
            RunError, match=rf"^{path}: cannot be written: .*[Ff]ile too large.*earlier checkpoints are intact"
        ),
    ):
        write_tensors(path, {"a": torch.zeros(5000)}, {"step": "2"})
    assert path.read_bytes() == before
    assert read_tensors(path).metadata == {"step": "1"}
    assert no_temporary_files(tmp_path)


def test_a_full_disk_leaves_the_old_text(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_text(path, "old\n")
    with full_disk(), pytest.raises(RunError, match=rf"^{path}: cannot be written: File too large"):
        write_text(path, "new\n" * 5000)
    assert path.read_text() == "old\n"
    assert no_temporary_files(tmp_path)


def test_a_failure_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.safetensors"
    write_tensors(path, {"a": torch.arange(3)}, {"step": "1"})
    before = path.read_bytes()

    def half_written(tensors: object, temporary: Path, metadata: object) -> None:
        temporary.write_bytes(before[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_module, "save_file", half_written)
    with pytest.raises(RunError, match="No space left on device; earlier checkpoints are intact"):
        write_tensors(path, {"a": torch.zeros(3)}, {"step": "2"})
    assert path.read_bytes() == before and no_temporary_files(tmp_path)


def test_the_name_appears_only_when_the_bytes_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed just before the rename, as by a power cut: the old file is whole, and the new one is not seen."""
    path = tmp_path / "best.safetensors"
    write_tensors(path, {"a": torch.arange(3)}, {"step": "1"})

    class Killed(BaseException):
        pass

    def replace(temporary: Path, path: Path) -> None:
        raise Killed

    monkeypatch.setattr(run_module.os, "replace", replace)
    with pytest.raises(Killed):
        write_tensors(path, {"a": torch.zeros(3)}, {"step": "2"})
    monkeypatch.undo()
    assert read_tensors(path).metadata == {"step": "1"}
    write_tensors(path, {"a": torch.zeros(3)}, {"step": "3"})  # what was left behind is no obstacle
    assert read_tensors(path).metadata == {"step": "3"} and no_temporary_files(tmp_path)


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "last.safetensors"
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: "):
        write_tensors(path, {"a": torch.zeros(3)}, {})
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: No such file or directory"):
        write_text(path, "text")
    (tmp_path / "gone").write_text("a file where the directory was")
    with pytest.raises(RunError, match=rf"^{path}: cannot be written: "):
        write_tensors(path, {"a": torch.zeros(3)}, {})


# Safety


def test_nothing_in_the_package_unpickles() -> None:
    """A run from elsewhere is data, and loading it runs nothing."""
    unsafe = re.compile(
        r"pickl|torch\.(load|save)\b|joblib|dill\b|marshal|shelve|np\.load|yaml\.(unsafe_|full_)?load\(|\b(?<!\.)(eval|exec)\("
    )
    assert unsafe.search("state = torch.load(path)") and unsafe.search("import pickle")  # the pattern can find
    found = []
    for path in Path(translate.__file__).parent.rglob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if unsafe.search(line) and "loaded by unpickling" not in line:  # which the docstring of run.py promises not
                found.append(f"{path}:{number}: {line.strip()}")
    assert found == []
