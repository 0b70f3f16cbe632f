"""Train, decode and score encoder-decoder Transformers, from raw text to a detokenised BLEU."""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from translate.decoding import Translator
    from translate.runs.directory import Checkpoint

__version__ = "0.4.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a program decides by itself what it prints


def load(run: "str | PathLike[str]", *, checkpoint: "Checkpoint" = "best", **options: Any) -> "Translator":
    """A translator from a run directory: `load("runs/demo").translate(["Ein Hund schläft."], beam_size=5)`.

    Args:
        options: Settings of the section `decoding`, such as `precision="bf16"`; and what `load_translator` takes:
            `ensemble`, `contrast`, `forbidden`.

    Raises:
        InputError: Not a run, or settings that cannot be.
        RunError: A damaged run.
    """
    from translate.decoding.loading import load_translator

    others = {name: options.pop(name, None) for name in ("ensemble", "contrast", "forbidden")}
    given = {name: value for name, value in others.items() if value is not None}
    return load_translator(run, checkpoint=checkpoint, options=options, **given).translator
