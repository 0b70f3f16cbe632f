"""The alignment that carries markup over: how much each word of a translation attends to each word of its source."""

from collections.abc import Iterator, Sequence

from translate.decoding import Translation, Translator
from translate.documents.transfer import Weights, diagonal


def word_weights(translator: Translator, translations: Sequence[Translation]) -> Iterator[Weights]:
    """Yield the cross-attention between the words of each translation and of its source, as spaces divide them.

    Weights on end symbols are left out. Where the tokenizer finds other words than spaces do, for instance because it
    normalizes the text, the alignment is the diagonal.
    """
    for translation, attention in translator.attend(translations):
        rows, num_sources = attention.rows, attention.num_sources
        is_same = (num_sources, len(rows)) == (len(translation.source.split()), len(translation.text.split()))
        yield rows if is_same else diagonal(translation.text, translation.source)
