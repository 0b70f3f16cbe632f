"""Imports models of other toolkits as runs, which compute the same function with our ids of the special symbols."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from translate.atomic import atomic_folder, check_new_folder
from translate.config.languages import UNKNOWN, Languages, unknown_language
from translate.config.load import load_config
from translate.config.schema import Config
from translate.config.yaml import parse_yaml
from translate.data.text import stream_lines
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.exchange.foreign import (
    ForeignModel,
    describe_sentencepiece,
    reading,
    reorder_sentencepiece,
)
from translate.exchange.marian import read_marian
from translate.exchange.pretrained import download, read_pretrained
from translate.exchange.pruning import prune
from translate.exchange.weights import OUTPUT_BIAS, named_weights, sines_first
from translate.files import read_input
from translate.fingerprint import fingerprint
from translate.model import Transformer
from translate.runs.checkpoint import WEIGHTS_PREFIX, add_prefix, write_checkpoint
from translate.runs.directory import create_run
from translate.runs.weights import build_model, get_parameters

logger = logging.getLogger(__name__)

EXCLUDED = -100.0
"""Bias of an id that the other toolkit does not have: in fp32 its probability is 0. It is finite, because label
smoothing multiplies each log-probability by a small number."""


class ImportedModel(NamedTuple):
    """Another toolkit's model, as a run has it."""

    config: Config
    tokenizers: Tokenizers
    model: Transformer


def import_model(
    source: str,
    run: Path,
    *,
    overrides: Sequence[str] = (),
    command: Sequence[str],
    keep_languages: Sequence[str] = (),
    texts: Sequence[Path] = (),
    precision: Literal["fp32", "bf16"] = "fp32",
) -> ImportedModel:
    """Write a run of another toolkit's model, after checking that it gives the same numbers.

    Args:
        source: A folder with a MarianMT, M2M100, NLLB-200, mBART-50 or T5 model of Hugging Face or with Marian's own
            files, or a name on the Hub.
        run: A folder that does not exist yet, or an empty one.
        overrides: `dotted.key=value` settings that the files do not contain, such as the languages.
        command: The command that the user typed, which the run records.
        keep_languages: The languages of a multilingual model to keep; empty: all. See `prune`.
        texts: Files whose subwords are kept; empty: all subwords are.
        precision: Type of the run's weights, which are rounded to it after the check.

    Returns:
        What the run has.

    Raises:
        InputError: There is no such model, a package is not installed, the model has something that a run cannot
            represent, or `run` is not empty.
        RunError: Our model computes different numbers, or the disk is full; nothing is left on disk.
        FileExistsError: Another program has written `run` in the meantime.
    """
    check_new_folder(run, purpose="run")
    folder = Path(source) if os.path.exists(source) else download(source)
    is_marian = (folder / "decoder.yml").is_file() and not (folder / "config.json").is_file()
    with reading(folder):
        foreign = read_marian(folder) if is_marian else read_pretrained(folder)
        if keep_languages or texts:
            foreign, report = prune(foreign, make_tokenizers(foreign), languages=keep_languages, texts=texts)
            logger.info(f"Vocabulary {report}")
        imported = convert(foreign, overrides)
        foreign.check((foreign.source, foreign.target), imported.model, imported.tokenizers)
    try:
        header = "\n".join([*stream_lines(folder / "README.md"), ""]).split("---\n")[1]
        card = parse_yaml(header, path=folder / "README.md", dotted_keys=True)[0]
        licence = [*map(str, card["license"])] if isinstance(card["license"], list) else card["license"]
        if licence == "other" and "license_name" in card:
            licence = f"other: {card['license_name']}"
    except (InputError, ValueError, LookupError, TypeError):
        licence = None
    origin = {
        "source": source,
        "folder": str(folder.resolve()),  # its name is the commit if it was downloaded
        **({"licence": licence} if licence and isinstance(licence, str | list) else {}),
        "read_with": foreign.reader,
        "files": {file.name: fingerprint(file) for file in foreign.files},
    }
    if precision == "bf16":
        imported.model.bfloat16()
    with atomic_folder(run) as temporary:
        config, tokenizers, provenance = imported.config, imported.tokenizers, {"imported": origin}
        new = create_run(temporary, config=config, tokenizers=tokenizers, command=command, provenance=provenance)
        write_checkpoint(new, "best", add_prefix(get_parameters(imported.model), WEIGHTS_PREFIX), {"step": "0"})
    return imported


