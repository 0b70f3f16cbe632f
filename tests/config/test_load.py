"""Files, their bases, and overrides; an error names the key, the value, its bound or nearest key, and its place."""

from pathlib import Path

import pydantic
import pytest

from translate.config import Config, HubCorpus, LoadedConfig, TextCorpus, TsvCorpus, load_config
from translate.errors import InputError

BASE = """\
data:
  train:
    - {kind: text, source: a.de, target: a.en, weight: 2}
    - {kind: tsv, path: b.tsv}
  validation: {kind: text, source: v.de, target: v.en}
  test:
    first: {kind: tsv, path: t.tsv}
model:
  d_model: 64
  num_heads: 4
training: {learning_rate: 0.5}
"""


@pytest.fixture(autouse=True)
def _config_in_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(BASE)


def load(*overrides: str) -> Config:
    return load_config("run.yaml", overrides).config


def error(*overrides: str, name: str = "run.yaml", require_files: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        load_config(name, overrides, require_files=require_files)
    return str(caught.value)


def extended(text: str, *overrides: str) -> LoadedConfig:
    Path("above.yaml").write_text(f"extends: run.yaml\n{text}")
    return load_config("above.yaml", overrides)


def test_name_is_the_files_unless_said() -> None:
    assert load().name == "run"
    assert load("name=other").name == "other"
    Path("my first run.yaml").write_text("")
    assert load_config("my first run.yaml").config.name == "my-first-run"


def test_a_config_is_frozen() -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        load().model.d_model = 3


def test_overrides_reach_values_lists_and_mappings() -> None:
    config = load("model.d_model=128", "training.learning_rate=1e-3", "training.max_steps=2e5", "data.train.0.weight=3")
    assert (config.model.d_model, config.model.num_heads) == (128, 4)
    assert (config.training.learning_rate, config.training.max_steps) == (0.001, 200_000)
    assert [corpus.weight for corpus in config.data.train] == [3.0, 1.0]
    train = "data.train=[{kind: text, source: x, target: y}]"
    assert load(train).data.train == (TextCorpus(source=Path("x"), target=Path("y")),)
    assert load("data.validation=null").data.validation is None
    assert load("data.validation=null", "data.validation={kind: tsv, path: x}").data.validation == TsvCorpus(
        path=Path("x")
    )
    assert load("data.train.1.path=c=d.tsv").data.train[1] == TsvCorpus(path=Path("c=d.tsv"))


def test_the_last_override_wins() -> None:
    loaded = load_config("run.yaml", ["model={d_model: 8, num_heads: 2}", "model.d_model=16"])
    assert (loaded.config.model.d_model, loaded.config.model.num_heads) == (16, 2)


def test_test_sets_are_added_and_removed_by_name() -> None:
    assert list(load("data.test={x: {kind: tsv, path: x.tsv}}").data.test) == ["first", "x"]
    assert list(load("data.test={x: {kind: tsv, path: x.tsv}, first: null}").data.test) == ["x"]
    assert load("data.test.first=null").data.test == {}
    assert list(extended("data: {test: {first: null, '2016': {kind: tsv, path: x}}}").config.data.test) == ["2016"]


def test_a_corpus_of_another_kind_takes_the_old_ones_place() -> None:
    corpus = "{kind: hub, dataset: d, split: train, source_column: de, target_column: en}"
    expected = HubCorpus(dataset="d", split="train", source_column="de", target_column="en")
    assert load(f"data.validation={corpus}").data.validation == expected
    assert load(f"data.train.0={corpus}").data.train[0] == expected
    assert extended(f"data: {{validation: {corpus}}}").config.data.validation == expected
    assert load("data.train.0.kind=tsv", "data.train.0.path=x").data.train[0] == TsvCorpus(path=Path("x"))


def test_extending_merges_mappings_and_replaces_lists() -> None:
    loaded = extended(
        "model: {d_model: 32}\ndata: {train: [{kind: tsv, path: x}], validation: {source: w}}", "model.d_ff=8"
    )
    assert (loaded.config.model.d_model, loaded.config.model.num_heads, loaded.config.model.d_ff) == (32, 4, 8)
    assert loaded.config.data.train == (TsvCorpus(path=Path("x")),)
    assert loaded.config.data.validation == TextCorpus(source=Path("w"), target=Path("v.en"))
    origins = {key: str(loaded.origin_of(f"model.{key}")) for key in ("d_model", "num_heads", "d_ff", "dropout")}
    assert origins == {
        "d_model": "above.yaml:2",
        "num_heads": "run.yaml:10",
        "d_ff": "command line",
        "dropout": "default",
    }
    assert "data.train.0.weight" not in loaded.origins
    assert "data.train.1" not in loaded.origins


def test_extending_by_path_and_by_presets_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("folder").mkdir()
    Path("folder/above.yaml").write_text("extends: ../run.yaml\n")
    Path("folder/top.yaml").write_text("extends: above.yaml\n")
    Path("folder/preset.yaml").write_text("extends: transformer-base\n")
    assert load_config("folder/top.yaml").config.model.d_model == 64
    assert load_config("folder/preset.yaml").config.training.warmup_steps == 4000
    monkeypatch.chdir("folder")
    assert load_config("top.yaml").config.model.d_model == 64


def test_a_cycle_and_a_missing_base() -> None:
    Path("a.yaml").write_text("name: a\nextends: b.yaml")
    Path("b.yaml").write_text("extends: a.yaml")
    assert error(name="a.yaml") == "b.yaml:1:1: a config cannot extend itself: a.yaml → b.yaml → a.yaml"
    Path("c.yaml").write_text("extends: none.yaml")
    message = error(name="c.yaml")
    assert message.startswith("c.yaml:1:1: extends none.yaml: no config 'none.yaml': looked for none.yaml, ")
    assert message.endswith(
        "the presets are demo, multi30k, multi30k-en-de, multi30k-local, transformer-base, transformer-big"
    )
    Path("d.yaml").write_text("extends: [a.yaml, b.yaml]")
    assert error(name="d.yaml") == 'd.yaml:1:1: extends takes one config\'s path or name, not ["a.yaml", "b.yaml"]'
    assert error("extends=demo") == "command line: extends=demo: extends can only stand in a config file"


@pytest.mark.parametrize("name", ["none", "", "x" * 5000, "a\0b", "~nobody/none.yaml"])
def test_a_missing_config(name: str) -> None:
    assert error(name=name).startswith(f"no config {name!r}: looked for ")


def test_a_directory_is_no_config() -> None:
    Path("folder").mkdir()
    assert error(name="folder").startswith("'folder' is a directory, not a config: looked for folder, ")


HERE = "(command line)"
CORPUS_FORM = "{kind: text, source: a.de, target: a.en}"
KINDS = "'text', 'tsv', 'json', 'csv', 'parquet', 'hub'"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.learnig_rate=1", f"unknown key training.learnig_rate {HERE}; did you mean training.learning_rate?"),
        ("d_model=3", f"unknown key d_model {HERE}; did you mean model.d_model?"),
        ("device=cpu", f"unknown key device {HERE}; did you mean training.device or decoding.device?"),
        ("modle.d_model=3", f"unknown key modle {HERE}; did you mean model?"),
        ("model.layers=3", f"unknown key model.layers {HERE}"),
        ("data.train.0.sorce=a", f"unknown key data.train.0.sorce {HERE}; did you mean data.train.0.source?"),
        ("data.train.1.source=a", f"unknown key data.train.1.source {HERE}; did you mean data.train.1.source_column?"),
        ("data.train.0.text=a", f"unknown key data.train.0.text {HERE}; did you mean data.train.0.target?"),
        ("data.validation.tsv=a", f"unknown key data.validation.tsv {HERE}"),
        ("data.test.first.pth=a", f"unknown key data.test.first.pth {HERE}; did you mean data.test.first.path?"),
        ("data.train.0.kind=txt", f'data.train.0.kind = "txt": should be one of {KINDS} {HERE}'),
        ("data.train.0.kind=[a]", f'data.train.0.kind = ["a"]: should be one of {KINDS} {HERE}'),
        ("data.train.0.kind=tsv", f"data.train.0.path is missing, and has no default {HERE}"),
        ("data.train=[{source: a}]", f"data.train.0.kind is missing, and has no default {HERE}"),
        ("data.train=[a]", f'data.train.0 = "a": should be a corpus, such as {CORPUS_FORM} {HERE}'),
        ("data.train=a", f'data.train = "a": should be a list of corpora, such as [{CORPUS_FORM}] {HERE}'),
        ("data.test=[a]", f'data.test = ["a"]: should be a mapping of names to corpora {HERE}'),
        ("data.test.other=null", f"data.test.other = null: there is no test set of this name to remove {HERE}"),
        (
            "data.test={a b: {kind: tsv, path: x}}",
            f"data.test.a b: the name of a test set has letters, digits, '_' and '-' {HERE}",
        ),
        (
            "data.test={a.b: {kind: tsv, path: x}}",
            "command line: data.test: the key 'a.b' has a dot; in a mapping, write a section's keys below it",
        ),
        ("data.train.0.weight=0", f"data.train.0.weight = 0: should be greater than 0 {HERE}"),
        ("data.train.0.weight=.inf", f"data.train.0.weight = .inf: should be a finite number {HERE}"),
        ("data.train.0.weight=.nan", f"data.train.0.weight = .nan: should be a finite number {HERE}"),
        (
            "data.train.0.source=3",
            f"data.train.0.source = 3: should be text, in quotes if it looks like something else {HERE}",
        ),
        ("data.train.2.weight=2", "command line: data.train.2: '2' is no index of a list of 2, counted from 0"),
        ("data.train.x=2", "command line: data.train.x: 'x' is no index of a list of 2, counted from 0"),
        ("model.d_model=1", f"model.d_model = 1: should be greater than or equal to 2 {HERE}"),
        ('model.d_model="8"', f'model.d_model = "8": should be a whole number {HERE}'),
        ("model.d_model=8.0", f"model.d_model = 8.0: should be a whole number {HERE}"),
        ("model.d_model=true", f"model.d_model = true: should be a whole number {HERE}"),
        ("model.d_model=.inf", f"model.d_model = .inf: should be a whole number {HERE}"),
        ("model.dropout=a", f'model.dropout = "a": should be a number {HERE}'),
        ("model.dropout=1", f"model.dropout = 1: should be less than 1 {HERE}"),
        ("model.norm=mid", f"model.norm = \"mid\": should be 'post' or 'pre' {HERE}"),
        ("model=", f"model = null: should be a section of keys and values, or be left out {HERE}"),
        ("model=3", f"model = 3: should be a section of keys and values, or be left out {HERE}"),
        ("model.d_model.x=3", f'model.d_model = {{"x": 3}}: should be a whole number {HERE}'),
        ("model.num_heads=5", "model.num_heads = 5 must divide model.d_model = 64 (command line, run.yaml:9:3)"),
        ("training.tensorboard=yes", f'training.tensorboard = "yes": should be true or false {HERE}'),
        (
            "training.warmup_steps=0",
            f"training.warmup_steps = 0 must be at least 1 for training.schedule = 'noam' {HERE}",
        ),
        ("name=2024", f"name = 2024: should be text, in quotes if it looks like something else {HERE}"),
        (
            "name=..",
            "name = \"..\": a run's name has letters, digits, '_', '-' and '.', and does not begin with '-' or '.'"
            f" {HERE}",
        ),
        ("name=[", "command line: name: not valid YAML: while parsing a flow node"),
        ("data.validation={a: 1, a: 2}", "command line: data.validation: the key 'a' is given twice"),
        ("1=x", f"unknown key 1 {HERE}"),
        (f"data.root={'[' * 240}{']' * 240}", "the config is nested too deeply"),
        ("model", "'model' is no override: write dotted.key=value, such as model.d_model=256"),
        ("model..d_model=3", "'model..d_model=3' is no override: write dotted.key=value, such as model.d_model=256"),
    ],
)
def test_what_is_wrong_with_an_override(override: str, message: str) -> None:
    assert error(override).split(", expected the node")[0] == message


