"""Where each head looks, as a page to walk through and as figures: matrices, lines, the network, query and key."""

import base64
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor

from translate.config import DecodingConfig
from translate.decoding import Translator
from translate.errors import InputError
from translate.visualize.capture import (
    KINDS,
    AttentionKind,
    Captured,
    LayerAttention,
    capture_attention,
    describe_kind,
)
from translate.visualize.page import fill_template
from translate.visualize.panels import Matrix, Picture
from translate.visualize.sentences import MERGED, SentencePair, Tokens, merge_words, read_sentence

Unit = Literal["subwords", "words"]

_POSITIONS = {
    "sinusoidal": "Positions (sinusoidal) were added to the embeddings: they are inside the vectors.",
    "learned": "Positions (learned) were added to the embeddings: they are inside the vectors.",
    "rotary": "Positions (rotary) turn the queries and keys of self-attention: the vectors are shown as turned, and"
    " “by position” is what turning changed in the score.",
    "relative": "Positions (relative) add a number to the scores of self-attention: “by position” is that number.",
}


class AttentionChoice(NamedTuple):
    """What is to be seen (in a figure) or seen first (in a page)."""

    kind: AttentionKind = "cross"
    layer: int | None = None  # None: all, and in a page the last
    head: int | None = None  # None: all, and in a page the first
    unit: Unit = "subwords"


class Attention(NamedTuple):
    """A sentence, its translation, and all that every head did with them."""

    title: str
    pair: SentencePair
    captured: Captured
    paragraphs: list[str]  # how it was made
    positions: str  # the kind that the model has
    num_layers: dict[AttentionKind, int]
    num_heads: int


def look_at_attention(
    translator: Translator, text: str, *, target: str | None = None, name: str, step: int
) -> Attention:
    """Translate a sentence, or force a translation, and watch all heads.

    Args:
        target: The translation to force; None: decode one.
        name: Of the run.
        step: At which its weights were saved.

    Raises:
        InputError: A text is empty, or longer than the positions of the model.
    """
    pair = read_sentence(translator, text, target=target)
    model = translator.model
    captured = capture_attention(model, pair.ids)
    made = "Forced: the translation was given." if pair.is_forced else _how_decoded(translator.config)
    precision = translator.config.precision
    return Attention(
        title=f"Attention of {name}",
        pair=pair,
        captured=captured,
        paragraphs=[
            f"{made} Step {step}, {precision}; the weights are those of the model's full forward pass over"
            f" this pair, log-probability {_signed(sum(captured.token_log_probs))} nats."
        ],
        positions=model.config.positions,
        num_layers={
            "encoder": len(model.encoder.layers),
            "decoder": len(model.decoder.layers),
            "cross": len(model.decoder.layers),
        },
        num_heads=model.config.num_heads,
    )


def check_choice(choice: AttentionChoice, attention: Attention) -> None:
    """Raise the InputError that names a layer or head that the model does not have."""
    stack = "encoder" if choice.kind == "encoder" else "decoder"
    for option, number, count, where in (
        ("--layer", choice.layer, attention.num_layers[choice.kind], f"the {stack} has the layers"),
        ("--head", choice.head, attention.num_heads, "each layer has the heads"),
    ):
        if number is not None and not 0 <= number < count:
            raise InputError(f"{option} {number}: {where} 0 to {count - 1}")


def attention_page(attention: Attention, choice: AttentionChoice) -> str:
    """The page: all heads of all layers, with their queries and keys.

    Raises:
        InputError: No such layer or head.
    """
    check_choice(choice, attention)
    pair = attention.pair
    data = {
        "title": attention.title,
        "source": pair.source_text,
        "target": pair.target_text,
        "paragraphs": attention.paragraphs,
        "merged": MERGED,
        "positions": _POSITIONS[attention.positions],
        "addsToScores": attention.positions == "relative",
        "numHeads": attention.num_heads,
        "tokens": {
            "source": _describe_tokens(pair.source),
            "input": _describe_tokens(pair.target_input),
            "output": _describe_tokens(pair.target_output),
        },
        "kinds": [_describe_kind(attention, kind) for kind in KINDS],
        "start": {
            "kind": choice.kind,
            "layer": attention.num_layers[choice.kind] - 1 if choice.layer is None else choice.layer,
            "head": choice.head or 0,
            "unit": choice.unit,
        },
    }
    return fill_template(title=attention.title, data=data, scripts=["drawing.js", "attention.js"])


