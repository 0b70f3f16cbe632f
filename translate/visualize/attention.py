"""What each head attends to, as an interactive page and as figures, with the weights that the model used."""

import base64
import contextlib
import html
import threading
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from translate.data.batching import EncodedPair, collate
from translate.decoding import Translator
from translate.decoding.alignment import merge_units
from translate.errors import InputError
from translate.model import Transformer
from translate.visualize.charts import COLOURS
from translate.visualize.page import fill_template, picture_format, save_picture
from translate.visualize.panels import Matrix, Panel, Picture, check_numbers
from translate.visualize.sentences import MERGED, SentencePair, Tokens, read_sentence

AttentionKind = Literal["encoder", "decoder", "cross"]
AttentionUnit = Literal["subwords", "words"]
_KINDS: dict[AttentionKind, list[str]] = {  # a name, what looks and is looked at, and the labels of rows and columns
    "encoder": ["encoder self-attention", "source", "source", "attending source token", "attended source token"],
    "decoder": ["decoder self-attention", "target_input", "target_input",
                "attending target token", "attended target token"],
    "cross": ["cross-attention", "target_output", "source", "target token predicted", "attended source token"],
}  # fmt: skip
_MEAN = -1  # in place of a head's number: the mean of all heads


class LayerAttention(NamedTuple):
    """One attention of one layer, as the model computed it for one pair."""

    kind: AttentionKind  # encoder and decoder: their self-attention
    layer: int  # counted from 0
    weights: Float[Tensor, "heads query key"]  # rows sum to one; masked keys have exactly zero
    visible: Bool[Tensor, "query key"]


class AttentionChoice(NamedTuple):
    """The choice that a figure shows, and that a page shows first."""

    kind: AttentionKind = "cross"
    layer: int | None = None  # None: all, and in a page the last
    head: int | None = None  # None: all, and in a page their mean
    unit: AttentionUnit = "subwords"


class Attention(NamedTuple):
    """A sentence, its translation, and the attention of every head."""

    title: str
    pair: SentencePair
    layers: list[LayerAttention]
    paragraphs: list[str]  # how the translation was made
    choice: AttentionChoice

    def save(self, file: str | PathLike[str]) -> None:
        """Save the page, or the figure, if the file ends in .png or .svg.

        Raises:
            InputError: The file has another ending, or a figure needs a package that is not installed.
            RunError: The file cannot be written.
        """
        file = Path(file)
        save_picture(attention_page(self) if picture_format(file) == "html" else attention_picture(self), file)

    def __repr__(self) -> str:
        return f"<{self.title}: {self.pair.source_text} → {self.pair.target_text}>"

    def _repr_html_(self) -> str:
        page = html.escape(attention_page(self))
        return f'<iframe title="attention" style="width:100%;height:700px;border:0" srcdoc="{page}"></iframe>'


def capture_attention(model: Transformer, pair: EncodedPair) -> list[LayerAttention]:
    """Run the full forward pass over one pair, and return what each head of encoder, decoder and cross-attention did.

    A hook sees exactly the weights that the model multiplied its values with.

    Args:
        model: A model in evaluation mode.
        pair: Token ids without special symbols.
    """
    batch = collate([pair], [0]).to(model.device)
    stacks: dict[AttentionKind, Any] = {
        "encoder": [layer.self_attention for layer in model.encoder.layers],
        "decoder": [layer.self_attention for layer in model.decoder.layers],
        "cross": [layer.cross_attention for layer in model.decoder.layers],
    }
    attentions = [(kind, number, attention) for kind, stack in stacks.items() for number, attention in enumerate(stack)]
    calls: dict[nn.Module, tuple[Any, ...]] = {}
    thread = threading.get_ident()

    def keep(module: nn.Module, *call: Any) -> None:
        if threading.get_ident() == thread:  # a server's other threads use the model too
            calls[module] = call

    with torch.inference_mode(), contextlib.ExitStack() as hooks:
        for _, _, attention in attentions:
            hooks.enter_context(attention.register_forward_pre_hook(keep, with_kwargs=True))
            hooks.enter_context(attention.weights_dropout.register_forward_hook(keep))
        model(batch.source_ids, batch.target_input_ids)
    layers = []
    for kind, layer, attention in attentions:
        (_, keywords), (_, weights) = calls[attention], calls[attention.weights_dropout]
        visible = keywords["visible"].expand(1, 1, *weights.shape[2:])[0, 0].cpu()
        layers.append(LayerAttention(kind, layer, weights[0].float().cpu(), visible))
    return layers