def test_errors_in_files_name_line_and_column_and_all_are_reported() -> None:
    Path("bad.yaml").write_text(
        "model:\n  d_model: 64\n  d_modle: 3\ntraining:\n  max_steps: 0\ndata:\n  train: [{kind: tsv}]\n"
    )
    assert error(name="bad.yaml").splitlines() == [
        "data.train.0.path is missing, and has no default (bad.yaml:7:11)",
        "unknown key model.d_modle (bad.yaml:3:3); did you mean model.d_model?",
        "training.max_steps = 0: should be greater than or equal to 1 (bad.yaml:5:3)",
    ]
    Path("bad.yaml").write_text("name: x\nmodel:\n")
    assert (
        error(name="bad.yaml") == "model = null: should be a section of keys and values, or be left out (bad.yaml:2:1)"
    )


def test_sections_that_do_not_agree() -> None:
    assert error("tokenizer.vocabulary=separate") == (
        "model.tie_embeddings = 'all' needs tokenizer.vocabulary = 'joint'; 'decoder' and 'none' do not (command line)"
    )
    assert "model.max_positions = 1024 is less than" in error("model.positions=learned", "data.max_source_tokens=1024")
    assert load("model.positions=learned", "data.max_source_tokens=1023").data.max_source_tokens == 1023


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


