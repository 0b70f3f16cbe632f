"""How many operations a step dispatches, which is what a small step on a GPU takes its time for.

Counted on a CPU. Two stand-ins are one operation in each direction, as CUDA's kernels are: flash attention and dropout.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from translate.config.schema import ModelConfig, TrainingConfig
from translate.data.batching import Batch, EncodedPair, collate
from translate.model import Transformer
from translate.model.dropout import Dropout
from translate.model.varlen import VarlenMask
from translate.training.data_parallel import ThreadParallel
from translate.training.setup import build_train_step
from translate.training.step import TrainStep

pytestmark = pytest.mark.usefixtures("no_shape_checks")

CPU = torch.device("cpu")
# Operations that launch no kernel: they only describe memory in another way, or reserve it.
VIEWS = {
    *("view", "_unsafe_view", "transpose", "t", "permute", "slice", "select", "expand", "unsqueeze", "squeeze"),
    *("detach", "alias", "split", "split_with_sizes", "as_strided", "unbind", "view_as_complex", "view_as_real"),
    *("empty_like", "empty", "new_empty", "empty_strided", "lift_fresh"),
}


@torch.library.custom_op("counted::attention", mutates_args=())
def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.zeros_like(query)


@torch.library.custom_op("counted::attention_backward", mutates_args=())
def attention_backward(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    return [torch.zeros_like(heads) for heads in (query, key, value)]


attention.register_fake(lambda query, key, value: torch.empty_like(query))
attention_backward.register_fake(lambda gradient, *inputs: [torch.empty_like(heads) for heads in inputs])
attention.register_autograd(
    lambda ctx, gradient: tuple(attention_backward(gradient, *ctx.saved_tensors)),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def flash_attention(query: Tensor, key: Tensor, value: Tensor, *, mask: VarlenMask) -> Tensor:
    query, key, value = (heads.squeeze(0).transpose(0, 1) for heads in (query, key, value))
    output: Tensor = attention(query, key, value)
    return output.transpose(0, 1)[None]


def dropout(self: Dropout, hidden: Tensor) -> Tensor:
    return torch.native_dropout(hidden, self.p, train=True)[0] if self.training and self.p else hidden


class Count(TorchDispatchMode):
    """Counts what is dispatched, also by compiled layers; not the kernels that the compiler wrote."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.views, self.others = Counter[str](), Counter[str]()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # otherwise layers are not compiled in this mode

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = function.overloadpacket.__name__
        (self.views if name in VIEWS else self.others)[name] += 1
        return function(*args, **(kwargs or {}))


def build(model: dict[str, Any], training: dict[str, Any], *, num_layers: int) -> TrainStep:
    torch.set_num_threads(training.get("threads", 1))  # as many micro-batches at once
    sizes: dict[str, Any] = {"d_model": 32, "d_ff": 64, "num_heads": 4, "dropout": 0.1}
    sizes |= {"num_encoder_layers": num_layers, "num_decoder_layers": num_layers}
    settings = TrainingConfig.model_validate({"batch_tokens": 1250, "precision": "bf16"} | training)
    torch.manual_seed(0)
    transformer = Transformer(ModelConfig(**(sizes | model)), source_vocab_size=97, target_vocab_size=97, pad_id=0)
    return build_train_step(transformer.train(), settings, device=CPU)


def some_batches(number: int) -> list[Batch]:
    draw = random.Random(1)
    pairs = [EncodedPair([5] * draw.randint(5, 8), [6] * draw.randint(5, 8)) for _ in range(20)]
    return [collate(pairs, range(20))] * number


@pytest.mark.parametrize(
    ("model", "training", "num_batches", "most_views", "most_others"),
    [
        ({"positions": "sinusoidal"}, {"optimizer": "adam"}, 1, 1392, 726),
        ({"positions": "rotary", "norm": "pre"}, {"optimizer": "adam", "max_gradient_norm": 1.0}, 2, 3031, 1675),
        ({"positions": "rotary", "norm": "pre"}, {"optimizer": "muon", "max_gradient_norm": 1.0}, 1, 1623, 929),
        ({"positions": "sinusoidal"}, {"optimizer": "adam", "lora_rank": 2}, 1, 1827, 1029),
    ],
    ids=["post-norm", "rotary-two-batches", "muon", "lora"],
)
def test_a_step_of_six_layers_dispatches_no_more_operations(
    monkeypatch: pytest.MonkeyPatch,
    model: dict[str, Any],
    training: dict[str, Any],
    num_batches: int,
    most_views: int,
    most_others: int,
) -> None:
    monkeypatch.setattr("translate.model.attention.flash_attention", flash_attention)
    monkeypatch.setattr(Dropout, "forward", dropout)
    step = build(model, {"batch_layout": "packed"} | training, num_layers=6)
    step.layout = "flash"
    batches = some_batches(num_batches)
    step(batches, number=1, learning_rate=1e-4)
    with Count() as count:
        step(batches, number=2, learning_rate=1e-4)
    assert count.others["attention"] == 18 * num_batches
    assert count.others.total() <= most_others, count.others
    assert count.views.total() <= most_views, count.views


@contextmanager
def autocast_alone() -> Iterator[None]:
    """Weights are not copied, so autocast casts each of them in each micro-batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("translate.training.data_parallel.product_weights", lambda model: [])
        yield


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("model", "training"),
    [
        ({"norm": "pre", "positions": "rotary"}, {"accumulate_batches": 2, "max_gradient_norm": 1.0}),
        ({"tie_embeddings": "none", "output_bias": True, "activation": "swiglu"}, {"threads": 2, "r_drop": 1.0}),
        ({"positions": "relative"}, {"lora_rank": 2, "threads": 2}),
        ({"positions": "learned"}, {"freeze": ["embeddings", "encoder.0"], "accumulate_batches": 2}),
    ],
    ids=["two-batches", "untied", "lora", "freeze"],
)
def test_copies_of_the_weights_give_what_autocast_gives(
    model: dict[str, Any], training: dict[str, Any], precision: str
) -> None:
    """To the last bit: gradients of single micro-batches are rounded by both, and both sum them in fp32."""

    def train() -> tuple[list[float], list[Tensor]]:
        step = build(model, {"optimizer": "adam", "precision": precision} | training, num_layers=2)
        assert isinstance(step.parallel, ThreadParallel)
        assert step.parallel.num_workers == training.get("threads", 1)
        batches = some_batches(training.get("accumulate_batches", 1))
        losses = [float(step(batches, number=number, learning_rate=1e-3).loss) for number in (1, 2, 3)]
        assert {weight.dtype for weight in step.model.parameters()} == {torch.float32}
        return losses, [weight.detach() for weight in step.model.parameters()]

    losses, weights = train()
    with autocast_alone():
        expected_losses, expected = train()
    assert losses == expected_losses
    for mine, wanted in zip(weights, expected, strict=True):
        assert torch.equal(mine, wanted)


def test_a_step_that_fails_leaves_the_weights_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    step = build({}, {}, num_layers=1)
    before = {name: weight.clone() for name, weight in step.model.named_parameters()}
    monkeypatch.setattr("translate.training.step.label_smoothed_loss", None)
    with pytest.raises(TypeError):
        step(some_batches(1), number=1, learning_rate=1e-3)
    for name, weight in step.model.named_parameters():
        assert weight.dtype == torch.float32 and torch.equal(weight, before[name])
