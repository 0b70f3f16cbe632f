"""Reads what is special in M2M100, NLLB-200 and mBART-50 models of Hugging Face transformers.

Each side begins with the tag of its language. A tag is one piece of our vocabulary, as the tags of corpora are.
"""

from pathlib import Path
from typing import Any

from translate.config.languages import UNKNOWN
from translate.data.tokenizer import SPACE
from translate.errors import InputError
from translate.exchange.foreign import PretrainedParts, require_tied
from translate.exchange.language_tokenizers import language_tags, read_tokenizer_settings, read_vocabulary


def describe_m2m100(folder: Path, model: Any, tokenizer: Any) -> PretrainedParts:
    """What only M2M100, NLLB-200 and mBART-50 have.

    Raises:
        InputError: The tokenizer does not match the model, or its embeddings are not tied.
    """
    tag, languages = language_tags(tokenizer, read_tokenizer_settings(folder))
    if not languages:
        raise InputError(f"{folder}/tokenizer_config.json: names no `languages`")
    start, end = model.config.decoder_start_token_id, model.config.eos_token_id
    if start in languages.values():
        raise InputError(
            f"{folder}: decoder_start_token_id = {start} is the tag of a language, and a run begins each"
            f" target with one symbol for all languages; only models that begin with </s> ({end}) can be imported"
        )
    of_stacks = [f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder")]
    require_tied(folder, model, *of_stacks, "lm_head.weight")
    tags = {f"{SPACE}{tag.format(code)}": row for code, row in languages.items()}
    vocabulary = read_vocabulary(folder, model, tokenizer, tags)
    data = {"source_language": UNKNOWN, "languages": [*languages], "language_tags": "both", "language_tag": tag}
    return PretrainedParts(vocabulary, vocabulary, "all", data, languages)
