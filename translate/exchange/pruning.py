"""Prunes the vocabulary of a model that is imported: subwords that given text never needs are left out.

The subwords that stay keep their embeddings, so their logits are the same. Text is segmented as before, except that a
subword that was left out is spelt with shorter ones.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch

from translate.bars import show_progress
from translate.config.languages import UNKNOWN, unknown_language
from translate.data.text import stream_lines
from translate.data.tokenizer import BOS_ID, BYTE_PIECE, EOS_ID, SPACE, UNK_ID, WHOLE_PARTS, Tokenizers
from translate.errors import InputError
from translate.exchange.foreign import ForeignModel, Vocabulary

_LINES_AT_ONCE = 10_000
_MIN_SHARE = 0.001  # of a text's characters; single characters are kept for scripts that are as frequent


def prune(
    foreign: ForeignModel, tokenizers: Tokenizers, *, languages: Sequence[str], texts: Sequence[Path]
) -> tuple[ForeignModel, str]:
    """Keep the tags of some languages, and the subwords that occur in some text.

    Bytes and the single characters of the text's scripts stay too.

    Args:
        tokenizers: The tokenizers of the whole model.
        languages: Codes of the languages to keep; empty: all.
        texts: Files with one sentence per line, in all languages that the model will be used for; empty: all subwords
            stay.

    Returns:
        The model, and a sentence on its size and on what text loses.

    Raises:
        InputError: A file cannot be read or is empty, or the model does not have a language, or is one of Marian's own,
            whose numbers could not be compared.
    """
    if foreign.weight_names == "marian":
        problem = "the vocabulary of Marian's own files cannot be pruned; import the model from the Hub"
        raise InputError(f"--keep-languages, --text: {problem}")
    data = foreign.sections["data"]
    known, tag = data.get("languages", ()), data.get("language_tag", "{}")
    for code in languages:
        if code not in known:
            raise InputError(f"--keep-languages: {unknown_language(code, known)}")
    if data.get("language_tags") == "both" and len({*languages}) == 1:
        raise InputError(f"--keep-languages: a translation needs two languages, not only {languages[0]}")
    kept = [code for code in known if code in (languages or known)]  # in the vocabulary's order
    tags = {f"{space}{tag.format(code)}": code in kept for code in known for space in (SPACE, "")}
    counts = _count(tokenizers, texts)
    sides = [
        vocabulary._replace(kept=_kept(vocabulary, count if texts else None, tags))
        for vocabulary, count in zip((foreign.source, foreign.target), counts, strict=True)
    ]
    rows, ids = foreign.target.rows, {row: token for token, row in enumerate(sides[1].rows) if token != BOS_ID}
    search = foreign.sections["decoding"]
    forbidden = [[ids.get(rows[token]) for token in sequence] for sequence in search["forbidden_ids"]]
    is_left_out = languages and data["target_language"] not in languages  # what `forced_bos_token_id` names
    sections = foreign.sections | {
        "data": data | ({"languages": kept} if known else {}) | ({"target_language": UNKNOWN} if is_left_out else {}),
        "decoding": search | {"forbidden_ids": [sequence for sequence in forbidden if None not in sequence]},
    }
    report = f"pruned from {len(foreign.target.rows):,} to {len(sides[1].rows):,} subwords"
    if texts:
        total, once = counts[1].total(), sum(count == 1 for count in counts[1].values())
        report += (
            f"; the text loses none of its {total:,} subwords ({counts[1][UNK_ID]:,} are unknown, as before). In new"
            f" text like it, about {once / total:.2%} of the subwords will be spelt with shorter ones"
        )  # Good and Turing's estimate: as many as occur once
    return foreign._replace(sections=sections, source=sides[0], target=sides[1]), report


def _count(tokenizers: Tokenizers, texts: Sequence[Path]) -> list[Counter[int]]:
    """How often each subword occurs in text, for each side; with a joint vocabulary both have the same counts."""
    distinct = list(dict.fromkeys(tokenizers[:2]))
    counts = [Counter[int]() for _ in distinct]
    with show_progress("Counting subwords"):
        lines = (part for path in texts for line in stream_lines(path) for part in WHOLE_PARTS.findall(line))
        while chunk := list(islice(lines, _LINES_AT_ONCE)):
            for tokenizer, count in zip(distinct, counts, strict=True):
                for ids in tokenizer.encode_lines(chunk, num_threads=torch.get_num_threads()):
                    count.update(ids)
    if texts and not any(counts):
        raise InputError(f"--text: {', '.join(map(str, texts))}: there is no text")
    if tokenizers.vocabulary == "joint":
        counts = [counts[0] | counts[-1]]
    return [counts[0], counts[-1]]


def _kept(vocabulary: Vocabulary, counts: Counter[int] | None, tags: dict[str, bool]) -> frozenset[int]:
    """The foreign ids to keep; `tags` says which tags of languages are among them."""
    scripts, names, rows = Counter[str](), vocabulary.names, vocabulary.rows
    for token, count in (counts or {}).items():
        for character in names[token]:
            scripts[_script(character)] += count
    frequent = {script for script, count in scripts.items() if count >= _MIN_SHARE * scripts.total()}

    def is_kept(token: int, name: str) -> bool:
        if name in vocabulary.symbols:
            return tags.get(name, counts is None)
        is_character = len(name) == 1 and _script(name) in frequent
        is_tag = tags.get(name) or re.fullmatch(">>.*<<", name)  # OPUS-MT's are tags too
        return counts is None or token in counts or is_character or bool(is_tag or BYTE_PIECE.fullmatch(name))

    return frozenset(
        rows[token]
        for token, name in enumerate(names)
        if rows[token] >= 0 and (token <= EOS_ID or is_kept(token, name))
    )


def _script(character: str) -> str:
    """The first word of a character's name, such as LATIN; signs and digits of ASCII are one script."""
    return "ASCII" if character.isascii() and not character.isalpha() else unicodedata.name(character, "").split(" ")[0]
