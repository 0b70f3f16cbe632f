"""How much memory this process may still take: what the machine has free, and what its control groups allow."""

from collections.abc import Iterator
from pathlib import Path


def available_bytes(*, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Memory that can be taken before the system swaps or kills; None: this system does not tell.

    Args:
        proc: Where Linux tells of processes and memory: man 5 proc.
        groups: Where it tells of control groups: a container's limit is one, a batch system's too.
    """
    known = [*_of_machine(proc / "meminfo"), *_of_groups(proc / "self" / "cgroup", groups)]
    return max(0, min(known)) if known else None


def _of_machine(meminfo: Path) -> Iterator[int]:
    for line in _lines(meminfo):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _of_groups(membership: Path, groups: Path) -> Iterator[int]:
    """What is left in each group that this process is in, and in those above it."""
    for line in _lines(membership):
        number, controllers, path = line.split(":", 2)
        if number == "0":  # version 2; beside version 1 it is mounted in `unified`
            names = ("memory.max", "memory.current", "inactive_file")
            roots = [groups, groups / "unified"]
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            roots = [groups / "memory"]
        else:
            continue
        inside = Path(path.lstrip("/"))
        for root in roots:
            for group in (inside, *inside.parents):
                yield from _left_in(root / group, *names)


def _left_in(group: Path, limit_name: str, usage_name: str, cache_name: str) -> Iterator[int]:
    limit, usage = ("".join(_lines(group / name)) for name in (limit_name, usage_name))
    if not limit.isdecimal() or not usage.isdecimal():  # "max", or not there
        return
    # The cache of files counts as used, and is given up when memory is asked for.
    cache = [int(line.split()[1]) for line in _lines(group / "memory.stat") if line.startswith(f"{cache_name} ")]
    yield int(limit) - int(usage) + sum(cache)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
