"""A config that fine-tunes a run: what it takes from the run, what it may not say, and runs that are not there."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import in_order

from translate.config.load import LoadedConfig, load_config
from translate.config.schema import Config, ModelConfig
from translate.config.show import annotated_yaml, resolved_yaml
from translate.errors import InputError

Load = Callable[..., LoadedConfig]

_BASE = (
    "model={d_model: 24, num_heads: 3, norm: pre, dropout: 0.3}",
    "tokenizer={type: unigram, vocab_size: 77, subword_sampling: 0.2}",
    "data={source_language: fr, target_language: nl, max_source_tokens: 60}",
    "training={learning_rate: 0.07, max_steps: 5}",
    "decoding={beam_size: 7, precision: fp32}",
)


def write_run_files(path: Path, config: Config) -> None:
    """Write as much of a run as configs look at."""
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(resolved_yaml(config), encoding="utf-8")
    (path / "run.json").write_text("{}")


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """A function that loads `tune.yaml`, which begins from the run `runs/base`, with overrides."""
    monkeypatch.chdir(tmp_path)
    without_data = ("data.train=[]", "data.validation=null", "data.test={test: null}")
    write_run_files(Path("runs/base"), load_config("demo", (*_BASE, *without_data)).config)
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
    assert (config.decoding.beam_size, config.decoding.precision) == (7, "auto")  # the search is the model's
    shown = annotated_yaml(load_config("tune.yaml"))
    assert "  d_model: 24" in shown and "# runs/base/config.yaml" in shown
    assert str(origins["model.num_heads"]) == "runs/base/config.yaml" and str(origins["model.dropout"]) == "tune.yaml:2"
    # What is shown without defaults is the same config too, also where the run has another value than the default.
    write_run_files(Path("runs/plain"), Config(model=ModelConfig(dropout=0.3)))
    for run in ("runs/base", "runs/plain"):
        loaded = load("model.dropout=0.1", f"training.initialize_from={run}")
        (tmp_path / "changed.yaml").write_text(annotated_yaml(loaded, is_whole=False))
        assert load_config("changed.yaml").config == loaded.config and loaded.config.model.dropout == 0.1


def test_contradictions_are_all_named_with_both_values(load: Load) -> None:
    with pytest.raises(InputError) as error:
        load("model.d_model=48", "model.norm=pre", "tokenizer.type=bpe", "tokenizer.source_model=mine.model")
    first, *different, hint = str(error.value).splitlines()
    assert "training.initialize_from = runs/base" in first and "training.initialize_from" in hint
    assert in_order(different[0], "model.d_model = 48 (command line)", "runs/base", "24")
    assert in_order(different[1], 'tokenizer.source_model = "mine.model" (command line)', "runs/base", "null")
    assert in_order(different[2], 'tokenizer.type = "bpe" (command line)', "runs/base", '"unigram"')
    assert len(different) == 3


@pytest.mark.parametrize("base", ["demo", "multi30k", "runs/other"])
def test_the_run_wins_over_what_the_user_did_not_write(load: Load, tmp_path: Path, base: str) -> None:
    """A preset, or another run, that the config extends; what is in the user's own files and overrides is an error."""
    write_run_files(tmp_path / "runs/other", load_config("multi30k", ["model.d_model=512"]).config)
    own = "extends: ../own.yaml\ntraining: {initialize_from: ../runs/base}\n"
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper/tune.yaml").write_text(own)
    (tmp_path / "own.yaml").write_text(f"extends: {base}\nmodel: {{dropout: 0.4}}\n")
    config, origins = load_config("deeper/tune.yaml")
    inherited = load().config
    assert config.model == inherited.model and config.tokenizer == inherited.tokenizer
    assert (config.data.source_language, config.data.target_language) == ("fr", "nl")
    assert str(origins["model.d_model"]) == "runs/base/config.yaml" and str(origins["model.dropout"]) == "own.yaml:2"
    assert load_config(base, ["training.initialize_from=runs/base"]).config.model.dropout == 0.3  # the run's
    (tmp_path / "own.yaml").write_text(f"extends: {base}\nmodel:\n  d_model: 48\n")
    with pytest.raises(InputError) as error:
        load_config("deeper/tune.yaml", ["tokenizer.vocab_size=78"])
    _, *different, _ = str(error.value).splitlines()
    assert len(different) == 2 and in_order(different[0], "model.d_model = 48 (own.yaml:3)", "runs/base", "24")
    assert in_order(different[1], "tokenizer.vocab_size = 78 (command line)", "77")


