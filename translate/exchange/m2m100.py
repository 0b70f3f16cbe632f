"""Reads M2M100 models of Hugging Face transformers; NLLB-200 is one of them, with its own tokenizer.

Each side begins with the tag of its language. A tag is one piece of our vocabulary, as the tags of corpora are.
"""

import functools
from pathlib import Path
from typing import Any

import torch

from translate.config.languages import UNKNOWN
from translate.data.tokenizer import SPACE
from translate.errors import InputError
from translate.exchange.foreign import ForeignModel, Vocabulary
from translate.exchange.huggingface import check_transformers
from translate.exchange.language_tokenizers import TAGS, UNNAMED, is_symbol, language_tags, load_tokenizer
from translate.exchange.pretrained import read_pretrained, search_settings, take_forced_language
from translate.exchange.weights import OUTPUT_BIAS


def read_m2m100(folder: Path) -> ForeignModel:
    """Read a folder as `save_pretrained` or our export writes it.

    Raises:
        InputError: The package is not installed, the folder is damaged or incomplete, or its model or tokenizer has
            something that a run cannot hold.
    """
    spm = folder / ("source.spm" if (folder / "source.spm").is_file() else "sentencepiece.bpe.model")
    needed = ("config.json", spm.name)
    model, fields = read_pretrained(folder, "M2M100ForConditionalGeneration", "m2m_100", needed=needed)
    tokenizer, sections = load_tokenizer(folder), fields["sections"]
    tag, languages = language_tags(tokenizer)
    if not languages:
        name = type(tokenizer).__name__
        raise InputError(f"{folder}: has a tokenizer of the class {name}; only {' or '.join(TAGS)} can be imported")
    if getattr(tokenizer, "legacy_behaviour", False):  # of an old version, with the tag after the text
        raise InputError(
            f"{folder}/tokenizer_config.json: legacy_behaviour = True: set it to false, as the model needs"
        )
    tags = {f"{SPACE}{tag.format(code)}": row for code, row in languages.items()}
    vocabulary = _read_vocabulary(folder, model, tokenizer, tags)
    fields["weights"][OUTPUT_BIAS["marian_mt"]] = torch.zeros(len(vocabulary.subwords))
    generation = model.generation_config
    forced = take_forced_language(generation, languages)
    place = folder / "generation_config.json"
    sections["decoding"] = search_settings(place, generation, model.config, vocabulary, languages=True)
    sections["model"]["tie_embeddings"] = "all"
    sections["data"] |= {"source_language": UNKNOWN, "target_language": forced or UNKNOWN, "languages": [*languages]}
    sections["data"] |= {"language_tags": "both", "language_tag": tag}
    return ForeignModel(
        source=vocabulary,
        target=vocabulary,
        sentencepiece=(spm, spm),
        check=functools.partial(check_transformers, model, tokenizer, "imported"),
        **fields,
    )


def _read_vocabulary(folder: Path, model: Any, tokenizer: Any, tags: dict[str, int]) -> Vocabulary:
    """The subwords of a tokenizer and its tags; a row of the embeddings that has no name in the files gets one."""
    config, num_rows = model.config, model.config.vocab_size
    ids = tokenizer.encoder if hasattr(tokenizer, "encoder") else tokenizer.get_vocab()
    plain = {piece: row for piece, row in ids.items() if row not in tags.values()}
    rows = {row: piece for piece, row in (plain | tags).items()}
    if len(rows) < len(plain) + len(tags) or not 0 <= min(rows) <= max(rows) < num_rows:
        raise InputError(
            f"{folder}: the tokenizer has {len(plain) + len(tags)} subwords with the ids {min(rows)} to {max(rows)},"
            f" and the model has {num_rows} embeddings: each subword needs its own"
        )
    subwords = [rows.get(row, f"{UNNAMED}{row:04d}") for row in range(num_rows)]
    special = {"start": config.decoder_start_token_id, "pad": config.pad_token_id}
    vocabulary = Vocabulary(subwords, tokenizer.unk_token_id, config.eos_token_id, **special)
    return vocabulary._replace(symbols=frozenset([*tags, *filter(is_symbol, subwords)]))
