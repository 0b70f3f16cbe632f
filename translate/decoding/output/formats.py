"""Translations as lines of output: text, n-best lists as Moses writes them, or JSON; alignments go beside them."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from translate.decoding.output.records import align_translations, describe, moses_n_best
from translate.decoding.request import Translation

OutputFormat = Literal["text", "jsonl"]


def format_translations(
    translations: Iterable[Translation],
    translator: Any,
    *,
    output_format: OutputFormat,
    write_alignment: Callable[[str], None] | None = None,
    first_number: int = 0,
) -> Iterator[str]:
    """The lines to write, without line ends.

    Args:
        translator: That made them; for text without alignments, any that has its settings in `config`.
        write_alignment: Gets each translation's alignment, before its lines are given; None: none is wanted.
        first_number: Of the first translation among all, from 0.
    """
    if output_format == "text" and write_alignment is None:
        for number, translation in enumerate(translations, start=first_number):
            yield from _text_lines(translation, n_best=translator.config.n_best, number=number)
        return
    for number, aligned in enumerate(align_translations(translator, translations), start=first_number):
        if write_alignment is not None:
            write_alignment(aligned.alignment)
        if output_format == "jsonl":
            yield json.dumps(describe(aligned, translator, number=number + 1), ensure_ascii=False)
        else:
            yield from _text_lines(aligned.translation, n_best=translator.config.n_best, number=number)


def _text_lines(translation: Translation, *, n_best: int, number: int) -> Iterator[str]:
    """The translation alone, or the n-best list that was asked for."""
    if n_best > 1:
        yield from moses_n_best(translation, number=number)
    else:
        yield translation.text
