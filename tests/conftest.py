"""For all tests: shapes in signatures are checked at each call, and parallel test processes share the cores."""

import atexit
import hashlib
import json
import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jaxtyping import install_import_hook

# Must run before anything imports translate: in these packages every annotated shape and type is checked at each call.
# (The config's sections check themselves.)
CHECKED = ["data", "model", "runs", "decoding", "evaluation", "training", "export", "visualize", "lint", "distributed"]
install_import_hook([f"translate.{name}" for name in CHECKED], "beartype.beartype")

# Torch reads these when it is imported. Threads that wait must not spin on cores that other tests need.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from pretend_device import HAS_REAL_GPU, PretendDevice  # after what torch reads, and before a test computes a gradient  # noqa: E402

# A process started in the background ignores SIGINT; tests send it to themselves.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Trainings cache encoded data for the next start: here in a temporary folder, not in the user's cache.
os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp(prefix="translate-tests-")
atexit.register(shutil.rmtree, os.environ["HF_DATASETS_CACHE"], ignore_errors=True)

SYSTEM_TESTS = Path(__file__).parent / "system"

TOY_WORDS = {"Hund": "dog", "Haus": "house", "läuft": "runs", "schläft": "sleeps", "grün": "green", "und": "and"}

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


@pytest.fixture
def pretend() -> Iterator[PretendDevice]:
    """The device `pretend`, which is as CUDA is, but computes on the CPU and counts what crosses."""
    if HAS_REAL_GPU:
        pytest.skip("PyTorch cannot have the device `pretend` beside a GPU")
    with PretendDevice() as device:
        yield device


@pytest.fixture(scope="session")
def write_reversed_digits() -> Callable[..., None]:
    """A function that writes pairs of digits and reversed digits, into NAME.in and NAME.out of a folder."""

    def write(folder: Path, name: str, *, num_pairs: int, draw: random.Random, longest: int = 7) -> None:
        sources = ["".join(draw.choices("0123456789", k=draw.randint(2, longest))) for _ in range(num_pairs)]
        (folder / f"{name}.in").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        (folder / f"{name}.out").write_text("".join(f"{line[::-1]}\n" for line in sources), encoding="utf-8")

    return write


@pytest.fixture(scope="session")
def toy_sentences() -> Callable[..., tuple[list[str], list[str]]]:
    """A function that gives sentences of a toy language, and their translations.

    A translation has a word for each word, and two for "und", so that its length is not the source's.
    """

    def draw_sentences(
        number: int, *, longest: int, draw: random.Random, words: dict[str, str] = TOY_WORDS
    ) -> tuple[list[str], list[str]]:
        sources = [draw.choices(list(words), k=draw.randint(1, longest)) for _ in range(number)]
        targets = [[words[word] + (" and" if word == "und" else "") for word in source] for source in sources]
        return [" ".join(source) for source in sources], [" ".join(target) for target in targets]

    return draw_sentences


@pytest.fixture(scope="session")
def teach() -> Callable[..., None]:
    """A function that trains a model on sentences and their translations."""
    import torch
    import torch.nn.functional as F
    from jaxtyping import config as shape_checks

    from translate.data.batching import EncodedPair, collate
    from translate.data.tokenizer import PAD_ID

    def teach(
        model: Any,
        tokenizers: Any,
        sentences: tuple[list[str], list[str]],
        *,
        num_steps: int,
        batch_size: int,
        rate: Callable[[int], float],
    ) -> None:
        pairs = [
            EncodedPair(tokenizers.source.encode(source), tokenizers.target.encode(target))
            for source, target in zip(*sentences, strict=True)
        ]
        optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98))
        draw = random.Random(2)
        was_disabled = bool(shape_checks.jaxtyping_disable)
        shape_checks.update("jaxtyping_disable", True)  # most of the time of so small a model
        for step in range(1, num_steps + 1):
            optimizer.param_groups[0]["lr"] = rate(step)
            batch = collate(draw.sample(pairs, batch_size), range(batch_size))
            logits = model(batch.source_ids, batch.target_input_ids)
            loss = F.cross_entropy(logits.flatten(0, 1), batch.target_output_ids.flatten(), ignore_index=PAD_ID)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        shape_checks.update("jaxtyping_disable", was_disabled)
        model.eval()

    return teach


