"""Blocks that are translated once, whoever does it and however often it begins anew, and joined as if by one."""

import copy
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from translate.config import DecodingConfig
from translate.decoding import ConditionCounts, Request, Translator
from translate.decoding.parts import Part, PartsFolder, Ticket
from translate.decoding.processes import Processes, find_processes
from translate.decoding.sharded import Joined, Sharding, cut_blocks, find_circumstances
from translate.distributed.environment import DistributedEnvironment
from translate.errors import InputError, RunError

LINES_PER_BLOCK = 7
NUM_BLOCKS = 6  # of the toy's 37 sentences, the last with two


def make_sharding(toy: Any, folder: PartsFolder, **settings: Any) -> Sharding:
    config = DecodingConfig(
        **{"beam_size": 2, "workers": 1, "look_ahead_lines": LINES_PER_BLOCK, "device": "cpu"} | settings
    )
    # Processes have a model each; a hook on a shared one would see the attention of all.
    translator = Translator(copy.deepcopy(toy.model), toy.tokenizers, config)
    circumstances = find_circumstances(translator, {}, checkpoint="best", files={})
    return Sharding(translator, folder, circumstances, output_format="jsonl", has_alignments=True)


def requests_of(sources: list[str]) -> list[Request]:
    return [Request(source) for source in sources]


def complete(sharding: Sharding, folder: PartsFolder, sources: list[str]) -> tuple[Joined, list[str], list[str]]:
    """A whole job by one process, which leaves its parts."""
    output: list[str] = []
    alignments: list[str] = []
    with folder.hold("job"):
        num_blocks = sharding.complete(requests_of(sources), open_again=lambda: requests_of(sources))
        joined = sharding.join(num_blocks, write=output.append, write_alignment=alignments.append)
    return joined, output, alignments


@pytest.fixture
def folder(tmp_path: Path) -> PartsFolder:
    return PartsFolder(tmp_path / "out.parts")


def test_blocks_are_what_is_read_ahead() -> None:
    """Seven lines, or fewer where they have a million characters; a function of the lines alone."""
    long = Request("x" * 600_000)
    requests = [*requests_of(["a"] * 9), long, long, *requests_of(["b"] * 3)]
    blocks = list(cut_blocks(requests, look_ahead_lines=7))
    assert [(block.number, block.first_number, len(block.requests)) for block in blocks] == [
        (0, 0, 7),
        (1, 7, 4),
        (2, 11, 3),
    ]
    assert [request for block in blocks for request in block.requests] == requests


