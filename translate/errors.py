"""The two ways in which a command fails, which determine the exit code; and the command that installs an extra."""

import contextlib
import errno
import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

from translate.memory import is_out_of_memory

_EXTRAS = {  # by package, where the extra has another name
    "huggingface_hub": "huggingface",
    "onnxruntime": "onnx",
    "pyromark": "documents",
    "torch.utils.tensorboard": "tensorboard",
    "transformers": "huggingface",
    "vl_convert": "pictures",
}


class InputError(Exception):
    """The input cannot be used (exit code 2); the message names the key, or the file and line, and the fix."""


class RunError(Exception):
    """Something failed while running (exit code 1): a non-finite loss, a full disk, a damaged checkpoint."""


@contextlib.contextmanager
def as_input_error(problem: str) -> Iterator[None]:
    """Turn whatever libraries raise in the block into an InputError that begins with the problem, and has the cause.

    A lack of memory or disk space is not a problem of the input, and stays the error that it is.
    """
    try:
        yield
    except (InputError, RunError):
        raise
    except Exception as error:
        if is_out_of_memory(error) or getattr(error, "errno", None) == errno.ENOSPC:
            raise
        cause = error
        while isinstance(cause.__cause__, Exception):  # such as that of `generation failed` in `datasets`
            cause = cause.__cause__
        reason = f"{type(cause).__name__}: {str(cause).strip()}".partition("\n")[0].removesuffix(": ")[:300]
        raise InputError(f"{problem} ({reason})") from error


def install_hint(extra: str) -> str:
    """The command that installs the packages of an extra, such as "python -m pip install 'pyromark>=0.10'".

    It names those packages, from our metadata, and not this one: an index may have another project of our name. If the
    metadata do not have the extra, this is an outdated clone, which the command installs again.
    """
    try:
        needed = metadata.requires("translate-nmt") or []
    except metadata.PackageNotFoundError:
        needed = []
    packages = [each.split(";")[0] for each in needed if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", each)]
    wanted = packages or ["--editable", f"{Path(__file__).resolve().parents[1]}[{extra}]"]
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def import_extra(package: str, *, needed_by: str = "", instead: str = "") -> ModuleType:
    """Import a package that an extra installs.

    Args:
        needed_by: What needs the package, for the error, such as an option.
        instead: What helps without the package, such as another option.

    Raises:
        InputError: The package is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        if is_out_of_memory(error):
            raise
        what = f"{needed_by} needs {package}, which" if needed_by else package
        hint = install_hint(_EXTRAS.get(package, package.partition(".")[0])) + (instead and f", or {instead}")
        raise InputError(f"{what} cannot be imported ({error}): {hint}") from error
