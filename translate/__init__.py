"""Train, decode and score encoder-decoder Transformers, from raw text to a detokenised BLEU."""

import logging
import tempfile
from typing import TYPE_CHECKING, Any

from translate._version import __version__ as __version__

if TYPE_CHECKING:
    from translate.api import Run, evaluate, load, show_attention, train
    from translate.config.schema import Config
    from translate.decoding import Request, Translation, Translator
    from translate.errors import InputError, RunError

__all__ = [
    "Config", "InputError", "Request", "Run", "RunError", "Translation", "Translator", "evaluate", "load",
    "show_attention", "train",
]  # fmt: skip

_MODULES = {  # of names that are imported on first use, so that `import translate` takes no time
    "translate.api": {"Run", "evaluate", "load", "show_attention", "train"},
    "translate.config.schema": {"Config"},
    "translate.decoding": {"Request", "Translation", "Translator"},
    "translate.errors": {"InputError", "RunError"},
}

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a program decides what it prints

try:
    tempfile.gettempdir()
except FileNotFoundError:  # no folder can be written to; libraries ask for one on import, and rarely use it
    tempfile.tempdir = "/tmp"


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
