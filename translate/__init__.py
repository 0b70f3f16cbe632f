"""Train, decode and score encoder-decoder Transformers, from raw text to a detokenised BLEU."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from translate.decoding import Translator

__version__ = "0.4.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # a program decides by itself what it prints


def load(run: "str | PathLike[str]", **options: object) -> "Translator":
    """A translator from a run directory: `load("runs/demo").translate(["Ein Hund schläft."], beam_size=5)`.

    Args:
        options: Settings of the section `decoding`, such as `precision="bf16"`; and what `load_translator` takes:
            `checkpoint`, `ensemble`, `contrast`, `forbidden`.

    Raises:
        InputError: Not a run, or settings that cannot be.
        RunError: A damaged run.
    """
    from translate.decoding.loading import load_with_options

    return load_with_options(run, options)
