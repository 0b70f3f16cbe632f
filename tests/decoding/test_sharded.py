"""Blocks that are translated once, by whichever rank and start, and joined as if one process had translated all."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from translate.config.decoding import DecodingConfig
from translate.decoding import ConditionCounts, Request, Translator
from translate.decoding.sharded import (
    OutputPart,
    ShardedDecoder,
    collect_dependencies,
    read_part,
    share_machine,
    write_part,
)
from translate.distributed.process_group import DistributedEnvironment
from translate.errors import InputError, RunError

pytestmark = pytest.mark.usefixtures("no_shape_checks")

LINES_PER_BLOCK = 7
NUM_BLOCKS = 6  # of the toy's 37 sentences, the last with two


def make_decoder(toy: Any, folder: Path, **settings: Any) -> ShardedDecoder:
    config = DecodingConfig(
        **{"beam_size": 2, "workers": 1, "look_ahead_lines": LINES_PER_BLOCK, "device": "cpu"} | settings
    )
    translator = Translator(toy.model, toy.tokenizers, config)
    dependencies = collect_dependencies(translator, {}, checkpoint="best")
    output = folder.with_suffix("")
    return ShardedDecoder(translator, dependencies, "jsonl", output=output, alignments=output.with_suffix(".links"))


def decode(decoder: ShardedDecoder, sources: list[str]) -> tuple[int, list[OutputPart]]:
    """A whole job by one process that leaves its parts: the lines that it found finished, and all parts."""
    with decoder.hold_folder():
        fingerprints, lines_kept = decoder.translate_blocks(map(Request, sources), rank=0, world_size=1)
        parts = [read_part(decoder.part_file(number), each) for number, each in enumerate(fingerprints)]
        return lines_kept, [part for part in parts if part is not None]


def states(folder: Path) -> dict[str, tuple[int, int]]:
    """By part file, what changes when it is written again."""
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.part"))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out.parts"


def test_ranks_translate_every_nth_block(toy: Any, folder: Path) -> None:
    """The lines are those of one process, to the last digit of their numbers, and so are the counts."""
    _, expected = decode(make_decoder(toy, folder.with_name("alone.parts")), toy.sources)
    assert [part.counts["lines"] for part in expected] == [7, 7, 7, 7, 7, 2]
    assert all(len(part.output) == len(part.alignments) == part.counts["lines"] for part in expected)

    folder.mkdir()
    results = []
    for rank in (2, 0, 1):
        before = set(states(folder))
        decoder, told = make_decoder(toy, folder), list[int]()
        results.append(
            decoder.translate_blocks(map(Request, toy.sources), rank=rank, world_size=3, on_finished=told.append)
        )
        # Its own lines are counted one by one as the search finds them, those of another rank's block together.
        own, num_own = [7, 7, 7, 7, 7, 2][rank::3], {0: 14, 1: 14, 2: 9}[rank]
        assert sum(told) == 37 and told.count(1) == num_own == sum(own) and len([n for n in told if n > 1]) == 4
        assert [Path(path).stem for path in states(folder) if path not in before] == [f"{rank:07}", f"{rank + 3:07}"]
    assert results == [results[0]] * 3
    fingerprints, lines_kept = results[0]
    assert (len(fingerprints), lines_kept) == (NUM_BLOCKS, 0)

    made = states(folder)
    lines_kept, parts = decode(make_decoder(toy, folder), toy.sources)  # a later start by one process
    assert (lines_kept, parts, states(folder)) == (37, expected, made)


def test_only_what_changed_is_done_again(toy: Any, folder: Path) -> None:
    decode(make_decoder(toy, folder), toy.sources)

    def redone(sources: list[str], **settings: Any) -> set[str]:
        before = states(folder)
        lines_kept, parts = decode(make_decoder(toy, folder, **settings), sources)
        assert sum(part.counts["lines"] for part in parts) == len(sources)
        changed = {path for path, state in states(folder).items() if before.get(path) != state}
        kept = [part for number, part in enumerate(parts) if str(folder / f"{number:07}.part") not in changed]
        assert lines_kept == sum(part.counts["lines"] for part in kept)
        return {Path(path).stem for path in changed}

    assert redone(toy.sources) == set()
    assert redone(toy.sources, batch_tokens=300, workers=2) == set()  # after memory was refused, for example
    changed = toy.sources.copy()
    changed[15] = "Hund und Haus"
    assert redone(changed) == {"0000002"}
    assert redone([*changed, "Haus"]) == {"0000005"}
    assert redone([*changed[:14], *changed[15:]]) == {f"{number:07}" for number in (2, 3, 4, 5)}
    assert redone(changed, beam_size=3) == {f"{number:07}" for number in range(NUM_BLOCKS)}


def test_other_weights_are_another_job(toy: Any, tmp_path: Path) -> None:
    """Any file of a run that its translations depend on; not the log of its training."""
    run = tmp_path / "run"
    for name in ("config.yaml", "tokenizer/joint.model", "checkpoints/best.safetensors", "metrics.jsonl"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    translator = Translator(toy.model, toy.tokenizers, DecodingConfig(device="cpu"))

    def collect() -> dict[str, str]:
        files = {"RUN": [run], "--forbid": [run / "config.yaml"]}
        return collect_dependencies(translator, files, checkpoint="best")

    first = collect()
    assert "torch" in first["version"] and first["device"] == "cpu"
    (run / "metrics.jsonl").write_text("more")
    assert collect() == first
    (run / "checkpoints" / "best.safetensors").write_text("trained on")
    assert {name for name, value in collect().items() if first[name] != value} == {"RUN"}
    (run / "config.yaml").write_text("edited")
    assert {name for name, value in collect().items() if first[name] != value} == {"RUN", "--forbid"}


def test_every_byte_of_a_part_is_guarded(folder: Path) -> None:
    part = OutputPart(ConditionCounts(lines=2, empty=1), ["größer\u2028", ""], ["0-0", ""])
    file = folder / "0001042.part"
    folder.mkdir()
    write_part(file, "f" * 8, part)
    assert read_part(file, "f" * 8) == part
    assert read_part(file, "e" * 8) is None
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert read_part(file, "f" * 8) is None


def test_parts_that_are_not_all_there_are_not_joined(toy: Any, folder: Path) -> None:
    """Another rank wrote them to a disk of its own machine, or somebody removed them."""
    decoder = make_decoder(toy, folder)
    assert decoder.part_file(1042) == folder / "0001042.part"
    with decoder.hold_folder():
        fingerprints, _ = decoder.translate_blocks(map(Request, toy.sources), rank=0, world_size=2)
        with pytest.raises(RunError, match="0000001.part: is missing, damaged or changed since it was written"):
            decoder.join_parts(fingerprints)
        with pytest.raises(RunError, match="0000000.part: is missing, damaged or changed"):
            decoder.join_parts(["another"])
        assert not decoder.output.exists()


def test_one_command_at_a_time(toy: Any, folder: Path) -> None:
    first, second = make_decoder(toy, folder), make_decoder(toy, folder)
    with first.hold_folder():
        busy = rf"out.parts: process {os.getpid()} on .* is running there: wait for it"
        with pytest.raises(InputError, match=busy), second.hold_folder():
            pass
    assert not folder.exists()  # nothing was finished
    folder.write_text("")
    with pytest.raises(RunError, match="out.parts"):
        decode(first, [])


def test_processes_take_the_gpus_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for rank in range(3):
        share_machine(DistributedEnvironment(rank, 3, rank, 3))
    assert taken == [0, 1, 0]


def test_an_equal_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("translate.decoding.sharded.threads_per_process", lambda processes: 12 // processes)
    for threads in ("1", "5"):  # torchrun's own, and a user's
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        share_machine(DistributedEnvironment(rank=3, world_size=8, local_rank=0, local_world_size=4))
        share_machine(DistributedEnvironment())
    assert chosen == [3]


@pytest.mark.parametrize("name", ["mine.part", "0000000.part", "lock", "notes.txt"])
def test_a_folder_with_files_of_others_is_not_taken(toy: Any, folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).write_text("mine")
    with pytest.raises(InputError, match=f"out.parts/{name}: .* this folder is for parts"):
        decode(make_decoder(toy, folder), toy.sources)
    assert [path.read_text() for path in folder.iterdir()] == ["mine"]
