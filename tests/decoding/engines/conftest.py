"""Translators of one run with either engine."""

from collections.abc import Callable
from typing import Any

import pytest
from harness import Toy

from translate.config.decoding import DecodingConfig
from translate.decoding import Translator
from translate.decoding.loading import load_translator

EXACT = {"device": "cpu", "workers": 2, "precision": "fp32"}


@pytest.fixture
def own(toy: Toy) -> Callable[..., Translator]:
    """Makes a translator whose own model searches one line at a time: what both engines must agree with."""

    def make(**settings: Any) -> Translator:
        config = DecodingConfig.model_validate(EXACT | {"workers": 1, "batch_tokens": 1} | settings)
        return Translator(toy.model, toy.tokenizers, config)

    return make


@pytest.fixture
def converted(toy: Toy) -> Callable[..., Translator]:
    """Makes a translator that searches with CTranslate2, or fails."""
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")

    def make(path: Any = toy.path, *, token_scores: bool = True, **settings: Any) -> Translator:
        options = EXACT | {"engine": "ctranslate2"} | settings
        return load_translator(path, options=options, token_scores=token_scores).translator

    return make
