"""Translates a text in parts, with one process or several, so that a later start reuses the finished parts."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from translate.bars import show_progress
from translate.cli.terminal.console import fail_interrupted

if TYPE_CHECKING:
    from translate.decoding import ConditionCounts, Request, Translator
    from translate.decoding.sharded import ShardedDecoder
    from translate.runs.run import SavedRun

logger = logging.getLogger(__name__)


class DecodingJob(NamedTuple):
    """A text to translate in parts."""

    decoder: "ShardedDecoder"
    facts: dict[str, str]  # must be equal on all ranks
    total: int | None  # lines, if known
    requests: Iterable["Request"]


def decode_in_parts(
    prepare: Callable[[], DecodingJob],
    finish: Callable[[DecodingJob, "ConditionCounts"], object] = lambda job, counts: None,
) -> None:
    """Translate a text in parts, shared with the other processes if there are any, and join the parts.

    Each process prepares the job; the main process calls `finish` once the output is written.
    """
    from translate.decoding.sharded import share_machine
    from translate.distributed.process_group import join_world

    with join_world() as world:
        try:
            share_machine(world.environment)
            job = world.run_on_all_ranks(prepare)
            world.check_same_on_all_ranks(job.facts)
            started = time.perf_counter()
            with show_progress("Translating", job.total, unit="lines") as advance:
                counts, lines_kept = job.decoder.decode(world, job.requests, on_finished=advance)
        except KeyboardInterrupt as error:
            if not world.is_main_process:
                raise typer.Exit(130) from None
            fail_interrupted(error, "; finished parts are kept, and the same command continues from them")
        seconds = time.perf_counter() - started
        rate = (counts["lines"] - lines_kept) / max(seconds, 1e-9)
        by = f" by {world.size} processes" if world.size > 1 else ""
        before = f"; {lines_kept} of the lines were already finished" if lines_kept else ""
        logger.info(f"{counts} in {seconds:.1f} s ({rate:.1f} lines/s){by}{before}")
        world.run_on_rank_0(lambda: finish(job, counts))
        world.run_on_rank_0(job.decoder.remove_parts)  # until then the same command can continue


def load_for_parts(
    load: Callable[[], "Translator"],
    runs: Mapping[str, Sequence["SavedRun"]],
    files: Mapping[str, Path],
    *,
    checkpoint: str,
    num_lines: int,
) -> tuple["Translator", dict[str, str]]:
    """Load a translator whose engine is the same for all blocks, and compute the checksums of its runs and files.

    Args:
        num_lines: Lines of the whole input.

    Raises:
        InputError: A checkpoint was replaced at the same time.
    """
    from translate.data.text import require_unchanged
    from translate.decoding.sharded import collect_dependencies

    with contextlib.ExitStack() as unchanged:
        for run in [run for named in runs.values() for run in named]:
            path = run.files.checkpoint(checkpoint)
            if path.is_file():  # otherwise loading reports it
                unchanged.enter_context(require_unchanged(path))
        translator = load()
        paths = {name: [run.path for run in named] for name, named in runs.items()}
        paths |= {name: [file] for name, file in files.items()}
        dependencies = collect_dependencies(translator, paths, checkpoint=checkpoint)
        return translator, {**dependencies, "engine": translator.engine.prepare(num_lines)}
