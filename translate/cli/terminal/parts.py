"""A text that is translated in parts, by one process or several, so that a later start reuses finished parts."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from translate.cli.terminal.console import fail_interrupted, line_bar

if TYPE_CHECKING:
    from translate.decoding import ConditionCounts, Request
    from translate.decoding.sharded import ShardedDecoder
    from translate.distributed.process_group import World

logger = logging.getLogger(__name__)


class DecodingJob(NamedTuple):
    """A text to translate in parts."""

    decoder: "ShardedDecoder"
    facts: dict[str, str]  # what must be equal on all ranks
    total: int | None  # lines, if known
    requests: Iterator["Request"]


def decode_in_parts(
    prepare: Callable[["World"], DecodingJob],
    finish: Callable[[DecodingJob, "ConditionCounts"], object] = lambda job, counts: None,
) -> None:
    """Translate a text in parts, shared with the other processes if there are any, and join the parts.

    Args:
        prepare: Creates the job, in each process.
        finish: Called in the main process once the output is written.
    """
    from translate.distributed.process_group import join_world

    with join_world() as world:
        try:
            job = world.run_on_all_ranks(lambda: prepare(world))
            world.check_same_on_all_ranks(job.facts)
            started = time.perf_counter()
            with line_bar(job.total, is_hidden=not world.is_main_process) as advance:
                counts, lines_kept = job.decoder.decode(world, job.requests, on_finished=advance)
        except KeyboardInterrupt as error:
            if not world.is_main_process:
                raise typer.Exit(130) from None
            fail_interrupted(error, "; finished parts are kept, and the same command continues from them")
        seconds = time.perf_counter() - started
        rate = (counts["lines"] - lines_kept) / max(seconds, 1e-9)
        by = f" by {world.size} processes" if world.size > 1 else ""
        before = f"; {lines_kept} of the lines were finished before" if lines_kept else ""
        logger.info(f"{counts} in {seconds:.1f} s ({rate:.1f} lines/s){by}{before}")
        world.run_on_rank_0(lambda: finish(job, counts))


@contextlib.contextmanager
def runs_unchanged(runs: Mapping[str, Sequence[Path]], which: str) -> Iterator[None]:
    """A context for loading models and taking their checksums, which fails if a checkpoint is replaced meanwhile."""
    from translate.data.text import require_unchanged
    from translate.runs.directory import RunDirectory

    with contextlib.ExitStack() as unchanged:
        for run in [run for named in runs.values() for run in named]:
            checkpoint = RunDirectory(run).checkpoint(which)
            if checkpoint.is_file():  # otherwise loading reports it
                unchanged.enter_context(require_unchanged(checkpoint))
        yield
