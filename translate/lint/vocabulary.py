"""The text as tokens: lengths, characters without an entry, fit of the vocabulary, references that are too long."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from translate.config.data import HubCorpus
from translate.config.schema import Config
from translate.config.yaml import shown_path
from translate.data.augmentation import read_held_out
from translate.data.corpora import join_texts
from translate.data.token_store import flatten
from translate.data.tokenizer import BYTE_PIECE, UNK_ID, Tokenizer, Tokenizers
from translate.decoding.search.settings import maximum_lengths
from translate.errors import InputError
from translate.lint.corpora import Sample, Survey
from translate.lint.findings import Finding, Severity, Unit
from translate.lint.misalignment import Ints, TokenIds, count_items
from translate.lint.settings import read_initial_config
from translate.trigrams import count_words, explain_unspaced

# Upper ends of the histogram's columns, in tokens; the last column has none.
HISTOGRAM_ENDS = (0, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500)
_NUM_SPECIAL = 4  # PAD, UNK, BOS, EOS
_MAX_EXAMINED_LINES = 1000  # for the characters' names; the counts of tokens are of all lines
_NUM_CHARACTERS = 10
_RARE_COUNT = 10  # an entry with fewer occurrences is rare
_RARE_SHARE = 0.5
_UNUSED_SHARE = 0.25
_FEW_ENTRIES = 100  # so few that all are needed
_MANY_SUBWORDS = 2.5  # per word; Multi30k has 3.0 with a vocabulary of 500, and 1.3 with 8,000
_MORE_SUBWORDS = 1.25  # in fine-tuning: subwords per word, relative to the run's own text
_OWN_TOKENIZER = "train a tokenizer on this corpus: set tokenizer.source_model=null"
_LEARNT_COUNT = 400  # an entry can still be learnt from half as many occurrences
MUCH_NORMALIZED, _LITTLE_NORMALIZED = 0.05, 0.001  # shares of the targets


class SideSpelling(NamedTuple):
    """How one side of a corpus is spelt."""

    side: str  # source or target
    num_tokens: int
    num_byte_tokens: int  # one per byte of characters without an entry
    num_unknown_tokens: int  # for characters that are lost
    num_lines: int  # with a character that the vocabulary has no entry for
    first_line: int | None  # counted from 1
    characters: dict[str, int]  # the most frequent of these characters, with their numbers of lines
    script: str | None = None  # of most of its letters, if they have no entries


class VocabularyReport(NamedTuple):
    """How much of a vocabulary training uses; special symbols and bytes do not count as entries."""

    name: str  # joint, source or target
    size: int  # with special symbols and bytes
    num_entries: int
    num_unused: int
    num_rare: int  # with fewer than 10 occurrences in training, unused ones included
    median_count: float  # occurrences in training: half of the entries have more
    subwords_per_word: float | None  # None: words are not separated by spaces


class Lengths(NamedTuple):
    """Tokens of the training sentences, without special symbols."""

    source_histogram: tuple[int, ...]  # number of sentences up to each of `ends`, and longer ones
    target_histogram: tuple[int, ...]
    mean_source: float
    mean_target: float
    longest_source: int
    longest_target: int
    ends: tuple[int, ...] = HISTOGRAM_ENDS


def measure_lengths(sources: Ints, targets: Ints) -> Lengths:
    """The histograms, means and maxima of both sides' numbers of tokens."""
    source_histogram, target_histogram = (
        tuple(np.bincount(np.searchsorted(HISTOGRAM_ENDS, side), minlength=len(HISTOGRAM_ENDS) + 1).tolist())
        for side in (sources, targets)
    )
    means, maxima = (float(sources.mean()), float(targets.mean())), (int(sources.max()), int(targets.max()))
    return Lengths(source_histogram, target_histogram, *means, *maxima)


def examine_spelling(
    side: str, lines: Sequence[str], ids: TokenIds, tokenizer: Tokenizer, *, numbers: Ints
) -> SideSpelling:
    """Count the tokens for characters without an entry, and list these characters.

    Args:
        numbers: The position of each line in the corpus.
    """
    is_byte, tokens = _byte_ids(tokenizer), flatten(ids).ids
    is_odd = is_byte | (np.arange(tokenizer.vocab_size) == UNK_ID)
    odd_lines = np.unique(np.repeat(np.arange(len(lines)), count_items(ids))[is_odd[tokens]])
    characters = Counter(chain.from_iterable(set(lines[line]) for line in odd_lines[:_MAX_EXAMINED_LINES].tolist()))
    by_count = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    odd = [item for item in by_count if is_odd[tokenizer.encode(item[0])].any()]
    first_line = int(numbers[odd_lines[0]]) + 1 if len(odd_lines) else None
    letters, odd_letters = (sum(n for each, n in items if each.isalpha()) for items in (by_count, odd))
    script = None
    if len(odd_lines) > len(lines) / 2 and odd_letters > letters / 2:
        script = unicodedata.name(next(each for each, _ in odd if each.isalpha()), "?").partition(" ")[0].title()
    counts = len(tokens), int(is_byte[tokens].sum()), int((tokens == UNK_ID).sum()), len(odd_lines)
    return SideSpelling(side, *counts, first_line, dict(odd[:_NUM_CHARACTERS]), script)


