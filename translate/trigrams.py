"""Tells two languages apart by the trigrams of characters in their texts: which of two texts does a line look like?

No list of languages is needed: the trigrams of each text model its language, and a line that is far likelier under the
other text's model is in the other language, or in one like it.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from translate.language_codes import is_chinese

_BUCKETS_BITS = 18  # trigrams are hashed to 262,144 buckets; a corpus has some tens of thousands of trigrams
_ADDED = 0.5  # added to each count, so that an unseen trigram is unlikely, not impossible
_CHUNK_LINES = 5_000
_MAX_CHARACTERS = 1000  # per line; more do not help, and this bounds the memory for a chunk

# Measured on Multi30k and the embedded corpus, with their validation and test sets, 44,000 pairs: no clean line is
# reported as the other side's; of lines in the wrong language, 1 to 30 % of all, 95 to 100 % are found, and every line
# of a held-out set whose sides are swapped. Nearest to the threshold are two clean lines of 13.6 and 10.4 nats, "Bill
# Cunningham in den Straßen von New York City." and one like it.
_MIN_NATS = 15.0
_MIN_NATS_A_CHARACTER = 0.1
FEW_PAIRS = 200  # fewer pairs are not enough to learn a language's trigrams
_NEARLY_ALL, _NEARLY_NONE = 0.9, 0.05  # of the lines of texts in different languages, and in the same
# Of the words of a thousand lines of Multi30k, at most 20 % occur in a thousand lines in another of its four languages,
# and at least 50 % of the embedded corpus's words in those of the same language.
_FEW_KNOWN_WORDS = 0.25
_LONGEST_WORDS = 15.0  # characters per word, on average; more mean that words are not separated by spaces

TrigramCounts = tuple[NDArray[np.float64], NDArray[np.float64]]
"""How often each trigram occurs on the two sides of a corpus: a model of its languages."""


# Scripts that do not separate words by spaces: Thai to Myanmar, Khmer, kana and Han, Yi, and Han beyond.
_UNSPACED = re.compile(
    "[\u0e01-\u109f\u1780-\u17ff\u3040-\u312f\u3400-\u9fff\ua000-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff]"
)


def count_words(lines: Sequence[str]) -> int:
    """The number of words in some lines; 0: they are not separated by spaces, judging by the script or their length."""
    num_words, num_characters = sum(len(line.split()) for line in lines), sum(map(len, lines))
    num_unspaced = sum(len(_UNSPACED.findall(line)) for line in lines if not line.isascii())
    is_unspaced = num_unspaced > num_characters / 3 or num_characters > _LONGEST_WORDS * num_words
    return 0 if is_unspaced else num_words


def choose_bleu_tokenizer(language: str, lines: Sequence[str]) -> str | None:
    """SacreBLEU's tokenizer for text without spaces between words; None: the text has them."""
    if count_words(lines):
        return None
    return "zh" if is_chinese(language) else "char"


def explain_unspaced(references: Sequence[str], bleu_tokenizer: str) -> str | None:
    """Why BLEU cannot score references without spaces, such as Chinese; None if BLEU's tokenizer suits them."""
    if bleu_tokenizer not in ("13a", "intl", "none") or count_words(references):
        return None
    return (
        f"the references have no spaces between words, so BLEU's tokenizer {bleu_tokenizer} takes whole clauses for"
        " words: the score stays near 0, however good the translations are"
    )


def learn_languages(sources: Sequence[str], targets: Sequence[str]) -> TrigramCounts | None:
    """The languages of a corpus; None: it is too small."""
    return None if len(sources) < FEW_PAIRS else (count_trigrams(sources), count_trigrams(targets))


def count_trigrams(lines: Sequence[str]) -> NDArray[np.float64]:
    """How often each trigram occurs in some lines: a model of their language."""
    counts = np.zeros(1 << _BUCKETS_BITS)
    for buckets, _ in _hash_trigrams(lines):
        counts += np.bincount(buckets, minlength=len(counts))
    return counts


