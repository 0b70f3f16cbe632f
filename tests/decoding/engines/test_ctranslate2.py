"""What only CTranslate2 does: precisions, scores that are left out, what it leaves to our own search, its errors."""

import math
from functools import partial
from typing import Any

import pytest
from harness import MakeTranslator, Toy

from translate.decoding import loading
from translate.decoding.engines import ctranslate2 as engine
from translate.decoding.engines.engine import SearchJob
from translate.decoding.engines.own import OwnEngine
from translate.decoding.request import SearchInput
from translate.errors import RunError

pytestmark = pytest.mark.usefixtures("no_shape_checks")

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[SearchInput]:
    """The inputs that our own search gets."""
    seen: list[SearchInput] = []
    real = OwnEngine.search

    def search(self: OwnEngine, job: SearchJob) -> None:
        seen.extend(job.inputs)
        real(self, job)

    monkeypatch.setattr(OwnEngine, "search", search)
    return seen


def test_what_the_exported_table_is_too_short_for_is_ours(
    toy: Toy,
    converted: MakeTranslator,
    own: MakeTranslator,
    searched: list[SearchInput],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source with more positions, or one whose translation may have more."""
    monkeypatch.setattr(engine, "position_limit", lambda *_: 41)
    lines = ["Hund", "Hund " * 21, "", "Hund " * 12, "Haus"]  # 2 tokens each
    texts = [each.text for each in converted(beam_size=1).translate(lines)]
    assert [each.source for each in searched] == ["Hund " * 21, "Hund " * 12]
    assert texts == [each.text for each in own(beam_size=1).translate(lines)]


@pytest.mark.parametrize("options", [{}, {"max_length_factor": 0.4, "max_length_constant": 3}])
def test_greedy_search_without_scores_is_the_same(
    toy: Toy, converted: MakeTranslator, own: MakeTranslator, options: dict[str, Any]
) -> None:
    """Our own search is not needed for what has reached its own maximum: it is cut there."""
    lines = ["", *toy.sources]
    ours = own(beam_size=1, **options).translate(lines)
    theirs = converted(beam_size=1, token_scores=False, **options).translate(lines)
    assert [(each.ids, each.text, each.truncated) for each in theirs] == [
        (each.ids, each.text, each.truncated) for each in ours
    ]
    assert any(each.truncated for each in theirs) == bool(options)
    assert not any(each.token_log_probs for each in theirs) and math.isnan(theirs[1].score)


def test_int8(toy: Toy, converted: MakeTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, real = list[Any](), ctranslate2.Translator

    def load(*arguments: Any, **options: Any) -> Any:
        loaded.append(real(*arguments, **options))
        return loaded[-1]

    monkeypatch.setattr(ctranslate2, "Translator", load)
    translations = converted(precision="int8").translate(toy.sources)
    assert any(each.compute_type.startswith("int8") for each in loaded)
    right = sum(each.text == wanted for each, wanted in zip(translations, toy.references, strict=True))
    assert right > len(toy.references) / 4


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_a_conversion_that_cannot_be_loaded(
    toy: Toy,
    converted: MakeTranslator,
    own: MakeTranslator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception],
) -> None:
    """It is an error if CTranslate2 is asked for by name; `auto` searches with our own model."""

    def fail(*arguments: Any, **options: Any) -> Any:
        raise error("no such thing")

    converted()  # so that it is converted
    monkeypatch.setattr(ctranslate2, "Translator", fail)
    monkeypatch.setattr(loading, "FEW_LINES", 1)
    with pytest.raises(RunError, match=rf"^{toy.path}/export/.* cpu in bf16: no such thing"):
        converted(precision="bf16")
    automatic, ours = (
        make(beam_size=1).translate(toy.sources[:3]) for make in (partial(converted, engine="auto"), own)
    )
    assert [found.text for found in automatic] == [found.text for found in ours]
    assert caplog.messages[-1].startswith("Searching without CTranslate2: ")
