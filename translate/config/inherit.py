"""What fine-tuning inherits from its base run: what its weights and tokenizer determine, and how it searches."""

import json
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from translate.config.decoding import DecodingConfig
from translate.config.languages import Languages
from translate.config.schema import Config
from translate.config.yaml import Document, Origin, shown_path
from translate.errors import InputError

# Keys that suit a machine, not a model.
OF_A_MACHINE = {"batch_tokens", "look_ahead_lines", "engine", "precision", "workers", "device"}
# Keys that are inherited too, but may be overridden.
_MAY_DIFFER = {
    "model": {"dropout", "attention_dropout", "activation_dropout", "initialization"},
    "tokenizer": {"subword_sampling", "character_coverage", "max_training_lines"},
    "data": {"source_language", "target_language", "languages", "max_source_tokens", "max_target_tokens"},
    "decoding": DecodingConfig.model_fields.keys() - OF_A_MACHINE,
}
_NOT_INHERITED = {"add_characters", "add_pieces", "add_languages"}  # the run's tokenizer has these pieces already


def inherit(document: Document, base: Config, *, run: Path, not_own: Container[str]) -> None:
    """Add the base run's values for all keys that the user does not give.

    Args:
        not_own: Keys whose values come from a preset or another run, not from the user: the run's values replace them.

    Raises:
        InputError: The config contradicts the run's weights or tokenizer.
    """
    for section, inherited in _inherited(base).items():
        stated = document.values.setdefault(section, {})
        if not isinstance(stated, dict):  # an error that validation reports
            return
        for key, value in inherited.items():
            if key not in stated or f"{section}.{key}" in not_own:
                stated[key] = value
                document.origins[f"{section}.{key}"] = Origin(run / "config.yaml")
    check_agreement(document.values, base, run=run, origins=document.origins)


def check_agreement(
    values: Mapping[str, Any], base: Config, *, run: Path, origins: Mapping[str, Origin] | None = None
) -> None:
    """Check that a config, as JSON values with their origins, does not contradict its base run's model and tokenizer.

    Raises:
        InputError: Something differs; the message lists all differences.
    """
    shown, different = shown_path(run), []
    for section, inherited in _inherited(base).items():
        for key in sorted(inherited.keys() - _MAY_DIFFER[section]):
            stated, name = values[section][key], f"{section}.{key}"
            if stated != inherited[key]:
                place = f" ({origins[name]})" if origins and name in origins else ""
                both = (json.dumps(value, ensure_ascii=False) for value in (stated, inherited[key]))
                different.append(f"{name} = {next(both)}{place}, but {shown} has {next(both)}")
    if different:
        raise InputError(
            f"training.initialize_from = {shown} determines model and vocabulary, but the config contradicts it:\n  "
            + "\n  ".join(different)
            + "\nLeave that out, or train a new model without training.initialize_from"
        )


def _inherited(base: Config) -> dict[str, dict[str, Any]]:
    """The values that fine-tuning inherits from a run's config, by section and key."""
    own_files = {"source_model": None, "target_model": None}  # the run has tokenizers of its own
    data, languages = base.data.model_dump(mode="json", include=_MAY_DIFFER["data"]), Languages(base.data)
    data |= zip(("source_language", "target_language"), languages.direction, strict=True)
    data |= languages.settings  # without tags, fine-tuning may add them
    if languages.tags:
        data["languages"] = [*dict.fromkeys([*data["languages"], *base.tokenizer.add_languages])]
    return {
        "model": base.model.model_dump(mode="json"),
        "tokenizer": base.tokenizer.model_dump(mode="json", exclude=_NOT_INHERITED) | own_files,
        "data": data,
        "decoding": base.decoding.model_dump(mode="json", include=_MAY_DIFFER["decoding"]),
    }
