"""For all tests: shapes in signatures are executed, and parallel test processes share the cores."""

import os

import pytest
from jaxtyping import install_import_hook

# Before anything imports translate: every annotated shape and type of these is checked at each call. (The config's
# sections check themselves.)
CHECKED = ["data", "model", "run", "decoding", "evaluation", "training", "export"]
install_import_hook([f"translate.{name}" for name in CHECKED], "beartype.beartype")

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch when it is imported


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    import torch

    torch.manual_seed(20170612)
