"""What one GPU does with this toolkit, in one call of at most eight minutes: a table, and the same numbers as JSON.

    python benchmarks/gpu.py                      # needs a GPU, and ends with an error without one
    python benchmarks/gpu.py DIR                  # DIR contains Multi30k as plain text, which is then trained on
    python benchmarks/gpu.py --device cpu --scale tiny    # the same program in a minute, whose numbers mean nothing

- tests: those that are marked `gpu`.
- training: target tokens per second of the paper's two models with batches of 25,000 tokens, and of multi30k with its
  own small steps; with the presets' own settings, which on a GPU mean bf16, and with compiled layers.
- profile: where the time of such a step goes. The device is idle while the host prepares what it shall compute next.
- decoding: greedy search and a beam of four, in bf16.
- clock: the command `translate train multi30k-muon` from raw text to a trained model; without DIR, the demo.

Each part is a process of its own with a time limit. If it fails or takes too long, the table says so, with the rows
that were ready. Weights and sentences of training, profile and decoding are random, which does not change the speed.
Translations are kept to one length, because an untrained model does not know when to end.
"""

import argparse
import contextlib
import dataclasses
import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from on_paper import LENGTH, PRESETS, flops_per_target_token
from torch.profiler import ProfilerActivity, profile

from translate.config.load import load_config, override_config
from translate.config.schema import Config
from translate.data.batching import Batch, EncodedPair, collate
from translate.data.tokenizer import PAD_ID
from translate.decoding.constraints.phrases import WordTables
from translate.decoding.request import SearchInput
from translate.decoding.search.loop import BeamSearch
from translate.decoding.search.model import CachedDecoder
from translate.decoding.search.settings import build_search_settings
from translate.lint.dry_run import peak_memory
from translate.model import Transformer
from translate.model.device import choose_device
from translate.training.batch_size import resolve_step_tokens
from translate.training.setup import build_train_step
from translate.training.step import TrainStep

ROOT = Path(__file__).resolve().parents[1]
SMALL = "multi30k"  # has the steps of its preset
MODES: dict[str, dict[str, Any]] = {
    "eager": {},
    "not deterministic": {"training.deterministic": False},
    "compiled": {"training.compile": True},
}
SEARCHES = {"greedy, bf16": 1, "beam 4, bf16": 4}
KINDS = {  # words in the names of kernels; the first kind counts, because flash attention's have cutlass's words too
    "attention": ("flash", "attention"),
    "optimizer": ("multi_tensor", "foreach", "adam"),
    "norms": ("norm", "gammabeta", "gradgamma"),
    "products": ("gemm", "addmm", "bmm", "::mm", "cutlass", "nvjet", "xmma", "cublas"),
    "copies": ("memcpy", "memset", "copy", "concat", "catarray", "::cat"),
    "compiled kernels": ("triton",),
    "sums": ("reduce",),
}

