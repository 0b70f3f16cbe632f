"""The text as tokens: lengths, characters without an entry, and how well the vocabulary suits the text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.config.schema import Config
from translate.data.token_store import flatten
from translate.data.tokenizer import BYTE_PIECE, UNK_ID, Tokenizer, Tokenizers
from translate.lint.corpora import Sample, Survey
from translate.lint.findings import Finding, Severity
from translate.lint.misalignment import TokenIds, count_items
from translate.trigrams import count_words, explain_unspaced

_NUM_SPECIAL = 4  # PAD, UNK, BOS, EOS
_MAX_EXAMINED_LINES = 1000  # for the characters' names; the counts of tokens are of all lines
_NUM_CHARACTERS = 10
_MUCH_LOST = 0.25  # of the tokens; a word without any known letter is one or two tokens
_RARE_COUNT = 10  # an entry with fewer occurrences is rare
_RARE_SHARE = 0.5
_FEW_ENTRIES = 100  # so few that all are needed
_OWN_TOKENIZER = "train a tokenizer on this corpus: set tokenizer.source_model=null"
MUCH_NORMALIZED, LITTLE_NORMALIZED = 0.05, 0.001  # shares of the targets


class VocabularyReport(NamedTuple):
    """How much of a vocabulary training uses; special symbols and bytes do not count as entries."""

    name: str  # joint, source or target
    size: int  # with special symbols and bytes
    num_entries: int
    num_unused: int
    num_rare: int  # with fewer than 10 occurrences in training, unused ones included
    subwords_per_word: float | None  # None: words are not separated by spaces


class Lengths(NamedTuple):
    """Tokens per training sentence on one side, without special symbols."""

    side: str  # source or target
    mean: float
    usual: int  # 99 % of the sentences have no more
    longest: int


def measure_lengths(side: str, ids: TokenIds) -> Lengths:
    """The lengths of the sentences on one side."""
    lengths = count_items(ids)
    return Lengths(side, float(lengths.mean()), int(np.quantile(lengths, 0.99, method="lower")), int(lengths.max()))


def spelling_findings(
    config: Config, survey: Survey, sample: Sample, ids: Sequence[TokenIds], tokenizers: Tokenizers
) -> Iterator[Finding]:
    """Findings about characters that the vocabulary has no entry for.

    If they are lost, they are a warning from 0.1 % of the tokens on, and an error from a quarter on, as in a script
    that the vocabulary does not cover; if they are spelt as bytes, a warning from 2 % on.

    Args:
        ids: The tokens of the sample's sources, and of its targets.
    """
    for side, lines, side_ids, tokenizer in zip(("source", "target"), sample[1:], ids, tokenizers[:2], strict=True):
        tokens = flatten(side_ids).ids
        is_odd = _byte_ids(tokenizer) | (np.arange(tokenizer.vocab_size) == UNK_ID)
        odd_lines = np.unique(np.repeat(np.arange(len(lines)), count_items(side_ids))[is_odd[tokens]])
        if not len(odd_lines):
            continue
        characters = Counter(chain.from_iterable(set(lines[line]) for line in odd_lines[:_MAX_EXAMINED_LINES].tolist()))
        by_count = sorted(characters, key=lambda character: (-characters[character], character))
        odd = [character for character in by_count if is_odd[tokenizer.encode(character)].any()]
        is_lost = bool((tokens == UNK_ID).any())
        name, threshold, what = "characters_in_bytes", 0.02, "are bytes"
        hint = "nothing is lost, but bytes carry little meaning; train the tokenizer on text with these characters"
        if is_lost:
            name, threshold, what = "unknown_characters", 0.001, "are unknown characters, which are lost"
            hint = "train a tokenizer on this text, with tokenizer.byte_fallback=true or tokenizer.character_coverage=1"
        if config.training.initialize_from is not None:
            hint = "tokenizer.add_characters=true adds the training text's characters to the vocabulary"
        num_odd = int(is_odd[tokens].sum())
        share = num_odd / len(tokens)
        is_error = is_lost and share >= _MUCH_LOST
        severity: Severity = "error" if is_error else "warning" if share >= threshold else "note"
        shown = " ".join(map(_with_code, odd[:_NUM_CHARACTERS]))
        units = f"{survey.unit}{'s' * (len(odd_lines) > 1)}"
        where = f"{len(odd_lines):,} {units}, the first {int(sample.numbers[odd_lines[0]]) + 1:,}"
        counts = f"{num_odd:,} of {len(tokens):,} {side} tokens ({share:.2%})"
        message = f"{survey.key}: {counts}, in {where}, {what}: {shown}"
        yield Finding(severity, name, message, hint)


def examine_vocabularies(
    tokenizers: Tokenizers, ids: Sequence[TokenIds], lines: Sequence[Sequence[str]], *, share: float
) -> list[VocabularyReport]:
    """How much of each vocabulary the training text uses.

    Args:
        ids: Token ids of the sources, and of the targets.
        lines: The same text.
        share: The part of the training corpora that this text is, 0 to 1; rare entries are estimated for the whole.
    """
    sides = [*zip(("source", "target"), (tokenizers.source, tokenizers.target), ids, lines, strict=True)]
    if tokenizers.vocabulary == "joint":
        sides = [("joint", tokenizers.source, [*chain(*ids)], [*chain(*lines)])]
    reports = []
    for name, tokenizer, own_ids, own_lines in sides:
        tokens = flatten(own_ids).ids
        counts = np.bincount(tokens, minlength=tokenizer.vocab_size)
        counts = counts[_NUM_SPECIAL:][~_byte_ids(tokenizer)[_NUM_SPECIAL:]]
        num_unused, num_rare = int((counts == 0).sum()), int((counts < _RARE_COUNT * share).sum())
        num_words = count_words(own_lines)
        subwords = len(tokens) / num_words if num_words else None
        numbers = tokenizer.vocab_size, len(counts), num_unused, num_rare, subwords
        reports.append(VocabularyReport(name, *numbers))
    return reports


def vocabulary_findings(vocabularies: Sequence[VocabularyReport], config: Config) -> Iterator[Finding]:
    """Findings about vocabularies that come from other text, or are so large that many entries are rare.

    A few entries that never occur are normal: BPE keeps the halves of what it merges. Gowda and May 2020
    (https://aclanthology.org/2020.findings-emnlp.352) ask for 100 occurrences of 95 % of the entries. Corpora of
    Multi30k's size do well with less, so the limits here are ten times lower.
    """
    for vocabulary in vocabularies:
        num_entries = vocabulary.num_entries
        entries = f"of {num_entries:,} entries of the {vocabulary.name} vocabulary"
        if num_entries >= _FEW_ENTRIES and vocabulary.num_rare > _RARE_SHARE * num_entries:
            rare = f"occur fewer than {_RARE_COUNT} times in training, too rarely to be learnt"
            halve = f"halve tokenizer.vocab_size = {config.tokenizer.vocab_size}"
            hint = halve if config.tokenizer.source_model is None else _OWN_TOKENIZER
            yield Finding("warning", "vocabulary_large_for_corpus", f"{vocabulary.num_rare:,} {entries} {rare}", hint)


def find_normalized(lines: Sequence[str], normalized: Sequence[str]) -> tuple[list[int], Counter[str]]:
    """The positions of lines that normalisation changes beyond white space, and how many of them lose a character."""
    changed, lost = list[int](), Counter[str]()
    for position, (line, other) in enumerate(zip(lines, normalized, strict=True)):
        if "".join(line.split()) != "".join(other.replace("▁", " ").split()):
            changed.append(position)
            lost.update({*line} - {*other, " "})
    return changed, lost


def normalization_findings(config: Config, survey: Survey, sample: Sample, tokenizer: Tokenizer) -> Iterator[Finding]:
    """Targets of training that the tokenizer changes before segmentation: the model cannot write what they lose."""
    changed, lost = find_normalized(sample.targets, tokenizer.normalize(sample.targets))
    if (share := len(changed) / len(sample.targets)) < LITTLE_NORMALIZED:
        return
    shown = " ".join(_with_code(character) for character, _ in lost.most_common(_NUM_CHARACTERS))
    message = (
        f"{survey.key}: normalisation changes {len(changed):,} of {len(sample.targets):,} targets, the first on"
        f" {survey.unit} {int(sample.numbers[changed[0]]) + 1:,}, and the model will never write {shown}"
    )
    is_given = config.tokenizer.source_model is not None or config.training.initialize_from is not None
    hint = "train a new model with its own tokenizer" if is_given else "set tokenizer.normalization=identity"
    hint += " if translations should keep these characters"
    yield Finding("warning" if share >= MUCH_NORMALIZED else "note", "targets_normalized", message, hint)


def bleu_findings(config: Config, survey: Survey) -> Iterator[Finding]:
    """A held-out corpus whose references BLEU's tokenizer cannot split into words."""
    if problem := explain_unspaced(survey.corpus.targets, config.evaluation.bleu_tokenizer):
        hint = "set evaluation.bleu_tokenizer=zh for Chinese, ja-mecab for Japanese, or char"
        yield Finding("warning", "bleu_without_spaces", f"{survey.key}: {problem}", hint)


def _with_code(character: str) -> str:
    code = f"U+{ord(character):04X}"
    return f"{character} ({code})" if character.isprintable() else code


def _byte_ids(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Which ids are bytes: entries such as `<0x41>`."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return np.array([BYTE_PIECE.fullmatch(piece) is not None for piece in pieces])
