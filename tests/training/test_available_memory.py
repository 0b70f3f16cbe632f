"""What is left for this process, by hand-written accounts of machines and control groups."""

from pathlib import Path

import pytest

from translate.training.available_memory import available_bytes

GIB = 2**30


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")


def available(folder: Path) -> int | None:
    return available_bytes(proc=folder / "proc", groups=folder / "groups")


MACHINE = {"proc/meminfo": f"MemTotal: {16 * 2**20} kB\nMemFree: {2**20} kB\nMemAvailable: {7 * 2**20} kB"}


def test_without_groups_it_is_what_the_machine_has(tmp_path: Path) -> None:
    assert available(tmp_path) is None
    write(tmp_path, MACHINE)
    assert available(tmp_path) == 7 * GIB


@pytest.mark.parametrize("root", ["groups", "groups/unified"])
def test_the_narrowest_group_of_version_2(tmp_path: Path, root: str) -> None:
    """The job may have 5 GiB and uses 3, 1 of them files; the group above may have 4 and uses 3.5."""
    write(tmp_path, MACHINE | {"proc/self/cgroup": "0::/jobs/ours"})
    ours = {"memory.max": 5 * GIB, "memory.current": 3 * GIB, "memory.stat": f"anon 7\ninactive_file {GIB}"}
    write(tmp_path / root / "jobs/ours", {name: str(value) for name, value in ours.items()})
    assert available(tmp_path) == 3 * GIB
    write(tmp_path / root / "jobs", {"memory.max": str(4 * GIB), "memory.current": str(7 * GIB // 2)})
    assert available(tmp_path) == GIB // 2
    write(tmp_path / root / "jobs", {"memory.max": "max"})
    assert available(tmp_path) == 3 * GIB
    write(tmp_path / root / "jobs/ours", {"memory.current": str(9 * GIB)})  # for a moment it may be over
    assert available(tmp_path) == 0


def test_a_container_with_groups_of_version_1(tmp_path: Path) -> None:
    """Docker says the path outside of the container, and shows its group as the root."""
    write(tmp_path, MACHINE | {"proc/self/cgroup": "5:cpu,cpuacct:/docker/a1\n4:memory:/docker/a1\n0::/"})
    ours = {"limit_in_bytes": 6 * GIB, "usage_in_bytes": 2 * GIB, "stat": f"inactive_file 7\ntotal_inactive_file {GIB}"}
    write(tmp_path / "groups/memory", {f"memory.{name}": str(value) for name, value in ours.items()})
    assert available(tmp_path) == 5 * GIB


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux tells")
def test_of_this_process() -> None:
    found = available_bytes()
    assert found is not None and 2**20 < found < 2**50
