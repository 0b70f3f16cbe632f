"""The layout of the package: layers, circles, names and sizes of folders."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import translate

PACKAGE = Path(translate.__file__).parent

# From the bottom to the top. A file imports from lower layers and from its own folder.
LAYERS = [
    {
        "errors",
        "atomic",
        "bars",
        "bleu",
        "children",
        "files",
        "fingerprint",
        "language_codes",
        "memory",
        "messages",
        "nearest",
        "placeholders",
        "trigrams",
    },
    {"distributed"},
    {"config"},
    {"data"},
    {"model"},
    {"runs"},
    {"decoding"},
    {"evaluation"},
    {"training"},
    {"lint"},
    {"exchange"},
    {"visualize"},
    {"documents"},
    {"starter"},
    {"api"},
    {"server"},
    {"cli"},
]
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}
HEIGHT |= {"_version": 0, "": HEIGHT["cli"], "__main__": HEIGHT["cli"]}  # "" is translate/__init__.py
STRANGERS = [{"data", "model"}, {"model", "distributed"}, {"exchange", "visualize"}]  # do not import each other at all
MAX_MODULES_IN_A_FOLDER = 16
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "constants", "misc"}


def imports_of(file: Path, *, package: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each import from the package, also inside functions and under TYPE_CHECKING."""
    folder = ["translate", *file.relative_to(package).parent.parts]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "translate":
                yield node.lineno, name


def forbidden_imports(package: Path) -> list[str]:
    """Every import that runs upward, or between folders that must not know each other."""
    found = []
    for file in sorted(package.rglob("*.py")):
        parts = list(file.relative_to(package).with_suffix("").parts)
        importer = "cli" if parts == ["__init__"] else parts[0]  # translate/__init__.py offers what lies below cli
        for line, name in imports_of(file, package=package):
            part = name.partition(".")[2].partition(".")[0]
            imported = "" if "__" in part else part  # `from translate import __version__` imports no module
            if imported not in HEIGHT:
                found.append(f"{file.name}:{line}: {imported} has no layer in this test")
            elif HEIGHT[imported] > HEIGHT[importer] or {importer, imported} in STRANGERS:
                found.append(f"{file.name}:{line}: {importer} imports {imported}")
    return found


def test_no_import_runs_upward() -> None:
    assert forbidden_imports(PACKAGE) == []


