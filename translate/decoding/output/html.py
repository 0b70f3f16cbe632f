"""A translation as HTML for notebooks: each word with its probability, below the source word that it aligns to."""

import html
import re
from typing import TYPE_CHECKING

from translate.decoding.output.words import group_words

if TYPE_CHECKING:
    from translate.decoding.request import Translation

_DOUBTFUL = 0.5  # the bar of a word that is less probable is orange


def translation_html(translation: "Translation") -> str:
    """HTML without scripts and without colours of its own for text, so that it is readable in light and dark themes."""
    facts = [f"score {translation.score:.3f}", f"log-probability {translation.log_prob:.3f} nats"]
    facts += [flag.replace("_", " ") for flag in sorted(translation.flags)]
    others = "".join(f"<li>{_escape(each.text)} ({each.score:.3f})</li>" for each in translation.alternatives)
    sources: dict[int, str] = {}  # by target word
    if translation.alignment and not translation.pieces:  # which count the words of the whole line
        words = group_words(translation.source_tokens)
        for link in translation.alignment.split():
            source, target = map(int, link.split("-"))
            sources[target] = words[source].text
    columns = [
        '<span style="display:inline-block;text-align:center;margin:4px 12px 0 0">'
        f'<small style="opacity:0.7">{_escape(sources.get(number, ""))}&nbsp;</small><br/>{_escape(word.text)}'
        f'<div style="height:3px;width:{word.mean_probability:.0%};margin:auto;opacity:0.7;background:'
        f'{"currentColor" if word.mean_probability >= _DOUBTFUL else "#d97706"}"></div>'
        f"<small>{word.mean_probability:.2f}</small></span>"
        for number, word in enumerate(translation.words)
    ]
    return (
        f"<div>{_escape(translation.source)} → <b>{_escape(translation.text)}</b>"
        f'<div style="opacity:0.7">{", ".join(facts)}</div><div>{"".join(columns)}</div>'
        + (f'<ol start="2">{others}</ol></div>' if others else "</div>")
    )


def _escape(text: str) -> str:
    # Control characters, of which byte fallback can make any, are not allowed in HTML.
    return html.escape(re.sub("[\\0-\x08\x0b-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", text))
