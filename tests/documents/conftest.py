"""Translations that a function of the text makes, so that documents need no model."""

from collections.abc import Callable, Sequence

import pytest

from translate.decoding import Translation

TranslateTexts = Callable[[Sequence[str]], list[Translation]]


@pytest.fixture(scope="session")
def by() -> Callable[[Callable[[str], str]], TranslateTexts]:
    """Makes the argument `translate` of `translate_document` from a function of each sentence."""

    def make(function: Callable[[str], str]) -> TranslateTexts:
        def translate(texts: Sequence[str]) -> list[Translation]:
            return [Translation(text, function(text), [], 0.0, 0.0, False, False) for text in texts]

        return translate

    return make
