"""Engines that take turns, each in a process of its own, so that a noisy machine is noisy for all."""

import multiprocessing
import statistics
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple


class Engine(NamedTuple):
    """An engine's process, and what it has answered at its start."""

    process: Any
    connection: Connection
    answer: Any


def start_engines(serve: Callable[..., None], names: Sequence[str], *arguments: Any) -> dict[str, Engine]:
    """Start the engines one after the other, so that each gets ready on a quiet machine; say which are left out.

    Args:
        serve: Is called in each process with the engine's name, the arguments, and a connection, over which it first
            sends its answer, or a text that says why the engine is left out; it ends when it receives None.
    """
    context, engines = multiprocessing.get_context("spawn"), dict[str, Engine]()
    for name in names:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(name, *arguments, theirs), daemon=True)
        process.start()
        theirs.close()
        answer = ours.recv()
        if isinstance(answer, str):
            print(f"{name}: {answer}")
        else:
            engines[name] = Engine(process, ours, answer)
    return engines


def stop_engines(engines: Mapping[str, Engine]) -> None:
    """Let the processes end."""
    for engine in engines.values():
        engine.connection.send(None)
        engine.process.join()


def print_ratios(rates: Mapping[str, Sequence[float]]) -> None:
    """Print how many times as fast as the others each of our modes was: the median over the turns.

    Args:
        rates: The rate of each turn, by engine.
    """
    ours = [name for name in rates if name.startswith(("auto", "ours"))]
    for name in ours:
        ratios = []
        for other in (each for each in rates if each not in ours):
            pairs = zip(rates[name], rates[other], strict=True)
            ratios.append(f"{statistics.median(mine / theirs for mine, theirs in pairs):.2f} x {other}")
        print(f"  {name}: {', '.join(ratios)}")
