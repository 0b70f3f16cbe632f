"""A device for tests, `pretend`, on which code meets what it would meet on CUDA, where there is only a CPU.

Its tensors are computed by PyTorch's CPU kernels but report the device `pretend:0`. As on CUDA, they do not mix with
tensors of the CPU, autocast and autograd know them, and numbers cross between host and device only by copies. Every
crossing is counted by the line of `translate` that caused it. Import this module before anything else in the process
computes a gradient: only then does autograd start a thread for the device.
"""

import contextlib
import functools
import itertools
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from torch.utils.weak import WeakIdKeyDictionary

import translate

aten = torch.ops.aten
PACKAGE = f"{Path(translate.__file__).parent}/"
ELSEWHERE = "outside of translate"  # the line of what autograd computes by itself, or the test

# The result of these has a size or a value that the host needs; multinomial checks the probabilities.
_SYNCHRONISING = {
    aten._local_scalar_dense,
    *(aten.nonzero, aten.masked_select, aten.equal, aten.multinomial, aten.bincount, aten._unique, aten._unique2),
    *(aten.unique_dim, aten.unique_consecutive),
}
_INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._unsafe_index, aten._index_put_impl_}
# Kernels of CUDA that, like the pointwise ones, read a tensor without dimensions from the CPU.
_READS_A_NUMBER = {aten.masked_fill, aten.masked_fill_, aten.index_fill, aten.index_fill_, aten.fill, aten.fill_}

# In inference mode, operations that are made of others come whole, and those that copy must be seen; in the parts of
# these, which copy nothing, the CPU would round otherwise.
_WHOLE = {aten.linear, aten.matmul, aten.scaled_dot_product_attention}

# A wrapper's size never changes, but without kernels of their own some factories fill a tensor without elements; and
# `torch.tensor` calls the copy's kernel where Python tensors are not asked.
_KERNELS = ("copy_", "arange", "arange.start", "arange.start_step", "linspace", "eye", "eye.m", "randperm")

# What CUDA's autocast computes in the lower precision and what in fp32, as far as models of translation need it:
# https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float16
_LOWER_PRECISION = ("addbmm", "addmm", "addmv", "baddbmm", "bmm", "linear", "matmul", "mm", "mv")
_LOWER_PRECISION += ("scaled_dot_product_attention",)
_FP32 = ("exp", "log", "pow.Tensor_Scalar", "reciprocal", "rsqrt", "layer_norm", "logsumexp", "nll_loss")
_FP32_BY_DTYPE = ("softmax.int", "log_softmax.int", "sum", "sum.dim_IntList", "cumsum", "prod")


class Crossings(NamedTuple):
    """How often numbers crossed between host and device, by the line of `translate`, as `training/step.py:194`."""

    synchronisations: Counter[str]  # the host waited for all work that it had given to the device
    to_device: Counter[str]  # copies from host to device, whether or not the host waited
    to_host: Counter[str]  # copies from device to host, whether or not the host waited
    event_waits: Counter[str]  # the host waited for an event, and not for later work

    def clear(self) -> None:
        """Forget what was counted."""
        for counter in self:
            counter.clear()

    def since(self, earlier: "Crossings") -> "Crossings":
        """What was counted since a copy was made."""
        return Crossings(*(now - before for now, before in zip(self, earlier, strict=True)))

    def copy(self) -> "Crossings":
        """A copy, which stays as it is."""
        return Crossings(*(Counter(counter) for counter in self))


class PretendTensor(Tensor):
    """A tensor on the device; the tensor of the CPU that it stands for is `raw`."""

    raw: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, raw: Tensor) -> "PretendTensor":
        tensor: PretendTensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            raw.shape,
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device("pretend", 0),
        )
        tensor.raw = raw
        return tensor

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _compute(operation, args, kwargs or {})

    @property
    def data(self) -> Tensor:
        """The same numbers, without a history."""
        return self.detach()

    @data.setter
    def data(self, tensor: "PretendTensor") -> None:
        Tensor.data.__set__(self, tensor)  # type: ignore[attr-defined]
        self.raw = tensor.raw

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        """Assign a number as CUDA does, from a tensor of the CPU: indices copy it to the device, slices do not."""
        super().__setitem__(index, torch.tensor(value, dtype=self.dtype) if isinstance(value, int | float) else value)

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"PretendTensor({self.raw!r})"


