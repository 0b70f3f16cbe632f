"""Configs as text: complete, exact when read back, with the source of each value, and described by a schema."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from translate.config.load import load_config, preset_names, presets_directory, read_resolved_config
from translate.config.schema import Config
from translate.config.section import Section
from translate.config.show import annotated_yaml, json_schema, resolved_yaml
from translate.config.yaml import parse_yaml, read_yaml


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("preset", preset_names())
def test_both_forms_read_back_exactly(preset: str) -> None:
    loaded = load_config(preset)
    for text in (resolved_yaml(loaded.config), annotated_yaml(loaded)):
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
    # The longest, `  contrastive_plausibility: 0.1`, has 31 characters.
    assert lines[:11] == [
        "name: run                        # default",
        "data:",
        "  source_language: de            # default",
        "  target_language: en            # default",
        "  root: null                     # default",
        "  train:",
        "    - weight: 1.0                # default",
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