def test_several_at_once_do_each_block_once(toy: Any, folder: PartsFolder) -> None:
    """The lines are those of one process, to the last digit of their numbers, and so are the counts."""
    alone = PartsFolder(folder.path.with_name("alone"))
    expected = complete(make_sharding(toy, alone), alone, toy.sources)
    assert len(expected[1]) == len(toy.sources) and expected[0].counts.lines == 37

    workers = [make_sharding(toy, folder) for _ in range(3)]
    progress: list[Any] = []
    with folder.hold("job"):
        threads = [
            threading.Thread(target=lambda one=one: progress.append(one.work_through(requests_of(toy.sources))))
            for one in workers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = folder.states()
        assert len(made) == NUM_BLOCKS and all(each.num_blocks == NUM_BLOCKS for each in progress)
    assert complete(workers[0], folder, toy.sources) == expected
    assert folder.states() == made  # none was written again


def test_only_what_changed_is_done_again(toy: Any, folder: PartsFolder) -> None:
    complete(make_sharding(toy, folder), folder, toy.sources)

    def redone(sources: list[str], **settings: Any) -> set[str]:
        before = folder.states()
        joined, *_ = complete(make_sharding(toy, folder, **settings), folder, sources)
        changed = {path.stem for path, state in folder.states().items() if before.get(path) != state}
        assert joined.counts.lines == len(sources)
        kept = sum(
            len(block.requests)
            for block in cut_blocks(requests_of(sources), look_ahead_lines=LINES_PER_BLOCK)
            if f"{block.number:03}" not in changed
        )
        assert joined.lines_from_before == kept
        return changed

    assert redone(toy.sources) == set()
    assert redone(toy.sources, batch_tokens=300, workers=2) == set()  # after memory was refused, for example
    changed = toy.sources.copy()
    changed[15] = "Hund und Haus"
    assert redone(changed) == {"002"}
    assert redone([*changed, "Haus"]) == {"005"}
    assert redone([*changed[:14], *changed[15:]]) == {"002", "003", "004", "005"}
    assert redone(changed, beam_size=3) == {f"{number:03}" for number in range(NUM_BLOCKS)}


def test_other_weights_are_another_job(toy: Any, folder: PartsFolder, tmp_path: Path) -> None:
    """Any file of a run that its translations follow from; not the log of its training."""
    run = tmp_path / "run"
    for name in ("config.yaml", "tokenizer/joint.model", "checkpoints/best.safetensors", "metrics.jsonl"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    translator = Translator(toy.model, toy.tokenizers, DecodingConfig(device="cpu"))

    def circumstances() -> dict[str, str]:
        return find_circumstances(
            translator, {"RUN": [run]}, checkpoint="best", files={"--forbid": run / "config.yaml"}
        )

    first = circumstances()
    assert "torch" in first["version"] and first["device"] == "cpu"
    (run / "metrics.jsonl").write_text("more")
    assert circumstances() == first
    (run / "checkpoints" / "best.safetensors").write_text("trained on")
    assert {name for name, value in circumstances().items() if first[name] != value} == {"RUN"}
    (run / "config.yaml").write_text("edited")
    assert {name for name, value in circumstances().items() if first[name] != value} == {"RUN", "--forbid"}


def test_a_damaged_part_is_made_anew(toy: Any, folder: PartsFolder) -> None:
    expected = complete(make_sharding(toy, folder), folder, toy.sources)
    first, second, third, *_ = sorted(folder.states())
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    second.write_bytes(second.read_bytes()[:-1])
    third.write_bytes(b"")
    joined, output, alignments = complete(make_sharding(toy, folder), folder, toy.sources)
    assert (output, alignments, joined.counts) == (expected[1], expected[2], expected[0].counts)
    assert joined.lines_from_before == 37 - 3 * LINES_PER_BLOCK


def test_every_byte_of_a_part_is_guarded(folder: PartsFolder) -> None:
    part = Part("f" * 8, ConditionCounts(lines=2, empty=1), ["größer\u2028", ""], ["0-0", ""])
    ticket = Ticket(1042, part.fingerprint)
    with folder.hold("job"), folder.claim(ticket.number):
        folder.write(ticket.number, part)
    path = folder.part(ticket.number)
    assert path.relative_to(folder.path) == Path("0001/042.part") and folder.find(ticket) == part
    assert folder.find(ticket._replace(fingerprint="e" * 8)) is None
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert folder.find(ticket) is None
    with pytest.raises(RunError, match="042.part: damaged since it was written; the same command makes it anew"):
        folder.read(ticket.number)


def test_what_another_process_left_is_done(toy: Any, folder: PartsFolder) -> None:
    """It held a block while the others were done, and went without finishing it."""
    sharding = make_sharding(toy, folder)
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.append(complete(sharding, folder, toy.sources)))
    folder.path.mkdir()
    (folder.path / "open").write_text("job\n")
    with folder.claim(2) as is_free:
        assert is_free
        worker.start()
        while len(folder.states()) < NUM_BLOCKS - 1:
            assert worker.is_alive()
        assert worker.is_alive() and not folder.part(2).exists()
    worker.join()
    assert found[0][0].counts.lines == 37


def test_a_process_that_comes_late_leaves_nothing(toy: Any, folder: PartsFolder) -> None:
    """All is joined while it still reads: parts that are gone are not missing."""
    sharding = make_sharding(toy, folder)
    requests = requests_of(toy.sources)

    def read_slowly() -> Iterator[Request]:
        yield from requests[:20]
        folder.remove()
        yield from requests[20:]

    with folder.hold("job"):
        make_sharding(toy, folder).complete(requests, open_again=lambda: requests)
        sharding.work_through(read_slowly())
    assert not folder.path.exists()


def test_parts_that_are_taken_away_are_not_left_out(toy: Any, folder: PartsFolder) -> None:
    requests = requests_of(toy.sources)

    def read() -> Iterator[Request]:
        yield from requests[:20]
        folder.remove()
        yield from requests[20:]

    with folder.hold("job"), pytest.raises(RunError, match="was removed while its parts were being made"):
        make_sharding(toy, folder).complete(read(), open_again=lambda: requests)


def test_one_command_at_a_time(folder: PartsFolder) -> None:
    with folder.hold("first"):
        told = rf"out.parts: process {os.getpid()} on .* is at work there: wait for it"
        with pytest.raises(InputError, match=told), folder.hold("second"):
            pass
        assert folder.wait_until_open("first", is_joined=lambda: False)
        with pytest.raises(RunError, match="all processes must see the same --output"):
            folder.wait_until_open("second", is_joined=lambda: False, seconds=0.0)
        assert not folder.wait_until_open("second", is_joined=lambda: True)
    assert not folder.path.exists()  # nothing was finished


def test_files_of_others_stay(folder: PartsFolder) -> None:
    with folder.hold("job"):
        with folder.claim(0):
            folder.write(0, Part("f", ConditionCounts(), [], []))
        (folder.path / "notes.txt").write_text("mine")
        folder.remove()
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


def test_processes_agree_or_say_on_what_they_do_not() -> None:
    store = HashStore()
    first, second = (Processes(DistributedEnvironment(rank, 2, rank, 2), store) for rank in (0, 1))
    first.agree({"version": "torch 2", "FILE": "sha256:aa"})
    first.agree({"version": "torch 2", "FILE": "sha256:aa"})  # torchrun has started it again
    with pytest.raises(InputError) as raised:
        second.agree({"version": "torch 2", "FILE": "sha256:bb"})
    assert str(raised.value) == (
        "process 1 has another FILE than the first process: sha256:bb, and not sha256:aa; all need the same command,"
        " files and versions"
    )
    assert first.name() == second.name() != Processes().name()
    assert not second.is_joined() and not Processes().is_joined()
    first.say_joined()
    assert second.is_joined()
    assert [each.is_told_elsewhere("no such file") for each in (second, first, second)] == [False, True, False]
    assert not first.is_told_elsewhere("another thing")


def test_what_torchrun_sets() -> None:
    assert find_processes({}) == find_processes({"RANK": "0", "WORLD_SIZE": "1"}) == Processes()
    with pytest.raises(InputError, match="the environment has WORLD_SIZE=two, which is not a number"):
        find_processes({"RANK": "1", "WORLD_SIZE": "two"})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_for_each_process() -> None:
    last = torch.cuda.device_count() - 1
    Processes(DistributedEnvironment(last, last + 2, last, last + 2)).share_machine()
    assert torch.zeros(1, device="cuda").device.index == last
    Processes(
        DistributedEnvironment(last + 1, last + 2, last + 1, last + 2)
    ).share_machine()  # one more process than devices
    assert torch.zeros(1, device="cuda").device.index == 0
