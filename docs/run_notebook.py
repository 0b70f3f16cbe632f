"""Executes docs/first-model.ipynb in an empty folder, and saves it with the output of its cells: `make notebook`."""

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "first-model.ipynb"


def main() -> None:
    """Execute all cells; a cell that fails leaves the file as it was."""
    os.environ["PYTHONPATH"] = str(ROOT)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_DATASETS_CACHE"] = str(Path(folder) / "cache")  # so that nothing is found there
        client = NotebookClient(notebook, timeout=1800, kernel_name="python3", record_timing=False)
        client.execute(cwd=folder)
    # Paths begin at the root of the checkout, or at the empty folder.
    text = nbformat.writes(notebook).replace(f"{ROOT}/", "").replace(f"{folder}/", "")
    NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