@pytest.fixture(scope="session")
def make_format_2() -> Callable[[Path], None]:
    """A function that gives a run the layout of format 2, which translate 0.2.0 to 0.3.0 wrote.

    A checksum was inside its file: `"sha256": "<64 digits>"`, of the file with zeros in place of the digits. Written by
    hand from that description, so that the reader is tested against something else than itself.
    """
    from translate.runs.checkpoint import read_tensors
    from translate.runs.directory import RunDirectory

    zeros = "0" * 64

    def seal(content: bytes) -> bytes:
        assert content.count(zeros.encode()) == 1
        return content.replace(zeros.encode(), hashlib.sha256(content).hexdigest().encode())

    def convert_checkpoint(path: Path) -> None:
        tensors, metadata, _ = read_tensors(path)
        names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
        header: dict[str, Any] = {"__metadata__": {**dict(sorted(metadata.items())), "sha256": zeros}}
        data = b""
        for name in names:
            content = tensors[name].numpy().tobytes()
            dtype = {"float32": "F32", "bool": "BOOL", "int32": "I32"}[str(tensors[name].dtype).removeprefix("torch.")]
            offsets = [len(data), len(data) + len(content)]
            header[name] = {"dtype": dtype, "shape": list(tensors[name].shape), "data_offsets": offsets}
            data += content
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(seal(len(text).to_bytes(8, "little") + text + data))

    def convert(path: Path) -> None:
        run = RunDirectory(path)
        (path / "SHA256SUMS").unlink()
        note = f'# "sha256": "{zeros}" of this file, with zeros here; if you edit it, remove this line.\n'
        run.config.write_bytes(seal((note + run.config.read_text(encoding="utf-8")).encode()))
        models = {
            file.name: f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}" for file in run.tokenizer_files()
        }
        description = json.loads(run.description.read_text(encoding="utf-8"))
        description |= {"format": 2, "tokenizer": models, "sha256": zeros}
        run.description.write_bytes(seal(json.dumps(description, indent=2).encode() + b"\n"))
        for file in (*run.checkpoints.glob("*.safetensors"), *path.glob("shortlist.safetensors")):
            convert_checkpoint(file)

    return convert


@pytest.fixture
def stream_digits() -> Callable[..., None]:
    """A function that makes the training pairs of a folder with `digits.yaml` a stream."""

    def stream_digits(directory: Path, *, segment_pairs: int) -> None:
        sides = [(directory / name).read_text().splitlines() for name in ("train.in", "train.out")]
        rows = [json.dumps({"in": source, "out": target}) + "\n" for source, target in zip(*sides, strict=True)]
        (directory / "train.json").write_text("".join(rows))
        text = (directory / "digits.yaml").read_text()
        listed = "{kind: text, source: train.in, target: train.out}"
        stream = "{kind: json, path: train.json, source_column: in, target_column: out, streaming: true}"
        assert listed in text
        text = text.replace(listed, stream).replace("data:", f"data:\n  stream_segment_pairs: {segment_pairs}", 1)
        (directory / "digits.yaml").write_text(text)

    return stream_digits


@pytest.fixture
def clean_config(tmp_path: Path) -> Path:
    """`mine.yaml`, in which `translate check` finds no fault, beside its 1,200 clean pairs and 250 for validation."""
    corpus = Path(__file__).resolve().parents[1] / "data"
    for name, split, number in (("train", "train", 1200), ("valid", "validation", 250)):
        for language in ("de", "en"):
            lines = (corpus / f"{split}.{language}").read_text(encoding="utf-8").splitlines(keepends=True)[:number]
            (tmp_path / f"{name}.{language}").write_text("".join(lines), encoding="utf-8", newline="\n")
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


class RunState(NamedTuple):
    """Everything that must be equal, byte for byte, in two runs of the same training: all but times."""

    last: dict[str, str]  # checksums of tensors: weights, average, optimizer
    best: dict[str, str]
    best_step: str
    progress: dict[str, Any]
    metrics: list[dict[str, Any]]


@pytest.fixture
def state_of() -> Callable[[Path], RunState]:
    """A function that reads the `RunState` of a run directory."""
    import torch

    from translate.runs.checkpoint import read_tensors
    from translate.runs.directory import RunDirectory

    def checksum(tensor: torch.Tensor) -> str:
        return hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()

    def read(path: Path) -> RunState:
        run = RunDirectory(path)
        last, best = read_tensors(run.checkpoint("last")), read_tensors(run.checkpoint("best"))
        progress = json.loads(last.metadata["progress"])
        # The checksum of the metrics file covers times; its records are compared below without them.
        assert progress.pop("metrics_bytes") is not None and progress.pop("metrics_sha256") is not None
        records = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
        for record in records:
            for timed in ("seconds", "target_tokens_per_second", "waiting"):
                record.pop(timed, None)
        return RunState(
            {name: checksum(tensor) for name, tensor in last.tensors.items()},
            {name: checksum(tensor) for name, tensor in best.tensors.items()},
            best.metadata["step"],
            progress,
            records,
        )

    return read


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
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: `make test-system` installs it"
    )
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium: apt-get install chromium, or name it in CHROMIUM")
    with playwright.sync_playwright() as driver:
        # Without the sandbox, since it is all our own, and containers have none.
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def serious_findings() -> Callable[[Any], list[str]]:
    """A function that gives what axe, the accessibility checker, finds in a page that keeps people out."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    script = Path(package.__file__).with_name("axe.min.js").read_text(encoding="utf-8")

    def find(page: Any) -> list[str]:
        page.evaluate(script)
        # In the dark only the colours are others.
        is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        rules = ["color-contrast"] if is_dark else None
        result = page.evaluate("rules => axe.run(document, rules ? {runOnly: rules} : {})", rules)
        assert len(result["passes"]) >= (1 if is_dark else 11)  # it has looked
        return [
            f"{found['id']} ({found['impact']}): {node['html'][:200]}"
            for found in result["violations"]
            for node in found["nodes"]
            if found["impact"] in ("serious", "critical", "moderate")
        ]

    return find
