"""docs/config.md is made from the sections, and is as they are now."""

import importlib.util
from pathlib import Path

from translate.config.schema import Config

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "config_reference.py"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("config_reference", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = SCRIPT.with_name("config.md").read_text(encoding="utf-8")
    assert page == module.reference(), "docs/config.md is stale: run `make docs`"
    for name, field in Config.model_fields.items():
        for key in getattr(field.annotation, "model_fields", {}):
            assert f"\n| `{key}` | " in page.partition(f"\n## {name}\n")[2].partition("\n## ")[0], f"{name}.{key}"
    # A bound and a choice, written out by hand.
    assert "| `d_model` | `512` | whole number ≥ 2, ≤ 65536 | Width of the residual stream. |" in page
    assert "| `norm` | `post` | `post`, `pre` | " in page
