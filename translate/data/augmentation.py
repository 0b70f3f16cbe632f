"""Pairs as people type them, at random: in capitals, without the full stop, with typos, with text to copy.

A model that has seen only clean text fails on such text; one that sees a little of it in each epoch does not.

Source: Belinkov and Bisk 2018, https://arxiv.org/abs/1711.02173 (what typos do to translation); Karpukhin et al. 2019,
https://arxiv.org/abs/1902.01509 (these four typos, on the source alone, help with real ones); Bogoychev et al. 2023,
https://arxiv.org/abs/2311.14838 (OpusTrainer's modifiers of case, typos and punctuation, by chance); Currey et al.
2017, https://aclanthology.org/W17-4715 (text that is its own translation teaches a model to copy).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from translate.config.data import Augmentation
from translate.config.languages import Languages
from translate.config.schema import Config
from translate.data.corpora import ParallelCorpus, read_corpus, store_pairs
from translate.data.tables import PairChunk
from translate.data.tokenizer import PLACEHOLDER_PIECES
from translate.placeholders import MARKUP, match_placeholders, replace_placeholders

# The changes of a pair are the bits of a number; the lowest two are the case: 1 upper, 2 title, 3 lower.
_NO_PUNCTUATION, _ASCII_UMLAUTS, _TYPOS, _COPY = 4, 8, 16, 32

_CHUNK_PAIRS = 1000  # drawn by one generator, where a corpus is changed once
_FINAL_PUNCTUATION = " .!?…。！？"
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"})
_TAG = re.compile(r"(?:(?:>>\S*?<<|<\S+?>)\s*)*")  # of a language or a corpus, before a source; perhaps empty
_FIRST_LETTER = re.compile(r"(?<!\w)(?<!\w['’])\w")  # of a word; don't is one word
_WORD = re.compile(r"[^\W\d_]{3,}")
_WORDS_PER_TYPO = 10
# What is copied: ~ and ^ are syllables, # a number, § a directive, and ☺ an emoji.
_COPIED = (
    "§ § § § § § {~~} {~~} {{~~~}} %(~)s ${~~} $~ ☺ ☺ ☺ # # #.# #.#.# ^ ^~ ^~~.~ ^# ~~@~.org ~.~~@~~.com https://~.org"
    " https://www.~~.com/~ https://~~.net/~/~~?~=# http://~~.~.org/~/~~~.html#~"
)
_SYLLABLES = ["".join(letters) for letters in product("bcdfghklmnprstvwz", "aeiou", "lmnrst")]
_PARTS = {
    "§": [piece for piece in PLACEHOLDER_PIECES if piece[0] != "<"],
    "☺": [*map(chr, (*range(0x1F300, 0x1F650), *range(0x1F680, 0x1F6C6), *range(0x1F90D, 0x1FA00), 0x2705, 0x274C))],
    "#": [str(number * number) for number in range(300)],
    "~": _SYLLABLES,
    "^": [*map(str.title, _SYLLABLES)],
}
_TAG_NAMES = [piece[2:-1] for piece in PLACEHOLDER_PIECES if piece.startswith("</")]


def draw_changes(augment: Augmentation | None, size: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Draw the changes of `size` pairs, for `change_pairs`; 0: none."""
    if augment is None:
        return np.zeros(size, dtype=np.uint8)
    draws = generator.random((5 if augment.copy else 4, size))  # the draws of older versions, and then more
    borders = np.cumsum([augment.upper_case, augment.title_case, augment.lower_case])
    changes = (np.searchsorted(borders, draws[0], side="right") + 1) % 4  # past the last border: 0, case unchanged
    changes += _NO_PUNCTUATION * (draws[1] < augment.drop_final_punctuation)
    changes += _ASCII_UMLAUTS * (draws[2] < augment.ascii_umlauts)
    changes += _TYPOS * (draws[3] < augment.typos)
    changes += _COPY * (draws[-1] < augment.copy)
    return changes.astype(np.uint8)


def change_pairs(
    sources: Sequence[str], targets: Sequence[str], changes: NDArray[np.uint8], generator: np.random.Generator
) -> PairChunk:
    """Make the changes that `draw_changes` has drawn; the generator draws the typos and what is copied."""
    pairs = [
        _change(source, target, change, generator) if change else (source, target)
        for source, target, change in zip(sources, targets, changes.tolist(), strict=True)
    ]
    return PairChunk([source for source, _ in pairs], [target for _, target in pairs])


def augment_corpus(corpus: ParallelCorpus, *, with_noise: bool = True) -> ParallelCorpus:
    """Change the pairs of a corpus once, each line in the same way in every run; see `store_pairs`.

    Args:
        with_noise: Whether typos are made, and random text is copied.
    """
    if corpus.augment is None:
        return corpus
    augment = corpus.augment if with_noise else corpus.augment.model_copy(update={"typos": 0.0, "copy": 0.0})

    def chunks() -> Iterator[PairChunk]:
        for first in range(0, len(corpus.sources), _CHUNK_PAIRS):
            generator = np.random.Generator(np.random.PCG64(first))
            sources, targets = (side[first : first + _CHUNK_PAIRS] for side in (corpus.sources, corpus.targets))
            yield change_pairs(sources, targets, draw_changes(augment, len(sources), generator), generator)

    sources, targets = store_pairs(chunks(), name=corpus.name)
    return corpus._replace(sources=sources, targets=targets, augment=None)


