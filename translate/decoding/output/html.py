"""A translation as HTML for notebooks: its words, how probable each is, and lines to the words that they come from."""

import html
import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from translate.decoding.output.words import group_words

if TYPE_CHECKING:
    from translate.decoding.request import Translation

_LETTER, _GAP, _LEAST_WIDTH = 8.5, 16.0, 32.0  # px, of a monospaced font of 14 px
_DOUBTFUL = 0.5  # a word that is less probable is orange
_SOURCE_Y, _TARGET_Y, _HEIGHT = 16, 84, 112


def translation_html(translation: "Translation") -> str:
    """HTML without scripts and colours of its own for text, so that it is readable in light and dark notebooks."""
    facts = [f"score {translation.score:.3f}", f"log-probability {translation.log_prob:.3f} nats"]
    facts += [flag.replace("_", " ") for flag in sorted(translation.flags)]
    others = "".join(f"<li>{_escape(each.text)} ({each.score:.3f})</li>" for each in translation.alternatives)
    drawings = "".join(_draw(part, None if translation.pieces else translation.alignment) for part in translation.parts)
    return (
        f"<div><div>{_escape(translation.source)} → <b>{_escape(translation.text)}</b></div>"
        f'<div style="opacity:0.7">{_escape(", ".join(facts))}</div>{drawings}'
        + (f'<ol start="2" style="margin:0">{others}</ol>' if others else "")
        + "</div>"
    )


def _draw(translation: "Translation", alignment: str | None) -> str:
    """A picture of source words above target words, each of which has its probability as a bar and as a number.

    Args:
        alignment: The links to draw, in Pharaoh format.
    """
    words = translation.words
    targets = [word.text for word in words] or [word.text for word in group_words(translation.tokens)]
    below = _places(targets)
    if not below:
        return ""
    above = _places(word.text for word in group_words(translation.source_tokens)) if alignment else []
    top = 0 if alignment else _TARGET_Y - 16
    parts = []
    for source, target in (map(int, link.split("-")) for link in (alignment or "").split()):
        (_, left, width), (_, other_left, other_width) = above[source], below[target]
        ends = f'x1="{left + width / 2:.0f}" x2="{other_left + other_width / 2:.0f}"'
        ends += f' y1="{_SOURCE_Y + 6}" y2="{_TARGET_Y - 16}"'
        parts.append(f'<line {ends} stroke="currentColor" opacity="0.5"/>')
    parts += [_text(word, left + width / 2, _SOURCE_Y, 14) for word, left, width in above]
    for number, (word, left, width) in enumerate(below):
        parts.append(_text(word, left + width / 2, _TARGET_Y, 14))
        if words:
            share = words[number].mean_probability
            colour = "#d97706" if share < _DOUBTFUL else "currentColor"
            for length, opacity in ((width, 0.15), (width * share, 0.7)):
                size = f'x="{left:.0f}" y="{_TARGET_Y + 7}" width="{length:.1f}" height="3"'
                parts.append(f'<rect {size} fill="{colour}" opacity="{opacity}"/>')
            parts.append(_text(f"{share:.2f}", left + width / 2, _HEIGHT - 6, 10))
    total = max(left + width for _, left, width in (*above, *below)) + 2
    about = "the words of the translation with their probabilities, and lines to those of the source that they align to"
    size = f'width="{total:.0f}" height="{_HEIGHT - top}" viewBox="0 {top} {total:.0f} {_HEIGHT - top}"'
    return (
        f'<div style="overflow-x:auto"><svg role="img" aria-label="{about}" {size} font-family="monospace"'
        f' text-anchor="middle" fill="currentColor">{"".join(parts)}</svg></div>'
    )


def _places(words: Iterable[str]) -> list[tuple[str, float, float]]:
    """Each word with its left edge and width."""
    places, left = [], 0.0
    for word in words:
        letters = sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in word)
        places.append((word, left, max(_LEAST_WIDTH, letters * _LETTER)))
        left += places[-1][2] + _GAP
    return places


def _text(text: str, x: float, y: int, size: int) -> str:
    return f'<text x="{x:.0f}" y="{y}" font-size="{size}">{_escape(text)}</text>'


def _escape(text: str) -> str:
    # Control characters, of which byte fallback can make any, are not allowed in HTML.
    return html.escape(re.sub("[\\0-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text))
