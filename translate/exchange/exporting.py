"""Writes a run's model into a folder for another program, and checks that it gives the same numbers."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Literal, assert_never

from translate.atomic import atomic_folder, check_new_folder
from translate.config.data import Direction
from translate.config.languages import UNKNOWN, Languages
from translate.data.tokenizer import parse_model
from translate.decoding.engines.ctranslate2_conversion import write_ctranslate2
from translate.errors import InputError
from translate.exchange.card import package_codes, write_card
from translate.exchange.huggingface import write_huggingface
from translate.exchange.onnx import write_onnx
from translate.language_codes import language_name
from translate.runs.directory import Checkpoint
from translate.runs.run import LoadedModel, SavedRun, open_run

Format = Literal["ctranslate2", "huggingface", "onnx", "argos"]
Quantization = Literal["int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]


def export_run(
    run: SavedRun | Path,
    *,
    to: Format,
    output: Path,
    checkpoint: Checkpoint = "best",
    quantization: Quantization | None = None,
) -> int:
    """Write a run's model, tokenizers and model card for another program, and check that it gives the same numbers.

    Args:
        to: ctranslate2 also writes the SentencePiece models; huggingface writes an M2M100, mBART, T5 or MarianMT model
            where that is exact, otherwise a model with its own modelling file; onnx writes graphs for ONNX Runtime,
            with the other files that optimum needs; argos writes a package for each direction.
        output: A folder that does not exist yet, or an empty one.
        checkpoint: As in `SavedRun.load_model`.
        quantization: What the weights are rounded to, after the check; None: they stay fp32.

    Returns:
        The step at which the exported weights were saved.

    Raises:
        InputError: `run` is not a run, the format has no such quantization, the package is not installed, the format
            cannot have such a model, or `output` is not empty.
        RunError: The exported model computes different numbers, or the disk is full; nothing is left on disk.
        FileExistsError: Another program has written `output` in the meantime.
    """
    check_new_folder(output, purpose="export")
    if quantization is not None and to in ("huggingface", "onnx"):
        raise InputError(f"--quantization does not work with --to {to}: use --to ctranslate2 or argos, or leave it out")
    loaded = open_run(run).load_model(checkpoint)
    languages = loaded.run.languages
    if to == "argos":
        _find_directions(languages, loaded)
    with atomic_folder(output) as temporary:
        match to:
            case "ctranslate2":
                write_ctranslate2(loaded.model, loaded.tokenizers, temporary, quantization=quantization)
                loaded.tokenizers.save(temporary)
            case "huggingface":
                write_huggingface(loaded.model, loaded.tokenizers, loaded.config, temporary)
            case "onnx":
                write_onnx(loaded.model, loaded.tokenizers, loaded.config, temporary)
            case "argos":
                _write_argos(loaded, languages, temporary, quantization=quantization)
            case _:
                assert_never(to)
        write_card(temporary, loaded, to=to, name=output.name, rounded=quantization)
        if to == "argos":
            _pack_argos(loaded, languages, temporary)
    return loaded.step


def _find_directions(languages: Languages, run: LoadedModel) -> list[Direction]:
    """The directions of a model, one for each package.

    Raises:
        InputError: The model needs what a package cannot have.
    """
    directions = [Direction(source, target) for source in languages.sources for target in languages.targets_of(source)]
    tags = [languages.tags_of(direction) for direction in directions]
    if UNKNOWN in (*languages.sources, *languages.targets):
        problem = "the run does not name its languages, and a package must: see data.source_language"
    elif any(source for source, _ in tags) or run.tokenizers.source.language_tokens:
        problem = "its sources begin with tags, which Argos Translate does not write: see data.language_tags: target"
    elif any(target for _, target in tags) and run.tokenizers.source is not run.tokenizers.target:
        problem = "a model with tags needs one vocabulary for all languages: see tokenizer.vocabulary: joint"
    else:
        return directions
    raise InputError(f"--to argos: {run.run}: {problem}; or use --to ctranslate2")


def _write_argos(run: LoadedModel, languages: Languages, directory: Path, *, quantization: str | None) -> None:
    """Write what all packages have: a CTranslate2 model, and one SentencePiece model for both sides.

    SentencePiece decodes subwords of another vocabulary by their text. It leaves out control symbols, which the tags of
    languages become.
    """
    (directory / "model").mkdir()
    write_ctranslate2(run.model, run.tokenizers, directory / "model", quantization=quantization)
    tokenizer = run.tokenizers.source
    model = parse_model(tokenizer.model_bytes, name=tokenizer.name)
    for token in tokenizer.tag_tokens(languages.every_tag):
        model.pieces[token].type = model.SentencePiece.CONTROL
    (directory / "sentencepiece.model").write_bytes(model.SerializeToString(deterministic=True))


def _pack_argos(run: LoadedModel, languages: Languages, directory: Path) -> None:
    """Replace the files that `_write_argos` wrote by one package for each direction, which has the README too."""
    files = [file for file in sorted(directory.rglob("*")) if file.is_file()]
    for direction in _find_directions(languages, run):
        codes = package_codes(direction)
        prefix = run.tokenizers.target.pieces(run.tokenizers.target.tag_ids(languages.tags_of(direction)[1]))
        metadata = {"package_version": "1.0", "argos_version": "1.9.0", "type": "translate"}
        metadata |= dict(zip(("from_code", "to_code"), codes, strict=True))
        metadata |= dict(zip(("from_name", "to_name"), map(language_name, direction), strict=True))
        name = f"translate-{'_'.join(codes)}-1_0"  # the folder's too: Argos Translate unpacks all into one
        with zipfile.ZipFile(directory / f"{name}.argosmodel", "w", zipfile.ZIP_DEFLATED) as package:
            package.writestr(f"{name}/metadata.json", json.dumps(metadata | {"target_prefix": "".join(prefix)}))
            for file in files:
                package.write(file, f"{name}/{file.relative_to(directory).as_posix()}")
    shutil.rmtree(directory / "model")
    (directory / "sentencepiece.model").unlink()
