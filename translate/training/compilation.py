"""Layers compiled by `torch.compile`: for training steps alone, and in place, so that the weights keep their names."""

import contextlib

import torch

from translate.errors import InputError
from translate.model import Transformer


def compile_layers(model: Transformer) -> None:
    """Compile each layer when it is first computed.

    All layers of a kind share one program, and sizes are variables in it: but a size of one is a program of its own.

    Raises:
        InputError: There is nothing here to compile with.
    """
    _refuse_without_compiler(model.device)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.compile(dynamic=True)


def uncompiled() -> contextlib.AbstractContextManager[None]:
    """A context in which compiled layers compute as they stand: what runs once in a while is not worth a program."""
    eager: contextlib.AbstractContextManager[None] = torch.compiler.set_stance("force_eager")
    return eager


def _refuse_without_compiler(device: torch.device) -> None:
    def double(values: torch.Tensor) -> torch.Tensor:
        return values + values

    try:
        torch.compile(double)(torch.zeros(2, device=device))
    except (RuntimeError, OSError, ImportError) as error:
        reason = str(error.__cause__ or error).strip().split("\n")[0].rstrip(".")
        raise InputError(
            f"training.compile = true: torch cannot compile on this machine ({reason}). Install"
            f" {'a C++ compiler, such as g++' if device.type == 'cpu' else 'triton and a C compiler'},"
            " or set training.compile=false"
        ) from error
