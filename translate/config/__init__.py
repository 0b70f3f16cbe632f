"""Layer 0: every knob, its default, meaning and bounds; how a YAML file and overrides become one frozen `Config`."""

from translate.config.load import LoadedConfig, load_config, override_config, read_resolved_config
from translate.config.presets import find_config, preset_names
from translate.config.sections import (
    Config,
    Corpus,
    DataConfig,
    DecodingConfig,
    EvaluationConfig,
    HubCorpus,
    ModelConfig,
    TableCorpus,
    TextCorpus,
    TokenizerConfig,
    TrainingConfig,
    TsvCorpus,
)
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
