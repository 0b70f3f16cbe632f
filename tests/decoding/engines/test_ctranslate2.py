"""What only CTranslate2 does: precisions, scores that are left out, what it leaves to our own search, its errors."""

import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import MakeTranslator, Toy, write_run

from translate.decoding import loading
from translate.decoding.engines import ctranslate2 as engine
from translate.decoding.engines.ctranslate2_conversion import convert_model
from translate.decoding.engines.engine import SearchJob
from translate.decoding.engines.own import OwnEngine
from translate.decoding.request import SearchInput
from translate.errors import InputError, RunError
from translate.fingerprint import fingerprint
from translate.runs.checksums import read_checksums, write_checksums
from translate.runs.run import open_run

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


def test_a_precision_that_this_machine_does_not_have(
    converted: MakeTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda *device: {"float32"})
    with pytest.raises(InputError, match="^device = cpu and precision = bf16: .* bfloat16 is not one of .*float32"):
        converted(precision="bf16")


@pytest.mark.parametrize(
    ("name", "old", "new", "precision"),
    [
        ("shared_vocabulary.json", rb"\[.*\]", b"[]", "fp32"),
        ("shared_vocabulary.json", b"[a-z]", b"x", "fp32"),
        ("config.json", b'("add_source_bos": )false', rb"\1-1", "fp32"),
        ("config.json", b'("layer_norm_epsilon": )', rb"\g<1>9", "int8"),
        ("model.bin", b".{99}$", b"", "int8"),
    ],
)
def test_a_damaged_conversion_whose_checksums_agree_is_made_again(
    toy: Toy,
    converted: MakeTranslator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    old: bytes,
    new: bytes,
    precision: str,
) -> None:
    run = write_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)
    folder = convert_model(open_run(run).load_model(), checkpoint="best")
    monkeypatch.setattr(loading, "FEW_LINES", 1)
    file, whole = folder / name, (folder / name).read_bytes()
    file.write_bytes(re.sub(old, new, whole, flags=re.DOTALL))
    write_checksums(folder, {**read_checksums(folder), name: fingerprint(file)})
    for kind in ("auto", "ctranslate2"):  # for auto it pays, as there is one already
        again = converted(run, engine=kind, precision=precision).translate(toy.sources[:3])
        assert again == converted(precision=precision).translate(toy.sources[:3])
    (message,) = caplog.messages
    assert str(folder) in message and message.endswith("converting it again")
    assert file.read_bytes() == whole


def test_a_conversion_that_never_works(
    toy: Toy,
    converted: MakeTranslator,
    own: MakeTranslator,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Asked for by name, it is an error; `auto` searches with our own model."""
    real = ctranslate2.Translator

    def fail(*arguments: Any, **options: Any) -> Any:
        if "device" in options:  # not the check of a conversion
            raise RuntimeError("no such file")
        return real(*arguments, **options)

    run = write_run(tmp_path / "run", toy.config, toy.tokenizers, toy.model)
    folder = convert_model(open_run(run).load_model(), checkpoint="best")
    monkeypatch.setattr(ctranslate2, "Translator", fail)
    monkeypatch.setattr(loading, "FEW_LINES", 1)
    with pytest.raises(RunError, match=rf"^{folder}: .* no such file.*--engine translate"):
        converted(run)
    ours, automatic = (
        make(beam_size=1).translate(toy.sources[:3]) for make in (own, partial(converted, run, engine="auto"))
    )
    assert [each.text for each in automatic] == [each.text for each in ours]
    assert caplog.messages[-1].startswith(f"Searching without CTranslate2: {folder}")