@pytest.mark.parametrize(
    "file, text, message",
    [
        ("model/masks.py", "from translate.training.loss import loss", "masks.py:1: model imports training"),
        ("data/tables.py", "import translate.model.masks", "tables.py:1: data imports model"),
        ("model/masks.py", "from ..data.batching import Batch", "masks.py:1: model imports data"),
        ("config/load.py", "if TYPE_CHECKING:\n    from translate import runs", "load.py:2: config imports runs"),
        ("decoding/request.py", "from . import output\nfrom .. import cli", "request.py:2: decoding imports cli"),
        ("runs/lock.py", "from translate.magic import spell", "magic has no layer in this test"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, file: str, text: str, message: str) -> None:
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(text)
    assert forbidden_imports(tmp_path) == [message] or message in forbidden_imports(tmp_path)[0]


def test_the_map_of_the_architecture_page_shows_the_layers() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = page.split("## The map", 1)[1].split("```", 2)[1].splitlines()[1:]
    shown = [set(re.split(r"  +", line)[0].split(", ")) for line in lines if not line.startswith(" ")]
    assert shown == LAYERS[::-1]
    folders = {re.split(r"  +", line.strip())[0] for line in lines if line.startswith(" ")}
    assert folders == {f"{file.parent.name}/" for file in PACKAGE.glob("*/*/*.py")}
    tops = {file.stem for file in PACKAGE.iterdir() if file.suffix == ".py" or (file / "__init__.py").exists()}
    assert tops - {"__init__", "__main__", "_version"} == set().union(*LAYERS)


def test_every_class_name_is_used_once() -> None:
    places = defaultdict(list)
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(PACKAGE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_folders_are_small_and_no_name_is_vague() -> None:
    modules = [file for file in PACKAGE.rglob("*.py") if not file.stem.startswith("__")]
    folders = Counter(file.parent for file in modules)
    assert {folder.name: count for folder, count in folders.items() if count > MAX_MODULES_IN_A_FOLDER} == {}
    assert [file for file in modules if file.stem in VAGUE_NAMES] == []


def import_graph(package: Path) -> dict[str, set[str]]:
    """The modules of the package that each module imports; lazy imports and annotations count."""
    files = {
        ".".join(["translate", *file.relative_to(package).with_suffix("").parts]).removesuffix(".__init__"): file
        for file in package.rglob("*.py")
    }
    graph: dict[str, set[str]] = {module: set() for module in files}
    for module, file in files.items():
        for _, name in imports_of(file, package=package):
            graph[module] |= {name if name in files else name.rpartition(".")[0]} & files.keys()
    return graph


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(import_graph(PACKAGE)).prepare()  # raises CycleError, which names the circle


# What reads a file without `translate.files`, by the file's name and the call, and why it may.
READS = {
    "cli/decode.py: FORMATS[document_format].open": "divides text that has been read into segments",
    "documents/catalog.py: read_text": "divides a text into lines or paragraphs",
    "files.py: path.open": "the one place",
    "runs/checkpoint.py: safe_open": "after `require_file`",
    "runs/metadata.py: safe_open": "after `require_file`",
    "runs/summary.py: safe_open": "after `is_file`",
    "data/tables.py: parquet.ParquetFile": "after `require_file`",
    "exchange/marian.py: np.load": "of a file that `open_input` has opened",
    "data/text.py: gzip.open": "of a file that `open_input` has opened",
    "cli/terminal/options.py: source.read_bytes": "a module of this package",
    "decoding/sentences.py: DATA.read_bytes": "a file of this package",
    "visualize/page.py: files('translate.visualize').joinpath(name).read_text": "a file of this package",
    "lint/dry_run.py: (_PROCESS / 'status').read_text": "of the kernel",
    "memory.py: path.read_text": "of the kernel",
    "exchange/marian.py: settings.read_bytes": "a temporary file of our own",
    "exchange/pretrained.py: torch.load": "mapped; it is checked before",
    "atomic.py: path.open": "to write",
    "atomic.py: temporary.open": "to write",
    "cli/terminal/process.py: os.open": "standard streams",
    "atomic.py: os.open": "to wait for the disk",
    "training/resume.py: log.open": "not a file's",
}
# Which texts become bytes in another way than by `atomic.text_bytes`, and why they have no name that is not UTF-8.
ENCODES = {
    "cli/terminal/conversation.py": "to refuse what is not UTF-8",
    "config/yaml.py": "to refuse what is not UTF-8",
    "visualize/sentences.py": "to refuse what is not UTF-8",
    "cli/terminal/process.py": "a signal's name",
    "data/corpora.py": "numbers, and settings, which YAML refuses if they are not UTF-8",
    "data/subword_sampling.py": "a subword",
    "decoding/output/words.py": "a subword",
    "lint/dry_run.py": "a number, for the kernel",
    "documents/markdown.py": "a character of a document, which was decoded",
    "runs/directory.py": "our mark",
    "runs/log.py": "escaped",
    "server/gate.py": "a token, which is ASCII",
    "visualize/page.py": "printable",
}
READERS = re.compile(r"(.*\.)?(open|read_text|read_bytes|safe_open|ParquetFile)|(np|torch)\.load|json\.load")


def test_files_are_read_in_one_place() -> None:
    """So that no pipe makes a command wait, and sizes are known: see the beginning of `files.py`."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if READERS.fullmatch(name):
                found.add(f"{file.relative_to(PACKAGE).as_posix()}: {name}")
    assert found == READS.keys()


def test_names_become_bytes_in_one_place() -> None:
    """So that a name that is not UTF-8 ends no command: see `atomic.text_bytes`."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_ascii = re.match(r"json\.dumps\((?!.*ensure_ascii)", ast.unparse(node.func.value))
                is_bare = node.func.attr == "encode" and not (node.args or node.keywords or is_ascii)
                if is_bare or node.func.attr == "write_text":
                    found.add(file.relative_to(PACKAGE).as_posix())
    assert found == ENCODES.keys()
