"""`export` and `shortlist`: what is made from a finished run."""

import logging
import time
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from translate.cli.options import CheckpointOption, RunArgument

logger = logging.getLogger(__name__)


def export(
    run: RunArgument,
    to: Annotated[Literal["ctranslate2", "huggingface", "onnx"], Option("--to", help="The toolkit to export for.")],
    output: Annotated[Path, Argument(metavar="OUT", help="A folder that does not exist yet.")],
    checkpoint: CheckpointOption = "best",
    quantization: Annotated[Literal["int8"] | None, Option(help="Round the weights, with --to onnx.")] = None,
) -> None:
    """Write a run's model for another toolkit, and check that it gives the same numbers.

    For Hugging Face, a model with post-norm and sinusoidal positions is a MarianMT model. Any other comes with a
    modelling file, which transformers runs if it is told to: `trust_remote_code=True`.

    Examples:
      translate export runs/demo --to ctranslate2 demo-ct2
      translate export runs/demo --to huggingface demo-hf
      translate export runs/demo --to onnx demo-onnx --quantization int8
    """
    from translate.export import export_run

    step = export_run(run, to=to, output=output, checkpoint=checkpoint, quantization=quantization)
    agreement = "they give the same numbers" if quantization is None else f"rounded to {quantization}"
    logger.info(f"{output}: weights of step {step} exported; {agreement}")


def shortlist(
    run: RunArgument,
    frequent: Annotated[int, Option(metavar="N", min=0, max=1_000_000, help="Allow the N most frequent words.")] = 1000,
    translations: Annotated[int, Option(metavar="N", min=0, max=1000, help="N translations of each source word.")] = 10,
) -> None:
    """Learn the likely translations of each word from the run's training corpora, for decode --shortlist.

    Decoding is then faster, and its scores are among those words alone.

    Examples:
      translate shortlist runs/demo
      translate decode runs/demo input.de --shortlist
    """
    from translate.decoding.shortlist import make_shortlist

    started = time.perf_counter()
    num_pairs = make_shortlist(run, num_frequent=frequent, num_translations=translations)
    seconds = time.perf_counter() - started
    logger.info(f"Shortlist learnt from {num_pairs} pairs in {seconds:.1f} s. Next: translate decode {run} --shortlist")
