"""The weights of a run's checkpoint, and the model that they belong to."""

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from translate.config.languages import list_some
from translate.config.load import read_resolved_config
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import PAD_ID, Tokenizers
from translate.errors import InputError, RunError
from translate.model import Transformer
from translate.model.device import LOADING_HINT, check_free_memory, explain_out_of_memory
from translate.model.lora import is_lora, merge_lora
from translate.runs.checkpoint import AVERAGE_PREFIX, WEIGHTS_PREFIX, read_tensors
from translate.runs.directory import Checkpoint, RunDirectory
from translate.runs.metadata import read_moment

_WEIGHT_BYTES = 4  # of fp32


class SavedWeights(NamedTuple):
    """The weights of a checkpoint to translate with."""

    tensors: dict[str, Tensor]
    step: int  # at which they were saved; of an average the newest
    averaged: tuple[int, ...]  # the steps of the checkpoints that were averaged; usually none
    sha256: str = ""  # of the checkpoint's content; an average in memory has none


def read_weights(run: RunDirectory, checkpoint: Checkpoint) -> SavedWeights:
    """The weights of a checkpoint, or its moving average if it has one, and the step at which they were saved.

    The last checkpoint has LoRA's updates apart from the weights; here they are merged.

    Raises:
        InputError: The run does not have that checkpoint.
        RunError: The checkpoint is damaged.
    """
    file = run.checkpoint(checkpoint)
    if not file.is_file():
        hint = "; training has not validated yet: use the checkpoint last" if run.checkpoint("last").is_file() else ""
        if checkpoint not in ("best", "last"):
            hint = f"; kept are {', '.join(f'step-{step}' for step in run.kept_steps()) or 'none (training.keep_last)'}"
        raise InputError(f"{run.path} has no checkpoint {file.name}{hint}")
    tensors, metadata, sha256 = read_tensors(file, prefixes=(AVERAGE_PREFIX, WEIGHTS_PREFIX))
    if any(map(is_lora, tensors)):
        merge_lora(tensors, alpha=read_resolved_config(run.config).training.lora_alpha)
    return SavedWeights(tensors, *read_moment(file, metadata), sha256)


def count_weights(sizes: ModelConfig, tokenizers: Tokenizers) -> int:
    """The number of weights in the matrices of a model, which is nearly all of them, without building it."""
    inner = (3 if sizes.is_gated else 2) * sizes.d_ff
    rows = sizes.num_encoder_layers * (4 * sizes.attention_dim + inner)
    rows += sizes.num_decoder_layers * (8 * sizes.attention_dim + inner)  # with cross-attention
    rows += tokenizers.target.vocab_size * (1 if sizes.tie_embeddings in ("decoder", "all") else 2)
    rows += 0 if sizes.has_one_embedding else tokenizers.source.vocab_size
    return rows * sizes.d_model


def build_model(
    config: Config, tokenizers: Tokenizers, *, device: torch.device | None = None, doing: str | None = None
) -> Transformer:
    """A newly initialised model for a config and the vocabularies of its tokenizers.

    Args:
        device: The model's device. Its weights are drawn on the CPU, so they are the same everywhere.
        doing: What replaces the weights, such as loading a checkpoint, for errors. They are not drawn then, and take
            memory of the CPU only when they are replaced. None: they are random.

    Raises:
        OutOfMemory: There is not enough memory.
    """
    sizes = config.model
    building = (
        f"building a model with model.d_model = {sizes.d_model}, model.d_ff = {sizes.d_ff},"
        f" {sizes.num_encoder_layers} encoder and {sizes.num_decoder_layers} decoder layers, and"
        f" {tokenizers.target.vocab_size} subwords (tokenizer.vocab_size)"
    )
    hint = LOADING_HINT if doing else "Lower them, or use a machine with more memory."
    num_bytes = _WEIGHT_BYTES * count_weights(sizes, tokenizers)
    cpu = torch.device("cpu")
    for place in {cpu, device or cpu} - ({cpu} if doing else set()):
        check_free_memory(num_bytes, place, doing=doing or building, hint=hint)
    with explain_out_of_memory(doing or building, hint=hint), _NoRandomInit() if doing else contextlib.nullcontext():
        return Transformer(
            sizes,
            source_vocab_size=tokenizers.source.vocab_size,
            target_vocab_size=tokenizers.target.vocab_size,
            pad_id=PAD_ID,
        ).to(device)


class _NoRandomInit(TorchFunctionMode):
    """A context that skips random initialisation, for a model whose weights are loaded."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Skip functions that fill a tensor with random numbers, half of the time of loading a model."""
        if getattr(function, "__name__", "") in ("uniform_", "normal_", "kaiming_uniform_"):  # of torch.nn.init too
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs or {})


def get_parameters(model: torch.nn.Module) -> dict[str, Tensor]:
    """The weights by name; tied ones once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def set_parameters(model: torch.nn.Module, tensors: dict[str, Tensor], *, name: str) -> None:
    """Give a model saved weights, in their types, all or none; see `check_same_tensors`.

    Each tensor is removed when it is copied, so memory never holds the weights twice.
    """
    check_same_tensors(get_parameters(model), tensors, name=name)
    for key, parameter in model.named_parameters():
        parameter.data = tensors.pop(key).to(parameter.device, copy=True)


def widen(model: Transformer) -> Transformer:
    """Give a model weights in fp32, in place; memory never holds them twice.

    Raises:
        OutOfMemory: There is not enough memory for what weights in bf16 need in addition.
    """
    num_bytes = sum(2 * weight.numel() for weight in model.parameters() if weight.dtype == torch.bfloat16)
    check_free_memory(num_bytes, model.device, doing="converting weights from bf16 to fp32", hint=LOADING_HINT)
    return model.float()


def check_same_tensors(expected: Mapping[str, Tensor], given: Mapping[str, Tensor], *, name: str) -> None:
    """Raise a RunError that lists the differences in names, shapes and types between two sets of tensors.

    bf16 and fp32 count as the same type: weights may be saved in bf16.

    Args:
        name: The file with the given tensors.
    """

    def describe(tensor: Tensor) -> str:
        return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"

    def is_same(one: Tensor, other: Tensor) -> bool:
        same_types = {one.dtype}, {torch.float32, torch.bfloat16}
        return one.shape == other.shape and {one.dtype, other.dtype} in same_types

    different = [
        f"{key} is {describe(given[key])}, the model's {describe(expected[key])}"
        for key in sorted(given.keys() & expected.keys())
        if not is_same(given[key], expected[key])
    ]
    missing, unexpected = sorted(expected.keys() - given.keys()), sorted(given.keys() - expected.keys())
    problems = {"missing": missing, "unexpected": unexpected, "different": different}
    if any(problems.values()):
        listed = "; ".join(f"{kind}: {list_some(names)}" for kind, names in problems.items() if names)
        raise RunError(f"{name} does not fit the model of its config: {listed}")
