"""A config that fine-tunes a run: what it takes from the run, what it may not say, and runs that are not there."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from translate.config.load import LoadedConfig, load_config
from translate.config.schema import ModelConfig
from translate.config.show import annotated_yaml, resolved_yaml
from translate.errors import InputError

Load = Callable[..., LoadedConfig]

_BASE = (
    "model={d_model: 24, num_heads: 3, norm: pre, dropout: 0.3}",
    "tokenizer={type: unigram, vocab_size: 77, subword_sampling: 0.2}",
    "data={source_language: fr, target_language: nl, max_source_tokens: 60}",
    "training={learning_rate: 0.07, max_steps: 5}",
)


def make_run(path: Path, *overrides: str) -> Path:
    """A folder that is a run as far as configs look."""
    path.mkdir(parents=True)
    config = load_config("demo", overrides).config
    (path / "config.yaml").write_text(resolved_yaml(config), encoding="utf-8")
    (path / "run.json").write_text("{}")
    return path


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """A function that loads `tune.yaml`, which begins from the run `runs/base`, with overrides."""
    monkeypatch.chdir(tmp_path)
    make_run(Path("runs/base"), *_BASE, "data.train=[]", "data.validation=null", "data.test={test: null}")
    (tmp_path / "tune.yaml").write_text("training: {initialize_from: runs/base, max_steps: 9}\nmodel: {dropout: 0.4}\n")
    return lambda *overrides, required=True: load_config("tune.yaml", overrides, require_files=required)


def test_takes_what_the_run_decides_and_shows_where_it_is_from(load: Load, tmp_path: Path) -> None:
    config, origins = load()
    assert config.training.initialize_from == tmp_path / "runs/base"
    sizes = config.model
    assert (sizes.d_model, sizes.num_heads, sizes.norm, sizes.d_ff) == (24, 3, "pre", 768)  # d_ff is the demo's
    assert sizes.dropout == 0.4  # stated
    tokenizer, data, training = config.tokenizer, config.data, config.training
    assert (tokenizer.type, tokenizer.vocab_size, tokenizer.subword_sampling) == ("unigram", 77, 0.2)
    assert (data.source_language, data.target_language, data.max_source_tokens) == ("fr", "nl", 60)
    assert (training.max_steps, training.learning_rate) == (9, 1.0)  # the schedule is its own
    shown = annotated_yaml(load_config("tune.yaml"))
    assert "  d_model: 24" in shown and "# runs/base/config.yaml" in shown
    assert str(origins["model.num_heads"]) == "runs/base/config.yaml" and str(origins["model.dropout"]) == "tune.yaml:2"


def test_contradictions_are_all_named_with_both_values(load: Load) -> None:
    with pytest.raises(InputError) as error:
        load("model.d_model=48", "model.norm=pre", "tokenizer.type=bpe", "tokenizer.source_model=mine.model")
    assert str(error.value).splitlines() == [
        "training.initialize_from = runs/base decides model and vocabulary, and the config contradicts it:",
        "  model.d_model = 48 (command line), but runs/base has 24",
        '  tokenizer.source_model = "mine.model" (command line), but runs/base has null',
        '  tokenizer.type = "bpe" (command line), but runs/base has "unigram"',
        "Leave these keys out, or train a new model without training.initialize_from",
    ]


@pytest.mark.parametrize("name", [name for name in ModelConfig.model_fields if name not in ("d_model", "num_heads")])
def test_each_key_of_the_model_is_decided_or_free(load: Load, name: str) -> None:
    """Dropouts do not change what a weight means, and new weights are not drawn; all else does."""
    base = load().config.model
    kinds = {"norm": "post", "positions": "learned", "activation": "gelu", "tie_embeddings": "none"}
    kinds |= {"initialization": "xavier"}
    before = getattr(base, name)
    other = kinds.get(name) or (not before if isinstance(before, bool) else before / 2 if before < 1 else before * 2)
    override = f"model.{name}={json.dumps(other)}"
    if "dropout" in name or name == "initialization":
        assert getattr(load(override).config.model, name) == other
    else:
        with pytest.raises(InputError, match=rf"model\.{name} = .* \(command line\), but runs/base has "):
            load(override)


def test_what_the_run_was_extended_by_is_not_added_again(load: Load, tmp_path: Path) -> None:
    made = load("tokenizer.add_characters=true", "tokenizer.add_pieces=[<a>]", "tokenizer.subword_sampling=null").config
    run = tmp_path / "runs/extended"
    run.mkdir()
    (run / "config.yaml").write_text(resolved_yaml(made), encoding="utf-8")
    (run / "run.json").write_text("{}")
    config = load("training.initialize_from=runs/extended").config
    assert (config.tokenizer.add_characters, config.tokenizer.add_pieces) == (False, ())
    assert config.tokenizer.subword_sampling is None


def test_a_run_that_was_begun_from_another_does_not_need_it(load: Load, tmp_path: Path) -> None:
    run = tmp_path / "runs/tuned"
    run.mkdir()
    made = load().config
    (run / "config.yaml").write_text(resolved_yaml(made), encoding="utf-8")
    (run / "run.json").write_text("{}")
    os.rename("runs/base", "runs/elsewhere")
    assert load_config("runs/tuned", require_files=True).config.model == made.model


@pytest.mark.parametrize(
    "name, problem",
    [
        ("runs/bsae", "no such run; looked for {here}/runs/bsae; did you mean runs/base?"),
        ("bases", "no such run; looked for {here}/bases; did you mean runs/base?"),
        ("runs/base/config.yaml", "is no run: it has no run.json; name a run's own directory; did you mean runs/base?"),
        ("runs", "is no run: it has no run.json; name a run's own directory; did you mean runs/base?"),
        ("opus", "is a model of another toolkit; make a run of it first: translate import opus RUN"),
    ],
)
def test_what_is_no_run(load: Load, tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "opus").mkdir()
    (tmp_path / "opus/config.json").write_text("{}")
    with pytest.raises(InputError) as error:
        load(f"training.initialize_from={name}")
    told = f"training.initialize_from = {name} (command line): {problem.format(here=tmp_path)}"
    assert str(error.value) == told
    assert load(f"training.initialize_from={name}", required=False).config.training.initialize_from == Path(name)


def test_a_run_is_looked_for_beside_its_config_too(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir("deeper")
    config = load_config("../tune.yaml", require_files=True).config
    assert config.training.initialize_from == tmp_path / "runs/base" and config.model.d_model == 24


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_a_path_that_no_run_could_keep(load: Load, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"gr\xf6n")
    os.makedirs(folder)
    (folder / "tune.yaml").write_text("training: {initialize_from: base}\n")
    os.rename("runs/base", folder / "base")
    with pytest.raises(InputError, match="a run cannot keep a path that is not UTF-8"):
        load_config(str(folder / "tune.yaml"), require_files=True)


def test_extending_needs_a_run() -> None:
    with pytest.raises(
        InputError, match=r'tokenizer\.add_pieces = \["<a>"\] extends the vocabulary of a run: name it as'
    ):
        load_config("demo", ["tokenizer.add_pieces=[<a>]"])
    with pytest.raises(InputError, match=r"tokenizer\.add_pieces.*pattern"):
        load_config("demo", ["tokenizer.add_pieces=['two words']"])
    with pytest.raises(InputError, match=r"unknown key tokenizer\.extend .*did you mean tokenizer\.add_characters\?"):
        load_config("demo", ["tokenizer.extend=true"])


def test_other_validation_sets_need_the_one_that_chooses() -> None:
    corpus = "{kind: tsv, path: old.tsv}"
    override = f"data.validation_also={{old: {corpus}}}"
    assert list(load_config("demo", [override]).config.data.validation_also) == ["old"]
    assert load_config("demo", [override, "data.validation_also.old=null"]).config.data.validation_also == {}
    with pytest.raises(InputError, match=r"data\.validation_also is scored at each validation: name data\.validation"):
        load_config("demo", [override, "data.validation=null"])
    with pytest.raises(InputError, match=r"unknown key data\.validation_also\.old\.pth .*validation_also\.old\.path\?"):
        load_config("demo", [override, "data.validation_also.old.pth=x"])