def look_at_attention(
    translator: Translator, text: str, *, target: str | None = None, choice: AttentionChoice, name: str, step: int
) -> Attention:
    """Translate a sentence, or force a translation, and capture the attention of all heads.

    Args:
        target: The translation to force; None: decode one.
        step: The step at which the run's weights were saved.

    Raises:
        InputError: There is no such kind, unit, layer or head, or a text is empty, too long for a picture, or longer
            than the positions of the model.
    """
    for name_of_it, choices in (("kind", get_args(AttentionKind)), ("unit", get_args(AttentionUnit))):
        if (value := getattr(choice, name_of_it)) not in choices:
            raise InputError(f"{name_of_it} = {value!r}: should be one of {', '.join(map(repr, choices))}")
    model, config = translator.model.config, translator.config
    stack = "encoder" if choice.kind == "encoder" else "decoder"
    num_layers = getattr(model, f"num_{stack}_layers")
    if choice.layer is not None and not 0 <= choice.layer < num_layers:
        raise InputError(f"--layer {choice.layer}: the {stack} has layers 0 to {num_layers - 1}")
    if choice.head is not None and not 0 <= choice.head < model.num_heads:
        raise InputError(f"--head {choice.head}: each layer has heads 0 to {model.num_heads - 1}")
    pair = read_sentence(translator, text, target=target)
    columns, rows = len(pair.source.pieces), len(pair.target_input.pieces)
    numbers = model.num_encoder_layers * columns**2 + model.num_decoder_layers * rows * (rows + columns)
    what = f"{columns} source and {rows} target tokens in every layer and head"
    check_numbers(model.num_heads * numbers, of=what, less="give a shorter sentence")
    made = "Forced: the translation was given."
    if target is None:
        is_sampled = config.search == "sample"
        made = f"Sampled with seed {config.seed}." if is_sampled else f"Decoded with beam {config.beam_size}."
    (forced,) = translator.force([pair.text_ids])
    log_prob = f"{sum(forced.token_log_probs):.3f}".replace("-", "\N{MINUS SIGN}")
    how = (
        f"{made} Step {step}, {config.precision}; the weights come from the model's full forward pass over this"
        f" pair, log-probability {log_prob} nats. Layers and heads are counted from 0."
    )
    layers = capture_attention(translator.model, pair.ids)
    return Attention(f"Attention of {name}", pair, layers, [how], choice)


def attention_page(attention: Attention) -> str:
    """The page with all heads of all layers."""
    pair, choice = attention.pair, attention.choice
    last = max(found.layer for found in attention.layers if found.kind == choice.kind)
    layer, head = last if choice.layer is None else choice.layer, _MEAN if choice.head is None else choice.head
    kinds = []
    for kind, texts in _KINDS.items():
        description = dict(zip(("name", "queries", "keys", "rowAxis", "columnAxis"), texts, strict=True))
        layers = [found for found in attention.layers if found.kind == kind]
        visible = ["".join(str(int(cell)) for cell in row) for row in layers[0].visible.tolist()]
        arrays = [_encode(found.weights) for found in layers]
        kinds.append({"kind": kind, **description, "visible": visible, "layers": arrays})
    data = {
        "title": attention.title,
        "source": pair.source_text,
        "target": pair.target_text,
        "paragraphs": attention.paragraphs,
        "merged": MERGED,
        "numHeads": len(attention.layers[0].weights),
        "tokens": {
            name: {"pieces": tokens.pieces, "words": [word._asdict() for word in tokens.words]}
            for name, tokens in pair._asdict().items()
            if isinstance(tokens, Tokens)
        },
        "kinds": kinds,
        "colours": COLOURS,
        "start": choice._replace(layer=layer, head=head)._asdict(),
    }
    return fill_template(data, scripts=["drawing.js", "attention.js"])


def _encode(tensor: Tensor) -> str:
    """Numbers as the page reads them: fp32, little-endian, row by row."""
    return base64.b64encode(tensor.numpy().astype("<f4").tobytes()).decode("ascii")


def attention_picture(attention: Attention) -> Picture:
    """The figure with a matrix for each chosen head of one kind, or for all heads after their mean."""
    choice = attention.choice
    heads = range(_MEAN, len(attention.layers[0].weights)) if choice.head is None else [choice.head]
    panels: list[Panel] = [
        _matrix(found, head, attention.pair, unit=choice.unit)
        for found in attention.layers
        if found.kind == choice.kind and choice.layer in (None, found.layer)
        for head in heads
    ]
    paragraphs = [f"{attention.pair.source_text} → {attention.pair.target_text}", *attention.paragraphs]
    paragraphs.append(
        "The darker, the more weight, from 0 to 1; the colour follows the root of the weight, so that small ones are"
        f" visible.{' Grey: masked, exactly 0.' if choice.kind == 'decoder' else ''}"
    )
    if choice.unit == "words":
        paragraphs.append(MERGED)
    return Picture(f"{attention.title}: {_KINDS[choice.kind][0]}", paragraphs, panels, columns=len(heads))


def _matrix(layer: LayerAttention, head: int, pair: SentencePair, *, unit: str) -> Matrix:
    _, query_tokens, key_tokens, *axes = _KINDS[layer.kind]
    queries, keys = getattr(pair, query_tokens), getattr(pair, key_tokens)
    weights = layer.weights.double().mean(0) if head == _MEAN else layer.weights[head].double()
    visible, name = layer.visible, "mean of the heads" if head == _MEAN else f"head {head}"
    rows, columns = queries.pieces, keys.pieces
    if unit == "words":
        units = [[word.positions for word in words] for words in (keys.words, queries.words)]
        weights, visible = merge_units(weights, *units), merge_units(visible.double(), *units) > 0
        rows, columns = [word.text for word in queries.words], [word.text for word in keys.words]
        axes = [axis.replace("token", "word") for axis in axes]
    masked = weights.numpy().astype(object)
    masked[~visible.numpy()] = None
    return Matrix(f"layer {layer.layer}, {name}", rows, columns, masked.tolist(), axes[0], axes[1], "weight")
