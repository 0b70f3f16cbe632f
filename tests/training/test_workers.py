import threading

import pytest
import torch

from translate.config import TrainingConfig
from translate.training.workers import Layout, Workers, choose_layout, share_evenly

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def four_threads() -> None:
    torch.set_num_threads(4)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Layout(4, 1)),
        ({"batch_tokens": 1100}, Layout(2, 2)),
        ({"batch_tokens": 550, "accumulate_batches": 2}, Layout(2, 2)),
        ({"batch_tokens": 300}, Layout(1, 4)),
        ({"batch_tokens": 1600}, Layout(3, 1)),
        ({"compile": True}, Layout(1, 4)),
    ],
)
def test_a_worker_for_each_thread_if_batches_are_large(settings: dict[str, int], expected: Layout) -> None:
    assert choose_layout(TrainingConfig(**settings), CPU) == expected


def test_one_on_a_gpu_and_where_processes_share_the_work() -> None:
    assert choose_layout(TrainingConfig(), torch.device("cuda")) == Layout(1, 4)
    assert choose_layout(TrainingConfig(), CPU, num_processes=2) == Layout(1, 4)


def test_the_layout_is_said() -> None:
    assert str(Layout(1, 1)) == "1 CPU thread" and str(Layout(1, 4)) == "4 CPU threads"
    assert str(Layout(2, 1)) == "2 pieces of a batch at once, each on 1 CPU thread"


def test_work_is_done_at_once_with_its_threads_and_comes_back_in_order() -> None:
    both_here = threading.Barrier(2, timeout=20)

    def work(item: int) -> tuple[int, int]:
        if item < 2:
            both_here.wait()  # none gets on if they come one after the other
        return item * item, torch.get_num_threads()

    with Workers(Layout(2, 1)) as workers:
        assert workers.map(work, range(5)) == [(item * item, 1) for item in range(5)]
    assert torch.get_num_threads() == 4, "the caller keeps its own"


def test_alone_the_caller_works() -> None:
    with Workers(Layout(1, 4)) as workers:
        assert workers.map(lambda item: threading.current_thread(), [0]) == [threading.main_thread()]


def test_an_error_comes_through_and_the_threads_end() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), Workers(Layout(2, 1)) as workers:
        workers.map(lambda item: 1 // item, [1, 0, 1])
    assert threading.active_count() == before


def test_items_are_shared_out_evenly() -> None:
    # The largest first, each to whoever has least: 7, 5; 4 to the second: 7, 9; 3 to the first: 10, 9; 2 to the second.
    assert share_evenly([2, 7, 3, 5, 4], shares=2) == [[1, 2], [3, 4, 0]]
    assert share_evenly([2, 7], shares=3) == [[1], [0], []]