def make_tokenizers(foreign: ForeignModel) -> Tokenizers:
    """The SentencePiece models of another toolkit with the ids of our vocabulary.

    Raises:
        InputError: A SentencePiece model cannot be read.
    """
    is_joint = foreign.source == foreign.target
    contents = [*map(read_input, foreign.sentencepiece)]
    source, target = (
        reorder_sentencepiece(contents[side], vocabulary, name=str(foreign.sentencepiece[side]))
        for side, vocabulary in enumerate((foreign.source, foreign.target))
    )
    is_one = is_joint and contents[0] == contents[1]
    return Tokenizers(source, source if is_one else target, "joint" if is_joint else "separate")


def convert(foreign: ForeignModel, overrides: Sequence[str]) -> ImportedModel:
    """Convert another toolkit's model into a run in memory.

    Args:
        overrides: `dotted.key=value` settings that the files do not contain, such as the languages.

    Raises:
        InputError: A weight is missing or has no place in our model, a SentencePiece model cannot be read, or an
            override is invalid or changes what the files determine.
    """
    tokenizers = make_tokenizers(foreign)
    has_bias = bool(foreign.target.only_ours or foreign.weights[OUTPUT_BIAS].any())
    sections: dict[str, Any] = {
        **foreign.sections,
        "tokenizer": {
            **describe_sentencepiece(read_input(foreign.sentencepiece[0])),
            "vocabulary": tokenizers.vocabulary,
            "vocab_size": tokenizers.source.vocab_size,
        },
        "model": {**foreign.sections["model"], "output_bias": has_bias},
    }
    languages = (f"data.{key}" for key in ("languages", "language_tags", "language_tag") if key in sections["data"])
    determined = ("model", "tokenizer", *languages)
    for override in overrides:
        if override.startswith(determined):
            keys = ", ".join(f"`{key}`" for key in determined)
            raise InputError(f"{override}: the imported files determine {keys}; leave it out")
    config = load_config(sections, overrides).config
    data, known = config.data, {*config.data.languages, UNKNOWN}
    for code in (data.target_language, *([data.source_language] if Languages(data).tags == "both" else [])):
        if data.languages and code not in known:
            raise InputError(unknown_language(code, data.languages))
    model = build_model(config, tokenizers)
    _fill(model, foreign)
    return ImportedModel(config, tokenizers, model.eval())


def _fill(model: Transformer, foreign: ForeignModel) -> None:
    """Copy the weights into our model: rows of the vocabulary and dimensions of the residual stream in our order."""
    weights = dict(foreign.weights)
    for name, (tensor, axis, tokens, scale) in named_weights(model, foreign.weight_names).items():
        if name not in weights:
            raise InputError(f"the weight {name} is missing")
        theirs = weights.pop(name)
        if not torch.stack(theirs.aminmax()).isfinite().all():
            place = foreign.sentencepiece[0].parent
            raise InputError(f"{place}: the weight {name} has a number that is infinite or not a number")
        if tokens is not None:
            vocabulary = foreign.source if tokens == "source" else foreign.target
            if len(theirs) < (num_subwords := len(vocabulary.subwords)):
                raise InputError(f"the weight {name} has {len(theirs)} rows, but there are {num_subwords} subwords")
            missing_row = theirs.new_full((1, *theirs.shape[1:]), EXCLUDED if theirs.dim() == 1 else 0.0)
            theirs = torch.cat((theirs, missing_row))[vocabulary.rows]  # number -1 is the last row
            if theirs.dim() == 1:
                theirs[vocabulary.only_ours] = EXCLUDED
        if theirs.shape != tensor.shape:
            raise InputError(f"the weight {name} has the shape {tuple(theirs.shape)}, not {tuple(tensor.shape)}")
        if axis is not None:
            theirs = theirs.index_select(axis, sines_first(theirs.shape[axis]).argsort())
        tensor.copy_(theirs if scale == 1.0 else theirs * scale)
    weights.pop(OUTPUT_BIAS, None)  # zeros in a model without it
    if weights:
        raise InputError(f"the weights {', '.join(sorted(weights)[:5])} are not part of our model")
