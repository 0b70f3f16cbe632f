"""The hint of an error that a package is missing: packages by name, for the environment that runs the command."""

import errno
import shlex
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from translate.errors import as_input_error, install_hint

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def test_the_packages_of_an_extra_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ["torch>=2.8", *(f"{package}; extra == '{extra}'" for extra in EXTRAS for package in EXTRAS[extra])]
    monkeypatch.setattr(metadata, "requires", lambda name: needs)
    assert shlex.split(install_hint("pictures"))[-2:] == ["install", *EXTRAS["pictures"]]
    assert shlex.split(install_hint("browser"))[-3:] == ["install", *EXTRAS["browser"]]
    assert all("--editable" not in install_hint(extra) for extra in EXTRAS)


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_clone_is_installed_again_for_an_extra_that_its_metadata_lack(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    def requires(name: str) -> None:
        if not is_installed:
            raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert install_hint("pictures").endswith(f"pip install --editable {shlex.quote(f'{ROOT}[pictures]')}")


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("unable to mmap 9 bytes: Cannot allocate memory (12)"), OSError(errno.ENOSPC, "full")],
    ids=str,
)
def test_a_lack_of_memory_or_space_is_no_fault_of_the_input(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, as_input_error("a.bin is damaged"):
        raise error
    assert caught.value is error