def share_like_other(lines: Sequence[str], own: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The share of lines that are far likelier under the other language than under their own."""
    return float(_are_in_other(lines, own, other, is_own=False).mean()) if len(lines) else 0.0


def is_other_side(lines: Sequence[str], sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Whether most lines of a text that should be in the source language look like the targets."""
    languages = learn_languages(sources, targets)
    return languages is not None and share_like_other(lines, *languages) > 0.5


def are_in_different_languages(lines: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two texts seem to be in different languages; False if they are too short to tell.

    Trigrams also tell a weak model's few phrases from a text in the same language; its words are in that text, though.
    """
    is_unlike = min(_shares_of_own(lines, others) or (0.0,)) > _NEARLY_ALL
    return is_unlike and _share_of_known_words(lines, others) < _FEW_KNOWN_WORDS


def _share_of_known_words(lines: Sequence[str], others: Sequence[str]) -> float:
    """The share of a text's words that occur in another text; of its characters if there are no spaces."""
    divide = str.split if count_words(lines) else list
    known = {word for line in others for word in divide(line.casefold())}
    words = [word for line in lines for word in divide(line.casefold())]
    return sum(word in known for word in words) / max(len(words), 1)


def are_in_one_language(lines: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two texts seem to be in the same language; False if they are too short to tell."""
    return max(_shares_of_own(lines, others) or (1.0,)) < _NEARLY_NONE


def _shares_of_own(lines: Sequence[str], others: Sequence[str]) -> list[float] | None:
    """For each of two texts the share of its odd lines that are far likelier with its even lines than with the other's.

    None: the texts are too short, or one only repeats itself, as the output of an untrained model does.
    """
    # Without empty lines: in double-spaced text, they would be all the odd ones.
    lines, others = ([line for line in text if line.strip()] for text in (lines, others))
    languages = learn_languages(lines[::2], others[::2])
    if languages is None or 2 * len({*lines}) < len(lines):
        return None
    sides = (lines, languages[::-1]), (others, languages)
    return [share_like_other(text[1::2], *models) for text, models in sides]


def find_wrong_languages(
    sources: Sequence[str], targets: Sequence[str], languages: TrigramCounts, *, is_own: tuple[bool, bool]
) -> dict[str, NDArray[np.int64]]:
    """Positions of lines that look like the other side, by naive Bayes on trigrams of characters.

    Copies may be among them. If both sides are in the same language (as in paraphrasing), nothing is found.

    Args:
        languages: The languages that the sides should be in.
        is_own: Whether each language was learnt from these lines; if so, each line is left out of its own counts.
    """
    return {
        "source_like_target": np.flatnonzero(_are_in_other(sources, *languages, is_own=is_own[0])),
        "target_like_source": np.flatnonzero(_are_in_other(targets, *languages[::-1], is_own=is_own[1])),
    }


def _are_in_other(
    lines: Sequence[str], own: NDArray[np.float64], other: NDArray[np.float64], *, is_own: bool
) -> NDArray[np.bool_]:
    """Which lines are far likelier under the other language than under their own."""
    smoothing = _ADDED * len(own)
    rest = np.maximum(own - 1.0, 0.0) if is_own else own
    own_log = np.log(rest + _ADDED) - np.log(own.sum() + smoothing)
    other_log = np.log(other + _ADDED) - np.log(other.sum() + smoothing)
    # A trigram that occurs on neither side does not tell the two apart.
    difference = np.where((rest > 0.0) | (other > 0.0), other_log - own_log, 0.0)
    parts = []
    for buckets, lengths in _hash_trigrams(lines):
        line_of_trigram = np.repeat(np.arange(len(lengths)), lengths)[:-2]
        evidence = np.bincount(line_of_trigram, difference[buckets], minlength=len(lengths))
        parts.append((evidence > _MIN_NATS) & (evidence > _MIN_NATS_A_CHARACTER * lengths))
    return np.concatenate(parts)


def _hash_trigrams(lines: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield for each chunk of lines the bucket of each trigram, and the number per line (the last has two less).

    Each line is lowercased, with two spaces before it and one after; trigrams across its end belong to it.
    """
    for first in range(0, len(lines), _CHUNK_LINES):
        framed = [f"  {line[:_MAX_CHARACTERS].casefold()} " for line in lines[first : first + _CHUNK_LINES]]
        lengths = np.fromiter(map(len, framed), dtype=np.int64, count=len(framed))
        letters = np.frombuffer("".join(framed).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
        # Multiply and shift: three odd constants whose bits are spread, and one more round.
        mixed = (
            letters[:-2] * np.uint64(0x9E3779B97F4A7C15)
            + letters[1:-1] * np.uint64(0xC2B2AE3D27D4EB4F)
            + letters[2:] * np.uint64(0x165667B19E3779F9)
        )
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        yield (mixed >> np.uint64(64 - _BUCKETS_BITS)).astype(np.int64), lengths
