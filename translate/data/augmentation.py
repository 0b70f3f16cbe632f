"""Pairs as people type them, at random: in capitals, without the full stop, with typos.

A model that has seen only clean text fails on such text; one that sees a little of it in each epoch does not.

Source: Belinkov and Bisk 2018, https://arxiv.org/abs/1711.02173 (what typos do to translation); Karpukhin et al. 2019,
https://arxiv.org/abs/1902.01509 (these four typos, on the source alone, help with real ones); Bogoychev et al. 2023,
https://arxiv.org/abs/2311.14838 (OpusTrainer's modifiers of case, typos and punctuation, by chance).
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from translate.config.data import Augmentation
from translate.config.languages import Languages
from translate.config.schema import Config
from translate.data.corpora import ParallelCorpus, read_corpus, store_pairs
from translate.data.tables import PairChunk

# The changes of a pair are the bits of a number; the lowest two are the case: 1 upper, 2 title, 3 lower.
_NO_PUNCTUATION, _ASCII_UMLAUTS, _TYPOS = 4, 8, 16

_CHUNK_PAIRS = 1000  # drawn by one generator, where a corpus is changed once
_FINAL_PUNCTUATION = " .!?…。！？"
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"})
_TAG = re.compile(r"(?:(?:>>\S*?<<|<\S+?>)\s*)*")  # of a language or a corpus, before a source; perhaps empty
_FIRST_LETTER = re.compile(r"(?<!\w)(?<!\w['’])\w")  # of a word; don't is one word
_WORD = re.compile(r"[^\W\d_]{3,}")
_WORDS_PER_TYPO = 10


def draw_changes(augment: Augmentation | None, size: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Draw the changes of `size` pairs, for `change_pairs`; 0: none."""
    if augment is None:
        return np.zeros(size, dtype=np.uint8)
    draws = generator.random((4, size))
    borders = np.cumsum([augment.upper_case, augment.title_case, augment.lower_case])
    changes = (np.searchsorted(borders, draws[0], side="right") + 1) % 4  # past the last border: 0, case unchanged
    changes += _NO_PUNCTUATION * (draws[1] < augment.drop_final_punctuation)
    changes += _ASCII_UMLAUTS * (draws[2] < augment.ascii_umlauts)
    changes += _TYPOS * (draws[3] < augment.typos)
    return changes.astype(np.uint8)


def change_pairs(
    sources: Sequence[str], targets: Sequence[str], changes: NDArray[np.uint8], generator: np.random.Generator
) -> PairChunk:
    """Make the changes that `draw_changes` has drawn; the generator draws the typos."""
    pairs = [
        _change(source, target, change, generator) if change else (source, target)
        for source, target, change in zip(sources, targets, changes.tolist(), strict=True)
    ]
    return PairChunk([source for source, _ in pairs], [target for _, target in pairs])


def augment_corpus(corpus: ParallelCorpus, *, with_typos: bool = True) -> ParallelCorpus:
    """Change the pairs of a corpus once, each line in the same way in every run; see `store_pairs`."""
    if corpus.augment is None:
        return corpus
    augment = corpus.augment if with_typos else corpus.augment.model_copy(update={"typos": 0.0})

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
    return tags[0] + set_case(source), set_case(target)


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
