"""Configs as text: complete, exact when read back, with the source of each value, and described by a schema."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from translate.config.data import Augmentation
from translate.config.load import load_config, preset_names, presets_directory, read_resolved_config
from translate.config.schema import Config
from translate.config.section import Section
from translate.config.show import annotated_yaml, describe, describe_sections, json_schema, resolved_yaml
from translate.config.yaml import parse_yaml, read_yaml
from translate.errors import InputError


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("preset", preset_names())
def test_both_forms_read_back_exactly(preset: str) -> None:
    loaded = load_config(preset)
    for text in (resolved_yaml(loaded.config), annotated_yaml(loaded), annotated_yaml(loaded, describe=True)):
        Path("config.yaml").write_text(text, encoding="utf-8")
        assert read_resolved_config(Path("config.yaml")) == loaded.config
        assert load_config("config.yaml").config == loaded.config


def test_awkward_values_read_back_exactly() -> None:
    overrides = [
        'data.train=[{kind: text, source: "Prüfung #1.de", target: "1e-4", weight: 0.30000000000000004}]',
        "data.test={no: {kind: tsv, path: 'a: b'}, '2016': {kind: hub, dataset: '007', split: 'two\n\n  lines',"
        " source_column: 'null', target_column: ' x '}}",
        "data.source_language=no",
        "training.adam_epsilon=1e-12",
    ]
    Path("run.yaml").touch()
    loaded = load_config("run.yaml", overrides)
    for text in (resolved_yaml(loaded.config), annotated_yaml(loaded)):
        assert "Prüfung" in text
        Path("config.yaml").write_text(text, encoding="utf-8")
        assert read_resolved_config(Path("config.yaml")) == loaded.config


def test_annotated_yaml_says_where_each_value_was_given() -> None:
    Path("base.yaml").write_text("model:\n  d_model: 64\n  num_heads: 2\n")
    Path("run.yaml").write_text("extends: base.yaml\nmodel: {num_heads: 4}\ndata:\n  test: {}\n")
    train = "data.train=[{kind: text, source: a.de, target: a.en}]"
    lines = annotated_yaml(load_config("run.yaml", [train, "model.d_ff=96"])).splitlines()
    # The longest, `  look_ahead_lines: 2000`, decides the column.
    assert lines[:14] == [
        "name: run                        # default",
        "data:",
        "  source_language: de            # default",
        "  target_language: en            # default",
        "  root: null                     # default",
        "  train:",
        "    - weight: 1.0                # default",
        "      source_tag: null           # default",
        "      augment: null              # default",
        "      license: null              # default",
        "      kind: text                 # command line",
        "      source: a.de               # command line",
        "      target: a.en               # command line",
        "  validation: null               # default",
    ]
    assert "  test: {}                       # run.yaml:4" in lines
    start = lines.index("model:")
    assert lines[start + 1 : start + 5] == [
        "  d_model: 64                    # base.yaml:2",
        "  num_heads: 4                   # run.yaml:2",
        "  d_ff: 96                       # command line",
        "  num_encoder_layers: 6          # default",
    ]


def sections(section: type[Section]) -> list[type[Section]]:
    return [section, *(below for child in section.__subclasses__() for below in sections(child))]


@pytest.mark.parametrize("section", sections(Section))
def test_every_field_is_described(section: type[Section]) -> None:
    assert section.__doc__
    for name, field in section.model_fields.items():
        assert field.description and field.description.endswith((".", ")")), f"{section.__name__}.{name}"


def test_schema_says_the_keys_of_a_file() -> None:
    schema = json.loads(json_schema())
    assert list(schema["properties"]) == [*Config.model_fields, "extends"]
    assert schema["additionalProperties"] is False
    d_model = schema["$defs"]["ModelConfig"]["properties"]["d_model"]
    assert (d_model["minimum"], d_model["default"], d_model["description"]) == (2, 512, "Width of the residual stream.")


@pytest.mark.skipif(importlib.util.find_spec("jsonschema") is None, reason="jsonschema is not installed")
def test_schema_takes_the_presets_and_refuses_mistakes() -> None:
    import jsonschema  # type: ignore[import-untyped,unused-ignore]

    validator = jsonschema.Draft202012Validator(json.loads(json_schema()))

    def is_valid(text: str) -> bool:
        value: Any = parse_yaml(text, path=None)[0]
        return bool(validator.is_valid(value))

    for preset in preset_names():
        assert [
            error.message for error in validator.iter_errors(read_yaml(presets_directory() / f"{preset}.yaml").values)
        ] == []
    assert is_valid("{data: {test: {test: null}, validation: {source_column: en}}}")
    assert not is_valid("{model: {d_modle: 3}}")
    assert not is_valid("{model: {d_model: 1}}")
    assert not is_valid("{data: {train: [{kind: txt}]}}")


def test_described_yaml_has_each_meaning_above_its_key() -> None:
    Path("run.yaml").touch()
    train = "data.train=[{kind: text, source: a.de, target: a.en}]"
    text = annotated_yaml(load_config("run.yaml", [train, "model.d_ff=96"]), describe=True)
    lines = text.splitlines()
    start = lines.index("  train:")
    assert lines[start - 1 : start + 15] == [
        "  # Corpora to train on.",
        "  train:",
        "    # How often each pair is seen in one epoch: 2 is twice, 0.5 is another random half in each",
        "    # epoch.",
        "    - weight: 1.0                # default",
        "      # Put this before each source of a training corpus, such as `<bt>` for back-translations",
        "      # (Caswell et al. 2019). It is one subword, which is learnt, and comes to the vocabulary",
        "      # besides tokenizer.vocab_size.",
        "      source_tag: null           # default",
        "      # Changes of case, punctuation and spelling, each with its chance; null: none.",
        "      augment: null              # default",
        "      # Licence of the corpus, such as cc-by-4.0, which the model card of an export names.",
        "      license: null              # default",
        "      # Two plain-text files.",
        "      kind: text                 # command line",
        "      # File with the source sentences.",
    ]
    assert "  # Inner width of the feed-forward layer.\n  d_ff: 96                       # command line\n" in text
    assert "\n# Size and kind of the Transformer.\nmodel:\n" in text
    assert all(len(line) <= 100 for line in lines if line.lstrip().startswith("#"))


def test_sources_are_relative_as_given_or_a_presets_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("folder").mkdir()
    Path("folder/base.yaml").write_text("extends: demo\nmodel: {d_ff: 96}\n")
    Path("run.yaml").write_text("extends: folder/base.yaml\ntraining: {seed: 3}\n")

    def sources(name: str) -> list[str]:
        origins = load_config(name).origins
        return [str(origins[key]).rpartition(":")[0] for key in ("training.seed", "model.d_ff", "model.d_model")]

    assert sources("run.yaml") == ["run.yaml", "folder/base.yaml", "preset demo"]
    assert sources(str(tmp_path / "run.yaml")) == ["run.yaml", "folder/base.yaml", "preset demo"]
    monkeypatch.chdir("folder")
    assert sources("../run.yaml")[0] == "../run.yaml"
    monkeypatch.chdir(presets_directory().parent)
    assert str(load_config("demo").origins["model.d_model"]).startswith(f"{presets_directory().name}/demo.yaml:")


def test_a_key_is_described() -> None:
    assert describe("training.learning_rate", width=80) == (
        "training.learning_rate: number > 0.0, ≤ 100.0; default: 1.0\n"
        "    Highest learning rate, reached when the warm-up ends. For noam, a factor on\n"
        "    d_model^-0.5 * warmup_steps^-0.5."
    )
    assert describe("name", width=200).startswith("name: text; default: run\n    Name of the run, ")
    assert describe("model.norm", width=80).startswith("model.norm: post, pre; default: post\n")
    assert describe("training.batch_tokens", width=80).startswith(
        "training.batch_tokens: whole number ≥ 1 or auto; default: 4096\n"
    )


def test_a_section_and_all_are_described() -> None:
    text = describe("evaluation", width=80)
    assert text.startswith("evaluation: How translations are scored.\n\nevaluation.bleu_tokenizer: 13a, intl, ")
    every = describe("", width=80)
    assert text in every
    for title, section in describe_sections().items():
        prefix = "" if title == "" or title.endswith(" corpus") else f"{title}."
        assert all(f"\n{prefix}{name}: " in every for name in section.keys)
    assert max(map(len, every.splitlines())) <= 80


def test_corpora_are_described() -> None:
    source = "data.train.0.source: path; must be given\n    File with the source sentences."
    assert describe("data.train.0.source", width=80) == source
    assert describe("data.train.source", width=80) == source.replace(".0", "")
    assert describe("data.test.first.split", width=80).startswith("data.test.first.split: text; must be given\n")
    # The same in each kind, and so given once; or once for each that differs.
    assert describe("data.validation.weight", width=80).count("data.validation.weight: number > 0.0") == 1
    assert [
        line for line in describe("data.validation.source_column", width=80).splitlines() if "source_c" in line
    ] == [
        "data.validation.source_column: text; must be given",
        "data.validation.source_column: whole number ≥ 0; default: 0",
    ]
    for key in ("data.train.0.augment", "data.validation.augment"):
        typos = describe(f"{key}.typos", width=200).splitlines()
        assert typos[0] == f"{key}.typos: number ≥ 0.0, ≤ 1.0; default: 0.0" and "The source with typos" in typos[1]
        assert describe(key, width=80).startswith(f"{key}: the keys of augment or null; default: null\n")
    assert describe("augment", width=80).count("\naugment.") == len(Augmentation.model_fields)
    for key in ("data.train", "data.validation", "data.test"):
        text = describe(key, width=120)
        assert f"\n{key}: " in text and "\nText corpus: A pair of plain-text files" in text and "\nsplit: text;" in text


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("training.lr", "training.learning_rate"),
        ("trainig", "training"),
        ("beam", "decoding.beam_size"),
        ("nowhere.seed", "training.seed or decoding.seed"),
    ],
)
def test_an_unknown_key_is_not_described(key: str, meant: str) -> None:
    with pytest.raises(InputError, match=rf"^unknown key {key}; did you mean {meant}\?$"):
        describe(key, width=80)
    for unknown in (
        "Text corpus",
        "Text corpus.kind",
        "data.train.0.xyzzy",
        "data.train.0.typos",
        "data.test.a.augment.source",
        ".",
    ):
        with pytest.raises(InputError, match="^unknown key"):
            describe(unknown, width=80)
