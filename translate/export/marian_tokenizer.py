"""The SentencePiece models of a run as the files of a `MarianTokenizer`: the same subwords, the same ids."""

import json
from pathlib import Path
from typing import Any

from translate.config import Config
from translate.data.batching import EncodedPair
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, Tokenizers
from translate.errors import RunError


def write_tokenizer(tokenizers: Tokenizers, config: Config, directory: Path, *, max_tokens: int) -> None:
    """Writes SentencePiece models, vocabularies and `tokenizer_config.json`.

    Args:
        max_tokens: What a user of the tokenizer is warned of.

    Raises:
        OSError: The folder cannot be written to.
    """
    unk, bos, eos, pad = tokenizers.source.pieces([UNK_ID, BOS_ID, EOS_ID, PAD_ID])
    is_separate = tokenizers.vocabulary == "separate"
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": is_separate,
        "source_lang": config.data.source_language,
        "target_lang": config.data.target_language,
        "unk_token": unk,
        "bos_token": bos,
        "eos_token": eos,
        "pad_token": pad,
        "model_max_length": max_tokens,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "source.spm").write_bytes(tokenizers.source.model_bytes)
    (directory / "target.spm").write_bytes(tokenizers.target.model_bytes)
    _write_json(directory / "vocab.json", _vocabulary(tokenizers.source))
    if is_separate:
        _write_json(directory / "target_vocab.json", _vocabulary(tokenizers.target))
    _write_json(directory / "tokenizer_config.json", settings)


def check_tokenizer(marian_tokenizer: Any, tokenizers: Tokenizers, pairs: list[EncodedPair]) -> None:
    """Has texts cut and joined by the written tokenizer and by ours.

    Args:
        pairs: Subwords whose texts are taken.

    Raises:
        RunError: They differ.
    """
    for pair in pairs:
        text = tokenizers.source.decode(pair.source)
        ours, theirs = [*tokenizers.source.encode(text), EOS_ID], marian_tokenizer(text)["input_ids"]
        if ours != theirs:
            raise RunError(f"the exported tokenizer gives {text!r} the ids {theirs}, ours {ours}; nothing was exported")
        joined = tokenizers.target.decode(pair.target).strip()
        theirs = marian_tokenizer.decode([BOS_ID, *pair.target, EOS_ID], skip_special_tokens=True)
        if joined != theirs:
            raise RunError(f"the exported tokenizer joins {theirs!r}, ours {joined!r}; nothing was exported")


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    return {piece: token_id for token_id, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
