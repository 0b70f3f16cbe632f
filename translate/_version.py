"""The version of this package, and of the packages that decide what a run computes and scores."""

import platform
from importlib import metadata

__version__ = "1.0.0.dev0"


def package_versions() -> dict[str, str]:
    """Name and version of this toolkit, Python, and the packages whose numbers it prints; nothing heavy is imported."""
    packages = {package: metadata.version(package) for package in ("torch", "sentencepiece", "sacrebleu")}
    return {"translate": __version__, "python": platform.python_version(), **packages}
