"""A world of one process; those of several are in tests/system/distributed."""

import pytest

from translate.distributed.process_group import SINGLE_PROCESS
from translate.errors import InputError


def test_alone() -> None:
    assert (
        SINGLE_PROCESS.all_gather("a"),
        SINGLE_PROCESS.max(3),
        SINGLE_PROCESS.run_on_rank_0(lambda: 5),
        SINGLE_PROCESS.run_on_all_ranks(lambda: 7),
    ) == (["a"], 3, 5, 7)
    assert SINGLE_PROCESS.is_main_process and SINGLE_PROCESS.size == 1
    with pytest.raises(InputError, match="wrong"):
        SINGLE_PROCESS.run_on_all_ranks(lambda: (_ for _ in ()).throw(InputError("wrong")))
