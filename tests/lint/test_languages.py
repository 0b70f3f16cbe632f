"""Lines in the wrong language are found where they are put in, and none in clean text."""

import random
import tempfile

import pytest
from harness import files_up_to, in_order

from translate.config.data import Direction
from translate.lint.languages import find_wrong_sides
from translate.trigrams import TrigramCounts, find_wrong_languages, is_other_side, learn_languages

Text = tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def languages(some: Text) -> TrigramCounts:
    learnt = learn_languages(*some)
    assert learnt is not None
    return learnt


def test_clean_text_is_in_its_languages(some: Text, held_out: Text, languages: TrigramCounts) -> None:
    assert [side.tolist() for side in find_wrong_languages(*some, languages, is_own=(True, True)).values()] == [[]] * 2
    assert [side.tolist() for side in find_wrong_languages(*held_out, languages, is_own=(False, False)).values()] == [
        []
    ] * 2


def test_lines_on_the_wrong_side(some: Text) -> None:
    sources, targets = list(some[0]), list(some[1])
    draw = random.Random(1)
    chosen = draw.sample(range(3000), 300)
    for line in chosen[:150]:
        sources[line] = some[1][(line + 100) % 3000]
    for line in chosen[150:]:
        targets[line] = some[0][(line + 100) % 3000]
    learnt = learn_languages(sources, targets)
    assert learnt is not None
    found = find_wrong_languages(sources, targets, learnt, is_own=(True, True))
    for positions, put_in in ((found["source_like_target"], chosen[:150]), (found["target_like_source"], chosen[150:])):
        assert set(positions.tolist()) <= set(put_in)
        assert len(positions) >= 0.95 * len(put_in)


def test_one_language_on_both_sides_and_too_few_lines(some: Text) -> None:
    learnt = learn_languages(some[1], some[1][::-1])
    assert learnt is not None
    found = find_wrong_languages(some[1], some[1][::-1], learnt, is_own=(True, True))
    assert [side.tolist() for side in found.values()] == [[]] * 2
    assert learn_languages(some[0][:199], some[1][:199]) is None


def test_a_text_of_the_other_side(some: Text, held_out: Text) -> None:
    assert is_other_side(held_out[1], *some)
    assert not is_other_side(held_out[0], *some)
    half = [*held_out[0][:100], *held_out[1][:90]]  # some lines are no reason
    assert not is_other_side(half, *some)
    assert not is_other_side([], *some)
    assert not is_other_side(held_out[1], some[0][:100], some[1][:100])  # too few to know the languages


def test_without_room_for_the_data_of_the_languages_a_note_says_so(some: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("py3langid.langid.IDENTIFIER", None)
    with files_up_to(10_000):
        [found] = find_wrong_sides("a", Direction("en", "de"), some, languages={"en", "de"})
    assert found.severity == "note" and in_order(found.message, "a: ", tempfile.gettempdir(), "File too large")


def test_text_says_which_language_it_is_in(some: Text) -> None:
    def found(source: str, target: str, sides: Text, *others: str) -> list[tuple[str, str]]:
        findings = find_wrong_sides("a", Direction(source, target), sides, languages={source, target, *others})
        return [(finding.severity, finding.message) for finding in findings]

    assert found("de", "en", some) == found("gsw", "und", some) == []  # no text of these is known
    for wrong in ("en", "de"), ("eng_Latn", "deu_Latn"):
        assert found(*wrong, some) == [
            ("error", f"a: its source should be {wrong[0]}, but looks like de"),
            ("error", f"a: its target should be {wrong[1]}, but looks like en"),
        ]
    assert found("de", "fr", some) == [("warning", "a: its target should be fr, but looks like en")]
    # Another corpus of the config is in English: this one would teach a wrong tag.
    assert found("de", "fr", some, "eng_Latn") == [("error", "a: its target should be fr, but looks like en")]
    assert found("en", "de", (some[0][:9], some[1][:9])) == []  # too little text to be certain
