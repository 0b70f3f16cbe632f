"""A new run directory: what is in it, and where none is made."""

import json
import re
from pathlib import Path

import pytest

import translate
from translate.config import Config, read_resolved_config
from translate.data.tokenizer import Tokenizers, prepare_tokenizers
from translate.errors import InputError, RunError
from translate.runs import FORMAT, RunDirectory, create_run, open_run, write_config


def test_what_a_new_run_holds(run: RunDirectory, config: Config, command: list[str]) -> None:
    assert read_resolved_config(run.config) == config
    assert re.search(r"^  label_smoothing: 0.1$", run.config.read_text(), flags=re.M)  # defaults are said too
    description = json.loads(run.description.read_text(encoding="utf-8"))
    assert description["format"] == FORMAT == 2
    assert description["command"] == command
    assert {"translate", "python", "torch", "sentencepiece", "sacrebleu"} == set(description["versions"])
    assert description["versions"]["translate"] == translate.__version__
    assert list(description["tokenizer"]) == ["joint.model"]
    assert (run.tokenizer / "joint.model").is_file()


def test_a_config_written_again_is_read_again(run: RunDirectory, config: Config) -> None:
    changed = config.model_copy(update={"name": "größer"})
    write_config(run, changed)
    assert read_resolved_config(open_run(run.path).config) == changed


def test_an_existing_run_is_not_overwritten(run: RunDirectory, config: Config, tokenizers: Tokenizers) -> None:
    before = run.description.read_bytes()
    with pytest.raises(InputError) as caught:
        create_run(run.path, config=config, tokenizers=tokenizers, command=["other"])
    assert str(caught.value) == (
        f"{run.path} already holds a run: continue it with --resume, choose another directory with --run, or remove it"
    )
    assert run.description.read_bytes() == before


def test_a_file_where_the_run_should_be(tmp_path: Path, config: Config, tokenizers: Tokenizers) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match=rf"{tmp_path}/run is a file, not a directory for a run"):
        create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    with pytest.raises(RunError, match=rf"{tmp_path}/run/deeper: cannot be written: Not a directory"):
        create_run(tmp_path / "run" / "deeper", config=config, tokenizers=tokenizers, command=[])


def test_nothing_is_written_through_a_link(tmp_path: Path, config: Config, tokenizers: Tokenizers) -> None:
    """A directory from elsewhere that is no run may hold links all the same."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "joint.model").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tokenizer").symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match=rf"^{tmp_path}/run/tokenizer: is a link out of {tmp_path}/run, to "):
        create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    assert (tmp_path / "outside" / "joint.model").read_text() == "precious"


def test_an_empty_or_half_made_directory_is_taken(
    tmp_path: Path, config: Config, tokenizers: Tokenizers, lines: list[str]
) -> None:
    """A run that was killed before it was whole has no description, and is begun again, with other settings too."""
    (tmp_path / "run" / "tokenizer").mkdir(parents=True)
    (tmp_path / "run" / "tokenizer" / "source.model").write_text("half of")
    (tmp_path / "run" / "config.yaml").write_text("half of")
    run = create_run(tmp_path / "run", config=config, tokenizers=tokenizers, command=[])
    assert read_resolved_config(open_run(run.path).config) == config
    assert [path.name for path in run.tokenizer.iterdir()] == ["joint.model"]


def test_separate_vocabularies_are_recorded(tmp_path: Path, config: Config, lines: list[str]) -> None:
    settings = {"tokenizer": {"vocab_size": 290, "vocabulary": "separate"}, "model": {"tie_embeddings": "none"}}
    separate = Config.model_validate(settings)
    tokenizers = prepare_tokenizers(separate.tokenizer, lines, [line.upper() for line in lines])
    run = create_run(tmp_path / "run", config=separate, tokenizers=tokenizers, command=[])
    assert list(json.loads(run.description.read_text())["tokenizer"]) == ["source.model", "target.model"]