def spelling_findings(
    key: str, spelling: Sequence[SideSpelling], *, unit: Unit, is_fine_tuning: bool = False, is_given: bool = False
) -> Iterator[Finding]:
    """Findings about characters without an entry.

    They are a warning from 0.1 % of the tokens on if they are lost, and from 2 % on if they are spelt as bytes. If most
    letters of a script are lost, that is an error.

    Args:
        is_given: Whether the tokenizer is `tokenizer.source_model`.
    """
    for side in spelling:
        if not side.num_lines:
            continue
        name, threshold, what = "characters_in_bytes", 0.02, "are bytes"
        hint = "nothing is lost, but bytes carry little meaning; train the tokenizer on text with these characters"
        if side.num_unknown_tokens:
            name, threshold, what = "unknown_characters", 0.001, "are unknown characters, which are lost"
            ours = "set tokenizer.byte_fallback=true or tokenizer.character_coverage=1"
            hint = _OWN_TOKENIZER if is_given else ours
        if is_fine_tuning:
            hint = "tokenizer.add_characters=true adds the training text's characters to the vocabulary"
        num_odd = side.num_unknown_tokens + side.num_byte_tokens
        share = num_odd / side.num_tokens
        shown = " ".join(map(_with_code, side.characters))
        lines = f"{side.num_lines:,} {unit}{'s' * (side.num_lines > 1)}, the first {side.first_line:,}"
        tokens = f"{num_odd:,} of {side.num_tokens:,} {side.side} tokens ({share:.2%})"
        message = f"{key}: {tokens}, in {lines}, {what}: {shown}"
        severity: Severity = "warning" if share >= threshold else "note"
        if side.script is not None:
            message += f". The vocabulary does not cover the {side.script} script"
            name, severity = "script_not_covered", "error" if side.num_unknown_tokens else "warning"
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
        median = float(np.median(counts)) / share
        num_words = count_words(own_lines)
        subwords = len(tokens) / num_words if num_words else None
        numbers = tokenizer.vocab_size, len(counts), num_unused, num_rare, median, subwords
        reports.append(VocabularyReport(name, *numbers))
    return reports


def vocabulary_findings(vocabularies: Sequence[VocabularyReport], config: Config) -> Iterator[Finding]:
    """Vocabularies that were trained on other text, or are too large or too small for this text.

    Entries that hardly occur are not learnt. With few entries, all are frequent, but sentences are long and slow; the
    text supports a larger vocabulary if half of the entries would stay frequent when split in two.

    A few entries that never occur are normal: BPE keeps the halves of what it merges. Gowda and May 2020
    (https://aclanthology.org/2020.findings-emnlp.352) ask for 100 occurrences of 95 % of the entries. Corpora of
    Multi30k's size do well with less, so the limits here are ten times lower.
    """
    for vocabulary in vocabularies:
        num_entries = vocabulary.num_entries
        entries = f"of {num_entries:,} entries of the {vocabulary.name} vocabulary"
        if config.tokenizer.source_model is not None and vocabulary.num_unused > _UNUSED_SHARE * num_entries:
            message = f"{vocabulary.num_unused:,} {entries} never occur in training"
            yield Finding("warning", "vocabulary_unused", message, _OWN_TOKENIZER)
        elif num_entries >= _FEW_ENTRIES and vocabulary.num_rare > _RARE_SHARE * num_entries:
            rare = f"occur fewer than {_RARE_COUNT} times in training, too rarely to be learnt"
            halve = f"halve tokenizer.vocab_size = {config.tokenizer.vocab_size}"
            hint = halve if config.tokenizer.source_model is None else _OWN_TOKENIZER
            yield Finding("warning", "vocabulary_large_for_corpus", f"{vocabulary.num_rare:,} {entries} {rare}", hint)
        elif (
            (subwords := vocabulary.subwords_per_word or 0.0) > _MANY_SUBWORDS
            and config.tokenizer.source_model is None
            and vocabulary.median_count >= _LEARNT_COUNT
        ):
            message = (
                f"the {vocabulary.name} vocabulary has {subwords:.1f} subwords per word, so sentences are long and"
                f" slow; half of its {num_entries:,} entries occur {vocabulary.median_count:,.0f} times or more, so"
                " more entries could be learnt too"
            )
            hint = f"double tokenizer.vocab_size = {config.tokenizer.vocab_size}"
            yield Finding("warning", "vocabulary_small_for_corpus", message, hint)


