"""Where the time of a training step goes, by kind of operation, and how much its matrix products alone would take.

    python benchmarks/step.py DIR --precisions bf16 fp32 --layouts auto packed

DIR contains Multi30k as plain text: train.de, train.en, val.de and val.en. The steps are those of the preset
multi30k-fast, on one thread, whose operations PyTorch's profiler can assign. The bound is the time of the same matrix
products alone, on data that is in the cache: each shape that occurred, at its best of several runs, times how often it
occurred. No step with PyTorch's own products can be faster.
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

from time_to_quality import read_setting, scheduled, step_batches

PRODUCTS = ("aten::mm", "aten::addmm")
KINDS = {  # names of operations, or of one that they are part of
    "softmax and loss over the vocabulary": ("_LabelSmoothedLoss", "_LabelSmoothedLossBackward"),
    "dropout": ("_DropoutFunction", "_DropoutFunctionBackward"),
    "attention: products": ("aten::bmm", "aten::baddbmm"),
    "attention: softmax and masks": ("aten::_softmax", "aten::_softmax_backward_data", "aten::masked_fill"),
    "layer normalisation": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
    "embeddings": ("aten::embedding", "aten::embedding_dense_backward"),
    "activation": ("aten::relu", "aten::threshold_backward"),
    "optimizer, sums and norm of gradients": (
        *("Optimizer.step#AdamW.step", "aten::_foreach_add_", "aten::_foreach_norm", "aten::_foreach_lerp_"),
        *("aten::_foreach_mul_", "aten::linalg_vector_norm", "aten::_fused_adamw_"),
    ),
    "copies and number types": ("aten::copy_", "aten::cat", "aten::fill_", "aten::clone"),
}
OTHERS, BETWEEN = "sums, products by elements, rotations", "Python and autograd, between operations"


def kind_of(event: Any) -> str:
    """The kind of a profiled operation: its own, or that of the nearest one that it is part of."""
    if event.name in PRODUCTS:
        return "matrix products"
    part: Any = event
    while part is not None:
        for kind, names in KINDS.items():
            if part.name in names and (kind != "copies and number types" or part is event):
                return kind
        part = part.cpu_parent
    return OTHERS if event.name.startswith("aten::") else BETWEEN


def best_seconds(name: str, shapes: list[Any], dtype: Any, *, runs: int = 7) -> float:
    """The shortest time of a product of these shapes alone."""
    import torch

    tensors = [torch.randn(shape, dtype=dtype) for shape in shapes if shape]
    # As in a step: a layer's weight is stored transposed, and so is the first factor of a weight's gradient.
    tensors[-1] = torch.randn(shapes[-1][::-1], dtype=dtype).t() if name == "aten::addmm" else tensors[-1]
    compute = {"aten::mm": torch.mm, "aten::addmm": torch.addmm}[name]
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        compute(*tensors)
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def profile_steps(folder: Path, precision: str, layout: str, num_steps: int, overrides: list[str]) -> None:
    """Profile some steps, and print the table of kinds and the bound."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from translate.training.setup import setup_training

    chosen = [f"training.precision={precision}", f"training.batch_layout={layout}"]
    setting = read_setting(folder, [*overrides, *chosen])
    cpu, batches = torch.device("cpu"), step_batches(setting)
    largest = setting.batches.largest_batch
    train_step = setup_training(setting.config, setting.tokenizers, device=cpu, batch_tokens=largest)

    def step(number: int) -> int:
        some = next(batches)
        train_step(some, number=number, learning_rate=scheduled(setting, 0.01))
        return sum(batch.num_target_tokens for batch in some)

    for number in range(1, 11):
        step(number)
    begun, tokens = time.perf_counter(), sum(step(number) for number in range(11, 11 + num_steps))
    seconds = (time.perf_counter() - begun) / num_steps
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for number in range(11 + num_steps, 11 + 2 * num_steps):
            step(number)
    kinds, products = Counter[str](), Counter[tuple[Any, ...]]()
    for event in profiler.events():
        kinds[kind_of(event)] += event.self_cpu_time_total
        if event.name in PRODUCTS:
            products[event.name, *(tuple(shape) for shape in event.input_shapes[:3] if shape)] += 1
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    bound = sum(number * best_seconds(name, shapes, dtype) for (name, *shapes), number in products.items())
    total = sum(kinds.values())
    print(f"\n{precision}, {layout}: {seconds:.3f} s per step, {tokens / num_steps / seconds:,.0f} target tokens/s")
    print(f"The products alone: {bound / num_steps:.3f} s, {bound / num_steps / seconds:.0%} of the step\n")
    print("| kind of operation | share of the step |\n|---|---:|")
    for kind, microseconds in kinds.most_common():
        print(f"| {kind} | {microseconds / total:.1%} |")


def main() -> None:
    """Profile each combination that was asked for."""
    import torch

    from translate.memory import configure_memory

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--precisions", nargs="+", default=["bf16", "fp32"], choices=["bf16", "fp32"])
    parser.add_argument("--layouts", nargs="+", default=["auto", "packed"], choices=["auto", "padded", "packed"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--override", nargs="*", default=[], metavar="KEY=VALUE", help="of the preset")
    arguments = parser.parse_args()
    configure_memory()
    torch.set_num_threads(1)
    for precision in arguments.precisions:
        for layout in arguments.layouts:
            profile_steps(arguments.folder, precision, layout, arguments.steps, arguments.override)


if __name__ == "__main__":
    main()
