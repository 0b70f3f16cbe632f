"""A config as text: complete for machines, with the source of each value for people."""

import re
from collections.abc import Container, Iterator
from typing import Any

from pydantic_core import to_jsonable_python

from translate.config.load import LoadedConfig, load_config
from translate.config.schema import Config
from translate.config.section import Section
from translate.config.yaml import Origin, dump_scalar, dump_yaml, join_key, preset_names, presets_directory
from translate.files import read_input
from translate.messages import wrap

_WIDEST_VALUE = 60  # a longer line moves only its own comment to the right


def resolved_yaml(config: Config) -> str:
    """Write the whole config as YAML, including defaults, as in a run directory."""
    return dump_yaml(config.model_dump(mode="json"))


def annotated_yaml(loaded: LoadedConfig, *, describe: bool = False, is_whole: bool = True) -> str:
    """Write a config as YAML, with the place where each value was given.

    Args:
        describe: Whether the meaning of each key is written above it.
        is_whole: Whether values that equal the defaults are written too. Without them, the text still gives the same
            config: what the config of a fine-tuning states itself is always written.
    """
    (config, origins), run = loaded, loaded.config.training.initialize_from
    own = [key for key, origin in origins.items() if run and origin.path != run / "config.yaml"]
    lines = list(_annotated_lines(config, "", "", origins, stated=None if is_whole else {"name", *own}))
    width = min(max(len(text) for text, _, _ in lines), _WIDEST_VALUE)
    written = []
    for text, origin, meaning in lines:
        start = " " * (len(text) - len(text.lstrip())) + "# "
        written += wrap(meaning if describe else "", 100, initial_indent=start, subsequent_indent=start)
        written.append(f"{text:<{width}}  # {origin}" if origin else text)
    return "\n".join(written) + "\n"


def _annotated_lines(
    value: Any, key: str, indent: str, origins: dict[str, Origin], *, stated: Container[str] | None
) -> Iterator[tuple[str, str, str]]:
    """Yield lines of YAML with the meaning of the key, and the origin, which is empty for a section's own line."""
    is_list = isinstance(value, tuple)
    for name, item in enumerate(value) if is_list else dict(value).items():
        dotted, field = join_key(key, str(name)), getattr(type(value), "model_fields", {}).get(name)
        is_default = field and name != "kind" and item == field.get_default(call_default_factory=True)
        if is_default and stated is not None and dotted not in stated and not isinstance(item, Section):
            continue
        meaning = (field and field.description) or ""
        start = f"{indent}-" if is_list else f"{indent}{dump_scalar(name)}:"
        if not isinstance(item, Section | dict | tuple) or not item:
            yield f"{start} {dump_scalar(to_jsonable_python(item))}", str(origins.get(dotted, "default")), meaning
            continue
        lines = list(_annotated_lines(item, dotted, f"{indent}  ", origins, stated=stated))
        if is_list:  # a list's dash takes the place of its first line's indentation
            text, origin, meaning = lines.pop(0)
            yield f"{start} {text[len(start) + 1 :]}", origin, meaning
        elif lines:
            yield start, "", meaning
        yield from lines


def describe_presets() -> list[list[str]]:
    """A table of the presets, with a header: data, size, and the minutes and the score that their files state."""
    rows = [["preset", "data", "model", "minutes", "BLEU"]]
    for name in preset_names():
        text = read_input(presets_directory() / f"{name}.yaml").decode()
        facts = {"data": "–", "minutes": "–", "BLEU": "–"} | dict(re.findall("(?m)^# (data|minutes|BLEU): (.+)$", text))
        rows.append([name, facts["data"], load_config(name).config.model.brief, facts["minutes"], facts["BLEU"]])
    return rows
