"""Another toolkit's model as the model, tokenizers and config of a run: the same function with our special ids."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from torch import Tensor

from translate.config.load import load_config
from translate.data.tokenizer import Tokenizers
from translate.errors import InputError
from translate.exchange.vocabulary import Vocabulary, describe_sentencepiece, reorder_sentencepiece
from translate.exchange.weights import OUTPUT_BIAS, Format, named_weights, sines_first
from translate.model import Transformer
from translate.runs.loading import LoadedRun, build_model

EXCLUDED = -100.0
"""Bias of an id that the other toolkit does not have: in fp32 its probability is 0. It is finite, because label
smoothing multiplies each log-probability by a small number."""


class ForeignModel(NamedTuple):
    """What a reader finds in another toolkit's files."""

    sections: dict[str, dict[str, Any]]  # of the run's config, as far as the files say it
    format: Format  # whose names the weights have
    weights: dict[str, Tensor]  # with rows of outputs, as torch has them
    source: Vocabulary
    target: Vocabulary
    sentencepiece: tuple[Path, Path]  # the models of the source and of the target
    files: list[Path]  # everything that the model was read from
    licence: str | None  # as its model card names it
    reader: dict[str, str]  # package and version
    check: Callable[[Transformer, Tokenizers], None]  # compares ours with the other toolkit's; raises RunError


def convert(foreign: ForeignModel, run: Path, overrides: Sequence[str]) -> LoadedRun:
    """Make the run of another toolkit's model, without writing it.

    Args:
        overrides: `dotted.key=value` settings that the files do not contain, such as the languages.

    Raises:
        InputError: A weight is missing or has no place in our model, a SentencePiece model cannot be read, or an
            override is invalid or contradicts the weights.
    """
    vocabularies = foreign.source, foreign.target
    is_joint = foreign.source == foreign.target
    contents = [path.read_bytes() for path in foreign.sentencepiece]
    source, target = (
        reorder_sentencepiece(content, vocabulary.names, name=str(path))
        for content, vocabulary, path in zip(contents, vocabularies, foreign.sentencepiece, strict=True)
    )
    is_one = is_joint and contents[0] == contents[1]
    tokenizers = Tokenizers(source, source if is_one else target, "joint" if is_joint else "separate")
    bias = foreign.weights[OUTPUT_BIAS[foreign.format]]
    sections: dict[str, Any] = {
        **foreign.sections,
        "tokenizer": {
            **describe_sentencepiece(contents[0]),
            "vocabulary": tokenizers.vocabulary,
            "vocab_size": tokenizers.source.vocab_size,
        },
        "model": {**foreign.sections["model"], "output_bias": bool(foreign.target.only_ours or bias.any())},
    }
    config = load_config(sections, []).config
    changed = load_config(sections, overrides).config
    for section in ("model", "tokenizer"):
        if getattr(config, section) != getattr(changed, section):
            raise InputError(f"{' '.join(overrides)}: the imported files decide `{section}`, so it cannot be changed")
    model = build_model(changed, tokenizers)
    _fill(model, foreign)
    return LoadedRun(run, changed, tokenizers, model.eval(), step=0)


def _fill(model: Transformer, foreign: ForeignModel) -> None:
    """Copy the weights into our model: rows of the vocabulary and dimensions of the residual stream in our order."""
    weights, order = dict(foreign.weights), sines_first(model.config.d_model).argsort()
    for name, (tensor, axis, tokens) in named_weights(model, foreign.format).items():
        if name not in weights:
            raise InputError(f"the weight {name} is missing")
        theirs = weights.pop(name)
        if tokens is not None:
            vocabulary = foreign.source if tokens == "source" else foreign.target
            missing_row = theirs.new_full((1, *theirs.shape[1:]), EXCLUDED if theirs.dim() == 1 else 0.0)
            theirs = torch.cat((theirs, missing_row))[vocabulary.rows]  # number -1 is the last row
            if theirs.dim() == 1:
                theirs[vocabulary.only_ours] = EXCLUDED
        if theirs.shape != tensor.shape:
            raise InputError(f"the weight {name} has the shape {tuple(theirs.shape)}, not {tuple(tensor.shape)}")
        tensor.copy_(theirs if axis is None else theirs.index_select(axis, order))
    weights.pop(OUTPUT_BIAS[foreign.format], None)  # zeros, in a model without
    if weights:
        raise InputError(f"the weights {', '.join(sorted(weights)[:5])} have no place in our model")


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a file of settings in YAML or JSON.

    Raises:
        InputError: It cannot be read, or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)  # to YAML 1e-05 is text
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: is not a mapping")
    return values


def require(name: str, values: Mapping[str, object], allowed: Mapping[str, tuple[object, ...]]) -> None:
    """Check that a model's settings are among those that our models can have.

    Args:
        name: The file with the settings.
        allowed: The values that each setting may have; it may also be left out.

    Raises:
        InputError: Settings have other values; the message names all of them.
    """
    refused = [
        f"{key} = {values[key]!r} (only {' or '.join(map(repr, choices))})"
        for key, choices in allowed.items()
        if key in values and values[key] not in choices
    ]
    if refused:
        raise InputError(f"{name}: a run cannot hold {', '.join(refused)}")
