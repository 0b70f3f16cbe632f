"""The masks of a batch of sentences, made by the functions that the model uses."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from translate.data.batching import collate
from translate.data.tokenizer import PAD_ID
from translate.decoding import Translator
from translate.errors import InputError
from translate.model.masks import causal_visible, padding_visible, target_visible
from translate.visualize.panels import Matrix, Picture
from translate.visualize.sentences import read_sentence


class Masks(NamedTuple):
    """The masks of one sentence in its batch; True means that this query may see that key."""

    source_padding: Tensor  # (1, source): for every query of the encoder and of cross-attention
    target_padding: Tensor  # (1, target): for every query of the decoder
    causal: Tensor  # (target, target)
    conjunction: Tensor  # (target, target): padding and causal, for the decoder's self-attention


def masks_picture(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Picture:
    """Matrices of the masks of sentences that are padded to one batch, labelled with their tokens.

    Args:
        targets: A translation for each sentence; empty: they are decoded.

    Raises:
        InputError: The numbers of sentences and translations differ, or a text cannot be read as a sentence.
    """
    if targets and len(targets) != len(sources):
        raise InputError(
            f"sentences: {len(sources)}, --target: {len(targets)}; give one for each sentence, in order, or none"
        )
    given: Sequence[str | None] = targets or [None] * len(sources)
    pairs = [read_sentence(translator, text, target=target) for text, target in zip(sources, given, strict=True)]
    batch = collate([pair.ids for pair in pairs], range(len(pairs)))
    panels = []
    every = ["every query"]
    for row, masks in enumerate(make_masks(batch.source_ids, batch.target_input_ids)):
        source = translator.tokenizers.source.pieces(batch.source_ids[row].tolist())
        target = translator.tokenizers.target.pieces(batch.target_input_ids[row].tolist())
        for title, visible, rows, columns in (
            ("source padding", masks.source_padding, every, source),
            ("target padding", masks.target_padding, every, target),
            ("no peeking", masks.causal, target, target),
            ("target padding and no peeking", masks.conjunction, target, target),
        ):
            values = visible.float().tolist()
            panels.append(Matrix(f"{row + 1}: {title}", rows, columns, values, "query", "key", "visible"))
    names = [
        f"{number}: {pair.source_text} → {pair.target_text}{'' if pair.is_forced else ' (decoded)'}"
        for number, pair in enumerate(pairs, start=1)
    ]
    explanation = (
        "Made by translate/model/masks.py, with which the model is trained. Coloured: this query (row) may see that key"
        " (column). Padding masks have one row, for it is the same for all queries. A position of padding is a query"
        " too, but nobody looks at what comes of it."
    )
    return Picture("The masks of a batch", [*names, explanation], panels, columns=4)


def make_masks(source_ids: Tensor, target_input_ids: Tensor) -> list[Masks]:
    """The masks of each sentence of a batch."""
    source_padding = padding_visible(source_ids, pad_id=PAD_ID)[:, 0]
    target_padding = padding_visible(target_input_ids, pad_id=PAD_ID)[:, 0]
    causal = causal_visible(target_input_ids.shape[1])[0, 0]
    conjunction = target_visible(target_input_ids, pad_id=PAD_ID)
    assert isinstance(conjunction, Tensor)
    return [
        Masks(source_padding[row], target_padding[row], causal, conjunction[row, 0]) for row in range(len(source_ids))
    ]
