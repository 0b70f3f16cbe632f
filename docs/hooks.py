"""Hooks of MkDocs: formulas become MathML, and each page of the tutorial with code is also a notebook."""

import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

FOLDER = Path(__file__).parent / "tutorial"
sys.path.append(str(FOLDER))
from run import has_code, to_notebook  # noqa: E402


def on_config(config: Any) -> None:
    """Set ```math blocks as MathML, which browsers draw without a script."""
    fence = {"name": "math", "class": "math", "format": lambda formula, *_, **__: convert(formula, display="block")}
    config["mdx_configs"]["pymdownx.superfences"] = {"custom_fences": [fence]}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Offer the notebook of a page at the end of its first paragraph."""
    path = Path(page.file.src_uri)
    if path.parent.name != FOLDER.name or not has_code(markdown):
        return markdown
    title, paragraph, rest = markdown.split("\n\n", 2)
    return f"{title}\n\n{paragraph} [Download this page as a notebook]({path.stem}.ipynb){{ download }}\n\n{rest}"


def on_post_build(config: Any) -> None:
    """Write the notebooks beside the pages."""
    for page in FOLDER.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        if has_code(text):
            (Path(config["site_dir"]) / FOLDER.name / f"{page.stem}.ipynb").write_text(to_notebook(text))
