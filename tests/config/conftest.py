"""The config that tests of loading and of its errors start from."""

from collections.abc import Callable
from pathlib import Path

import pytest

from translate.config.load import load_config
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


@pytest.fixture
def run_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes `run.yaml` into an empty working directory."""
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(BASE)


@pytest.fixture
def error(run_yaml: None) -> Callable[..., str]:
    """A function that loads a config that is wrong, and returns the message."""

    def load(*overrides: str, name: str = "run.yaml", require_files: bool = False) -> str:
        with pytest.raises(InputError) as caught:
            load_config(name, overrides, require_files=require_files)
        return str(caught.value)

    return load
