"""Configs as text: complete, exact when read back, with the source of each value; their schema and their page."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from translate.config.load import load_config, read_resolved_config
from translate.config.schema import Config, EvaluationConfig
from translate.config.section import Section
from translate.config.show import annotated_yaml, resolved_yaml
from translate.config.yaml import preset_names

TRAIN = "data.train=[{kind: text, source: a.de, target: a.en}]"
AWKWARD = [
    'data.train=[{kind: text, source: "Prüfung #1.de", target: "1e-4", weight: 0.30000000000000004}]',
    "data.test={no: {kind: tsv, path: 'a: b'}, '2016': {kind: hub, dataset: '007', split: 'two\n\n  lines',"
    " source_column: 'null', target_column: ' x '}}",
    "data.source_language=no",
    "training.adam_epsilon=1e-12",
]


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").touch()


@pytest.mark.parametrize(("name", "overrides"), [*((name, []) for name in preset_names()), ("run.yaml", AWKWARD)])
def test_both_forms_read_back_exactly(name: str, overrides: list[str]) -> None:
    loaded = load_config(name, overrides)
    for text in (resolved_yaml(loaded.config), annotated_yaml(loaded), annotated_yaml(loaded, describe=True)):
        assert not overrides or "Prüfung" in text
        Path("config.yaml").write_text(text, encoding="utf-8")
        assert read_resolved_config(Path("config.yaml")) == loaded.config
        assert load_config("config.yaml").config == loaded.config
    changed = annotated_yaml(loaded, is_whole=False)
    Path("config.yaml").write_text(changed, encoding="utf-8")
    assert load_config("config.yaml").config == loaded.config and changed.count("\n") < text.count("\n") / 4


def test_annotated_yaml_says_where_each_value_was_given() -> None:
    Path("base.yaml").write_text("model:\n  d_model: 64\n  num_heads: 2\n")
    Path("run.yaml").write_text("extends: base.yaml\nmodel: {num_heads: 4}\ndata:\n  test: {}\n")
    lines = annotated_yaml(load_config("run.yaml", [TRAIN, "model.d_ff=96"])).splitlines()
    # The longest, `  look_ahead_lines: 2000`, decides the column.
    assert lines[:2] == ["name: run                        # default", "data:"]
    start = lines.index("  train:")
    assert lines[start + 7 : start + 9] == [
        "      license: null              # default",
        "      kind: text                 # command line",
    ]
    assert "  test: {}                       # run.yaml:4" in lines
    start = lines.index("model:")
    assert lines[start + 1 : start + 5] == [
        "  d_model: 64                    # base.yaml:2",
        "  num_heads: 4                   # run.yaml:2",
        "  head_dim: null                 # default",
        "  d_ff: 96                       # command line",
    ]


def test_sources_are_relative_as_given_or_a_presets_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("folder").mkdir()
    Path("run.yaml").write_text("extends: demo\ntraining: {seed: 3}\n")
    for name, folder in (("run.yaml", "."), ("../run.yaml", "folder")):
        monkeypatch.chdir(folder)
        origins = load_config(name).origins
        shown = [str(origins[key]).rpartition(":")[0] for key in ("training.seed", "model.d_model")]
        assert shown == [name, "preset demo"]


def sections(section: type[Section]) -> list[type[Section]]:
    return [section, *(below for child in section.__subclasses__() for below in sections(child))]


@pytest.mark.parametrize("section", sections(Section))
def test_every_field_is_described(section: type[Section]) -> None:
    assert section.__doc__
    for name, field in section.model_fields.items():
        assert field.description and field.description.endswith((".", ")")), f"{section.__name__}.{name}"


def test_the_page_of_the_keys_is_up_to_date() -> None:
    script = Path(__file__).resolve().parents[2] / "docs" / "config_reference.py"
    spec = importlib.util.spec_from_file_location("config_reference", script)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = script.with_name("config.md").read_text(encoding="utf-8")
    assert page == module.reference(), "docs/config.md is stale: run `make docs`"


# Larger values of these than the data have are no more work; see `section.PositiveInt`.
UNLIMITED = {
    *("data.max_source_tokens", "data.max_target_tokens", "decoding.max_source_tokens", "decoding.max_target_tokens"),
    *("decoding.top_k", "decoding.no_repeat_ngram", "tokenizer.max_training_lines", "tsv.source_column"),
    *("tsv.target_column", "training.max_steps", "training.max_epochs", "training.warmup_steps"),
    *("training.validate_every", "training.save_every", "training.log_every", "training.patience"),
    *("training.sample_translations", "training.keep_last", "training.keep_best"),
    # fractions, whose size is not that of any work
    *("data.max_length_ratio", "training.final_learning_rate", "training.max_gradient_norm", "training.lora_alpha"),
}


def test_every_number_that_decides_time_or_memory_has_a_bound() -> None:
    assert EvaluationConfig(bootstrap_samples=100_000)  # as runs of 0.8.0 may have
    found = set()
    for section, schema in Config.model_json_schema()["$defs"].items():
        for name, field in schema["properties"].items():
            for kind in [field, *field.get("anyOf", [])]:
                most = kind.get("maximum", kind.get("exclusiveMaximum", 2**53))
                if kind.get("type") in ("integer", "number") and most >= 2**53:
                    found.add(f"{section.removesuffix('Config').removesuffix('Corpus').lower()}.{name}")
    assert found == UNLIMITED
