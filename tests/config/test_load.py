"""Files, their bases, and overrides; an error names the key, the value, its bound or nearest key, and its place."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from harness import in_order

from translate.config.data import HubCorpus, TextCorpus, TsvCorpus
from translate.config.errors import REMOVED_KEYS
from translate.config.load import LoadedConfig, load_config, read_resolved_config
from translate.config.schema import Config
from translate.config.show import resolved_yaml
from translate.config.yaml import preset_names
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("run_yaml")
Error = Callable[..., str]


def load(*overrides: str) -> Config:
    return load_config("run.yaml", overrides).config


def extended(text: str, *overrides: str) -> LoadedConfig:
    Path("above.yaml").write_text(f"extends: run.yaml\n{text}")
    return load_config("above.yaml", overrides)


def test_name_is_the_files_unless_said() -> None:
    assert load().name == "run"
    assert load("name=other").name == "other"
    Path("my first run.yaml").write_text("")
    assert load_config("my first run.yaml").config.name == "my-first-run"
    Path("mine.yaml").write_text("extends: my first run.yaml\n")
    assert load_config("mine.yaml").config.name == "mine"


def test_overrides_reach_values_lists_and_mappings() -> None:
    config = load("model.d_model=128", "training.learning_rate=1e-3", "training.max_steps=2e5", "data.train.0.weight=3")
    assert (config.model.d_model, config.model.num_heads) == (128, 4)
    assert (config.training.learning_rate, config.training.max_steps) == (0.001, 200_000)
    assert [corpus.weight for corpus in config.data.train] == [3.0, 1.0]
    train = "data.train=[{kind: text, source: x, target: y}]"
    assert load(train).data.train == (TextCorpus(source=Path("x"), target=Path("y")),)
    assert load("data.validation=null").data.validation is None
    assert load("data.train.1.path=c=d.tsv #2").data.train[1] == TsvCorpus(path=Path("c=d.tsv #2"))


def test_a_config_in_python_is_a_mapping_with_values_over_it() -> None:
    corpus = {"kind": "tsv", "path": Path("😀.tsv")}
    config = {"extends": "run.yaml", "model": {"d_model": 128}, "data": {"validation": corpus}}
    training = {"patience": None, "learning_rate": 1e-05, "max_steps": np.int64(7)}
    loaded = load_config(config, {"model": {"num_heads": 8}, "training": training, "training.tf32": np.bool_(False)})
    assert (loaded.config.model.d_model, loaded.config.model.num_heads, loaded.config.name) == (128, 8, "run")
    assert loaded.config.data.train == load().data.train
    assert loaded.config.data.validation == TsvCorpus(path=Path("😀.tsv"))
    assert (loaded.config.training.patience, loaded.config.training.learning_rate) == (None, 1e-05)
    assert (loaded.config.training.max_steps, loaded.config.training.tf32) == (7, False)
    assert {str(loaded.origins[key]) for key in ("model.d_model", "model.num_heads", "training.patience")} == {"Python"}
    assert load_config({}).config == Config()
    assert load_config({"name": "mine"}, {"name": "other"}).config.name == "other"
    with pytest.raises(InputError, match="UTF-8"):
        load_config({"data": {"root": "x\udcff"}})
    with pytest.raises(InputError, match=r"unknown key 1 \(Python\)"):
        load_config({1: 2})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="^Python: extends .* 5"):
        load_config({"extends": 5})


def test_a_config_that_states_everything_is_the_same_config() -> None:
    """Also if all training corpora have languages of their own, unlike the default ones."""
    french = "source_language: fr, target_language: es"
    held_out = f"data.validation={{{french}}}", f"data.test.first={{{french}}}"
    for config in (load(), load(f"data.train={{kind: tsv, path: x, {french}}}", *held_out)):
        Path("whole.yaml").write_text(resolved_yaml(config))
        for whole in (config.model_dump(mode="json"), "whole.yaml"):
            assert load_config(whole).config == config


def test_test_sets_are_added_and_removed_by_name() -> None:
    assert list(load("data.test={x: {kind: tsv, path: x.tsv}}").data.test) == ["first", "x"]
    assert list(load("data.test={x: {kind: tsv, path: x.tsv}, first: null}").data.test) == ["x"]
    assert load("data.test.first=null").data.test == {}
    assert list(extended("data: {test: {first: null, '2016': {kind: tsv, path: x}}}").config.data.test) == ["2016"]


def test_corpora_in_both_directions_are_looked_for_where_each_was_named(tmp_path: Path) -> None:
    """Beside the config that names them, also where names and indices change; a validation is replaced as a whole."""
    (tmp_path / "above").mkdir()
    for name in ("a.de", "a.en", "b.de", "b.en", "above/a.de", "above/a.en"):
        (tmp_path / name).touch()
    both = "source: a.de, target: a.en, both_directions: true"
    (tmp_path / "base.yaml").write_text(
        f"data:\n  train: [{{kind: text, {both}}}, {{kind: text, source: b.de, target: b.en}}]\n"
        f"  validation: {{kind: text, source: b.de, target: b.en}}\n  test: {{news: {{kind: text, {both}}}}}\n"
    )
    (tmp_path / "above/mine.yaml").write_text(f"extends: ../base.yaml\ndata: {{validation: {{{both}}}}}\n")
    languages = [f"data.train.{index}={{source_language: de, target_language: en}}" for index in range(2)]
    data = load_config(str(tmp_path / "above/mine.yaml"), languages, require_files=True).config.data
    places = {key: each.source.relative_to(tmp_path) for key, each in data.corpora("train").items()}  # type: ignore[union-attr]
    assert list(map(str, places.values())) == ["a.de", "a.en", "b.de"]
    held_out = {key: str(each.source.relative_to(tmp_path)) for key, each in data.corpora().items()}  # type: ignore[union-attr]
    assert held_out == {
        **{"data.validation.de-en": "above/a.de", "data.validation.en-de": "above/a.en"},
        **{"data.test.news-de-en": "a.de", "data.test.news-en-de": "a.en"},
    }
    above = {
        "extends": str(tmp_path / "above/mine.yaml"),
        "data.validation": {"de-en": {"kind": "tsv", "path": "a.de"}},
    }
    back = load_config(above, [*languages, "data.validation={kind: tsv, path: a.de}"])
    assert [*back.config.data.corpora("validation")] == ["data.validation"]


def test_of_an_override_that_is_given_twice_the_last_counts(caplog: pytest.LogCaptureFixture) -> None:
    assert load("training.seed=3", "training.max_steps=5", "training.seed=4").training.seed == 4
    (message,) = caplog.messages
    assert "training.seed" in message and "several times" in message


def test_a_corpus_of_another_kind_takes_the_old_ones_place() -> None:
    corpus = "{kind: hub, dataset: d, split: train, source_column: de, target_column: en}"
    expected = HubCorpus(dataset="d", split="train", source_column="de", target_column="en")
    assert load(f"data.train.0={corpus}").data.train[0] == expected
    assert extended(f"data: {{validation: {corpus}}}").config.data.validation == expected
    assert load("data.train.0.kind=tsv", "data.train.0.path=x").data.train[0] == TsvCorpus(path=Path("x"))
    same = TextCorpus(source=Path("w"), target=Path("v.en"))  # its kind alone, as a last override, replaces nothing
    assert load("data.validation.source=w", "data.validation.kind=text").data.validation == same


@pytest.mark.parametrize("below", ["", "extends: run.yaml\n", "extends: one.yaml\n"])
def test_the_mapping_of_one_corpus_is_a_list(tmp_path: Path, below: str) -> None:
    """Alone, in place of two corpora, or in place of one of another kind; its keys can be given with and without 0."""
    (tmp_path / "one.yaml").write_text("data: {train: [{kind: text, source: a, target: b, weight: 3}]}")
    (tmp_path / "mine.yaml").write_text(f"{below}data:\n  train:\n    kind: tsv\n    path: x")
    expected = TsvCorpus(path=Path("x"))
    loaded = load_config(str(tmp_path / "mine.yaml"), ["model.d_model=64"])
    assert loaded.config.data.train == (expected,)
    assert str(loaded.origins["data.train.0.path"]).startswith("mine.yaml:")
    for index in ("", ".0"):
        changed = load_config(str(tmp_path / "mine.yaml"), [f"data.train{index}.weight=2"]).config.data.train
        assert changed == (expected.model_copy(update={"weight": 2.0}),)
    assert load_config({"data": {"train": {"kind": "tsv", "path": "x"}}}).config.data.train == (expected,)


def test_extending_merges_mappings_and_replaces_lists() -> None:
    loaded = extended(
        "model: {d_model: 32}\ndata: {train: [{kind: tsv, path: x}], validation: {source: w}}", "model.d_ff=8"
    )
    assert (loaded.config.model.d_model, loaded.config.model.num_heads, loaded.config.model.d_ff) == (32, 4, 8)
    assert loaded.config.data.train == (TsvCorpus(path=Path("x")),)
    assert loaded.config.data.validation == TextCorpus(source=Path("w"), target=Path("v.en"))
    origins = [
        str(loaded.origins.get(f"model.{key}", "default")) for key in ("d_model", "num_heads", "d_ff", "dropout")
    ]
    assert origins == ["above.yaml:2", "run.yaml:10", "command line", "default"]
    assert "data.train.0.weight" not in loaded.origins
    assert "data.train.1" not in loaded.origins


def test_a_cycle_and_a_missing_base(error: Error) -> None:
    Path("a.yaml").write_text("name: a\nextends: b.yaml")
    Path("b.yaml").write_text("extends: a.yaml")
    assert in_order(error(name="a.yaml"), "b.yaml:1: ", "a.yaml → b.yaml → a.yaml")
    Path("c.yaml").write_text("extends: none.yaml")
    assert in_order(
        error(name="c.yaml"), "c.yaml:1: extends none.yaml: ", "looked for none.yaml", ", ".join(preset_names())
    )
    Path("d.yaml").write_text("extends: [a.yaml, b.yaml]")
    assert in_order(error(name="d.yaml"), "d.yaml:1: extends ", '["a.yaml", "b.yaml"]')


@pytest.mark.parametrize("name", ["none", "", "x" * 5000, "a\0b"])
def test_a_missing_config(name: str, error: Error) -> None:
    assert repr(name) in error(name=name)


@pytest.mark.parametrize(("name", "meant"), [("demos", "demo"), ("eins", "runs/eins")])
def test_a_missing_config_and_the_one_that_was_meant(name: str, meant: str, error: Error) -> None:
    Path("runs/eins").mkdir(parents=True)
    Path("runs/eins/run.json").touch()
    assert error(name=name).endswith(f"; did you mean {meant}?")


def test_files_are_looked_for_in_root_then_beside_the_config_then_here(tmp_path: Path) -> None:
    for name in ("folder", "root", "here"):
        Path(name).mkdir()
    Path("folder/base.yaml").write_text("data: {train: [{kind: text, source: 1.txt, target: ../folder/2.txt}]}")
    Path("here/above.yaml").write_text("extends: ../folder/base.yaml\ndata: {validation: {kind: tsv, path: 1.txt}}")
    for path in ("folder/1.txt", "folder/2.txt", "here/1.txt", "1.txt"):
        Path(path).touch()

    def found(*overrides: str) -> list[str]:
        data = load_config("here/above.yaml", overrides, require_files=True).config.data
        (train,), validation = data.train, data.validation
        assert isinstance(train, TextCorpus) and isinstance(validation, TsvCorpus)
        return [str(path.relative_to(tmp_path.resolve())) for path in (train.source, train.target, validation.path)]

    # A base's path is relative to the base's file; one from the command line to the working directory.
    assert found() == ["folder/1.txt", "folder/2.txt", "here/1.txt"]
    assert found("data.train.0.source=1.txt") == ["1.txt", "folder/2.txt", "here/1.txt"]
    Path("root/1.txt").touch()
    assert found("data.root=root") == ["root/1.txt", "folder/2.txt", "root/1.txt"]


def test_missing_files_are_all_reported_with_the_places(tmp_path: Path, error: Error) -> None:
    Path("folder").mkdir()
    Path("root").mkdir()
    Path("folder/c.yaml").write_text("data:\n  train: [{kind: text, source: a.de, target: ..}]\n")
    here = tmp_path.resolve()
    source, target = error("data.root=root", name="folder/c.yaml", require_files=True).splitlines()
    looked = f"{here}/root/a.de, {here}/folder/a.de, {here}/a.de"
    assert in_order(source, "data.train.0.source = a.de: ", "(folder/c.yaml:2)", looked)
    assert in_order(target, "data.train.0.target = ..: ", "(folder/c.yaml:2)", f"{here}, {here.parent}")
    message = error("data.root=none", name="folder/c.yaml", require_files=True)
    assert in_order(message, "data.root = none: ", "(command line)", f"{here}/none\n")
    assert load_config("folder/c.yaml").config.data.train == (TextCorpus(source=Path("a.de"), target=Path("..")),)


def test_a_link_keeps_the_name_that_says_its_format(tmp_path: Path) -> None:
    Path("blob").touch()
    Path("pairs.tsv.gz").symlink_to("blob")
    assert load("data.train.1.path=pairs.tsv.gz").data.train[1] == TsvCorpus(path=tmp_path.resolve() / "pairs.tsv.gz")


def test_a_run_that_chose_by_bleu_chooses_by_chrf(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(resolved_yaml(Config()).replace("mbr: none", "mbr: bleu"))
    with caplog.at_level(logging.WARNING):
        assert read_resolved_config(path).decoding.mbr == "chrf"
    assert "decoding.mbr = bleu" in caplog.text


@pytest.mark.parametrize("key", sorted(REMOVED_KEYS))
def test_a_removed_key(key: str, tmp_path: Path, error: Error, caplog: pytest.LogCaptureFixture) -> None:
    """A run of an older version loads, with a warning unless it has the old default; other configs do not."""
    default, advice = REMOVED_KEYS[key]
    section, _, name = key.partition(".")
    path, config = tmp_path / "config.yaml", Config()
    (tmp_path / "run.json").write_text("{}")
    for value, warnings in ((default, []), (7, [f"{path}: {key} = 7 is ignored: {advice}"])):
        text = json.dumps(value)
        path.write_text(resolved_yaml(config).replace(f"{section}:\n", f"{section}:\n  {name}: {text}\n"))
        for load in (read_resolved_config, lambda path: load_config(str(path.parent)).config):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                assert load(path) == config
            assert caplog.messages == warnings
    assert error(f"{key}=7").startswith(f"{key} was removed (command line): {advice}")
