"""The masks of a batch of sentences, made by the very functions that the model is trained with."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from translate.data.batching import collate
from translate.data.tokenizer import PAD_ID
from translate.decoding import Translator
from translate.errors import InputError
from translate.model.masks import causal_visible, padding_visible, target_visible
from translate.visualize.panels import Matrix, Picture
from translate.visualize.sentences import SentencePair, read_sentence


class Masks(NamedTuple):
    """Of one sentence in its batch; True: this query may see that key."""

    source_padding: Tensor  # (1, source): for every query of the encoder and of cross-attention
    target_padding: Tensor  # (1, target): for every query of the decoder
    causal: Tensor  # (target, target)
    conjunction: Tensor  # (target, target), what the decoder's self-attention is given


def masks_picture(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Picture:
    """Figures of the masks of given sentences, padded to one batch, with their tokens as labels.

    Args:
        targets: A translation for each sentence; none at all: they are decoded.

    Raises:
        InputError: Another number of translations, or a text that cannot be read as a sentence.
    """
    if targets and len(targets) != len(sources):
        raise InputError(
            f"sentences: {len(sources)}, --target: {len(targets)}; give one for each sentence, in order, or none"
        )
    given: Sequence[str | None] = targets or [None] * len(sources)
    pairs = [read_sentence(translator, text, target=target) for text, target in zip(sources, given, strict=True)]
    batch = collate([pair.ids for pair in pairs], range(len(pairs)))
    panels = []
    for number, masks in enumerate(make_masks(batch.source_ids, batch.target_input_ids)):
        source = translator.tokenizers.source.pieces(batch.source_ids[number].tolist())
        target = translator.tokenizers.target.pieces(batch.target_input_ids[number].tolist())
        panels += _panels(masks, source=source, target=target, number=number + 1)
    return Picture(
        "The masks of a batch",
        [
            *(_name(number, pair) for number, pair in enumerate(pairs, start=1)),
            "Made by translate/model/masks.py, with which the model is trained. Coloured: this query (row)"
            " may see that key (column). Padding"
            " masks have one row, for it is the same for all queries. A position of padding is a query too, but nobody"
            " looks at what comes of it.",
        ],
        panels,
        columns=4,
    )


def make_masks(source_ids: Tensor, target_input_ids: Tensor) -> list[Masks]:
    """The masks of each sentence of a batch, as the model makes them."""
    source_padding = padding_visible(source_ids, pad_id=PAD_ID)[:, 0]
    target_padding = padding_visible(target_input_ids, pad_id=PAD_ID)[:, 0]
    causal = causal_visible(target_input_ids.shape[1])[0, 0]
    conjunction = target_visible(target_input_ids, pad_id=PAD_ID)
    assert isinstance(conjunction, Tensor)
    return [
        Masks(source_padding[row], target_padding[row], causal, conjunction[row, 0]) for row in range(len(source_ids))
    ]


def _panels(masks: Masks, *, source: list[str], target: list[str], number: int) -> list[Matrix]:
    every = ["every query"]
    return [
        _matrix(f"{number}: source padding", masks.source_padding, rows=every, columns=source),
        _matrix(f"{number}: target padding", masks.target_padding, rows=every, columns=target),
        _matrix(f"{number}: no peeking", masks.causal, rows=target, columns=target),
        _matrix(f"{number}: target padding and no peeking", masks.conjunction, rows=target, columns=target),
    ]


def _matrix(title: str, visible: Tensor, *, rows: list[str], columns: list[str]) -> Matrix:
    values = visible.float().tolist()
    return Matrix(title, rows, columns, values, "query", "key", "visible")


def _name(number: int, pair: SentencePair) -> str:
    return f"{number}: {pair.source_text} → {pair.target_text}{'' if pair.is_forced else ' (decoded)'}"
