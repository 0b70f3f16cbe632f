"""What a shell offers on TAB: configs, runs, and the keys of configs with their choices.

Typer installs the completion (`translate --install-completion`); here is what comes where. A single key is offered
with its values, so that the shell goes on behind the `=` without a space.
"""

import glob
import os
import re
from typing import Any


def complete_run(incomplete: str) -> list[str]:
    """The runs here, in `runs` and in other folders one level down."""
    start = glob.escape(incomplete)
    found = [path for pattern in ("*/run.json", "*/*/run.json") for path in glob.glob(f"{start}{pattern}")]
    return sorted(os.path.dirname(path) for path in found)


def complete_config(incomplete: str) -> list[str]:
    """The presets, and the YAML files and the runs that `complete_run` would find."""
    from translate.config.yaml import presets_directory

    start = glob.escape(incomplete)
    files = [path for pattern in ("*.yaml", "*.yml", "*/*.yaml") for path in glob.glob(f"{start}{pattern}")]
    files = [path for path in files if not os.path.exists(os.path.join(os.path.dirname(path), "run.json"))]
    return [
        *sorted(path.stem for path in presets_directory().glob("*.yaml")),
        *sorted(files),
        *complete_run(incomplete),
    ]


def complete_override(ctx: Any, incomplete: str) -> list[str]:
    """The keys of configs, and behind a `=` their choices or their default."""
    before = ctx.params.get("overrides") or []
    if before[-1:] == ["="]:  # bash, for which a `=` is a word of its own
        return [value for value in _values().get(before[-2], []) if value]
    key, equals, _ = incomplete.partition("=")
    keys = [key] if equals else complete_key(incomplete)
    if len(keys) == 1 and keys[0] in _values():
        return [f"{keys[0]}={value}" for value in _values()[keys[0]]]
    return [key if key.endswith(".") else f"{key}=" for key in keys]


def complete_key(incomplete: str) -> list[str]:
    """The sections of configs, or the keys where the section is clear."""
    keys = [key for key in _values() if key.startswith(incomplete)]
    sections = {re.sub(r"\..*", ".", key) for key in keys}
    return keys if "." in incomplete or len(sections) < 2 else sorted(sections)


def _values() -> dict[str, list[str]]:
    """The choices of each key, or its default and nothing."""
    from translate.config.show import describe_sections

    values = {}
    for title, section in describe_sections().items():
        for name, key in section.keys.items() if not title.endswith(" corpus") else []:
            choices = re.findall("`([^`]+)`", key.values)
            values[f"{title}.{name}".lstrip(".")] = choices if len(choices) > 1 else [key.default or "", ""]
    return values


def split_after_equals() -> None:
    """Let a word that bash is completing begin after a `=`, where bash says that the `=` is that word."""
    if os.environ.get("COMP_WORDS", "").endswith("\n="):
        os.environ["COMP_CWORD"] = str(int(os.environ["COMP_CWORD"]) + 1)
