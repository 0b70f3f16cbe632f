"""From a config and the constraints on sentences to the settings of a search."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import BOS_ID, EOS_ID
from translate.decoding.constraints.phrases import RequiredPhrases, WordTables
from translate.decoding.request import SearchInput
from translate.decoding.search import processors
from translate.decoding.search.beam import Scoring, SelectCandidates, select_best
from translate.decoding.search.loop import LogitsProcessor, SearchSettings
from translate.decoding.search.sampling import TokenSampler
from translate.errors import InputError
from translate.model.device import copy_to_device


def build_search_settings(
    config: DecodingConfig,
    inputs: Sequence[SearchInput],
    *,
    forbidden: Sequence[Sequence[int]],
    words: WordTables,
    device: torch.device,
) -> SearchSettings:
    """The settings of a search through all `inputs`, for translations without any of the `forbidden` phrases.

    Raises:
        InputError: Phrases are required of samples.
    """
    words = WordTables(*(copy_to_device(table, device) for table in words))
    applied: list[LogitsProcessor] = []
    source_lengths = torch.tensor([len(given.source_ids) + 1 for given in inputs])
    min_lengths = minimum_lengths(source_lengths, config)
    if min_lengths.any():
        applied.append(processors.MinimumLength(copy_to_device(min_lengths, device), end_id=EOS_ID))
    if any(given.prefix_ids for given in inputs):
        applied.append(processors.ForcedPrefix([given.prefix_ids for given in inputs], device=device))
    if forbidden:
        applied.append(processors.ForbiddenPhrases(forbidden, words))
    if config.forbidden_ids:
        anywhere = words._replace(leaves_word_open=torch.zeros_like(words.leaves_word_open))  # even within a word
        applied.append(processors.ForbiddenPhrases(config.forbidden_ids, anywhere))
    if config.no_repeat_ngram:
        applied.append(processors.NoRepeatedNgrams(config.no_repeat_ngram))
    if config.repetition_penalty > 1.0:
        applied.append(processors.RepetitionPenalty(config.repetition_penalty))
    is_sampled = config.search == "sample"
    num_samples = config.n_best if config.mbr == "none" else config.mbr_candidates
    beam_size = num_samples if is_sampled else config.beam_size
    # For an n-best list the search keeps all hypotheses, because several may spell the same text.
    keeps_all = is_sampled or config.mbr != "none" or config.n_best > 1
    return SearchSettings(
        beam_size=beam_size,
        scoring=build_scoring(config),
        start_id=BOS_ID,
        end_id=EOS_ID,
        num_best=beam_size if keeps_all else 1,
        num_open=beam_size if is_sampled else 1,
        select_candidates=_build_selection(config, inputs, words, device=device),
        processors=tuple(applied),
    )


def _build_selection(
    config: DecodingConfig, inputs: Sequence[SearchInput], words: WordTables, *, device: torch.device
) -> SelectCandidates:
    if any(given.phrase_ids for given in inputs):
        if config.search != "beam":
            raise InputError("required words need decoding.search = beam")
        return RequiredPhrases([given.phrase_ids for given in inputs], words=words, end_id=EOS_ID)
    if config.search == "sample":
        numbers = [given.line + (given.piece << 32) for given in inputs]
        return TokenSampler(
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            epsilon=config.epsilon,
            seed=config.seed,
            lines=copy_to_device(torch.tensor(numbers), device),
        )
    return select_best


def build_scoring(config: DecodingConfig) -> Scoring:
    """The scoring that a config names."""
    return Scoring(config.length_penalty_kind, config.length_penalty, config.patience)


def minimum_lengths(source_tokens: Int[Tensor, " batch"], config: DecodingConfig) -> Int[Tensor, " batch"]:
    """The fewest tokens that each translation may have, without its end symbol."""
    return (source_tokens * config.min_length_factor).long() + config.min_length_constant


def maximum_lengths(
    source_tokens: Int[Tensor, " batch"],
    config: DecodingConfig,
    *,
    position_limit: int | None,
    prefix_tokens: Int[Tensor, " batch"] | int = 0,
) -> Int[Tensor, " batch"]:
    """The most tokens that each translation may have, with its prefix and end symbol; at least its minimum length.

    Args:
        position_limit: The number of positions that the models have; None: no limit.
    """
    lengths = (source_tokens * config.max_length_factor).long() + config.max_length_constant + prefix_tokens
    lengths = torch.maximum(lengths, minimum_lengths(source_tokens, config) + 1)
    return lengths if position_limit is None else lengths.clamp(max=position_limit)
