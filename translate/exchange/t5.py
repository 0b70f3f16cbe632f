"""Reads what is special in T5 models of Hugging Face transformers; Flan-T5, mT5 and MADLAD-400 have its tokenizer.

The sentinels of its pre-training, `<extra_id_0>` and so on, come neither from text nor into translations. In MADLAD-400
each source begins with the tag of the language to translate to, such as `<2de>`.
"""

import re
from pathlib import Path
from typing import Any

from translate.config.languages import UNKNOWN
from translate.data.tokenizer import SPACE, is_sentinel, parse_model
from translate.errors import InputError
from translate.exchange.foreign import PretrainedParts, require_tied
from translate.exchange.language_tokenizers import added_tokens, language_tags, read_tokenizer_settings, read_vocabulary
from translate.files import read_input


def describe_t5(folder: Path, model: Any, tokenizer: Any) -> PretrainedParts:
    """What only T5 has.

    Raises:
        InputError: The tokenizer does not match the model, or its sides have different embeddings.
    """
    settings = read_tokenizer_settings(folder)
    tag, languages = language_tags(tokenizer, settings)
    tags = {}
    for name, row in {tag.format(code): row for code, row in languages.items()}.items():
        is_word = tokenizer(name)["input_ids"][0] == row  # otherwise the space before it is a token of its own
        tags[f"{SPACE * is_word}{name}"] = row
    added = [token for token in added_tokens(tokenizer) if not re.fullmatch(rf"{SPACE}[<\[].+[>\]]", token)]
    if settings.tokenizer_class == "T5Tokenizer" and added:  # it ends a word before and after them
        names = ", ".join(repr(token.removeprefix(SPACE)) for token in added[:5])
        problem = f"the tokenizer has the added tokens {names}, which split words"
        raise InputError(f"{folder}: {problem}; a run can only have added tokens in brackets, such as '<medical>'")
    vocabulary = read_vocabulary(folder, model, tokenizer, tags)
    if settings.tokenizer_class == "T5Tokenizer":
        spm, known = folder / "spiece.model", {*vocabulary.subwords, *map(tag.format, languages)}
        pieces = (piece.piece for piece in parse_model(read_input(spm), name=str(spm)).pieces)
        if (lacking := next((piece for piece in pieces if piece not in known), None)) is not None:
            hint = "let tokenizer_config.json say `extra_ids: 0`" if is_sentinel(lacking) else "copy all of them again"
            raise InputError(f"{spm}: the other files do not have its subword {lacking!r}; {hint}")
    data: dict[str, Any] = {"source_language": UNKNOWN, "target_language": UNKNOWN}
    if languages:
        data["target_language"] = settings.target_lang if settings.target_lang in languages else UNKNOWN
        data |= {"languages": [*languages], "language_tags": settings.language_tags or "source", "language_tag": tag}
    elif settings.source_lang and settings.target_lang:  # of an export of ours
        data = {"source_language": settings.source_lang, "target_language": settings.target_lang}
    require_tied(folder, model, "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    tying = "all" if model.lm_head.weight is model.shared.weight else "inputs"
    return PretrainedParts(vocabulary, vocabulary, tying, data, languages)
