"""Writes a run's SentencePiece model as a tokenizer.json, which transformers.js reads in a browser.

transformers.js has no table of SentencePiece's normalisation. So the file asks for NFKC, and names the characters for
which SentencePiece does something else. Rare text may still get other subwords: docs/exporting.md says which.
"""

import json
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # made on import

from translate.atomic import write_text
from translate.data.tokenizer import EOS_ID, SPACE, UNK_ID, Tokenizer, Tokenizers

_PIECE = ModelProto.SentencePiece
_UNIGRAM, _BPE = 1, 2  # SentencePiece's numbers
_NEVER = -1e4  # the score of `<s>` and the like: any other spelling of such a text is better, except unknown symbols
_NUM_CHARACTERS = 0x40000  # all characters that normalisation changes are among these
_NONCHARACTER = 0x10FFFE  # no text has this or the next one, and normalisation leaves both alone
# One character for each byte, as in GPT-2: https://github.com/openai/gpt-2/blob/master/src/encoder.py
_VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]
_BYTES = {byte: chr(byte) for byte in _VISIBLE} | {byte: chr(256 + rank) for rank, byte in enumerate(_HIDDEN)}
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def find_obstacle(tokenizers: Tokenizers) -> str | None:
    """Why no tokenizer.json can do what a run's tokenizers do; None: one can."""
    source, target, _ = tokenizers
    model = ModelProto.FromString(source.model_bytes)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    kinds = {piece.type for piece in model.pieces if not (piece.type == _PIECE.USER_DEFINED and SPACE in piece.piece)}
    if source.all_pieces != target.all_pieces:
        return "the two languages have separate vocabularies (tokenizer.vocabulary)"
    if kinds & {_PIECE.UNUSED, _PIECE.USER_DEFINED} or len(model.pieces) > source.vocab_size:
        return "the vocabulary is not that of the SentencePiece model: it was imported, or has tokenizer.add_pieces"
    has_usual_spaces = normalizer.add_dummy_prefix and normalizer.escape_whitespaces
    if trainer.model_type not in (_UNIGRAM, _BPE) or trainer.treat_whitespace_as_suffix or not has_usual_spaces:
        return "the SentencePiece model splits text into words or characters, or treats spaces in an unusual way"
    return None


def write_tokenizer_json(tokenizer: Tokenizer, path: Path) -> None:
    """Write a file that gives the ids of a text, and the text of ids, as a tokenizer does; `find_obstacle` finds none.

    The ids end with the end symbol. A tag of a language or a corpus is one token anywhere in a text, and left out of
    the text of ids.
    """
    model = ModelProto.FromString(tokenizer.model_bytes)
    end, trainer = model.pieces[EOS_ID].piece, model.trainer_spec
    symbols = [piece.piece for piece in model.pieces if piece.type == _PIECE.CONTROL]
    tags = {}
    for token, piece in enumerate(model.pieces):
        if piece.type == _PIECE.USER_DEFINED:
            piece.piece = piece.piece.removeprefix(SPACE)
            tags[piece.piece] = token
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    before = [{"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": False}]
    after = [_replace(name, "") for name in (*symbols, *tags)]
    after.append(_replace(model.pieces[UNK_ID].piece, trainer.unk_surface))
    if trainer.model_type == _UNIGRAM and trainer.byte_fallback:
        before, after = [*before, _BYTE_LEVEL], [*after, _BYTE_LEVEL]
    else:
        after += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    after += [_replace(SPACE, " "), {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    text, last = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}
    content = {
        "version": "1.0",
        "added_tokens": [{"id": token, "content": tag, **plain} for tag, token in tags.items()],
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(tokenizer, model.normalizer_spec)},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": before},
        "model": _bpe(model) if trainer.model_type == _BPE else _unigram(model),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [text, last],
            "pair": [text, {"Sequence": {"id": "B", "type_id": 0}}, last],
            "special_tokens": {end: {"id": end, "ids": [EOS_ID], "tokens": [end]}},
        },
        "decoder": {"type": "Sequence", "decoders": after},
    }
    write_text(path, json.dumps(content, ensure_ascii=False) + "\n")


def _replace(text: str, content: str, *, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: text}, "content": content}


def _bpe(model: Any) -> dict[str, Any]:
    """A BPE model, with every way to join two pieces into a third; the best pieces come first."""
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == _PIECE.NORMAL}
    joined = sorted(scores, key=scores.__getitem__, reverse=True)
    splits = [(piece[:cut], piece[cut:]) for piece in joined for cut in range(len(piece) - 1, 0, -1)]
    return {
        "type": "BPE",
        "vocab": {piece.piece: token for token, piece in enumerate(model.pieces)},
        "merges": [split for split in splits if scores.keys() >= {*split}],
        "unk_token": model.pieces[UNK_ID].piece,
        "fuse_unk": True,
        "byte_fallback": model.trainer_spec.byte_fallback,
    }


def _unigram(model: Any) -> dict[str, Any]:
    """A unigram model. With byte fallback, pieces are spelt in bytes, and a single byte is worse than any subword."""
    lowest, in_bytes = min(piece.score for piece in model.pieces), model.trainer_spec.byte_fallback
    vocabulary = []
    for piece in model.pieces:
        name, score = piece.piece, _NEVER
        if piece.type == _PIECE.BYTE:
            name, score = _BYTES[int(name[1:-1], 16)], lowest - 10
        elif piece.type == _PIECE.NORMAL:
            name, score = "".join(_BYTES[byte] for byte in name.encode()) if in_bytes else name, piece.score
        vocabulary.append((name, score))
    return {"type": "Unigram", "unk_id": UNK_ID, "vocab": vocabulary}


def _normalizers(tokenizer: Tokenizer, settings: Any) -> list[dict[str, Any]]:
    """Replacements of single characters, around NFKC if it makes most of them unnecessary, and then those of spaces."""
    characters = [chr(code) for code in range(1, _NUM_CHARACTERS) if not 0xD800 <= code <= 0xDFFF]
    [joined] = tokenizer.normalize([chr(_NONCHARACTER).join(("", *characters, ""))])
    found = joined.replace(SPACE, " ").split(chr(_NONCHARACTER))[1:-1]
    as_nfkc = [unicodedata.normalize("NFKC", character) for character in characters]
    plain, nfkc = (
        {character: text for character, text, usual in zip(characters, found, usuals, strict=True) if text != usual}
        for usuals in (characters, as_nfkc)
    )
    has_nfkc = len(nfkc) < len(plain)
    groups: dict[str, str] = defaultdict(str)
    for character, text in (nfkc if has_nfkc else plain).items():
        groups[text] += f"\\x{{{ord(character):x}}}"
    before: list[dict[str, Any]] = []
    after: list[dict[str, Any]] = []
    for text, group in groups.items():
        kept = text
        if has_nfkc and unicodedata.normalize("NFKC", text) != text:  # hide it from NFKC
            kept = chr(_NONCHARACTER + len(after))
            after.append(_replace(kept, text))
        before.append(_replace(f"[{group}]", kept, kind="Regex"))
    spaces = [_replace(" +", " ", kind="Regex"), _replace(r"\A | \z", "", kind="Regex")]
    middle = [{"type": "NFKC"}] if has_nfkc else []
    return [*before, *middle, *after, *(spaces if settings.remove_extra_whitespaces else [])]
