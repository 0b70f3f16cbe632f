"""From settings and wishes to a plan of search: which continuations are chosen, and which rules they keep to."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from translate.config import DecodingConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, Tokenizer
from translate.decoding.constraints.allocation import RequiredPhrases, begins_word_table
from translate.decoding.processors.rules import (
    ForbiddenPhrases,
    ForcedPrefix,
    MinimumLength,
    NoRepeatedNgrams,
    RepetitionPenalty,
    Rule,
    leaves_word_open_table,
)
from translate.decoding.request import SearchInput
from translate.decoding.search.beam import Choose, choose_best
from translate.decoding.search.diverse import DiverseGroups
from translate.decoding.search.loop import Plan, Sentences
from translate.decoding.search.sampling import TokenSampler
from translate.decoding.search.scoring import build_scoring, minimum_lengths
from translate.errors import InputError


class WordTables(NamedTuple):
    """Where words begin and end, by target token."""

    begins_word: Bool[Tensor, " vocab"]
    leaves_word_open: Bool[Tensor, " vocab"]


def build_word_tables(tokenizer: Tokenizer) -> WordTables:
    """The tables of a target vocabulary."""
    return WordTables(begins_word_table(tokenizer), leaves_word_open_table(tokenizer))


def build_plan(
    config: DecodingConfig,
    inputs: Sequence[SearchInput],
    sentences: Sentences,
    *,
    forbidden: Sequence[Sequence[int]],
    words: WordTables,
    device: torch.device,
) -> Plan:
    """The plan of a search through all `inputs`.

    Raises:
        InputError: Settings and wishes that cannot go together.
    """
    for each in inputs:
        if any(phrase in forbidden for phrase in each.phrase_ids):
            raise InputError(f"line {each.line + 1}: a phrase is both required and forbidden")
    vocab_size = len(words.begins_word)
    words = WordTables(*(table.to(device) for table in words))
    max_lengths = torch.tensor(sentences.max_lengths, device=device)
    rules: list[Rule] = []
    min_lengths = minimum_lengths(torch.tensor(sentences.source_lengths, device=device), config)
    if min_lengths.any():
        rules.append(MinimumLength(min_lengths, end_id=EOS_ID))
    if any(each.prefix_ids for each in inputs):
        prefixes = [each.prefix_ids for each in inputs]
        rules.append(ForcedPrefix(prefixes, end_id=EOS_ID, vocab_size=vocab_size, device=device))
    if forbidden:
        rules.append(ForbiddenPhrases(forbidden, **words._asdict(), max_lengths=max_lengths))
    if config.no_repeat_ngram:
        rules.append(NoRepeatedNgrams(config.no_repeat_ngram))
    if config.repetition_penalty > 1.0:
        rules.append(RepetitionPenalty(config.repetition_penalty))
    num_slots = _num_slots(config)
    return Plan(
        beam_size=num_slots,
        scoring=build_scoring(config),
        start_id=BOS_ID,
        end_id=EOS_ID,
        vocab_size=vocab_size,
        num_best=num_slots if config.search == "sample" or config.mbr != "none" else config.n_best,
        num_groups=config.diversity_groups if config.search == "beam" else 1,
        num_open=num_slots if config.search == "sample" else 1,
        choose=_build_choose(config, inputs, words, device=device),
        rules=tuple(rules),
        has_coverage=config.coverage_penalty > 0,
    )


def _num_slots(config: DecodingConfig) -> int:
    """Hypotheses for each sentence."""
    if config.search == "beam":
        return config.beam_size
    return config.n_best if config.mbr == "none" else config.mbr_candidates


def _build_choose(
    config: DecodingConfig, inputs: Sequence[SearchInput], words: WordTables, *, device: torch.device
) -> Choose:
    has_required = any(each.phrase_ids for each in inputs)
    is_plain = config.search == "beam" and config.diversity_groups == 1
    if has_required and not is_plain:
        raise InputError("required words need decoding.search = beam and decoding.diversity_groups = 1")
    if has_required:
        phrases = [each.phrase_ids for each in inputs]
        return RequiredPhrases(phrases, begins_word=words.begins_word, end_id=EOS_ID, device=device)
    if config.search == "sample":
        numbers = torch.tensor([each.line + (each.piece << 32) for each in inputs], device=device)
        return TokenSampler(
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            epsilon=config.epsilon,
            seed=config.seed,
            lines=numbers,
        )
    if config.diversity_groups > 1:
        return DiverseGroups(config.diversity_groups, strength=config.diversity_strength)
    return choose_best
