"""Signs that the wrong texts are scored, or in the wrong way: one file given twice, sides swapped, no translation."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

from translate.evaluation.metrics import References, list_references
from translate.trigrams import are_in_different_languages, explain_unspaced

_FEW_LINES = 10  # so few may be equal, or look like another language, by chance
_NEARLY_ALL = 0.98


def find_mistakes(
    systems: Mapping[str, Sequence[str]],
    references: References,
    sources: Sequence[str] | None = None,
    bleu_tokenizer: str = "13a",
    *,
    translated_here: Collection[str] = (),
) -> Iterator[str]:
    """Warnings about texts that were probably not meant to be scored against each other; none for a few lines.

    Args:
        systems: The translations of each system, by its name.
        translated_here: The systems whose translations a model has just made: they may equal their references.
    """
    first, *others = listed = list_references(references)
    if len(first) < _FEW_LINES:
        return
    if problem := explain_unspaced(first, bleu_tokenizer):
        yield f"{problem}; score with --tokenize zh for Chinese, ja-mecab for Japanese, or char"
    known = {f"reference {number}": lines for number, lines in enumerate(listed, 1)}
    known = known if others else {"the references": first}
    texts = {**systems, **known, **({} if sources is None else {"the sources": sources})}
    for (name, lines), (other, other_lines) in combinations(texts.items(), 2):
        num_equal = sum(map(str.__eq__, lines, other_lines))
        is_learnt = other in known and name in translated_here
        share = 0.5 if other == "the sources" else _NEARLY_ALL
        if num_equal >= share * len(lines) and not is_learnt:
            guess = "are they translated?" if other == "the sources" and name in systems else "is one text given twice?"
            yield f"{num_equal:,} of {len(lines):,} lines of {name} are equal to those of {other}: {guess}"
        elif other in known and are_in_different_languages(lines, other_lines):
            guess = "is it the right file, and are the sources and the references not swapped?"
            yield f"{name} seems to be in a different language from {other}: {guess}"
