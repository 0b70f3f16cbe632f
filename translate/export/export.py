"""A run becomes a folder that another program reads."""

from pathlib import Path
from typing import Literal, NamedTuple

from translate.errors import InputError
from translate.export.ctranslate2 import import_ctranslate2, write_ctranslate2
from translate.export.folder import refuse_occupied, write_folder
from translate.export.huggingface import import_transformers, write_huggingface
from translate.runs import Checkpoint, load_run

Format = Literal["ctranslate2", "huggingface"]


class Export(NamedTuple):
    """What was written."""

    directory: Path
    step: int  # at which the weights were saved


def export_run(run_path: Path, *, to: Format, output: Path, checkpoint: Checkpoint = "best") -> Export:
    """Writes a run's model and tokenizers for another program, after checking that they give the same numbers.

    Args:
        to: ctranslate2: for the CTranslate2 library, in fp32, to be quantised when it is loaded, with the SentencePiece
            models beside it; huggingface: for the transformers library, as a MarianMT model with its tokenizer.
        output: A folder to make, or an empty one.
        checkpoint: As in `load_run`.

    Raises:
        InputError: Not a run, a model that the format cannot express (the keys are named), a package that is not
            installed, or an `output` that is not empty.
        RunError: The exported numbers are not the model's, or the disk is full; nothing is left behind.
    """
    refuse_occupied(output)
    match to:
        case "ctranslate2":
            import_ctranslate2()
        case "huggingface":
            import_transformers()
    run = load_run(run_path, checkpoint=checkpoint)

    def write(directory: Path) -> None:
        match to:
            case "ctranslate2":
                write_ctranslate2(run.model, run.tokenizers, directory)
                run.tokenizers.save(directory)
            case "huggingface":
                write_huggingface(run.model, run.tokenizers, run.config, directory)

    if not write_folder(output, write):
        raise InputError(f"{output} was filled by another program meanwhile: choose another folder, or empty it")
    return Export(output, run.step)
