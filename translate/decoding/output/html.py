"""A translation as HTML for notebooks: each word with its probability, below the source word that it aligns to."""

import html
import re
from collections.abc import Mapping, Sequence

from translate.decoding.output.words import WordConfidence

_DOUBTFUL = 0.5  # the bar of a less probable word is orange


def translation_html(
    source: str,
    text: str,
    *,
    facts: Sequence[str],
    words: Sequence[WordConfidence],
    source_words: Mapping[int, str],
    alternatives: Sequence[tuple[str, float]],
) -> str:
    """HTML without scripts and without text colours of its own, so that it is readable in light and dark themes.

    Args:
        source_words: The source word that a word aligns to, by the word's number.
        alternatives: Text and score of the other translations.
    """
    others = "".join(f"<li>{_escape(other)} ({score:.3f})</li>" for other, score in alternatives)
    columns = [
        '<span style="display:inline-block;text-align:center;margin:4px 12px 0 0">'
        f'<small style="opacity:0.7">{_escape(source_words.get(number, ""))}&nbsp;</small><br/>{_escape(word.text)}'
        f'<div style="height:3px;width:{word.mean_probability:.0%};margin:auto;opacity:0.7;background:'
        f'{"currentColor" if word.mean_probability >= _DOUBTFUL else "#d97706"}"></div>'
        f"<small>{word.mean_probability:.2f}</small></span>"
        for number, word in enumerate(words)
    ]
    return (
        f"<div>{_escape(source)} → <b>{_escape(text)}</b>"
        f'<div style="opacity:0.7">{", ".join(facts)}</div><div>{"".join(columns)}</div>'
        + (f'<ol start="2">{others}</ol></div>' if others else "</div>")
    )


def _escape(text: str) -> str:
    # HTML does not allow control characters, all of which byte fallback can make.
    return html.escape(re.sub("[\\0-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text))