Row = dict[str, Any]  # part, case, numbers by name, and perhaps a remark


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much is measured."""

    step_tokens: int  # of the target in a step, which is one batch
    steps: int
    lines: int  # that are decoded
    modes: Sequence[str]
    sizes: dict[str, Any]  # settings of all models
    training: Sequence[str]  # settings of the part `clock`


TINY_SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
SCALES = {
    "full": Scale(25_000, 20, 1000, tuple(MODES), {}, []),
    "tiny": Scale(
        60,
        1,
        5,
        ("eager", "not deterministic"),  # compiling takes as long as ever
        {"tokenizer.vocab_size": 400, **{f"model.{name}": size for name, size in TINY_SIZES.items()}},
        ["training.max_steps=2", "training.validate_every=2", "decoding.beam_size=1", "decoding.max_length_factor=0.2"],
    ),
}


@dataclasses.dataclass
class Place:
    """Where a part measures, and on what."""

    device: torch.device
    scale: Scale
    folder: Path | None

    def config(self, preset: str) -> Config:
        """A preset in this scale."""
        return override_config(resolve_step_tokens(load_config(preset).config), self.scale.sizes)

    def wait(self) -> None:
        """Wait until the device has finished its work."""
        torch.zeros((), device=self.device).item()


def describe(device: torch.device) -> str:
    """The device, and the versions that decide what it can do."""
    versions = f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, {sys.platform}"
    if device.type != "cuda":
        return f"{device}; {versions}"
    about = torch.cuda.get_device_properties(device)
    memory = f"{about.total_memory / 2**30:.0f} GiB"
    return f"{about.name}, {memory}, compute capability {about.major}.{about.minor}; {versions}"


def require_gpu() -> torch.device:
    """The device that `auto` takes; ends the program where that is the CPU."""
    device = choose_device("auto")
    if device.type == "cpu":
        built = torch.version.cuda or torch.version.hip
        why = (
            f"is a build for {built}, but finds no GPU: does nvidia-smi show one, and is its driver new enough?"
            if built
            else "is a build for the CPU: see https://pytorch.org/get-started for another"
        )
        sys.exit(f"No GPU was tested. PyTorch {torch.__version__} {why}")
    return device


def matrix_flops(place: Place) -> float:
    """FLOP/s of a large product in bf16: the peak that shares refer to."""
    size, times = (8192, 20) if place.device.type != "cpu" else (64, 1)
    one, other = (torch.randn(size, size, device=place.device, dtype=torch.bfloat16) for _ in range(2))
    for number in range(2 * times):
        if number == times:  # the first half warms up
            place.wait()
            started = time.perf_counter()
        one @ other
    place.wait()
    return times * 2.0 * size**3 / (time.perf_counter() - started)


def random_batch(config: Config, *, tokens: int, draw: random.Random) -> Batch:
    """Pairs of similar lengths, about `LENGTH` tokens on each side with their special symbol."""

    def ids() -> list[int]:
        return draw.choices(range(4, config.tokenizer.vocab_size), k=draw.randint(LENGTH - 6, LENGTH + 4))

    pairs = [EncodedPair(ids(), ids()) for _ in range(max(1, tokens // LENGTH))]
    return collate(pairs, range(len(pairs)))


def build(config: Config, device: torch.device) -> Transformer:
    """A model with random weights."""
    size = config.tokenizer.vocab_size
    return Transformer(config.model, source_vocab_size=size, target_vocab_size=size, pad_id=PAD_ID).to(device)


def free_memory(device: torch.device) -> None:
    """Free the memory of earlier measurements."""
    gc.collect()
    if device.type != "cpu":
        torch.accelerator.empty_cache()
    peak_memory(device, restart=True)


def prepare_steps(place: Place, preset: str, mode: str) -> tuple[TrainStep, list[list[Batch]]]:
    """A train step that has been warmed up, and the batches of some steps."""
    free_memory(place.device)
    config, tokens, number = place.config(preset), place.scale.step_tokens, 1
    if preset == SMALL and place.scale.steps > 1:
        tokens, number = config.training.num_batch_tokens, config.training.accumulate_batches
    settings = override_config(config, MODES[mode] | {"training.batch_tokens": tokens}).training
    train_step = build_train_step(build(config, place.device).train(), settings, device=place.device)
    draw = random.Random(1)
    groups = [[random_batch(config, tokens=tokens, draw=draw) for _ in range(number)] for _ in range(4)]
    for step, group in enumerate(groups, start=1):
        train_step(group, number=step, learning_rate=1e-6)
    place.wait()
    return train_step, groups


def run_steps(train_step: TrainStep, groups: list[list[Batch]], *, steps: int) -> int:
    """Make some steps; returns the number of target tokens."""
    for number in range(steps):
        train_step(groups[number % len(groups)], number=5 + number, learning_rate=1e-6)
    train_step.check_last_step()
    return sum(batch.num_target_tokens for number in range(steps) for batch in groups[number % len(groups)])


def measure_training(place: Place) -> Iterator[Row]:
    """Speed and memory of each model, first in all modes but the last, which compiles for a minute."""
    peak, steps = matrix_flops(place), place.scale.steps
    yield {"case": "a large product in bf16", "numbers": {"TFLOP/s": peak / 1e12}}
    for mode in place.scale.modes:
        for preset in (*PRESETS, SMALL):
            with reported(f"{preset}, {mode}") as row:
                train_step, groups = prepare_steps(place, preset, mode)
                started = time.perf_counter()
                tokens = run_steps(train_step, groups, steps=steps)
                host = time.perf_counter() - started
                place.wait()
                seconds = time.perf_counter() - started
                row["numbers"] = {
                    "target tokens/s": tokens / seconds,
                    "share of the product's": tokens / seconds * flops_per_target_token(place.config(preset)) / peak,
                    "ms per step": 1e3 * seconds / steps,
                    "ms until the host was done": 1e3 * host / steps,
                    "GiB": (peak_memory(place.device) or 0) / 2**30,
                }
                row["remark"] = "; ".join([f"{train_step.precision.name}, {train_step.layout}", *train_step.fallbacks])
            train_step = groups = None  # their memory is not the next row's
            yield row


def measure_profile(place: Place) -> Iterator[Row]:
    """The share of each kind of kernel, and the time in which the device has nothing to do."""
    on_gpu = place.device.type != "cpu"
    steps = min(5, place.scale.steps)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    for preset in (PRESETS[0], SMALL):
        with reported(f"{preset}, eager") as row:
            train_step, groups = prepare_steps(place, preset, "eager")
            started = time.perf_counter()
            run_steps(train_step, groups, steps=steps)
            place.wait()
            wall = (time.perf_counter() - started) / steps
            with profile(activities=activities) as profiler:
                run_steps(train_step, groups, steps=steps)
                place.wait()
            is_cpu = torch.autograd.DeviceType.CPU
            kernels = [  # an annotation, such as that of the optimizer's step, spans the kernels within it
                event
                for event in profiler.events()
                if (event.device_type != is_cpu) == on_gpu and not event.is_user_annotation
            ]
            seconds = Counter[str]()
            for event in kernels:
                busy = event.self_device_time_total if on_gpu else event.self_cpu_time_total
                seconds[kind_of(event.name)] += busy / 1e6 / steps
            busy = seconds.total()
            row["numbers"] = {
                "ms per step": 1e3 * wall,
                "ms of kernels": 1e3 * busy,
                "share in which the device is idle": max(0.0, 1.0 - busy / wall),
                "kernels per step": len(kernels) / steps,
                **{f"share of {kind}": part / busy for kind, part in seconds.most_common()},
            }
        yield row


def kind_of(kernel: str) -> str:
    """The kind of a kernel by words of its name."""
    name = kernel.lower()
    return next((kind for kind, words in KINDS.items() if any(word in name for word in words)), "others")


def measure_decoding(place: Place) -> Iterator[Row]:
    """Lines and target tokens per second in translations of `LENGTH` tokens, all lines in one buffer."""
    for preset in (*PRESETS, SMALL):
        for case, beam_size in SEARCHES.items():
            with reported(f"{preset}, {case}") as row:
                free_memory(place.device)
                config = override_config(place.config(preset), {"decoding.beam_size": beam_size})
                tokens, seconds = decode_random_lines(config, place)
                row["numbers"] = {
                    "lines/s": place.scale.lines / seconds,
                    "target tokens/s": tokens / seconds,
                    "GiB": (peak_memory(place.device) or 0) / 2**30,
                }
            yield row


def decode_random_lines(config: Config, place: Place) -> tuple[int, float]:
    """Decode random lines in bf16; returns the number of target tokens, and the seconds."""
    draw, vocab_size, lines, device = random.Random(1), config.tokenizer.vocab_size, place.scale.lines, place.device
    model = build(config, device).to(torch.bfloat16).eval()
    sources = [draw.choices(range(4, vocab_size), k=draw.randint(LENGTH - 10, LENGTH + 8)) for _ in range(lines)]
    sources.sort(key=len, reverse=True)
    lengths = {"max_length_factor": 0.0, "max_length_constant": LENGTH, "min_length_constant": LENGTH}
    settings = config.decoding_settings().model_copy(update=lengths)

    def search(sources: Sequence[list[int]]) -> int:
        inputs = [SearchInput(line, 0, "", ids, False) for line, ids in enumerate(sources)]
        words = WordTables(*(torch.ones(vocab_size, dtype=torch.bool) for _ in range(2)), torch.arange(vocab_size))
        how = build_search_settings(settings, inputs, forbidden=[], words=words, device=device)
        with torch.inference_mode():
            decoder = CachedDecoder([model], sources, beam_size=how.beam_size, max_length=LENGTH)
            searching = BeamSearch(
                decoder,
                how,
                source_lengths=[len(ids) + 1 for ids in sources],
                max_lengths=[LENGTH] * len(sources),
                max_tokens=settings.batch_tokens,
                device=device,
            )
            return sum(len(hypotheses[0].ids) for _, hypotheses in searching.run(range(len(sources))))

    search(sources[: lines // 5])
    place.wait()
    started = time.perf_counter()
    done = search(sources)
    return done, time.perf_counter() - started


def measure_clock(place: Place) -> Iterator[Row]:
    """The wall time of `translate train` from raw text to the evaluated model, and what the run recorded."""
    preset, overrides = "demo", []
    if place.folder is not None:
        preset, names = "multi30k-muon", {"train.0": "train", "validation": "val"}
        names["test.test_2016_flickr"] = "test_2016_flickr"
        for key, name in names.items():
            sides = [f"{side}: {place.folder / name}.{end}" for side, end in (("source", "de"), ("target", "en"))]
            overrides.append(f"data.{key}={{kind: text, {', '.join(sides)}}}")
    if place.scale.sizes:
        overrides += [f"{key}={value}" for key, value in place.scale.sizes.items()]
    overrides += [*place.scale.training, f"training.device={place.device}", f"decoding.device={place.device}"]
    with tempfile.TemporaryDirectory() as folder, reported(preset) as row:
        command = [sys.executable, "-m", "translate", "train", preset, *overrides, "--run", f"{folder}/run"]
        started = time.perf_counter()
        result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        row["numbers"] = {"seconds": time.perf_counter() - started}
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip().splitlines()[-1])
        for record in map(json.loads, Path(folder, "run", "metrics.jsonl").read_text("utf-8").splitlines()):
            if record["kind"] == "train":
                row["numbers"] |= {"steps": record["step"], "target tokens/s": record["target_tokens_per_second"]}
            elif record["kind"] == "validation":
                row["numbers"]["validation BLEU"] = record["BLEU"]
    yield row


def run_tests(place: Place) -> Iterator[Row]:
    """The tests that are marked `gpu`, in one process for every other core."""
    files, processes = ["lint/test_dry_run.py"], 0
    if place.scale.steps > 1:
        files += ["system/test_cuda.py", "system/distributed/test_cuda.py", "training/test_auto_batch.py"]
        processes = min(6, (os.cpu_count() or 1) // 2)
    with reported("marked gpu") as row:
        options = ["-m", "gpu", "-W", "default", "-q", "-n", str(processes), "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, *(str(ROOT / "tests" / file) for file in files)]
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        *lines, last = result.stdout.strip().splitlines() or [result.stderr]
        row["remark"] = "\n".join([last.strip("= "), *(line for line in lines if line.startswith(("FAILED", "ERROR")))])
        if result.returncode not in (0, 5):  # 5: there are none
            row["failed"] = f"pytest ended with {result.returncode}"
    yield row


@contextlib.contextmanager
def reported(case: str) -> Iterator[Row]:
    """A row for the context to fill; an error in the context is in the row."""
    row: Row = {"case": case, "numbers": {}}
    try:
        yield row
    except Exception as error:  # from any library; the other rows must be measured too
        row["failed"] = (str(error) or repr(error)).splitlines()[0]


PARTS: dict[str, tuple[Callable[[Place], Iterator[Row]], float]] = {  # and the most seconds of each
    "training": (measure_training, 140.0),
    "profile": (measure_profile, 40.0),
    "decoding": (measure_decoding, 50.0),
    "clock": (measure_clock, 130.0),
    "tests": (run_tests, 110.0),
}


def run_part(part: str, arguments: argparse.Namespace, device: torch.device, *, seconds: float) -> list[Row]:
    """Measure a part in a process of its own; its rows, and another one if it fails or takes too long."""
    command = [sys.executable, __file__, "--part", part, "--device", str(device), "--scale", arguments.scale]
    if arguments.folder is not None:
        command.append(str(arguments.folder.resolve()))
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment, start_new_session=True)
        failure = None
        try:
            if process.wait(seconds):
                failure = f"ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            failure = f"stopped after {seconds:.0f} s"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        errors.seek(0)
        rows = [json.loads(line) for line in output.read().splitlines() if line.startswith('{"case": ')]
        if failure is not None:
            last = (errors.read().strip().splitlines() or [""])[-1]
            rows.append({"case": "the rest", "numbers": {}, "failed": f"{failure} {last}".strip()})
    return [{"part": part, **row} for row in rows]


def print_row(row: Row) -> None:
    """A row as a line of the table: names and numbers, each share as a percentage."""
    numbers = [
        f"{name} {value:.1%}" if name.startswith("share") else f"{name} {value:,.{0 if value >= 1000 else 2}f}"
        for name, value in row["numbers"].items()
    ]
    failed = [f"FAILED: {row['failed']}"] if "failed" in row else []
    remark = [row["remark"]] if row.get("remark") else []
    print(f"{row['part']:<10}{row['case']:<38}{'; '.join([*failed, *numbers, *remark])}", flush=True)


def main() -> None:
    """Measure all parts, print the table, and write the JSON file; fails if a part does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="Multi30k as plain text")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scale", choices=list(SCALES), default="full")
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--minutes", type=float, default=8.0, help="the most that all parts may take together")
    parser.add_argument("--output", type=Path, default=Path("build/gpu.json"), help="the JSON file")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    device = require_gpu() if arguments.device == "auto" else choose_device(arguments.device)
    if arguments.part is not None:
        measure, _ = PARTS[arguments.part]
        for row in measure(Place(device, SCALES[arguments.scale], arguments.folder)):
            print(json.dumps(row), flush=True)
        return
    print(describe(device))
    rows: list[Row] = []
    end = time.monotonic() + 60.0 * arguments.minutes
    for part in arguments.parts:
        _, seconds = PARTS[part]
        for row in run_part(part, arguments, device, seconds=max(0.0, min(seconds, end - time.monotonic()))):
            rows.append(row)
            print_row(row)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        report = {"device": describe(device), "scale": arguments.scale, "rows": rows}
        arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"Written to {arguments.output}")
    sys.exit(any("failed" in row for row in rows))


if __name__ == "__main__":
    main()
