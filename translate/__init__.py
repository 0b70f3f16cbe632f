"""Train, decode and score encoder-decoder Transformers, from raw text to a detokenised BLEU."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from translate._version import __version__ as __version__

if TYPE_CHECKING:
    from os import PathLike

    from translate.api import Run, evaluate, show_attention, train
    from translate.config.schema import Config
    from translate.decoding import Request, Translation, Translator
    from translate.errors import InputError, RunError
    from translate.runs.directory import Checkpoint

__all__ = [
    "Config", "InputError", "Request", "Run", "RunError", "Translation", "Translator", "evaluate", "load",
    "show_attention", "train",
]  # fmt: skip

_MODULES = {  # of names that are imported on first use, so that `import translate` takes no time
    "translate.api": {"Run", "evaluate", "show_attention", "train"},
    "translate.config.schema": {"Config"},
    "translate.decoding": {"Request", "Translation", "Translator"},
    "translate.errors": {"InputError", "RunError"},
}

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a program decides what it prints


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load(
    run: "str | PathLike[str]",
    *,
    checkpoint: "Checkpoint" = "best",
    ensemble: "Sequence[str | PathLike[str]]" = (),
    reverse: "str | PathLike[str] | None" = None,
    forbidden: Sequence[str] = (),
    to: str | None = None,
    from_: str | None = None,
    **options: Any,
) -> "Translator":
    """A translator from a run directory: `load("runs/demo").translate("Ein Hund schläft.", beam_size=5).text`.

    Args:
        checkpoint: best: chosen on validation; last: the newest.
        ensemble: Other runs whose probabilities are averaged with this run's.
        reverse: A run that translates in reverse; its log-probability of the source also ranks the beam.
        forbidden: Words and phrases that no translation contains in the subwords that the tokenizer makes of them.
        to: The language of translations that name none, if the run has several.
        from_: The language of their sources.
        options: Settings of the config section `decoding`, such as `precision="bf16"`.

    Raises:
        InputError: Not a run, or invalid settings.
        RunError: A damaged run.
    """
    from translate.decoding.loading import load_translator
    from translate.errors import InputError
    from translate.nearest import did_you_mean, nearest

    for name in options:
        if meant := nearest(name, ["checkpoint", "ensemble", "forbidden", "reverse"], cutoff=0.8):
            raise InputError(f"unknown option {name}{did_you_mean(meant)}")
    asked_for: dict[str, Any] = {"ensemble": ensemble, "reverse": reverse, "forbidden": forbidden}
    return load_translator(run, checkpoint=checkpoint, options=options, to=to, from_=from_, **asked_for).translator