@pytest.mark.parametrize("name", [name for name in ModelConfig.model_fields if name not in ("d_model", "num_heads")])
def test_each_key_of_the_model_is_decided_or_free(load: Load, name: str) -> None:
    """Dropouts do not change what a weight means, and new weights are not drawn; all else does."""
    base = load().config.model
    kinds = {"norm": "post", "positions": "learned", "activation": "gelu", "tie_embeddings": "none"}
    kinds |= {"initialization": "xavier", "norm_kind": "rms", "head_dim": 5}
    before = getattr(base, name)
    other = kinds.get(name) or (not before if isinstance(before, bool) else before / 2 if before < 1 else before * 2)
    override = f"model.{name}={json.dumps(other)}"
    if "dropout" in name or name == "initialization":
        assert getattr(load(override).config.model, name) == other
    else:
        with pytest.raises(InputError) as error:
            load(override)
        assert in_order(str(error.value), f"model.{name} = ", "(command line)", "runs/base")


def test_the_languages_and_tags_of_the_run_are_kept(load: Load, tmp_path: Path) -> None:
    corpus = "{kind: tsv, path: a, source_language: de, target_language: en, both_directions: true}"
    own = "data={source_language: de, target_language: en}"
    base = load_config("demo", (*_BASE, f"data.train={corpus}", own, "data.validation=null")).config
    write_run_files(tmp_path / "runs/many", base)
    config = load("training.initialize_from=runs/many", required=False).config
    assert (config.data.languages, config.data.language_tags) == (("de", "en"), "source")
    with pytest.raises(InputError, match=r'data.language_tags = "target" \(command line\), but runs/many has "source"'):
        load("training.initialize_from=runs/many", "data.language_tags=target", required=False)
    assert load("data.language_tags=target", required=False).config.data.language_tags == "target"  # the run has none


def test_languages_that_all_corpora_of_the_run_name_are_inherited(load: Load, tmp_path: Path) -> None:
    named = "data.train=[{kind: tsv, path: a, source_language: nl, target_language: es}]"
    base = load_config("demo", (*_BASE[:2], named, "data.validation=null", "data.test={test: null}")).config
    write_run_files(tmp_path / "runs/named", base)
    data = load("training.initialize_from=runs/named", required=False).config.data
    assert (data.source_language, data.target_language) == ("nl", "es") and "nl → es" in repr(base)


def test_what_the_run_was_extended_by_is_not_added_again(load: Load, tmp_path: Path) -> None:
    made = load("tokenizer.add_characters=true", "tokenizer.add_pieces=[<a>]", "tokenizer.subword_sampling=null").config
    write_run_files(tmp_path / "runs/extended", made)
    config = load("training.initialize_from=runs/extended").config
    assert (config.tokenizer.add_characters, config.tokenizer.add_pieces) == (False, ())
    assert config.tokenizer.subword_sampling is None


def test_a_run_that_was_begun_from_another_does_not_need_it(load: Load, tmp_path: Path) -> None:
    made = load().config
    write_run_files(tmp_path / "runs/tuned", made)
    os.rename("runs/base", "runs/elsewhere")
    assert load_config("runs/tuned", require_files=True).config.model == made.model


def test_a_run_does_not_need_the_tokenizer_that_it_was_given(load: Load, tmp_path: Path) -> None:
    given = Path("joint.model")
    given.touch()
    made = load_config("demo", [f"tokenizer.source_model={given}"], require_files=True).config
    write_run_files(tmp_path / "runs/given", made)
    given.unlink()
    assert load_config("runs/given", require_files=True).config == made


@pytest.mark.parametrize(("name", "word"), [("runs/bsae", "{here}/runs/bsae"), ("runs", "run.json")])
def test_what_is_not_a_run(load: Load, tmp_path: Path, name: str, word: str) -> None:
    with pytest.raises(InputError) as error:
        load(f"training.initialize_from={name}")
    assert in_order(str(error.value), f"initialize_from = {name} (command line)", word.format(here=tmp_path))
    assert load(f"training.initialize_from={name}", required=False).config.training.initialize_from == Path(name)


def test_layers_of_a_run_that_is_not_there_are_not_counted(load: Load) -> None:
    frozen = ("training.freeze=[encoder.6-11]", "training.initialize_from=runs/deep")
    assert load(*frozen, required=False).config.training.freeze == ("encoder.6-11",)
    with pytest.raises(InputError, match="begins with the smaller number"):
        load("training.freeze=[encoder.11-6]", frozen[1], required=False)
