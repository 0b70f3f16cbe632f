"""For all tests: shapes in signatures are checked at each call, and parallel test processes share the cores."""

import atexit
import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jaxtyping
import pytest
from beartype import beartype

# Must run before anything imports translate: in these packages every annotated shape and type is checked at each call.
# (The config's sections check themselves.)
CHECKED = ["data", "model", "runs", "decoding", "evaluation", "training", "exchange", "visualize", "lint"]
CHECKED += ["distributed"]
_jaxtyped, _checks = jaxtyping.jaxtyped, dict[Any, Any]()


def _beartype_once(function: Any) -> Any:
    """Beartype's check of a signature, which takes it a millisecond to write: the same one if it was written before."""
    try:
        key = (function.__module__, function.__qualname__, function.__code__, *function.__annotations__.items())
        return _checks[key] if key in _checks else _checks.setdefault(key, beartype(function))
    except TypeError:  # an annotation that cannot be part of a key
        return beartype(function)


def _jaxtyped_once(*, typechecker: object) -> Callable[[Any], Any]:
    """Decorate as jaxtyping does, but cheaply within functions, whose every call decorates the functions in them."""

    def decorate(checked: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable and "<locals>" in getattr(checked, "__qualname__", ""):
            return checked
        return _jaxtyped(checked, typechecker=_beartype_once)

    return decorate


jaxtyping.jaxtyped = _jaxtyped_once
jaxtyping.install_import_hook([f"translate.{name}" for name in CHECKED], "beartype.beartype")

# Torch reads these when it is imported. Threads that wait must not spin on cores that other tests need.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import harness  # noqa: E402
from pretend_device import HAS_REAL_GPU, PretendDevice  # before a test computes a gradient  # noqa: E402

# A process started in the background ignores SIGINT, and one of nohup SIGHUP; tests send both.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ["HF_HUB_OFFLINE"] = "1"  # no test needs the network

# Trainings cache encoded data for the next start: here in a temporary folder, not in the user's cache.
os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp(prefix="translate-tests-")
atexit.register(shutil.rmtree, os.environ["HF_DATASETS_CACHE"], ignore_errors=True)

SYSTEM_TESTS = Path(__file__).parent / "system"

# A model that does not matter, of a size and with steps that fit 1,200 short pairs.
CLEAN_CONFIG = """
data:
  train: [{kind: text, source: train.de, target: train.en}]
  validation: {kind: text, source: valid.de, target: valid.en}
tokenizer: {vocab_size: 800}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.2, norm: pre}
training:
  {max_steps: 100, batch_tokens: 600, schedule: constant, learning_rate: 0.005, warmup_steps: 5, precision: fp32,
   device: cpu, threads: 1, validate_every: 25, save_every: 25}
decoding: {beam_size: 2, device: cpu}
"""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in tests/system with the tier that they belong to."""
    for item in items:
        if item.path.is_relative_to(SYSTEM_TESTS):
            item.add_marker(pytest.mark.system)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write what a test has logged as UTF-8: xdist cannot pass on the names of files that are not."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(autouse=True)
def _same_start() -> Iterator[None]:
    """Each test starts with the same random numbers and threads, whichever tests ran before."""
    import torch

    torch.manual_seed(20170612)
    num_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(autouse=True, scope="module")
def _frozen_garbage() -> None:
    """What earlier modules have left stays, so that the collections that trainings ask for need not go through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """For tests of whole trainings and searches that other tests have run with checks."""
    with harness.without_shape_checks():
        yield


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> harness.Toy:
    """A run that has learnt a toy language, its model, and sentences that the model has not seen. Only to be read."""
    return harness.make_toy(tmp_path_factory.mktemp("runs") / "toy")


@pytest.fixture
def pretend() -> Iterator[PretendDevice]:
    """The device `pretend`, which is as CUDA is, but computes on the CPU and counts what crosses."""
    if HAS_REAL_GPU:
        pytest.skip("PyTorch cannot have the device `pretend` beside a GPU")
    with PretendDevice() as device:
        yield device


@pytest.fixture
def clean_config(tmp_path: Path) -> Path:
    """`mine.yaml`, in which `translate check` finds no fault, beside its 1,200 clean pairs and 250 for validation."""
    for name, split, number in (("train", "train", 1200), ("valid", "validation", 250)):
        for language in ("de", "en"):
            harness.write_lines(tmp_path / f"{name}.{language}", harness.corpus_lines(f"{split}.{language}")[:number])
    (tmp_path / "mine.yaml").write_text(CLEAN_CONFIG, encoding="utf-8")
    return tmp_path / "mine.yaml"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of a config makes no dry run, but has what one might measure."""
    from translate.lint import check
    from translate.lint.dry_run import DryRun

    shape = {"pairs": 7, "source_tokens": 11, "target_tokens": 13}
    seen = DryRun("cpu", "fp32", 1, 10_000, 10_000, shape, 2**20, 30, 5000.0, 3.0, 2.0)
    monkeypatch.setattr(check, "dry_run", lambda *arguments, **options: seen)


BAD_INPUT = Path(__file__).resolve().parents[1] / "docs" / "bad-input.md"


class BadInputRow(NamedTuple):
    """A row of docs/bad-input.md."""

    exit_code: int
    words: list[str]  # quoted there, and so on standard error in this order


@pytest.fixture(scope="session")
def bad_input_rows() -> dict[str, BadInputRow]:
    """The rows of the document by their id."""
    rows: dict[str, BadInputRow] = {}
    for line in BAD_INPUT.read_text(encoding="utf-8").splitlines():
        row = re.fullmatch(r"\| `([a-z0-9-]+)` \| .+ \| (\d+) \| (.+) \|", line)
        if row is not None:
            assert row[1] not in rows, f"{row[1]} is there twice"
            rows[row[1]] = BadInputRow(int(row[2]), re.findall(r"`([^`]+)`", row[3]))
    return rows


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window. Its event loop blocks others, so it ends with the module."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium: apt-get install chromium, or name it in CHROMIUM")
    playwright.expect.set_options(timeout=60_000)  # milliseconds
    with playwright.sync_playwright() as driver:
        # Without the sandbox, since it is all our own, and containers have none.
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def serious_findings() -> Callable[[Any], list[str]]:
    """A function that gives what axe, the accessibility checker, finds in a page that keeps people out."""
    package = pytest.importorskip("axe_playwright_python", reason="the extra `browser` is not installed")
    script = Path(package.__file__).with_name("axe.min.js").read_text(encoding="utf-8")

    def find(page: Any) -> list[str]:
        page.evaluate(script)
        result = page.evaluate("axe.run()")
        assert len(result["passes"]) >= 11  # it has looked
        return [
            f"{found['id']} ({found['impact']}): {node['html'][:200]}"
            for found in result["violations"]
            for node in found["nodes"]
            if found["impact"] in ("serious", "critical", "moderate")
        ]

    return find
