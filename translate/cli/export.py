"""The commands `import` and `export`."""

import logging
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from translate.atomic import check_new_folder
from translate.cli.terminal.options import CheckpointOption, Overrides, RunArgument
from translate.files import require_file

logger = logging.getLogger(__name__)


def import_(
    source: Annotated[
        str, Argument(metavar="SOURCE", help="A folder, or the name of a model on the Hugging Face Hub.")
    ],
    run: Annotated[Path, Argument(metavar="RUN", help="Directory of the new run; it must not exist yet.")],
    overrides: Overrides = None,
    keep_languages: Annotated[
        str,
        Option(metavar="CODES", help="Keep only these languages of a multilingual model, such as deu_Latn,eng_Latn."),
    ] = "",
    text: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="Keep only the subwords that occur in this text; may be given several times."),
    ] = None,
    precision: Annotated[
        Literal["fp32", "bf16"], Option(help="Store the weights in bf16, in half of the space, after the check.")
    ] = "fp32",
) -> None:
    """Convert another toolkit's model into a run, and check that it gives the same numbers.

    Reads MarianMT models from Hugging Face, including all of OPUS-MT, M2M100, NLLB-200, mBART-50, MADLAD-400, T5 and
    mT5, and Marian's own model.npz with its decoder.yml, vocabularies and SentencePiece models. Anything that a run
    cannot represent is an error.

    Examples:
      translate import Helsinki-NLP/opus-mt-de-en runs/opus
      translate import opus runs/m data.source_language=de data.target_language=en
      translate import facebook/nllb-200-distilled-600M runs/nllb
      translate import nllb runs/s --keep-languages deu_Latn,eng_Latn --text a.de
    """
    check_new_folder(run, purpose="run")
    for file in text or []:
        require_file(file)
    from translate.config.languages import Languages
    from translate.exchange import import_model

    started = time.perf_counter()
    converted = import_model(
        source,
        run,
        overrides=overrides or [],
        command=["translate", *sys.argv[1:]],
        keep_languages=[code for code in keep_languages.split(",") if code],
        texts=text or [],
        precision=precision,
    )
    seconds = time.perf_counter() - started
    data, sizes = converted.config.data, dict.fromkeys(f"{side.vocab_size:,}" for side in converted.tokenizers[:2])
    parameters = f"{converted.model.num_parameters:,} parameters"
    logger.info(f"Model: {Languages(data)}, {parameters}, {' and '.join(sizes)} subwords")
    rounded = " before rounding to bf16" if precision == "bf16" else ""
    logger.info(f"{run}: imported in {seconds:.1f} s; it gives the same numbers{rounded}. Next: translate decode {run}")


def export(
    run: RunArgument,
    to: Annotated[Literal["ctranslate2", "huggingface", "onnx", "argos"], Option(help="The toolkit to export for.")],
    output: Annotated[Path, Argument(metavar="OUT", help="Output folder; it must not exist yet.")],
    checkpoint: CheckpointOption = "best",
    quantization: Annotated[
        Literal["int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"] | None,
        Option(help="Quantize the weights, with --to ctranslate2 or argos."),
    ] = None,
) -> None:
    """Export a run's model with a model card for another toolkit, and check that it gives the same numbers.

    For Hugging Face, a model with post-norm and sinusoidal positions becomes a MarianMT model, and an imported M2M100,
    NLLB-200, mBART-50 or T5 model becomes one again. Any other model comes with a modelling file, which transformers
    loads with `trust_remote_code=True`. An export to argos is a package that Argos Translate and LibreTranslate
    install.

    Examples:
      translate export runs/demo --to ctranslate2 demo-ct2
      translate export runs/demo --to ctranslate2 demo-int8 --quantization int8
      translate export runs/demo --to huggingface demo-hf
      translate export runs/demo --to onnx demo-onnx
      translate export runs/demo --to argos demo-argos --quantization int8
    """
    check_new_folder(output, purpose="export")
    from translate.exchange import export_run

    step = export_run(run, to=to, output=output, checkpoint=checkpoint, quantization=quantization)
    agreement = "they give the same numbers" if quantization is None else f"rounded to {quantization}"
    logger.info(f"{output}: weights of step {step} exported; {agreement}")
