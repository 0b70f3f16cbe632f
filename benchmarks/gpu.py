"""How fast a GPU trains and decodes: tokens per second and memory, next to the numbers of docs/scaling.md.

    python benchmarks/gpu.py            # needs a GPU, and ends with an error without one
    python benchmarks/gpu.py --only-look

The models are the presets of the paper and, with its own small steps, multi30k. Their weights and the sentences are
random, which does not change the speed. With small steps the host, which starts each kernel, is slower than the GPU.
Translations are kept to one length, because an untrained model does not know when to end.
"""

import argparse
import gc
import random
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from on_paper import LENGTH, MACHINES, PRESETS, flops_per_target_token

from translate.config.load import load_config, override_config
from translate.config.schema import Config
from translate.data.batching import Batch, EncodedPair, collate
from translate.data.tokenizer import PAD_ID
from translate.decoding.constraints.phrases import WordTables
from translate.decoding.request import SearchInput
from translate.decoding.search.loop import BeamSearch
from translate.decoding.search.model import CachedDecoder
from translate.decoding.search.settings import build_search_settings
from translate.errors import InputError, RunError
from translate.lint.dry_run import peak_memory
from translate.model import Transformer
from translate.model.device import choose_device
from translate.training.batch_size import resolve_step_tokens
from translate.training.setup import build_train_step

STEP_TOKENS = 25_000  # of the target in a step, which is one batch
SMALL = "multi30k"  # has the steps of its preset
MODES = {  # of training; the first is what the presets' own settings give
    "as the preset": {},
    "not deterministic": {"training.deterministic": False},
    "padded": {"training.batch_layout": "padded"},
    "fp16": {"training.precision": "fp16"},
    "fp32, TF32": {"training.precision": "fp32"},
    "compiled": {"training.compile": True},
}
SEARCHES = {
    "beam 4, fp32": (4, torch.float32),
    "beam 4, bf16": (4, torch.bfloat16),
    "greedy, bf16": (1, torch.bfloat16),
}


class Measured(NamedTuple):
    """One row of the report."""

    tokens_per_second: float  # of the target
    peak_bytes: int | None
    remark: str  # what was chosen, or what went wrong


def look_for_gpu() -> torch.device:
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


def describe(device: torch.device) -> str:
    """The GPU, and the versions that decide what it can do."""
    versions = f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, {sys.platform}"
    if device.type != "cuda":
        return f"{device}; {versions}"
    about = torch.cuda.get_device_properties(device)
    memory = f"{about.total_memory / 2**30:.0f} GiB"
    return f"{about.name}, {memory}, compute capability {about.major}.{about.minor}; {versions}"


def wait_for(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    torch.zeros((), device=device).item()


def matrix_flops(device: torch.device, *, size: int = 8192, times: int = 20) -> float:
    """FLOP/s of a large product in bf16: the peak that shares refer to."""
    one, other = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for number in range(2 * times):
        if number == times:  # the first half warms up
            wait_for(device)
            started = time.perf_counter()
        one @ other
    wait_for(device)
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


def measure_training(
    config: Config, device: torch.device, *, tokens: int = STEP_TOKENS, num_batches: int = 1, steps: int = 20
) -> Measured:
    """Target tokens per second in training steps on some batches of `tokens`."""
    free_memory(device)
    draw = random.Random(1)
    train_step = build_train_step(build(config, device).train(), config.training, device=device)
    for fallback in train_step.fallbacks:
        print(fallback)
    groups = [[random_batch(config, tokens=tokens, draw=draw) for _ in range(num_batches)] for _ in range(4)]
    for number in range(1, 5 + steps):
        if number == 5:
            wait_for(device)
            started = time.perf_counter()
        train_step(groups[number % len(groups)], number=number, learning_rate=1e-6)
    train_step.check_last_step()
    wait_for(device)
    seconds = time.perf_counter() - started
    done = sum(batch.num_target_tokens for number in range(5, 5 + steps) for batch in groups[number % len(groups)])
    remark = f"{train_step.precision.name}, {train_step.layout}, {1000 * seconds / steps:.0f} ms per step"
    return Measured(done / seconds, peak_memory(device), remark)


def measure_decoding(config: Config, device: torch.device, dtype: torch.dtype, *, lines: int = 1000) -> Measured:
    """Target tokens per second in translations of `LENGTH` tokens."""
    free_memory(device)
    draw, vocab_size = random.Random(1), config.tokenizer.vocab_size
    model = build(config, device).to(dtype).eval()
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
    wait_for(device)
    started = time.perf_counter()
    done = search(sources)
    seconds = time.perf_counter() - started
    return Measured(done / seconds, peak_memory(device), f"{lines / seconds:,.0f} lines/s")


def free_memory(device: torch.device) -> None:
    """Free the memory of earlier measurements."""
    gc.collect()
    if device.type != "cpu":
        torch.accelerator.empty_cache()
    peak_memory(device, restart=True)


def row(preset: str, mode: str, measured: Measured, share: str = "") -> str:
    """A line of a table."""
    memory = "unknown" if measured.peak_bytes is None else f"{measured.peak_bytes / 2**30:.1f} GiB"
    return f"{preset:<18}{mode:<19}{measured.tokens_per_second:>16,.0f}{share:>8}{memory:>12}  {measured.remark}"


def main() -> None:
    """Print the report, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-look", action="store_true", help="say which GPU there is, or that there is none")
    arguments = parser.parse_args()
    device = look_for_gpu()
    print(describe(device))
    if arguments.only_look:
        return
    peak = matrix_flops(device)
    print(f"a product of large matrices in bf16: {peak / 1e12:,.0f} TFLOP/s\n")
    print(f"{'training':<18}{'mode':<19}{'target tokens/s':>16}{'share':>8}{'memory':>12}  precision, layout, step")
    configs = {preset: resolve_step_tokens(load_config(preset).config) for preset in (*PRESETS, SMALL)}
    for preset, config in configs.items():
        flops, sizes = flops_per_target_token(config), {}
        if preset == SMALL:
            sizes = {"tokens": config.training.num_batch_tokens, "num_batches": config.training.accumulate_batches}
        for mode, overrides in MODES.items():
            try:
                measured = measure_training(override_config(config, overrides), device, **sizes)
            except (InputError, RunError, RuntimeError) as error:
                print(f"{preset:<18}{mode:<19}failed: {str(error).splitlines()[0]}")
                continue
            print(row(preset, mode, measured, f"{measured.tokens_per_second * flops / peak:.1%}"), flush=True)
        for machine in MACHINES:
            if machine.num_gpus == 1 and preset != SMALL:
                share = machine.shares[PRESETS.index(preset)]
                print(
                    f"{preset:<18}{'on paper':<19}{machine.peak * share / flops:>16,.0f}{share:>8.1%}  {machine.name}"
                )
    print(f"\n{'decoding':<18}{'mode':<19}{'target tokens/s':>16}{'':>8}{'memory':>12}")
    for preset, config in configs.items():
        for mode, (beam_size, dtype) in SEARCHES.items():
            try:
                measured = measure_decoding(override_config(config, {"decoding.beam_size": beam_size}), device, dtype)
            except (InputError, RunError, RuntimeError) as error:
                print(f"{preset:<18}{mode:<19}failed: {str(error).splitlines()[0]}")
                continue
            print(row(preset, mode, measured), flush=True)


if __name__ == "__main__":
    main()