def segmentation_findings(
    vocabularies: Sequence[VocabularyReport], config: Config, tokenizers: Tokenizers
) -> Iterator[Finding]:
    """Vocabularies of a fine-tuning that split words into many more subwords than in the initial run's validation."""
    assert config.training.initialize_from is not None
    run, own = shown_path(config.training.initialize_from), _own_subwords(config, tokenizers)
    for vocabulary in vocabularies:
        subwords, usual = vocabulary.subwords_per_word or 0.0, own.get(vocabulary.name)
        if subwords > (_MANY_SUBWORDS if usual is None else _MORE_SUBWORDS * usual):
            than = "" if usual is None else f", and {usual:.1f} in the run's own validation corpus"
            message = f"the {vocabulary.name} vocabulary of {run} has {subwords:.1f} subwords per word here{than}"
            message += ": sentences become longer, and words are spelt in parts that carry little meaning"
            hint = "add frequent terms with tokenizer.add_pieces, or train a new model with its own vocabulary"
            yield Finding("warning", "vocabulary_of_other_text", message, hint)


def _own_subwords(config: Config, tokenizers: Tokenizers) -> dict[str, float | None]:
    """Subwords per word in the initial run's validation corpus, by vocabulary; empty: its files do not exist."""
    initial = read_initial_config(config)
    own = initial.data.corpora("validation")
    if not own or any(isinstance(corpus, HubCorpus) for corpus in own.values()):  # might need a download
        return {}
    try:
        lines = join_texts(read_held_out(initial, own).values())
    except InputError:
        return {}
    sides = zip((tokenizers.source, tokenizers.target), lines, strict=True)
    ids = [tokenizer.encode_lines(side, num_threads=torch.get_num_threads()) for tokenizer, side in sides]
    return {each.name: each.subwords_per_word for each in examine_vocabularies(tokenizers, ids, lines, share=1.0)}


def find_normalized(lines: Sequence[str], normalized: Sequence[str]) -> tuple[list[int], Counter[str]]:
    """The positions of lines that normalisation changes beyond white space, and how many of them lose a character."""
    changed, lost = list[int](), Counter[str]()
    for position, (line, other) in enumerate(zip(lines, normalized, strict=True)):
        if "".join(line.split()) != "".join(other.replace("▁", " ").split()):
            changed.append(position)
            lost.update({*line} - {*other, " "})
    return changed, lost


def normalization_findings(survey: Survey, sample: Sample, tokenizer: Tokenizer, *, is_ours: bool) -> Iterator[Finding]:
    """Targets of training that the tokenizer changes before segmentation: the model cannot write what they lose.

    Args:
        is_ours: Whether this config trains the tokenizer.
    """
    changed, lost = find_normalized(sample.targets, tokenizer.normalize(sample.targets))
    if (share := len(changed) / len(sample.targets)) < _LITTLE_NORMALIZED:
        return
    shown = " ".join(_with_code(character) for character, _ in lost.most_common(_NUM_CHARACTERS))
    message = (
        f"{survey.key}: normalisation changes {len(changed):,} of {len(sample.targets):,} targets, the first on"
        f" {survey.unit} {int(sample.numbers[changed[0]]) + 1:,}, and the model will never write {shown}"
    )
    hint = "set tokenizer.normalization=identity" if is_ours else "train a new model with its own tokenizer"
    hint += " if translations should keep these characters"
    yield Finding("warning" if share >= MUCH_NORMALIZED else "note", "targets_normalized", message, hint)


def bleu_findings(config: Config, survey: Survey) -> Iterator[Finding]:
    """A held-out corpus whose references BLEU's tokenizer cannot split into words."""
    if problem := explain_unspaced(survey.corpus.targets, config.evaluation.bleu_tokenizer):
        hint = "set evaluation.bleu_tokenizer=zh for Chinese, ja-mecab for Japanese, or char"
        yield Finding("warning", "bleu_without_spaces", f"{survey.key}: {problem}", hint)


def long_references(config: Config, survey: Survey, tokenizers: Tokenizers) -> Iterator[Finding]:
    """References of a held-out corpus that are longer than the search may write."""
    corpus, decoding = survey.corpus, config.decoding
    sources, targets = (
        torch.from_numpy(count_items(tokenizer.encode_lines(lines, num_threads=torch.get_num_threads()))) + 1
        for tokenizer, lines in zip(tokenizers[:2], (corpus.sources, corpus.targets), strict=True)
    )
    over = (targets > maximum_lengths(sources, decoding, position_limit=None)).nonzero().flatten().tolist()
    if not over:
        return
    factor = f"decoding.max_length_factor = {decoding.max_length_factor:g}"
    message = (
        f"{survey.key}: {len(over):,} of {len(targets):,} references, the first on {survey.unit} {over[0] + 1:,}, have"
        f" more tokens than {factor} and decoding.max_length_constant = {decoding.max_length_constant} allow"
    )
    hint = "raise decoding.max_length_constant, or check whether these are translations"
    yield Finding("warning" if len(over) >= 0.01 * len(targets) else "note", "decoding_too_short", message, hint)


def _with_code(character: str) -> str:
    code = f"U+{ord(character):04X}"
    return f"{character} ({code})" if character.isprintable() else code


def _byte_ids(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Which ids are bytes: entries such as `<0x41>`."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    return np.array([BYTE_PIECE.fullmatch(piece) is not None for piece in pieces])
