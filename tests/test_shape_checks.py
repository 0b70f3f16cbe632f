"""The checks of shapes that conftest.py installs."""

import harness
import jaxtyping
import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor


def first(rows: object, *, number: int) -> Tensor:
    """A function with one within it, both decorated as the import hook decorates those of `translate`."""

    @jaxtyping.jaxtyped(typechecker=None)
    def cut(rows: Float[Tensor, "row column"], number: int = number) -> Float[Tensor, "row column"]:
        return rows[:number]

    return cut(rows)  # type: ignore[arg-type]


def test_functions_within_functions_are_checked_at_each_call() -> None:
    """Their arguments and their results, whatever an earlier call was given; and nothing where nothing is checked."""
    rows = torch.ones(3, 2)
    for _ in range(2):
        assert first(rows, number=3).shape == (3, 2)
        for wrong, number in ((rows, 2), (rows[0], 2), ([1.0], 1)):
            with pytest.raises(TypeCheckError):
                first(wrong, number=number)
    with harness.without_shape_checks():
        assert first(rows, number=2).shape == (2, 2)


def test_the_package_is_checked() -> None:
    from translate.model.attention import scaled_dot_product_attention

    query = torch.ones(1, 2, 3, 5)
    with pytest.raises(TypeCheckError):
        scaled_dot_product_attention(query, query, query[:, :, :2])