class Event:
    """An event of the device's stream; all work is done at once, so it has always happened."""

    def synchronize(self) -> None:
        """Wait for the event."""
        _crossings.event_waits[_line()] += 1

    def query(self) -> bool:
        """Whether it has happened."""
        return True


class Stream:
    """The device's only stream."""

    def record_event(self) -> Event:
        """An event that happens when the work given so far is done."""
        return Event()

    def synchronize(self) -> None:
        """Wait for all work."""
        _crossings.synchronisations[_line()] += 1


class DeviceModule:
    """What is `torch.cuda` for CUDA: `torch.pretend`. Outside of `PretendDevice` the device is not available."""

    is_active = False

    def is_available(self) -> bool:
        return self.is_active

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return int(self.is_active)

    def current_device(self) -> int:
        return 0

    def set_device(self, device: object) -> None:
        """There is only one."""

    def get_device_name(self, device: object = None) -> str:
        return "Pretend"

    def manual_seed_all(self, seed: int) -> None:
        """Random numbers are those of the CPU, which are seeded already."""

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16, torch.float32]

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return True

    def current_stream(self, device: object = None) -> Stream:
        return Stream()

    def synchronize(self, device: object = None) -> None:
        Stream().synchronize()

    def empty_cache(self) -> None:
        """Nothing is cached."""


_module = DeviceModule()
_crossings = Crossings(Counter(), Counter(), Counter(), Counter())
_pinned = WeakIdKeyDictionary()  # the host's tensors in pinned memory


class PretendDevice:
    """A context in which the device `pretend` is available, and crossings to and from it are counted.

    The device's name and its thread for autograd are PyTorch's for the whole process; all else ends with the context.
    """

    crossings = _crossings

    @property
    def device(self) -> torch.device:
        """The only one there is."""
        return torch.device("pretend", 0)

    def __enter__(self) -> "PretendDevice":
        self._swaps = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)  # so that `model.to` keeps ties
        self._kernels = torch.library.Library("aten", "IMPL")
        self._kernels.impl("_pin_memory", _pin_memory, "CPU")
        self._kernels.impl("is_pinned", lambda tensor, device=None: tensor in _pinned, "CPU")
        self._kernels.impl("_flash_attention_forward", _flash_attention, "CPU")
        self._kernels.impl("_flash_attention_backward", _flash_attention_backward, "CPU")
        _module.is_active = True
        self.crossings.clear()
        return self

    def __exit__(self, *exception: object) -> None:
        _module.is_active = False
        self._kernels._destroy()
        torch.__future__.set_swap_module_params_on_conversion(self._swaps)

    @contextlib.contextmanager
    def counting(self) -> Iterator[Crossings]:
        """A context with what crosses within it; to be read after it too."""
        before, counted = self.crossings.copy(), Crossings(Counter(), Counter(), Counter(), Counter())
        try:
            yield counted
        finally:
            for counter, new in zip(counted, self.crossings.since(before), strict=True):
                counter.update(new)


