"""Reads what is special in M2M100, NLLB-200 and mBART-50 models of Hugging Face transformers.

Each side begins with the tag of its language. A tag is one piece of our vocabulary, as the tags of corpora are.
"""

from pathlib import Path
from typing import Any

from translate.config.languages import UNKNOWN
from translate.data.tokenizer import SPACE
from translate.errors import InputError
from translate.exchange.foreign import PretrainedParts, Vocabulary
from translate.exchange.language_tokenizers import (
    UNNAMED,
    added_tokens,
    is_symbol,
    language_tags,
    read_tokenizer_settings,
)


def describe_m2m100(folder: Path, model: Any, tokenizer: Any) -> PretrainedParts:
    """What only M2M100, NLLB-200 and mBART-50 have.

    Raises:
        InputError: The tokenizer is of another class, or does not match the model.
    """
    tag, languages = language_tags(tokenizer, read_tokenizer_settings(folder))
    if not languages:
        raise InputError(f"{folder}/tokenizer_config.json: names no `languages`")
    tags = {f"{SPACE}{tag.format(code)}": row for code, row in languages.items()}
    vocabulary = _read_vocabulary(folder, model, tokenizer, tags)
    data = {"source_language": UNKNOWN, "languages": [*languages], "language_tags": "both", "language_tag": tag}
    return PretrainedParts(vocabulary, vocabulary, "all", data, languages)


def _read_vocabulary(folder: Path, model: Any, tokenizer: Any, tags: dict[str, int]) -> Vocabulary:
    """The subwords of a tokenizer and its tags; a row of the embeddings that has no name in the files gets one."""
    config, num_rows = model.config, model.config.vocab_size
    ids = tokenizer.encoder if hasattr(tokenizer, "encoder") else tokenizer.get_vocab()
    added = added_tokens(tokenizer, tags)
    plain = added | {piece: row for piece, row in ids.items() if row not in {*tags.values(), *added.values()}}
    rows = {row: piece for piece, row in (plain | tags).items()}
    if len(rows) < len(plain) + len(tags) or not 0 <= min(rows) <= max(rows) < num_rows:
        raise InputError(
            f"{folder}: the tokenizer has {len(plain) + len(tags)} subwords with the ids {min(rows)} to {max(rows)},"
            f" and the model has {num_rows} embeddings: each subword needs its own"
        )
    subwords = [rows.get(row, f"{UNNAMED}{row:04d}") for row in range(num_rows)]
    special = {"start": config.decoder_start_token_id, "pad": config.pad_token_id}
    vocabulary = Vocabulary(subwords, tokenizer.unk_token_id, config.eos_token_id, **special)
    return vocabulary._replace(added=frozenset(added), symbols=frozenset([*tags, *filter(is_symbol, subwords)]))
