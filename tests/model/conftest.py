"""A small model, all of whose weights count."""

from collections.abc import Callable
from typing import Any

import pytest
from harness import random_model

from translate.model import Transformer

PAD = 3
VOCAB = 23


@pytest.fixture
def build() -> Callable[..., Transformer]:
    """A function that builds it: 23 tokens, of which 3 is padding; in fp64, in training mode; without dropout, unless
    the options have some.
    """

    def build(**options: Any) -> Transformer:
        small: dict[str, Any] = {
            "d_model": 30, "num_heads": 3, "d_ff": 17, "num_encoder_layers": 2, "num_decoder_layers": 3, "dropout": 0.0,
            "max_positions": 29, "relative_buckets": 7, "relative_max_distance": 11,
        }  # fmt: skip
        return random_model(VOCAB, pad_id=PAD, **small | options).double()

    return build
