"""A profile in words: the time of each kind of work, from the names of torch's operators and of what called them."""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from torch.autograd.profiler_util import FunctionEvent

WAITING = "waiting for data"  # the name of a range, on the thread of the training loop
OUTSIDE = "validation and saving"  # another: its time is left out

_MICROSECOND = 1e-6
_MOST_OPERATORS = 20
_STEP, _OTHER, _OPTIMIZER, _PRODUCTS = "step", "other operators", "optimizer", "matrix products"
# The group of an operator: the first that its name fits, or that of the nearest caller with such a name.
_GROUPS = {
    _STEP: r"^ProfilerStep",
    WAITING: f"^{WAITING}$",
    OUTSIDE: f"^{OUTSIDE}$",
    _OPTIMIZER: r"^Optimizer\.|_foreach_|_fused_adam|linalg_vector_norm",
    _PRODUCTS: r"^aten::(mm|addmm_?|_addmm_activation|linear|matmul|mv|addmv|_scaled_mm)$|mkldnn_linear",
    "attention": r"bmm|(?<!log_)softmax|(?<!Log)Softmax|[aA]ttention|masked_fill|MaskedFill",
    "dropout": r"[dD]rop|bernoulli|^aten::random_",
    "loss": r"log_softmax|LogSoftmax|nll_loss|NllLoss|[cC]ross_?[eE]ntropy|[lL]oss",
    "copies and casts": r"^aten::(copy_|to|_to_copy|clone|contiguous|cat|stack|pad|constant_pad_nd)$|^Mem(cpy|set)",
    "memory allocation": r"^aten::(empty|new_empty|zeros|ones|full|resize|zero_|fill_|_resize)|memory given back",
    "exchange between processes": r"^(nccl|gloo|c10d)|all_?reduce|DistributedDataParallel|FSDP",
    "norms, activations": r"layer_norm|LayerNorm|rms_norm|RmsNorm|relu|Relu|gelu|Gelu|silu|Silu|threshold|sigmoid",
    "compiled kernels": r"^graph_\d|cpp_fused|triton_|CompiledFunction|Torch-Compiled",
}


class Operator(NamedTuple):
    """All calls of one operator, without what it calls itself."""

    name: str
    group: str
    calls: int
    seconds: float


class ProfileTable(NamedTuple):
    """Where the time of some steps went.

    The time of threads that compute at once is divided by their number, so that all parts are of the time on the clock.
    """

    num_steps: int
    num_threads: int  # that compute
    device: str
    seconds: float  # of all steps, validations and saving left out
    groups: dict[str, float]  # seconds, most first; together `seconds`
    operators: tuple[Operator, ...]  # most seconds first

    def short(self) -> str:
        """The groups alone, a line each."""
        where = "on the GPU" if self.device == "cuda" else f"{self.num_threads} thread{'s' * (self.num_threads > 1)}"
        lines = [f"{1000 * self.seconds / self.num_steps:.1f} ms a step, {where}"]
        lines += [f"  {self._part(seconds)}  {name}" for name, seconds in self.groups.items()]
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [self.short(), "", "The operators that take most of it, without what they call:"]
        lines.append(f"  {'share':>6}{'ms a step':>11}{'calls a step':>14}  operator (its group above)")
        for operator in self.operators[:_MOST_OPERATORS]:
            calls = f"{operator.calls / self.num_steps:12.1f}"
            lines.append(f"  {self._part(operator.seconds)}  {calls}  {operator.name} ({operator.group})")
        return "\n".join(lines) + "\n"

    def _part(self, seconds: float) -> str:
        return f"{seconds / self.seconds:6.1%}{1000 * seconds / self.num_steps:8.2f} ms"


def tabulate(events: Sequence[FunctionEvent], *, num_steps: int, device: str) -> ProfileTable:
    """The table of what a profiler with a schedule has recorded.

    Args:
        num_steps: Recorded to their end; after them, nothing counts.
        device: `cuda`: the time of the kernels counts; else that of the operators themselves.
    """
    grouped = _grouped(event for event in events if event.device_type.name == "CPU" and not event.is_async)
    steps = sorted((event for event, group in grouped if group == _STEP), key=lambda step: step.time_range.start)
    first, last = steps[0].time_range.start, steps[num_steps - 1].time_range.end
    grouped = [(event, group) for event, group in grouped if first <= event.time_range.start < last]
    outside = [event.time_range for event, group in grouped if group == OUTSIDE]
    seconds = _MICROSECOND * (last - first - sum(left_out.elapsed_us() for left_out in outside))
    waiting = _MICROSECOND * sum(event.time_range.elapsed_us() for event, group in grouped if group == WAITING)
    counted = [
        (event, group)
        for event, group in grouped
        if group not in {_STEP, WAITING, OUTSIDE}
        and not any(left_out.start <= event.time_range.start < left_out.end for left_out in outside)
    ]
    # Another thread, which gets batches ready, takes no time of the steps.
    threads = {event.thread for event, group in counted if group == _PRODUCTS}
    parts = {steps[0].thread: 1.0} | dict.fromkeys(threads, 1.0 if device == "cuda" else 1.0 / max(1, len(threads)))
    operators = _operators([each for each in counted if each[0].thread in parts], parts=parts, device=device)
    groups: dict[str, float] = {}
    for operator in operators:
        groups[operator.group] = groups.get(operator.group, 0.0) + operator.seconds
    idle = max(0.0, seconds - sum(groups.values()))
    groups[WAITING] = min(waiting, idle) if device == "cuda" else waiting
    groups[_between(device, num_threads=len(threads))] = max(0.0, idle - groups[WAITING])
    ordered = dict(sorted(groups.items(), key=lambda item: -item[1]))
    return ProfileTable(num_steps, max(1, len(threads)), device, seconds, ordered, operators)


def _grouped(events: Iterable[FunctionEvent]) -> list[tuple[FunctionEvent, str]]:
    """Each with its group, but for what is called while it is waited for data, and outside of the steps."""
    grouped: list[tuple[FunctionEvent, str]] = []
    remaining = [(event, _OTHER) for event in events if event.cpu_parent is None]
    while remaining:
        event, caller = remaining.pop()
        group = _OPTIMIZER if caller == _OPTIMIZER else _named_group(event.name) or caller
        grouped.append((event, group))
        if group not in {WAITING, OUTSIDE}:
            remaining += [(callee, _OTHER if group == _STEP else group) for callee in event.cpu_children]
    return grouped


def _operators(
    grouped: Sequence[tuple[FunctionEvent, str]], *, parts: Mapping[int, float], device: str
) -> tuple[Operator, ...]:
    """
    Args:
        parts: Of the time of each thread, how much is time on the clock.
    """
    found: dict[tuple[str, str], Operator] = {}
    for event, group in grouped:
        microseconds = event.self_device_time_total if device == "cuda" else event.self_cpu_time_total
        before = found.get((event.name, group), Operator(event.name, group, 0, 0.0))
        seconds = before.seconds + _MICROSECOND * microseconds * parts[event.thread]
        found[event.name, group] = Operator(event.name, group, before.calls + 1, seconds)
    return tuple(sorted(found.values(), key=lambda operator: -operator.seconds))


def _between(device: str, *, num_threads: int) -> str:
    if device == "cuda":
        return "the GPU without work"
    return "Python, and threads waiting for each other" if num_threads > 1 else "Python between operators"


@functools.cache
def _named_group(name: str) -> str | None:
    return next((group for group, pattern in _GROUPS.items() if re.search(pattern, name)), None)
