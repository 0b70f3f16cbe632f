"""The masks of a batch of sentences, from the functions that the model uses."""

from collections.abc import Sequence

from torch import Tensor

from translate.data.batching import collate
from translate.data.tokenizer import PAD_ID
from translate.decoding import Translator
from translate.errors import InputError
from translate.model.masks import causal_visible, padding_visible, target_visible
from translate.visualize.panels import Matrix, Picture, check_numbers
from translate.visualize.sentences import read_sentence


def masks_picture(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> Picture:
    """Matrices of the masks of sentences that are padded to one batch, labelled with their tokens.

    Args:
        targets: A translation for each sentence; empty: they are decoded.

    Raises:
        InputError: The numbers of sentences and translations differ, a text cannot be read as a sentence, or the masks
            are too large for a picture.
    """
    if targets and len(targets) != len(sources):
        counts = f"sentences: {len(sources)}, --target: {len(targets)}"
        raise InputError(f"{counts}; give one per sentence, in order, or none")
    given: Sequence[str | None] = targets or [None] * len(sources)
    pairs = [read_sentence(translator, text, target=target) for text, target in zip(sources, given, strict=True)]
    columns, rows = (max(len(getattr(pair, side).pieces) for pair in pairs) for side in ("source", "target_input"))
    what = f"{len(pairs)} sentences of up to {max(columns, rows)} tokens"
    check_numbers(len(pairs) * (3 * rows**2 + columns), of=what, less="give fewer or shorter ones")
    batch = collate([pair.ids for pair in pairs], range(len(pairs)))
    both = target_visible(batch.target_input_ids, pad_id=PAD_ID)
    assert isinstance(both, Tensor)
    masks = {
        "target padding mask": padding_visible(batch.target_input_ids, pad_id=PAD_ID).expand_as(both),
        "causal mask (no peeking)": causal_visible(rows).expand_as(both),
        "both: decoder self-attention": both,
    }
    panels = []
    for row in range(len(pairs)):
        target = translator.tokenizers.target.pieces(batch.target_input_ids[row].tolist())
        for title, mask in masks.items():
            values = mask[row, 0].float().tolist()
            panels.append(Matrix(f"{row + 1}: {title}", target, target, values, "query", "key", "visible"))
    for row, mask in enumerate(padding_visible(batch.source_ids, pad_id=PAD_ID)[:, 0].float().tolist()):
        source, title = translator.tokenizers.source.pieces(batch.source_ids[row].tolist()), "source padding mask"
        panels.append(Matrix(f"{row + 1}: {title}", ["every query"], source, mask, "query", "key", "visible"))
    made = "" if targets else " (decoded)"
    names = [f"{number}: {pair.source_text} → {pair.target_text}{made}" for number, pair in enumerate(pairs, start=1)]
    explanation = (
        "Made by translate/model/masks.py, as in training. Coloured: this query (row) may see that key (column). In the"
        " decoder's self-attention it may if both masks allow it: the key is not padding, and not in the future. The"
        " encoder's self-attention and cross-attention have the source padding mask only, the same for every query."
        " Padding positions are queries too, but their results are never used."
    )
    return Picture("The masks of a batch", [*names, explanation], panels, columns=3)
