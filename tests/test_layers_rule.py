"""The layers of the package: a file imports from lower layers and from its own package, never upward.

Every import is read from the source, also those inside functions and under TYPE_CHECKING, so that a cycle cannot hide.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import translate

PACKAGE = Path(translate.__file__).parent

LAYERS = {
    "": 0,  # translate/__init__.py, for its version, which all may read
    "atomic": 0,
    "errors": 0,
    "fingerprint": 0,
    "memory": 0,
    "versions": 0,
    "config": 0,
    "data": 1,
    "model": 2,
    "distributed": 2,
    "runs": 3,
    "decoding": 4,
    "evaluation": 5,
    "training": 6,
    "lint": 7,
    "export": 8,
    "visualize": 8,
    "cli": 10,
    "__main__": 10,
}
PUBLIC_FACE = ""  # translate/__init__.py again: it offers what the layers below the command line have
MAY_SHARE_A_LAYER = {0, 10}  # elsewhere the rooms of one layer do not import each other
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "constants", "misc"}


class Import(NamedTuple):
    file: Path
    line: int
    importer: str  # the room, such as "training"
    imported: str

    def __str__(self) -> str:
        importer, imported = self.importer or "translate", self.imported or "translate"
        return f"{self.file}:{self.line}: {importer} imports {imported}"


def room_of(module: str) -> str:
    """`decoding` of `translate.decoding.search.beam`, and the empty text of `translate` itself."""
    return module.split(".")[1] if "." in module else ""


def imported_modules(tree: ast.AST, *, package: str, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Line and full name of all modules of the project that a file imports, wherever in the file."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            # `from translate import run` imports a module, `from translate import __version__` does not.
            names = [name if (name := f"{base}.{alias.name}") in modules else base for alias in node.names]
        for name in names:
            if name == "translate" or name.startswith("translate."):
                yield node.lineno, name


def read_imports(package: Path) -> list[Import]:
    files = sorted(package.rglob("*.py"))
    names = {file: ["translate", *file.relative_to(package).with_suffix("").parts] for file in files}
    modules = {".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in names.values()}
    imports = []
    for file, parts in names.items():
        importer = room_of(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for line, name in imported_modules(tree, package=".".join(parts[:-1]), modules=modules):
            imports.append(Import(file, line, importer, room_of(name)))
    return imports


def arrows_up(imports: list[Import]) -> list[str]:
    """What breaks the rule, each with its file and line."""
    broken = []
    for each in imports:
        unknown = [room for room in (each.importer, each.imported) if room not in LAYERS]
        if unknown:
            broken.append(f"{each}: {unknown[0]} has no layer in this test")
            continue
        importer = LAYERS["cli"] if each.importer == PUBLIC_FACE else LAYERS[each.importer]
        imported = LAYERS[each.imported]
        is_neighbour = importer == imported and each.importer != each.imported and importer not in MAY_SHARE_A_LAYER
        if imported > importer or is_neighbour:
            broken.append(str(each))
    return broken


def test_no_arrow_runs_up() -> None:
    imports = read_imports(PACKAGE)
    rooms = {each.importer for each in imports}
    assert len(imports) > 50 and rooms > {"data", "runs", "decoding", "evaluation", "training", "cli"}  # they were read
    assert arrows_up(imports) == []


@pytest.mark.parametrize(
    "file, text, message",
    [
        ("model/attention.py", "from translate.training.loss import loss", "attention.py:1: model imports training"),
        ("data/tables.py", "import translate.model.masks", "tables.py:1: data imports model"),
        ("runs.py", "def load():\n    from translate.decoding import Translator", "runs.py:2: runs imports decoding"),
        (
            "config/load.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from translate.runs import RunDirectory",
            "load.py:3: config imports runs",
        ),
        ("training/train.py", "from translate import export", "train.py:1: training imports export"),
        ("decoding/beam.py", "from . import cli\nfrom .. import cli", "beam.py:2: decoding imports cli"),
        (
            "evaluation/report.py",
            "try:\n    import translate.server.app as app\nexcept ImportError: pass",
            "report.py:2",
        ),
        ("runs.py", "from translate.magic import spell", "magic has no layer in this test"),
    ],
)
def test_made_up_arrow_is_seen(tmp_path: Path, file: str, text: str, message: str) -> None:
    for other in ("__init__.py", "cli.py", "export/__init__.py", "magic.py", "server/app.py"):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_text("")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    (broken,) = arrows_up(read_imports(tmp_path))
    assert message in broken


def test_allowed_arrows_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "decoding").mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "decoding" / "translator.py").write_text(
        "import torch\nfrom translate import __version__\nfrom translate.decoding.search.beam import beam_search\n"
        "from .beam import beam_search\nfrom translate.model import Transformer\nfrom translate.config import Config\n"
    )
    imports = read_imports(tmp_path)
    assert [each.imported for each in imports] == ["", "decoding", "decoding", "model", "config"]
    assert arrows_up(imports) == []


def test_no_file_has_a_vague_name() -> None:
    assert [path for path in PACKAGE.rglob("*.py") if path.stem.strip("_") in VAGUE_NAMES] == []