def _line() -> str:
    """The line of `translate` that runs, as `training/step.py:194`."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ELSEWHERE


def _compute(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the CPU, if CUDA would compute it, and count what crosses."""
    if torch.is_inference_mode_enabled():
        if operation.overloadpacket not in _WHOLE:
            parts = operation.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        # What a tensor stands for must serve training too, and of a wrapper made in inference mode there is no view.
        with torch.inference_mode(False), torch.no_grad():
            return _compute(operation, args, kwargs)
    tensors = _tensors((*args, *kwargs.values()))
    on_device = [tensor for tensor in tensors if isinstance(tensor, PretendTensor)]
    on_host = [tensor for tensor in tensors if not isinstance(tensor, PretendTensor)]
    packet, device = operation.overloadpacket, kwargs.get("device")
    gives_host = device is not None and torch.device(device).type == "cpu"
    if packet is aten.copy_:
        _count_copy(*args[:2], non_blocking=(*args[2:], kwargs.get("non_blocking", False))[0])
    elif packet is aten._to_copy and gives_host:
        _count(_crossings.to_host, waits=not kwargs.get("non_blocking", False))  # into memory that torch pins itself
    elif on_device:
        _check_operands(operation, packet, args, kwargs, on_host)
        if packet in _SYNCHRONISING:
            _crossings.synchronisations[_line()] += 1
        if packet in _INDEXING:
            _count_indices(args[0], args[1], *args[2:3])
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"}
    raw = {name: _map(_to_raw, value) for name, value in kwargs.items()}
    result = operation(*(_map(_to_raw, value) for value in args), **raw)
    if gives_host:
        return result
    wrappers = {id(tensor.raw): tensor for tensor in on_device}
    if operation._schema.is_mutable:
        for tensor in on_device:
            if tensor.shape != tensor.raw.shape or tensor.stride() != tensor.raw.stride():
                raise NotImplementedError(f"{operation} changes a tensor's shape in place; on {_line()}")
    if packet is aten.copy_:
        return args[0]
    return _map(lambda leaf: _to_wrapper(leaf, wrappers) if isinstance(leaf, Tensor) else leaf, result)


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    found = list[Tensor]()
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    """The value, or each one in lists and tuples, after a function; torch's own mapping takes most of a step's time."""
    if isinstance(value, list | tuple):
        return type(value)([_map(function, each) for each in value])  # type: ignore[arg-type]
    return function(value)


def _to_raw(leaf: Any) -> Any:
    return leaf.raw if isinstance(leaf, PretendTensor) else leaf


def _to_wrapper(raw: Tensor, wrappers: dict[int, PretendTensor]) -> PretendTensor:
    return wrappers[id(raw)] if id(raw) in wrappers else PretendTensor(raw)


def _check_operands(
    operation: Any, packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any], on_host: list[Tensor]
) -> None:
    """Refuse operands of the CPU where CUDA does: it reads numbers from there, and the indices of `tensor[indices]`."""
    if packet in _INDEXING:
        indices = {id(index) for index in args[1]}
        allowed = [
            tensor for tensor in on_host if tensor is not args[0] and (id(tensor) in indices or not tensor.dim())
        ]
    elif torch.Tag.pointwise in operation.tags or packet in _READS_A_NUMBER:
        written = [*(args[:1] if operation._schema.is_mutable else ()), kwargs.get("out")]
        allowed = [tensor for tensor in on_host if not tensor.dim() and not any(tensor is each for each in written)]
    else:
        allowed = []
    if len(allowed) < len(on_host):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, pretend:0 and cpu!"
            f" ({operation}, on {_line()})"
        )


def _count(copies: Counter[str], *, waits: bool) -> None:
    line = _line()
    copies[line] += 1
    if waits:
        _crossings.synchronisations[line] += 1


def _count_copy(target: Tensor, source: Tensor, *, non_blocking: bool) -> None:
    """Count a copy between host and device; the host does not wait if its memory is pinned and it need not."""
    if isinstance(target, PretendTensor) and not isinstance(source, PretendTensor):
        _count(_crossings.to_device, waits=not (non_blocking and source in _pinned))
    elif isinstance(source, PretendTensor) and not isinstance(target, PretendTensor):
        _count(_crossings.to_host, waits=not (non_blocking and target in _pinned))


def _count_indices(tensor: Tensor, indices: Any, values: Any = None) -> None:
    """Count the copies of indices from the CPU, and the wait for the number of elements that a mask selects."""
    for index in indices:
        if isinstance(index, Tensor) and not isinstance(index, PretendTensor):
            _count(_crossings.to_device, waits=True)
        elif index is not None and index.dtype in (torch.bool, torch.uint8):
            _crossings.synchronisations[_line()] += 1
    if isinstance(values, Tensor) and not isinstance(values, PretendTensor):
        _count(_crossings.to_device, waits=True)


def _pin_memory(tensor: Tensor, device: object = None) -> Tensor:
    pinned = tensor.clone()
    _pinned[pinned] = True
    return pinned