def attention_picture(attention: Attention, choice: AttentionChoice) -> Picture:
    """The figure: matrices of all heads of one kind, or of those that were chosen.

    Raises:
        InputError: No such layer or head.
    """
    check_choice(choice, attention)
    queries, keys = _axes(attention.pair, choice.kind)
    heads = range(attention.num_heads) if choice.head is None else [choice.head]
    layers = [
        each for each in attention.captured.layers if each.kind == choice.kind and choice.layer in (None, each.layer)
    ]
    panels = []
    for place, each in enumerate(layers):
        for head in heads:
            panel = _matrix(each, head, queries=queries, keys=keys, unit=choice.unit)
            if place:  # the labels of the first row and column are for all
                panel = panel._replace(columns=[""] * len(panel.columns), column_axis="")
            if head != heads[0]:
                panel = panel._replace(rows=[""] * len(panel.rows), row_axis="")
            panels.append(panel)
    kind = describe_kind(choice.kind)
    paragraphs = [f"{attention.pair.source_text} → {attention.pair.target_text}", *attention.paragraphs]
    paragraphs.append(
        "The darker, the more weight, from 0 to 1; the colour goes with the root of the weight, so that small ones are"
        f" seen.{' Grey: masked, exactly 0.' if choice.kind == 'decoder' else ''}"
    )
    if choice.unit == "words":
        paragraphs.append(MERGED)
    return Picture(f"{attention.title}: {kind}", paragraphs, panels, columns=len(heads))


def _signed(number: float) -> str:
    return f"{number:.3f}".replace("-", "\N{MINUS SIGN}")


def _how_decoded(config: DecodingConfig) -> str:
    if config.search == "sample":
        return f"The translation was sampled with seed {config.seed}."
    return (
        "The translation was decoded greedily." if config.beam_size == 1 else f"Decoded with beam {config.beam_size}."
    )


def _axes(pair: SentencePair, kind: AttentionKind) -> tuple[Tokens, Tokens]:
    """The tokens that look, and those that are looked at."""
    match kind:
        case "encoder":
            return pair.source, pair.source
        case "decoder":
            return pair.target_input, pair.target_input
        case "cross":
            return pair.target_output, pair.source


_AXIS_NAMES: dict[AttentionKind, tuple[str, str]] = {
    "encoder": ("source token that looks", "source token looked at"),
    "decoder": ("target token read, which looks", "target token looked at"),
    "cross": ("target token predicted", "source token looked at"),
}


def _matrix(each: LayerAttention, head: int, *, queries: Tokens, keys: Tokens, unit: Unit) -> Matrix:
    weights, visible = each.weights[head].double(), each.visible
    rows, columns = queries.pieces, keys.pieces
    row_axis, column_axis = _AXIS_NAMES[each.kind]
    if unit == "words":
        weights = merge_words(weights, query_words=queries.words, key_words=keys.words)
        seen = merge_words(visible.double(), query_words=queries.words, key_words=keys.words)
        visible = seen > 0
        rows, columns = [word.text for word in queries.words], [word.text for word in keys.words]
        row_axis, column_axis = row_axis.replace("token", "word"), column_axis.replace("token", "word")
    values = [
        [weight if is_seen else None for weight, is_seen in zip(*row, strict=True)]
        for row in zip(weights.tolist(), visible.tolist(), strict=True)
    ]
    return Matrix(f"layer {each.layer}, head {head}", rows, columns, values, row_axis, column_axis, "weight")


def _describe_tokens(tokens: Tokens) -> dict[str, Any]:
    return {
        "pieces": tokens.pieces,
        "words": [{"text": word.text, "positions": word.positions} for word in tokens.words],
    }


def _describe_kind(attention: Attention, kind: AttentionKind) -> dict[str, Any]:
    layers = [each for each in attention.captured.layers if each.kind == kind]
    row_axis, column_axis = _AXIS_NAMES[kind]
    queries, keys = {"encoder": ("source", "source"), "decoder": ("input", "input"), "cross": ("output", "source")}[
        kind
    ]
    return {
        "kind": kind,
        "name": describe_kind(kind),
        "queries": queries,
        "keys": keys,
        "rowAxis": row_axis,
        "columnAxis": column_axis,
        "visible": ["".join(str(int(cell)) for cell in row) for row in layers[0].visible.tolist()],
        "layers": [
            {
                "weights": _base64(each.weights),
                "query": _base64(each.query),
                "key": _base64(each.key),
                "position": None if each.position_scores is None else _base64(each.position_scores),
            }
            for each in layers
        ],
    }


def _base64(tensor: Tensor) -> str:
    """The very bits of the numbers: fp32, little-endian, the last axis first."""
    return base64.b64encode(tensor.numpy().astype(np.dtype("<f4")).tobytes()).decode("ascii")
