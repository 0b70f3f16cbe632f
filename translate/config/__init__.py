"""The config: every key with its default, meaning and bounds, and how YAML files and overrides become a `Config`."""

from translate.config.data import Corpus, DataConfig, HubCorpus, TableCorpus, TextCorpus, TokenizerConfig, TsvCorpus
from translate.config.decoding import DecodingConfig
from translate.config.load import (
    LoadedConfig,
    find_config,
    load_config,
    override_config,
    preset_names,
    read_resolved_config,
)
from translate.config.schema import Config, EvaluationConfig, ModelConfig, TrainingConfig
from translate.config.show import annotated_yaml, json_schema, resolved_yaml

__all__ = [
    "Config",
    "Corpus",
    "DataConfig",
    "DecodingConfig",
    "EvaluationConfig",
    "HubCorpus",
    "LoadedConfig",
    "ModelConfig",
    "TableCorpus",
    "TextCorpus",
    "TokenizerConfig",
    "TrainingConfig",
    "TsvCorpus",
    "annotated_yaml",
    "find_config",
    "json_schema",
    "load_config",
    "override_config",
    "preset_names",
    "read_resolved_config",
    "resolved_yaml",
]