def _flash_attention(
    query: Tensor, key: Tensor, value: Tensor, cu_query: Tensor, cu_key: Tensor, *options: Any, **more: Any
) -> tuple[Tensor, ...]:
    """What `torch.nn.attention.varlen` computes on CUDA, and of the same types."""
    if query.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if not cu_query.dtype == cu_key.dtype == torch.int32:
        raise RuntimeError("cu_seqlens must have dtype int32")
    output, log_sums = torch.empty_like(query), query.new_empty(query.shape[1], len(query), dtype=torch.float32)
    for q, k, scores in _attention_scores(query, key, cu_query, cu_key, is_causal=options[3]):
        log_sums[:, q] = scores.logsumexp(-1)
        output[q] = (scores.softmax(-1) @ value[k].float().transpose(0, 1)).transpose(0, 1).to(query.dtype)
    nothing = query.new_empty(0)
    return output, log_sums, nothing, nothing, nothing


def _flash_attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    log_sums: Tensor,
    cu_query: Tensor,
    cu_key: Tensor,
    *options: Any,
    **more: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    gradients = tuple(torch.zeros_like(each) for each in (query, key, value))
    for q, k, scores in _attention_scores(query, key, cu_query, cu_key, is_causal=options[3]):
        weights = (scores - log_sums[:, q, None]).exp()  # (heads, query, key)
        of_output, own_query, own_key, own_value = (
            each.float().transpose(0, 1) for each in (gradient[q], query[q], key[k], value[k])
        )
        mean = (of_output * output[q].float().transpose(0, 1)).sum(-1, keepdim=True)
        of_scores = weights * (of_output @ own_value.mT - mean) / math.sqrt(query.shape[2])
        new = ((q, of_scores @ own_key), (k, of_scores.mT @ own_query), (k, weights.mT @ of_output))
        for total, (rows, part) in zip(gradients, new, strict=True):
            total[rows] = part.transpose(0, 1).to(total.dtype)
    return gradients


def _attention_scores(
    query: Tensor, key: Tensor, cu_query: Tensor, cu_key: Tensor, *, is_causal: bool
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Of each sequence the rows of its queries and keys, and their scores in fp32: (heads, query, key)."""
    ends = zip(itertools.pairwise(cu_query.tolist()), itertools.pairwise(cu_key.tolist()), strict=True)
    for q, k in ((slice(*of_query), slice(*of_key)) for of_query, of_key in ends):
        scores = query[q].float().transpose(0, 1) @ key[k].float().permute(1, 2, 0) / math.sqrt(query.shape[2])
        if is_causal:
            scores.masked_fill_(torch.ones(scores.shape[1:], dtype=torch.bool).triu(1), -math.inf)
        yield q, k, scores


def _autocast(operation: Any, *, lower: bool, by_dtype: bool) -> Callable[..., Any]:
    """An operation's kernel in autocast: it casts tensors of the device, or asks for a result, to the type it wants."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("pretend") if lower else torch.float32

        def cast(leaf: Any) -> Any:
            is_cast = isinstance(leaf, PretendTensor) and leaf.is_floating_point() and leaf.dtype != torch.float64
            return leaf.to(dtype) if is_cast else leaf

        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST_KEYS):
            if by_dtype:
                is_lower = args[0].dtype in (torch.float16, torch.bfloat16)
                return operation(
                    *args, **({"dtype": dtype} if is_lower and kwargs.get("dtype") is None else {}) | kwargs
                )
            return operation(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})

    return compute


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return _module.is_active

    def has_primary_context(self, device_index: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def _as_kernel(operation: Any, *args: Any, **kwargs: Any) -> Any:
    return _compute(operation, args, kwargs)


def _register() -> list[torch.library.Library]:
    """Register the device; PyTorch has no way to undo it."""
    _setup_privateuseone_for_python_backend("pretend", backend_module=_module, hook=_Hooks())
    every, own = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(_as_kernel, "PrivateUse1")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in _KERNELS:
        own.impl(name, functools.partial(_as_kernel, _overload(name)), "PrivateUse1")
    kinds = ((_LOWER_PRECISION, True, False), (_FP32, False, False), (_FP32_BY_DTYPE, False, True))
    for names, lower, by_dtype in kinds:
        for name in names:
            own.impl(name, _autocast(_overload(name), lower=lower, by_dtype=by_dtype), "AutocastPrivateUse1")
    return [every, own]


_AUTOCAST_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
# Where it is registered, PyTorch takes it for the accelerator of the process: a real one could pin no memory any more.
HAS_REAL_GPU = any(torch.get_device_module(kind).is_available() for kind in ("cuda", "xpu", "mps"))
_registered = [] if HAS_REAL_GPU else _register()