def test_missing_files_are_all_reported_with_the_places(tmp_path: Path) -> None:
    Path("folder").mkdir()
    Path("root").mkdir()
    Path("folder/c.yaml").write_text("data:\n  train: [{kind: text, source: a.de, target: ..}]\n")
    here = tmp_path.resolve()
    assert error("data.root=root", name="folder/c.yaml", require_files=True).splitlines() == [
        f"data.train.0.source = a.de: no such file (folder/c.yaml:2:24); looked for {here}/root/a.de,"
        f" {here}/folder/a.de, {here}/a.de",
        "data.train.0.target = ..: is a folder, and a file is needed (folder/c.yaml:2:38); looked for"
        f" {here}, {here.parent}",
    ]
    message = error("data.root=none", name="folder/c.yaml", require_files=True)
    assert message.startswith(f"data.root = none: no such folder (command line); looked for {here}/none\n")
    assert load_config("folder/c.yaml").config.data.train == (TextCorpus(source=Path("a.de"), target=Path("..")),)


def test_a_link_keeps_the_name_that_says_its_format(tmp_path: Path) -> None:
    Path("blob").touch()
    Path("pairs.tsv.gz").symlink_to("blob")
    assert load("data.train.1.path=pairs.tsv.gz").data.train[1] == TsvCorpus(path=tmp_path.resolve() / "pairs.tsv.gz")


def test_character_coverage_is_bounded_as_sentencepiece_bounds_it() -> None:
    with pytest.raises(InputError) as caught:
        load_config("demo", ["tokenizer.character_coverage=0.9"])
    message = "tokenizer.character_coverage = 0.9: should be greater than or equal to 0.98 (command line)"
    assert str(caught.value) == message
