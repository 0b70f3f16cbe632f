"""What the vocabulary makes of the text, and whether the search may write sentences as long as the references."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from translate.config import Config
from translate.data.tokenizer import Tokenizers
from translate.decoding.search.scoring import maximum_lengths
from translate.lint.corpora import Survey
from translate.lint.sample import Sample
from translate.lint.settings import Finding
from translate.lint.spelling import examine_spelling, examine_vocabulary
from translate.lint.suspicions import Unit

_NUM_CHARACTERS = 10
_RARE_SHARE = 0.5
_UNUSED_SHARE = 0.25
_FEW_ENTRIES = 100  # of which nothing can be spared


class EncodedPairs(NamedTuple):
    """The inspected part of a corpus as tokens."""

    source_ids: list[list[int]]
    target_ids: list[list[int]]


class SideSpelling(NamedTuple):
    """One side of a corpus, as far as it was inspected."""

    side: str  # source or target
    num_tokens: int
    num_byte_tokens: int
    num_unknown_tokens: int
    num_lines: int  # with a character that the vocabulary has no entry for
    first_line: int | None  # counted from 1
    characters: dict[str, int]  # the most frequent ones: in how many lines


SpellingReport = tuple[SideSpelling, SideSpelling]


class VocabularyReport(NamedTuple):
    """How much of a vocabulary training uses; special symbols and bytes are not counted."""

    name: str  # joint, source or target
    size: int  # these counted
    num_entries: int
    num_unused: int
    num_rare: int  # fewer than 10 times in training, unused ones too


def encode_sample(sample: Sample, tokenizers: Tokenizers) -> EncodedPairs:
    """The tokens of both sides."""
    num_threads = torch.get_num_threads()
    return EncodedPairs(
        tokenizers.source.encode_lines(sample.sources, num_threads=num_threads),
        tokenizers.target.encode_lines(sample.targets, num_threads=num_threads),
    )


def report_spelling(sample: Sample, encoded: EncodedPairs, tokenizers: Tokenizers) -> SpellingReport:
    """How both sides of a corpus are spelt."""
    source, target = (
        SideSpelling(
            side,
            spelling.num_tokens,
            spelling.num_byte_tokens,
            spelling.num_unknown_tokens,
            len(spelling.lines),
            int(sample.numbers[spelling.lines[0]]) + 1 if len(spelling.lines) else None,
            dict(spelling.characters[:_NUM_CHARACTERS]),
        )
        for side, spelling in (
            ("source", examine_spelling(sample.sources, encoded.source_ids, tokenizers.source)),
            ("target", examine_spelling(sample.targets, encoded.target_ids, tokenizers.target)),
        )
    )
    return source, target


def spelling_findings(key: str, report: SpellingReport, *, unit: Unit) -> list[Finding]:
    """Characters without an entry: lost ones are a warning from one token of a thousand on, bytes from one of fifty."""
    findings = []
    for side in report:
        num_odd = side.num_unknown_tokens + side.num_byte_tokens
        if not num_odd:
            continue
        is_lost = side.num_unknown_tokens > 0
        share = num_odd / side.num_tokens
        shown = " ".join(_shown_character(character) for character in side.characters)
        findings.append(
            Finding(
                "warning" if share >= (0.001 if is_lost else 0.02) else "note",
                "unknown_characters" if is_lost else "characters_in_bytes",
                f"{key}: {num_odd:,} of {side.num_tokens:,} {side.side} tokens ({share:.2%}), in {side.num_lines:,}"
                f" {unit}{'s' * (side.num_lines > 1)}, the first {side.first_line:,}, "
                + ("stand for characters that the vocabulary cannot spell" if is_lost else "are bytes")
                + f": {shown}",
                "set tokenizer.byte_fallback=true or tokenizer.character_coverage=1"
                if is_lost
                else "nothing is lost, but a byte tells a model little; text for the tokenizer should have them",
            )
        )
    return findings


def report_vocabularies(
    encoded: Sequence[EncodedPairs], tokenizers: Tokenizers, *, share: float
) -> tuple[VocabularyReport, ...]:
    """How much of each vocabulary the training text uses.

    Args:
        share: Of the training corpora that was encoded, 0 to 1.
    """
    sources, targets = [each.source_ids for each in encoded], [each.target_ids for each in encoded]
    if tokenizers.vocabulary == "joint":
        parts = [("joint", tokenizers.source, sources + targets)]
    else:
        parts = [("source", tokenizers.source, sources), ("target", tokenizers.target, targets)]
    return tuple(
        VocabularyReport(name, tokenizer.vocab_size, *examine_vocabulary(*sides, tokenizer=tokenizer, share=share))
        for name, tokenizer, sides in parts
    )


def vocabulary_findings(vocabularies: Sequence[VocabularyReport], config: Config) -> list[Finding]:
    """Vocabularies of other text, or too large for it: entries that hardly occur are not learnt.

    That a few entries never occur is usual: BPE keeps the halves of what it merges.

    Gowda and May 2020 (https://aclanthology.org/2020.findings-emnlp.352) want 100 occurrences of 95 % of the entries;
    corpora of Multi30k's size do well with less, so what is told here is ten times as bad.
    """
    findings = []
    for vocabulary in vocabularies:
        is_ready_made = config.tokenizer.source_model is not None
        if is_ready_made and vocabulary.num_unused > _UNUSED_SHARE * vocabulary.num_entries:
            findings.append(
                Finding(
                    "warning",
                    "vocabulary_unused",
                    f"{vocabulary.num_unused:,} of {vocabulary.num_entries:,} entries of the {vocabulary.name}"
                    " vocabulary never occur in training",
                    "train a tokenizer on this corpus: set tokenizer.source_model=null",
                )
            )
        elif vocabulary.num_entries >= _FEW_ENTRIES and vocabulary.num_rare > _RARE_SHARE * vocabulary.num_entries:
            findings.append(
                Finding(
                    "warning",
                    "vocabulary_large_for_corpus",
                    f"{vocabulary.num_rare:,} of {vocabulary.num_entries:,} entries of the {vocabulary.name} vocabulary"
                    " occur fewer than 10 times in training, too seldom to be learnt",
                    f"halve tokenizer.vocab_size = {config.tokenizer.vocab_size}",
                )
            )
    return findings


def short_limits(config: Config, survey: Survey, tokenizers: Tokenizers) -> list[Finding]:
    """References of a held-out corpus that the search is not allowed to reach in length."""
    corpus, decoding = survey.corpus, config.decoding
    source_lengths = [len(tokenizers.source.encode(line)) + 1 for line in corpus.sources]
    limits = maximum_lengths(torch.tensor(source_lengths), decoding, max_positions=None).tolist()
    over = [
        number
        for number, (limit, line) in enumerate(zip(limits, corpus.targets, strict=True), start=1)
        if len(tokenizers.target.encode(line)) + 1 > limit
    ]
    if not over:
        return []
    return [
        Finding(
            "warning" if len(over) >= 0.01 * len(limits) else "note",
            "decoding_too_short",
            f"{survey.key}: {len(over):,} of {len(limits):,} references, the first on {survey.unit} {over[0]:,}, have"
            f" more tokens than decoding.max_length_factor = {decoding.max_length_factor:g} and"
            f" decoding.max_length_constant = {decoding.max_length_constant} allow",
            "raise decoding.max_length_constant, or look whether these are translations",
        )
    ]


def _shown_character(character: str) -> str:
    return f"{character} (U+{ord(character):04X})" if character.isprintable() else f"U+{ord(character):04X}"
