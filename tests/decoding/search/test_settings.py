"""From a config and constraints to the settings of a search: which selection, which processors, how many slots."""

import contextlib
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
from translate.decoding.search.settings import build_search_settings
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


CONTINUES = WordTables(
    torch.arange(11) < 9, torch.arange(11) != 8, torch.arange(11)
)  # 9 and 10 continue a word, and 8 ends any


@pytest.mark.parametrize(
    ("required", "forbidden", "is_contradiction"),
    [
        ([5], [5], True),
        ([5, 6], [5], True),
        ([7, 5, 6], [5, 6], True),
        ([5, 9], [5], False),  # another word
        ([5, 9, 5], [5], True),
        ([8, 9], [8], True),
        ([5], [5, 6], False),
    ],
)
def test_what_is_required_and_forbidden(required: list[int], forbidden: list[int], is_contradiction: bool) -> None:
    for given, name in (
        (PLAIN._replace(phrases=("a b",), phrase_ids=[required]), "'a b'"),
        (PLAIN._replace(prefix_ids=required), "the prefix"),
    ):
        refused = pytest.raises(InputError, match=f"^line 7: {name} is required and contains a forbidden phrase$")
        with refused if is_contradiction else contextlib.nullcontext():
            build(PLAIN, given, forbidden=([4], forbidden), words=CONTINUES)


def test_a_prefix_that_other_settings_forbid() -> None:
    with pytest.raises(InputError, match="^line 7: the prefix is required"):
        build(PLAIN._replace(prefix_ids=[5, 9]), forbidden_ids=[[7], [5]], words=CONTINUES)  # exactly these ids
    build(PLAIN._replace(prefix_ids=[5, 6, 5]), no_repeat_ngram=2)
    with pytest.raises(InputError, match="^line 7: the prefix repeats .*decoding.no_repeat_ngram = 2"):
        build(PLAIN._replace(prefix_ids=[5, 6, 5, 6]), no_repeat_ngram=2)
    phrases = PLAIN._replace(phrases=["a", "b"], phrase_ids=[[5, 6, 7], [6, 5]])
    build(phrases, no_repeat_ngram=2)
    for ids in ([6, 7], [8, 9, 8, 9]):  # across both phrases, and in one of them
        with pytest.raises(InputError, match="^line 7: what is required, 'a', 'b', repeats .*no_repeat_ngram = 2"):
            build(phrases._replace(phrase_ids=[[5, 6, 7], ids]), no_repeat_ngram=2)
