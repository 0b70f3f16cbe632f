"""Another toolkit's vocabulary with our special ids, and SentencePiece models with the same ids.

Our special symbols have the first ids, so the other subwords move. In other toolkits a SentencePiece model only
segments, and a separate vocabulary gives the ids. Ours does both, so its pieces are put into the order of the ids.
"""

from typing import Any, NamedTuple

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # made on import

from translate.data.tokenizer import BOS_ID, END_OF_VOCABULARY, EOS_ID, PAD_ID, UNK_ID, Tokenizer
from translate.errors import InputError

_SYMBOLS = {PAD_ID: "<pad>", UNK_ID: "<unk>", BOS_ID: "<s>", EOS_ID: "</s>"}
_UNIGRAM, _BPE = 1, 2  # SentencePiece's numbers
_UNKNOWN, _CONTROL, _UNUSED = 2, 3, 5


class Vocabulary(NamedTuple):
    """The subwords of another toolkit by its ids, and its ids of the special symbols."""

    subwords: list[str]
    unk: int
    eos: int
    start: int | None = None  # the decoder's first input; None: a vector of zeros, which is no token
    pad: int | None = None

    @property
    def rows(self) -> list[int]:
        """Their id for each of ours; -1: only we have it. Their start symbol may also be another symbol."""
        pad = -1 if self.pad is None or self.pad in (self.unk, self.eos, self.start) else self.pad
        special = [pad, self.unk, -1 if self.start is None else self.start, self.eos]
        return [*special, *(token for token in range(len(self.subwords)) if token not in special)]

    @property
    def only_ours(self) -> list[int]:
        """Our ids that are not among their tokens, or are the second id of one."""
        rows = self.rows
        is_double = rows[BOS_ID] in (rows[UNK_ID], rows[EOS_ID])
        return [token for token, row in enumerate(rows) if row < 0 or (token == BOS_ID and is_double)]

    @property
    def names(self) -> list[str]:
        """The subword of each of our ids; our special symbols have our names."""
        others = [self.subwords[row] for row in self.rows[len(_SYMBOLS) :]]
        taken, symbols = set(others), []
        for name in _SYMBOLS.values():
            while name in taken:  # an ordinary subword of theirs
                name += "_"
            symbols.append(name)
        return [*symbols, *others]


def reorder_sentencepiece(model_bytes: bytes, names: list[str], *, name: str) -> Tokenizer:
    """A SentencePiece model that segments as before, with the ids of a vocabulary.

    A subword that only the vocabulary has becomes an unused piece, which no text is segmented into. A piece that only
    the model has comes after `END_OF_VOCABULARY`: texts are segmented into it as before, and its id is UNK.

    Args:
        names: The subword of each id, with our special symbols.
        name: The name of the model, for errors.

    Raises:
        InputError: The bytes are not a SentencePiece model, or it splits into words or characters.
    """
    model = _parse(model_bytes, name=name)
    if model.trainer_spec.model_type not in (_UNIGRAM, _BPE):
        raise InputError(f"{name}: is a SentencePiece model of words or characters; unigram and bpe can be imported")
    own = {piece.piece: piece for piece in model.pieces if piece.type not in (_UNKNOWN, _CONTROL)}
    lowest = min((piece.score for piece in own.values()), default=0.0) - 1.0

    def piece(text: str, kind: int) -> Any:
        return model.SentencePiece(piece=text, score=lowest if kind == _UNUSED else 0.0, type=kind)

    pieces = [piece(symbol, _UNKNOWN if token == UNK_ID else _CONTROL) for token, symbol in enumerate(names[:4])]
    pieces += [own.pop(text, None) or piece(text, _UNUSED) for text in names[4:]]
    if own or any(each.type == _UNUSED for each in pieces):
        pieces += [piece(END_OF_VOCABULARY, _CONTROL), *own.values()]
    del model.pieces[:]
    model.pieces.extend(pieces)
    spec = model.trainer_spec
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = names[:4]
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD_ID, UNK_ID, BOS_ID, EOS_ID
    spec.vocab_size = len(pieces)
    return Tokenizer(model.SerializeToString(deterministic=True), name=name)


def describe_sentencepiece(model_bytes: bytes) -> dict[str, object]:
    """The section `tokenizer` of a config, as far as a model says it."""
    model = _parse(model_bytes, name="the SentencePiece model")
    normalization = model.normalizer_spec.name
    known = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
    return {
        "type": "bpe" if model.trainer_spec.model_type == _BPE else "unigram",
        "byte_fallback": model.trainer_spec.byte_fallback,
        **({"normalization": normalization} if normalization in known else {}),
    }


def _parse(model_bytes: bytes, *, name: str) -> Any:
    """The protocol buffer of a SentencePiece model."""
    try:
        return ModelProto.FromString(model_bytes)
    except DecodeError as error:
        raise InputError(f"{name}: is not a SentencePiece model ({len(model_bytes)} bytes)") from error
