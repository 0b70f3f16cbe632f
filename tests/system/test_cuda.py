"""What only a GPU can show: `make test-gpu` on a machine that has one, best of all for CUDA.

Without one, the first case of most tests runs on the CPU, so that the tests themselves stay right.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import random_model, state_of, write_digits, write_reversed_digits
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.config.schema import Config, TrainingConfig
from translate.data.batching import Batch, EncodedPair, collate
from translate.decoding import Request, Translation, Translator
from translate.decoding.constraints.phrases import WordTables
from translate.decoding.engines.own import OwnEngine
from translate.decoding.request import SearchInput
from translate.decoding.search.loop import BeamSearch
from translate.decoding.search.model import CachedDecoder
from translate.decoding.search.settings import build_search_settings
from translate.model import Transformer
from translate.model.device import choose_device
from translate.model.precision import MixedPrecision
from translate.runs.run import open_run
from translate.training import train
from translate.training.loss import label_smoothed_loss
from translate.training.setup import build_train_step
from translate.training.step import BatchLayout, TrainingForward, move_to_device

pytestmark = pytest.mark.gpu
HAS_CUDA = torch.cuda.is_available()
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="needs a CUDA device")
needs_flash = pytest.mark.skipif(
    not HAS_CUDA or torch.cuda.get_device_capability() < (8, 0),
    reason="flash attention needs a CUDA device of compute capability 8.0",
)

DEVICE = choose_device("auto")
VOCAB = 61


def cases(*values: Any) -> tuple[Any, ...]:
    """All of them on a GPU, and the first elsewhere."""
    return values[:1] if DEVICE.type == "cpu" else values


PRECISIONS = cases("fp32", "bf16", "fp16")

_SETTINGS = (
    "model.d_model=64", "model.num_heads=4", "model.d_ff=96", "model.num_encoder_layers=2",
    "model.num_decoder_layers=2", "training.batch_tokens=600", "training.accumulate_batches=2",
    "training.learning_rate=0.003", "training.max_gradient_norm=1.0", "training.ema_decay=0.9", "training.save_every=3",
    "training.log_every=4", "training.sample_translations=0", "training.precision=auto", "decoding.beam_size=3",
    f"training.device={DEVICE.type}", f"decoding.device={DEVICE.type}",
)  # fmt: skip


SIXTY_STEPS = [f"training.{name}" for name in ("max_steps=60", "log_every=10", "validate_every=60", "save_every=60")]


@pytest.fixture
def digits(tmp_path: Path) -> Callable[..., Config]:
    """The digits, with up to 19 per line, and a larger model on this device."""
    load = write_digits(tmp_path, *_SETTINGS)
    for name, number in (("train", 997), ("validation", 31)):
        write_reversed_digits(tmp_path, name, num_pairs=number, draw=random.Random(number), longest=19)
    return load


def losses(run: Path) -> list[float]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [record["loss"] for record in records if record["kind"] == "train"]


def build(device: torch.device = DEVICE, **options: Any) -> Transformer:
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 96, "dropout": 0.0}
    sizes |= {"num_encoder_layers": 2, "num_decoder_layers": 2}
    torch.manual_seed(3)
    return random_model(VOCAB, noise=0.0, **sizes | options).to(device)


def some_batch(*, seed: int = 1) -> Batch:
    draw = random.Random(seed)
    pairs = [EncodedPair(*(draw.choices(range(4, VOCAB), k=draw.randint(0, 29)) for _ in range(2))) for _ in range(37)]
    return collate(pairs, range(37))


def loss_and_gradients(model: Transformer, precision: MixedPrecision, layout: BatchLayout) -> list[Tensor]:
    with precision.in_step():
        batch = move_to_device(some_batch(), precision.device, layout=layout, batch_tokens=1024)
        with precision.autocast():
            hidden = TrainingForward(model)(batch)
            loss = label_smoothed_loss(hidden, model.output.weight, batch.target_ids, smoothing=0.1)
        gradients = torch.autograd.grad(loss.loss, list(model.parameters()))
    return [loss.loss.detach().cpu(), *(gradient.cpu() for gradient in gradients)]


def assert_alike(mine: list[Tensor], expected: list[Tensor], *, tolerance: float) -> None:
    for one, other in zip(mine, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


@contextlib.contextmanager
def sync_debug(mode: str) -> Iterator[None]:
    """Warn about each wait for the device, or fail at it."""
    if HAS_CUDA:
        torch.cuda.set_sync_debug_mode(mode)
    yield
    if HAS_CUDA:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("positions", cases("sinusoidal", "learned", "rotary", "relative"))
def test_loss_and_gradients_are_those_of_the_cpu(positions: str) -> None:
    cpu = torch.device("cpu")
    expected = loss_and_gradients(build(cpu, positions=positions), MixedPrecision(cpu, "fp32"), "padded")
    precision = MixedPrecision(DEVICE, "fp32", deterministic=True)
    for layout in ("padded", "packed"):
        assert_alike(loss_and_gradients(build(positions=positions), precision, layout), expected, tolerance=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_narrow_products_are_near_wide_ones(precision: str) -> None:
    expected = loss_and_gradients(build(), MixedPrecision(DEVICE, "fp32"), "padded")
    mine = loss_and_gradients(build(), MixedPrecision(DEVICE, precision, tf32=True), "padded")
    assert_alike(mine, expected, tolerance=0.05)


@needs_flash
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_flash_attention_gives_the_numbers_of_padded_batches(positions: str, precision: str) -> None:
    mixed = MixedPrecision(DEVICE, precision, deterministic=True)
    expected = loss_and_gradients(build(positions=positions), mixed, "padded")
    assert_alike(loss_and_gradients(build(positions=positions), mixed, "flash"), expected, tolerance=0.03)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("layout", cases("padded", "packed", pytest.param("flash", marks=needs_flash)))
def test_the_same_step_gives_the_same_bits(layout: BatchLayout, precision: str) -> None:
    if layout == "flash" and precision == "fp32":
        pytest.skip("flash attention computes in bf16 and fp16")
    mixed = MixedPrecision(DEVICE, precision, tf32=True, deterministic=True)
    first, second = (loss_and_gradients(build(), mixed, layout) for _ in range(2))
    assert all(map(torch.equal, first, second))


@needs_cuda
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_never_waits_for_the_device(precision: str) -> None:
    settings = TrainingConfig.model_validate({"precision": precision, "device": DEVICE.type, "max_gradient_norm": 1.0})
    model = build(dropout=0.1)
    train_step = build_train_step(model, settings, device=DEVICE)
    for number in (1, 2):  # memory, kernels and the optimizer's state
        train_step([some_batch(seed=number)], number=number, learning_rate=1e-3)
    batch = some_batch(seed=3)
    with sync_debug("error"):
        train_step([batch], number=3, learning_rate=1e-3)
    train_step.check_last_step()


@pytest.mark.parametrize("layout", cases("auto", "packed", "padded"))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_training_learns(digits: Callable[..., Config], tmp_path: Path, precision: str, layout: str) -> None:
    config = digits(f"training.precision={precision}", f"training.batch_layout={layout}", *SIXTY_STEPS)
    train(config, tmp_path / "run", resume=False, command=["test"])
    first, *_, last = losses(tmp_path / "run")
    assert last < 0.8 * first


@pytest.mark.parametrize("attention_dropout", cases(0.0, 0.1))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_resumed_run_is_the_straight_one(
    digits: Callable[..., Config], tmp_path: Path, precision: str, attention_dropout: float
) -> None:
    settings = (f"training.precision={precision}", f"model.attention_dropout={attention_dropout}")
    train(digits(*settings), tmp_path / "straight", resume=False, command=["test"])
    train(digits(*settings, "training.max_steps=7"), tmp_path / "resumed", resume=False, command=["test"])
    train(digits(*settings), tmp_path / "resumed", resume=True, command=["test"])
    straight, resumed = state_of(tmp_path / "straight"), state_of(tmp_path / "resumed")
    assert resumed.last == straight.last
    assert resumed.best == straight.best


@needs_cuda  # tests/system/test_compilation.py compiles on a CPU
@pytest.mark.timeout(900)
@pytest.mark.parametrize("layout", ["padded", "auto"])
def test_compiled_layers_learn(digits: Callable[..., Config], tmp_path: Path, layout: str) -> None:
    # In a process of its own: in this one shapes are checked at each call, which cannot be compiled.
    digits()  # the files exist now
    overrides = [*_SETTINGS, "training.compile=true", "training.precision=bf16", f"training.batch_layout={layout}"]
    overrides += SIXTY_STEPS
    command = ["translate", "train", str(tmp_path / "digits.yaml"), "--run", str(tmp_path / "run"), *overrides]
    subprocess.run([sys.executable, "-m", *command], check=True, env=os.environ | {"OMP_NUM_THREADS": "4"})
    first, *_, last = losses(tmp_path / "run")
    assert last < 0.8 * first


def test_the_default_settings_need_no_fallback() -> None:
    settings = TrainingConfig.model_validate({"device": DEVICE.type})
    assert build_train_step(build(), settings, device=DEVICE).fallbacks == []


def test_a_run_goes_on_on_another_device(digits: Callable[..., Config], tmp_path: Path) -> None:
    settings = ("training.precision=fp32", "model.dropout=0.0", "training.log_every=1")
    train(digits(*settings), tmp_path / "straight", resume=False, command=["test"])
    train(digits(*settings, "training.max_steps=6"), tmp_path / "moved", resume=False, command=["test"])
    train(digits(*settings, "training.device=cpu"), tmp_path / "moved", resume=True, command=["test"])
    assert losses(tmp_path / "moved") == pytest.approx(losses(tmp_path / "straight"), rel=1e-3)


def test_a_search_waits_once_per_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """And once for each sentence, when it ends. The CPU never waits for itself."""
    positions: list[int] = []
    real = BeamSearch.step
    monkeypatch.setattr(BeamSearch, "step", lambda search: (positions.append(1), real(search))[1])
    config = DecodingConfig(beam_size=3, max_length_factor=0.0, max_length_constant=23, batch_tokens=90)
    inputs = [SearchInput(line, 0, "", [4 + line] * (3 + line), False) for line in range(7)]
    words = WordTables(*(torch.ones(VOCAB, dtype=torch.bool) for _ in range(2)), torch.arange(VOCAB))
    settings = build_search_settings(config, inputs, forbidden=[], words=words, device=DEVICE)
    sources = [each.source_ids for each in inputs]
    lengths = {"source_lengths": [len(ids) + 1 for ids in sources], "max_lengths": [23] * len(sources)}
    with torch.inference_mode(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decoder = CachedDecoder([build().eval()], sources, beam_size=3, max_length=23)
        search = BeamSearch(decoder, settings, **lengths, max_tokens=config.batch_tokens, device=DEVICE)
        with sync_debug("warn"):
            assert len(list(search.run(range(len(sources))[::-1]))) == len(sources)
    waits = [str(warning.message) for warning in caught if "synchroniz" in str(warning.message)]
    assert len(positions) > 23  # some joined later
    assert len(waits) <= len(positions) + len(sources)


SEARCHES: list[dict[str, Any]] = [
    {"beam_size": 1},
    {"n_best": 3},
    {"no_repeat_ngram": 2, "repetition_penalty": 1.2, "min_length_constant": 3},
    {"search": "sample", "n_best": 2, "top_p": 0.9},
    {"mbr": "chrf"},
]


def test_translations_and_scores_are_those_of_the_cpu(digits: Callable[..., Config], tmp_path: Path) -> None:
    steps, num_lines = cases(20, 200)[-1], cases(3, 31)[-1]
    config = digits("training.precision=fp32", f"training.max_steps={steps}", f"training.validate_every={steps}")
    train(config, tmp_path / "run", resume=False, command=["test"])
    sources = (tmp_path / "validation.in").read_text(encoding="utf-8").splitlines()[:num_lines]
    requests = [Request(source, required=("9 1",) if number % 3 == 0 else ()) for number, source in enumerate(sources)]
    translators: list[Translator] = []
    combined: list[Translator] = []
    for device in (torch.device(DEVICE.type), torch.device("cpu")):
        loaded, last = (open_run(tmp_path / "run").load_model(name, device=device) for name in ("best", "last"))
        settings = config.decoding_settings().model_copy(update={"device": device.type})
        for made, ensemble in ((translators, []), (combined, [last.model])):
            target = loaded.tokenizers.target
            engine = OwnEngine(loaded.model, target, forbidden=["4 2"], ensemble=ensemble)
            made.append(Translator(engine, loaded.tokenizers, settings))

    def compare(pair: list[Translator], lines: list[Any], **options: Any) -> list[Translation]:
        found = [each.translate(lines, align=True, **options) for each in pair]
        for one, other in zip(*found, strict=True):
            assert one.alignment == other.alignment
            texts = [[each.text for each in (best, *best.alternatives)] for best in (one, other)]
            assert texts[0] == texts[1], options
        return found[0]

    for options in SEARCHES:
        compare(translators, sources, **options)
    compare(combined, sources)
    expected = compare(translators, requests)
    targets = [translation.ids for translation in expected]
    for one, other in zip(*(each.score(sources, targets) for each in translators), strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, rel=1e-4)
