"""The alignment that carries markup over: how much each word of a translation attends to each word of its source."""

from collections.abc import Iterator, Sequence

import torch

from translate.data.batching import EncodedPair
from translate.decoding import Translation, Translator
from translate.decoding.output.words import group_words
from translate.decoding.translator import read_buffers
from translate.documents.transfer import Weights, diagonal


def word_weights(translator: Translator, translations: Sequence[Translation]) -> Iterator[Weights]:
    """Yield the cross-attention of forced decoding between the words of each translation, as spaces divide them.

    Weights on end symbols are left out. Where the tokenizer finds other words than spaces do, because it normalizes
    the text for instance, the alignment is the diagonal.
    """
    tokenizers = translator.tokenizers
    for buffer in read_buffers(translations, max_items=translator.config.look_ahead_lines):
        parts = [part for translation in buffer for part in translation.parts]
        forced = iter(translator.force([EncodedPair(list(part.source_ids), list(part.ids)) for part in parts]))
        for translation in buffer:
            rows: list[dict[int, float]] = []
            num_sources = 0
            for part in translation.parts:
                attention = next(forced).attention[:-1, :-1]
                sources = group_words(tokenizers.source.pieces(part.source_ids))
                by_word = [attention[:, word.positions].sum(dim=1) for word in sources]
                table = torch.stack(by_word, dim=1) if by_word else attention
                targets = group_words(tokenizers.target.pieces(part.ids))
                shares = [table[word.positions].mean(dim=0).tolist() for word in targets]
                rows += [dict(enumerate(row, start=num_sources)) for row in shares]
                num_sources += len(sources)
            is_same = (num_sources, len(rows)) == (len(translation.source.split()), len(translation.text.split()))
            yield rows if is_same else diagonal(translation.text, translation.source)
