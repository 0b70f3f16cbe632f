"""Memory that is refused while decoding, scoring or building: an error that says what was tried and what to lower."""

from typing import Any

import pytest
import torch

from translate.config import Config, DecodingConfig, ModelConfig
from translate.decoding import Translator, translator
from translate.errors import RunError
from translate.model.device import OutOfMemory, explain_out_of_memory
from translate.runs import build_model, loading

Toy = Any  # conftest.py's: test modules cannot import each other

REFUSAL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of …")
TOLD = r" \(CUDA out of memory. Tried to allocate 20.00 GiB\)\. "


def refuse(*arguments: object, **options: object) -> Any:
    raise REFUSAL


@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_without_memory(toy: Toy, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr(translator, "search", refuse)
    settings = DecodingConfig(device="cpu", batch_tokens=99, beam_size=3, workers=workers)
    with pytest.raises(
        RunError,
        match=r"^out of memory on the search for the translations of 17 texts of up to \d+ tokens" + TOLD + r"Lower"
        r" decoding\.batch_tokens \(now 99\), decoding\.beam_size \(now 3\) or decoding\.max_source_tokens"
        r" \(--max-source-tokens\)\.$",
    ):
        Translator(toy.model, toy.tokenizers, settings).translate(toy.sources[:17])


def test_a_scoring_without_memory(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = toy.tokenizers.target.encode("dog")
    ours = Translator(toy.model, toy.tokenizers, DecodingConfig(device="cpu", batch_tokens=99))
    monkeypatch.setattr(translator, "force_decode", refuse)
    with pytest.raises(
        RunError,
        match=rf"^out of memory on the forced decoding of 1 pairs of up to {len(ids * 3) + 1} tokens{TOLD}Lower"
        r" decoding\.batch_tokens \(now 99\), decoding\.max_source_tokens \(--max-source-tokens\) or"
        r" decoding\.max_target_tokens\.$",
    ):
        ours.score([""], [ids * 3])


def test_another_error_of_a_search_is_not_taken_for_it(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> Any:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(translator, "search", fail)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        Translator(toy.model, toy.tokenizers, DecodingConfig(device="cpu")).translate(["Hund"])


def test_a_model_too_large_to_build(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what PyTorch itself says of a petabyte of the CPU's memory."""
    monkeypatch.setattr(loading, "Transformer", lambda *_, **__: torch.empty(2**48))
    sizes = ModelConfig(d_model=65536, num_heads=2, d_ff=1_000_000)
    with pytest.raises(RunError) as caught:
        build_model(Config(model=sizes), toy.tokenizers)
    message = str(caught.value)
    assert message.startswith(
        "out of memory on the building of a model with model.d_model = 65536, model.d_ff = 1000000, 6 encoder and 6"
        " decoder layers, and 310 subwords (tokenizer.vocab_size) ("
    )
    assert f"{2**50} bytes" in message
    assert message.endswith("). Lower them, or take a machine with more memory.")


def test_the_outermost_tells() -> None:
    with (
        pytest.raises(OutOfMemory) as caught,
        explain_out_of_memory("the validation", hint="Resume."),
        explain_out_of_memory("the search", hint="Lower it."),
    ):
        raise REFUSAL
    assert str(caught.value) == (
        "out of memory on the validation (CUDA out of memory. Tried to allocate 20.00 GiB). Resume."
    )
    assert caught.value.__cause__ is REFUSAL