def read_held_out(config: Config, keys: Iterable[str]) -> dict[str, ParallelCorpus]:
    """Read corpora to validate or test on, changed as their `augment` says; see `read_corpus` and `Languages.check`."""
    corpora, languages, read = config.data.corpora(), Languages(config.data), dict[str, ParallelCorpus]()
    for key in keys:
        languages.check(corpora[key], key=key, is_tuned=config.training.initialize_from is not None)
        read[key] = augment_corpus(read_corpus(corpora[key], key=key, languages=languages))
    return read


def _change(source: str, target: str, change: int, generator: np.random.Generator) -> tuple[str, str]:
    tags = _TAG.match(source)
    assert tags is not None
    source = source[tags.end() :]
    if change & _ASCII_UMLAUTS:
        source = source.translate(_UMLAUTS)
    if change & _TYPOS:
        source = add_typos(source, generator)
    if change & _NO_PUNCTUATION:
        without = source.rstrip(_FINAL_PUNCTUATION), target.rstrip(_FINAL_PUNCTUATION)
        if all(without) and without[0] != source.rstrip() and without[1] != target.rstrip():
            source, target = without
    set_case = (str, str.upper, title_case, str.lower)[change & 3]
    source, target, begin = set_case(source), set_case(target), tags[0]
    if change & _COPY:
        if begin and target.startswith(begin):  # text, as it is on both sides
            source, begin = begin + source, ""
        source, target = add_copies(source, target, generator)
    return begin + source, target


def add_copies(source: str, target: str, generator: np.random.Generator) -> tuple[str, str]:
    """Put the same random text into both sides, or tags around the same word, or make both sides of such text alone.

    A word that occurs once on each side shows which places belong together.
    """
    way, place = generator.integers(8), generator.integers(3)
    if way == 0:
        noise = " ".join(_draw_copied(generator) for _ in range(generator.integers(1, 4)))
        return noise, noise
    noise, tag, changed = _draw_copied(generator), _draw(_TAG_NAMES, generator), []
    words = [_find_words(side) for side in (source, target)]
    shared = sorted(words[0].keys() & words[1].keys())
    word = _draw(shared, generator) if shared else ""
    for side, spans in zip((source, target), words, strict=True):
        start, end = spans.get(word, (0, len(side)))
        new = f"<{tag}>{side[start:end]}</{tag}>" if way < 3 else noise
        if way > 5 or (way > 2 and not word):  # at an end, or before the final punctuation
            start = end = (0, len(side.rstrip(f"{_FINAL_PUNCTUATION}:：")), len(side))[place]
            new = f" {noise}" if place else f"{noise} "
        changed.append(side[:start] + new + side[end:])
    return changed[0], changed[1]


def _find_words(text: str) -> dict[str, tuple[int, int]]:
    """Where a text has the placeholders, numbers and capitalised words that occur once in it."""
    found = [match for match in match_placeholders(text) if match.lastgroup not in MARKUP]
    words = re.finditer(r"\w+", replace_placeholders(text, lambda match: " " * len(match[0])))
    found += (match for match in words if match[0][0].isupper() or not match[0].isalpha())
    counts = Counter(match[0] for match in found)
    return {match[0]: match.span() for match in found if counts[match[0]] == 1}


def _draw(choices: Sequence[str], generator: np.random.Generator) -> str:
    return choices[int(generator.integers(len(choices)))]


def _draw_copied(generator: np.random.Generator) -> str:
    """A random placeholder, emoji, URL, e-mail address, number or name."""
    return re.sub("[~^#§☺]", lambda part: _draw(_PARTS[part[0]], generator), _draw(_COPIED.split(), generator))


def title_case(text: str) -> str:
    """Capitalise the first letter of each word, and leave the others as they are."""
    return _FIRST_LETTER.sub(lambda letter: letter[0].title(), text)


def add_typos(text: str, generator: np.random.Generator) -> str:
    """Swap, delete, insert or replace a letter in a tenth of the words, at least in one, but never the first letter.

    New letters are drawn from the text itself, so they belong to its script.
    """
    words = list(_WORD.finditer(text))
    if not words:
        return text
    count = min(len(words), max(1, round(len(text.split()) / _WORDS_PER_TYPO)))
    for number in sorted(generator.choice(len(words), size=count, replace=False).tolist(), reverse=True):
        word, others = words[number][0], words[int(generator.integers(len(words)))][0]
        place = int(generator.integers(1, len(word) - 1))
        letter = others[int(generator.integers(len(others)))].lower()
        before, after = word[:place], word[place + 1 :]
        edits = (
            before + after[0] + word[place] + after[1:],
            before + after,
            before + letter + word[place] + after,
            before + letter + after,
        )
        start, end = words[number].span()
        text = text[:start] + edits[int(generator.integers(4))] + text[end:]
    return text
