"""A model's weights by name, and whether given ones are all that it needs: known before memory is given to them."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from translate.config import ModelConfig
from translate.data.tokenizer import PAD_ID, Tokenizers
from translate.errors import RunError
from translate.model import Transformer

WEIGHTS_PREFIX = "model."
AVERAGE_PREFIX = "average."
_MOST_NAMED = 10
_STACKS = {"encoder.layers.": "num_encoder_layers", "decoder.layers.": "num_decoder_layers"}


class Form(NamedTuple):
    """What a tensor is, besides its numbers."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def expected_forms(config: ModelConfig, tokenizers: Tokenizers) -> dict[str, Form]:
    """The weights that a model of this config has; found without memory for it, and quickly however deep it is."""
    shallow = config.model_copy(update=dict.fromkeys(_STACKS.values(), 1))
    with torch.device("meta"):
        model = Transformer(
            shallow,
            source_vocab_size=tokenizers.source.vocab_size,
            target_vocab_size=tokenizers.target.vocab_size,
            pad_id=PAD_ID,
        )
    forms: dict[str, Form] = {}
    for name, form in forms_of(get_parameters(model)).items():
        for beginning, key in _STACKS.items():
            if name.startswith(f"{beginning}0."):
                rest = name.removeprefix(f"{beginning}0.")
                forms |= {f"{beginning}{layer}.{rest}": form for layer in range(getattr(config, key))}
                break
        else:
            forms[name] = form
    return forms


def forms_of(tensors: Mapping[str, Tensor]) -> dict[str, Form]:
    """The form of each tensor."""
    return {name: Form(tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}


def misfits(expected: Mapping[str, Form], given: Mapping[str, Form]) -> str:
    """What is missing, unexpected, or of another shape or type, by name; empty if nothing is."""
    both = sorted(expected.keys() & given.keys())
    kinds = {
        "missing": sorted(expected.keys() - given.keys()),
        "unexpected": sorted(given.keys() - expected.keys()),
        "of another shape": [
            f"{name} is {given[name].shape}, the model's {expected[name].shape}"
            for name in both
            if given[name].shape != expected[name].shape
        ],
        "of another type": [
            f"{name} is {given[name].dtype}, the model's {expected[name].dtype}"
            for name in both
            if given[name].dtype != expected[name].dtype
        ],
    }
    return "; ".join(f"{kind}: {named(names)}" for kind, names in kinds.items() if names)


def named(names: list[str]) -> str:
    """The first few names, and how many there are besides."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def get_parameters(model: torch.nn.Module) -> dict[str, Tensor]:
    """The trained tensors by name; tied ones once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def set_parameters(model: torch.nn.Module, tensors: Mapping[str, Tensor], *, name: str) -> None:
    """Give a model saved weights: all or none.

    Raises:
        RunError: Tensors are missing, unexpected, or of another shape or type; they are listed.
    """
    parameters = dict(model.named_parameters())
    refuse_misfits(forms_of(parameters), forms_of(tensors), name=name)
    with torch.no_grad():
        for key, parameter in parameters.items():
            parameter.copy_(tensors[key])


def refuse_misfits(expected: Mapping[str, Form], given: Mapping[str, Form], *, name: str) -> None:
    """Raise the RunError that lists what does not fit, if something does not.

    Args:
        name: Of the file with the given tensors.
    """
    problems = misfits(expected, given)
    if problems:
        raise RunError(f"{name} does not fit the model of its config: {problems}")


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, without the beginning."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def add_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors with their names begun so."""
    return {prefix + name: tensor for name, tensor in tensors.items()}
