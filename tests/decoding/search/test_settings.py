"""From a config and constraints to the settings of a search: which selection, which processors, how many slots."""

from typing import Any

import pytest
import torch

from translate.config.decoding import DecodingConfig
from translate.data.tokenizer import BOS_ID, EOS_ID
from translate.decoding.constraints.phrases import RequiredPhrases, WordTables
from translate.decoding.request import SearchInput
from translate.decoding.search.beam import select_best
from translate.decoding.search.loop import SearchSettings
from translate.decoding.search.processors import (
    ForbiddenPhrases,
    ForcedPrefix,
    MinimumLength,
    NoRepeatedNgrams,
    RepetitionPenalty,
)
from translate.decoding.search.sampling import TokenSampler
from translate.decoding.search.settings import build_search_settings, maximum_lengths
from translate.errors import InputError

WORDS = WordTables(torch.ones(11, dtype=torch.bool), torch.zeros(11, dtype=torch.bool), torch.arange(11))
PLAIN = SearchInput(line=6, piece=0, source="", source_ids=[5, 7], source_truncated=False)


def build(
    *inputs: SearchInput, forbidden: tuple[list[int], ...] = (), words: WordTables = WORDS, **options: Any
) -> SearchSettings:
    config = DecodingConfig.model_validate(options)
    device = torch.device("cpu")
    return build_search_settings(config, inputs or (PLAIN,), forbidden=forbidden, words=words, device=device)


def test_nothing_but_a_beam_by_default() -> None:
    settings = build(beam_size=7)
    assert (settings.beam_size, settings.num_best, settings.num_open) == (7, 1, 1)
    assert build(beam_size=7, n_best=3).num_best == 7  # some of them may spell the same text
    assert (settings.start_id, settings.end_id) == (BOS_ID, EOS_ID)
    assert settings.select_candidates is select_best and settings.processors == ()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"min_length_factor": 0.5}, MinimumLength),
        ({"min_length_constant": 1}, MinimumLength),
        ({"no_repeat_ngram": 3}, NoRepeatedNgrams),
        ({"repetition_penalty": 1.1}, RepetitionPenalty),
        ({"forbidden": ([5],)}, ForbiddenPhrases),
        ({"forbidden_ids": [[5]]}, ForbiddenPhrases),
    ],
)
def test_each_option_has_its_processor(options: dict[str, Any], kind: type) -> None:
    assert [type(processor) for processor in build(**options).processors] == [kind]


def test_a_prefix_of_any_sentence_has_a_processor_and_the_penalty_comes_last() -> None:
    """The penalty copies the scores, in which the others have forbidden tokens in place."""
    assert [type(each) for each in build(PLAIN, PLAIN._replace(prefix_ids=[5])).processors] == [ForcedPrefix]
    processors = build(repetition_penalty=1.1, no_repeat_ngram=2, min_length_constant=1, forbidden=([5],)).processors
    assert isinstance(processors[-1], RepetitionPenalty) and len(processors) == 4


def test_minimum_lengths_by_hand() -> None:
    """The source's end symbol counts."""
    inputs = [PLAIN._replace(source_ids=[5] * number) for number in (0, 1, 6)]
    (processor,) = build(*inputs, min_length_factor=0.5, min_length_constant=2).processors
    assert isinstance(processor, MinimumLength) and processor.min_lengths.tolist() == [2, 3, 5]


def test_samples_are_slots_of_their_own() -> None:
    settings = build(search="sample", n_best=5)
    assert (settings.beam_size, settings.num_best, settings.num_open) == (5, 5, 5)
    settings = build(search="sample", mbr="chrf", mbr_candidates=13)
    assert (settings.beam_size, settings.num_best, settings.num_open) == (13, 13, 13)
    assert isinstance(settings.select_candidates, TokenSampler)


def test_the_line_and_the_piece_seed_samples() -> None:
    select = build(PLAIN, PLAIN._replace(piece=2), search="sample").select_candidates
    assert isinstance(select, TokenSampler) and select.lines.tolist() == [6, 6 + 2 * 2**32]


def test_required_phrases() -> None:
    required = PLAIN._replace(phrases=("a",), phrase_ids=[[5]])
    assert isinstance(build(PLAIN, required).select_candidates, RequiredPhrases)
    with pytest.raises(InputError, match=r"need decoding\.search = beam"):
        build(PLAIN, required, search="sample")


def test_maximum_lengths_by_hand() -> None:
    config = DecodingConfig(max_length_factor=1.5, max_length_constant=3, length_penalty=0.0)
    source_tokens = torch.tensor([1, 2, 7])
    assert maximum_lengths(source_tokens, config, position_limit=None).tolist() == [4, 6, 13]
    assert maximum_lengths(source_tokens, config, position_limit=5).tolist() == [4, 5, 5]
    longer = config.model_copy(update={"min_length_factor": 1.0, "min_length_constant": 4})  # and the end symbol
    assert maximum_lengths(source_tokens, longer, position_limit=None).tolist() == [6, 7, 13]
    after = maximum_lengths(source_tokens, config, position_limit=11, prefix_tokens=torch.tensor([0, 5, 2]))
    assert after.tolist() == [4, 11, 11]
