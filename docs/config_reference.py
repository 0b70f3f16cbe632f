"""Writes docs/config.md from the config's sections: `python docs/config_reference.py`, which `make docs` runs."""

from collections.abc import Iterator
from pathlib import Path

from translate.config.show import SectionDescription, describe_sections

PAGE = Path(__file__).with_name("config.md")
INTRODUCTION = """\
# Config

Made from the code by `make docs`: change the field in `translate/config/`, not this page.

A config is a YAML file with the sections below; `translate train FILE key=value` overrides single keys, such as
`model.d_model=256`. Every key has a default, except where none is given. A config may begin with `extends: NAME`, the
path or preset name of another config, which gives the values that are left out, except its `name`. A relative path is
looked up in `data.root`, then in the folder of the config that names it, then in the working directory. `translate
config show` prints the resolved config with the source of each value, `translate config describe KEY` what a key
takes and means, and `translate config schema` a JSON Schema for editors.

`translate init` writes a config for your text. Writing one by hand takes a few lines:

```yaml
# mine.yaml
extends: multi30k.yaml      # start from a preset: its model and its training settings
data:
  train: [{kind: text, source: train.de, target: train.en}]
  validation: {kind: text, source: valid.de, target: valid.en}
  test: {news: {kind: text, source: news.de, target: news.en}, test_2016_flickr: null}
tokenizer:
  vocab_size: 3000          # `translate check` warns if that is too few or too many for your text
```
"""


def reference() -> str:
    """Write the whole page."""
    lines = [INTRODUCTION.removesuffix("\n")]
    for title, section in describe_sections().items():
        lines += ["", *([f"## {title}", "", section.meaning, ""] if title else []), *_table(section)]
    return "\n".join(lines) + "\n"


def _table(section: SectionDescription) -> Iterator[str]:
    yield "| key | default | values | meaning |"
    yield "|---|---|---|---|"
    for name, key in section.keys.items():
        default = "" if key.default is None else f"`{key.default}`"
        meaning = key.meaning.replace("|", "\\|")
        yield f"| `{name}` | {default} | {key.values} | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8", newline="\n")
