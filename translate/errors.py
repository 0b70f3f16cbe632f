"""The two ways a command can fail, so that the exit code follows from the class alone; and what installs an extra."""

import importlib
import os
import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType


class InputError(Exception):
    """The input cannot be used (exit code 2); the message names the key, or the file and line, and what to do."""


class RunError(Exception):
    """Something failed while running (exit code 1): a non-finite loss, a full disk, a damaged checkpoint."""


def install_hint(extra: str) -> str:
    """The command that installs what an extra needs, such as "pip install 'scikit-learn>=1.6'", for an error's hint.

    It names packages, never this one: on an index our name may be another project's. They stand in our own metadata;
    metadata without the extra is that of a clone, which is then installed again.
    """
    try:
        needed = metadata.requires("translate-nmt") or []
    except metadata.PackageNotFoundError:
        needed = []
    packages = [each.split(";")[0] for each in needed if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", each)]
    wanted = packages or ["--editable", f"{Path(__file__).resolve().parents[1]}[{extra}]"]
    # A command may run without its environment being activated: `pip` would then be another one's.
    beside = os.path.dirname(shutil.which("pip") or "") == os.path.dirname(sys.executable)
    pip = ["pip"] if beside else [sys.executable, "-m", "pip"]
    return shlex.join([*pip, "install", *wanted])


def import_extra(package: str) -> ModuleType:
    """Import a package that an extra installs.

    Raises:
        InputError: The package is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        extra = {"onnxruntime": "onnx"}.get(name, name)
        if name in ("transformers", "huggingface_hub", "sentencepiece", "google"):
            extra = "huggingface"
        raise InputError(f"{package} cannot be imported ({error}): {install_hint(extra)}") from error
