"""The contents of another toolkit's files: settings, weights, vocabularies and SentencePiece models.

Our special symbols have the first ids, so the other subwords move. In other toolkits a SentencePiece model only
segments, and a separate vocabulary gives the ids. Ours does both, so its pieces are put into the order of the ids.
"""

import fnmatch
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # made on import
from torch import Tensor

from translate.config.yaml import read_yaml
from translate.data.tokenizer import (
    BOS_ID,
    END_OF_VOCABULARY,
    EOS_ID,
    PAD_ID,
    SPACE,
    UNK_ID,
    Tokenizer,
    Tokenizers,
    is_sentinel,
    parse_model,
    with_pieces,
)
from translate.errors import InputError, as_input_error
from translate.exchange.weights import WeightNames
from translate.files import read_json
from translate.model import Transformer

logger = logging.getLogger(__name__)

_SYMBOLS = {PAD_ID: "<pad>", UNK_ID: "<unk>", BOS_ID: "<s>", EOS_ID: "</s>"}
_UNIGRAM, _BPE = 1, 2  # SentencePiece's numbers
_UNKNOWN, _CONTROL, _TAG, _UNUSED = 2, 3, 4, 5


class Vocabulary(NamedTuple):
    """The subwords of another toolkit in the order of its ids, and its ids of the special symbols."""

    subwords: list[str]
    unk: int
    eos: int
    start: int | None = None  # the decoder's first input; None: a vector of zeros instead of a token
    pad: int | None = None
    symbols: frozenset[str] = frozenset()  # subwords that never come from text; those with a space are language tags
    added: frozenset[str] = frozenset()  # subwords that are matched before text is segmented
    kept: frozenset[int] | None = None  # the ids that are left after pruning, apart from special symbols; None: all

    @property
    def rows(self) -> list[int]:
        """The foreign id for each of our ids, or -1 if there is none. The start symbol may double as another symbol."""
        pad = -1 if self.pad is None or self.pad in (self.unk, self.eos, self.start) else self.pad
        special = [pad, self.unk, -1 if self.start is None else self.start, self.eos]
        others = range(len(self.subwords)) if self.kept is None else sorted(self.kept)
        return [*special, *(token for token in others if token not in special)]

    @property
    def only_ours(self) -> list[int]:
        """Our ids that are missing there, and BOS if it shares a foreign id with another symbol."""
        rows = self.rows
        is_double = rows[BOS_ID] in (rows[UNK_ID], rows[EOS_ID])
        return [token for token, row in enumerate(rows) if row < 0 or (token == BOS_ID and is_double)]

    @property
    def names(self) -> list[str]:
        """The subword of each of our ids, with our names of the special symbols."""
        others = [self.subwords[row] for row in self.rows[len(_SYMBOLS) :]]
        taken, symbols = set(others), []
        for name in _SYMBOLS.values():
            while name in taken:  # an ordinary subword of theirs
                name += "_"
            symbols.append(name)
        return [*symbols, *others]


class ForeignModel(NamedTuple):
    """The result of reading another toolkit's files."""

    sections: dict[str, dict[str, Any]]  # of the run's config, as far as the files specify them
    weight_names: WeightNames
    weights: dict[str, Tensor]  # linear layers as in torch: one row per output
    source: Vocabulary
    target: Vocabulary
    sentencepiece: tuple[Path, Path]  # the models of the source and of the target
    files: list[Path]  # everything that the model was read from
    reader: dict[str, str]  # package and version
    check: Callable[[tuple[Vocabulary, Vocabulary], Transformer, Tokenizers], None]
    """Compares our model with the other toolkit's, given the vocabularies of both sides; raises RunError."""


class PretrainedParts(NamedTuple):
    """What differs between the models of transformers that can be imported."""

    source: Vocabulary
    target: Vocabulary  # the same as the source's if it is joint
    tying: str  # our `model.tie_embeddings`
    data: dict[str, Any]  # of the config's section
    tags: dict[str, int]  # the id of the tag of each language that translations may begin with


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a file of settings in YAML or JSON.

    Raises:
        InputError: It cannot be read, or is not a mapping.
    """
    if path.suffix == ".json":  # YAML reads 1e-05 as text
        return read_json(path, dict[str, Any])
    return read_yaml(path, dotted_keys=True, may_be_pipe=False).values


def reading(path: Path) -> AbstractContextManager[None]:
    """A context that turns whatever libraries raise while they read a file or folder into an InputError."""
    return as_input_error(f"{path}: is damaged, or not a model that can be imported")


def require(name: str, values: Mapping[str, object], allowed: Mapping[str, tuple[object, ...]]) -> None:
    """Check that each setting is left out or has one of the values that our models can have.

    Raises:
        InputError: Settings have other values; the message names all of them, and the file by its `name`.
    """
    refused = [
        f"{key} = {values[key]!r} (only {' or '.join(map(repr, choices))})"
        for key, choices in allowed.items()
        if key in values and values[key] not in choices
    ]
    if refused:
        raise InputError(f"{name}: a run cannot represent {', '.join(refused)}")


def require_tied(folder: Path, model: Any, *names: str) -> None:
    """Check that weights of a model in transformers are one matrix, which the files may have under several names.

    Raises:
        InputError: The files have different ones.
    """
    if len({id(model.get_parameter(name)) for name in names}) > 1:
        raise InputError(f"{folder}: {' and '.join(names)} differ, and a run has one matrix for them")


def warn_of_lost(
    place: Path, given: Mapping[str, object], *, defaults: Mapping[str, object], kept: Iterable[str]
) -> None:
    """Warn of the settings in a file that differ from the defaults and that match no pattern in `kept`."""
    lost = [
        f"{key} = {value}"
        for key, value in given.items()
        if (value or None) != (defaults.get(key) or None) and not any(fnmatch.fnmatchcase(key, name) for name in kept)
    ]
    if lost:
        logger.warning(f"{place}: ignored, because a run has no exact counterpart: {', '.join(lost)}")


def reorder_sentencepiece(model_bytes: bytes, vocabulary: Vocabulary, *, name: str) -> Tokenizer:
    """A SentencePiece model that segments as before, with the ids of a vocabulary.

    A subword found only in the vocabulary becomes an unused piece, which segmentation never produces. A piece that
    is only in the model comes after `END_OF_VOCABULARY`: segmentation still produces it, and its id is UNK. A piece
    that was pruned is there too, but unused: segmentation spells it with shorter ones. The tag of a language is one
    piece wherever it occurs.

    Args:
        name: The name of the model, for errors.

    Raises:
        InputError: The bytes are not a SentencePiece model, or it splits into words or characters.
    """
    model = parse_model(model_bytes, name=name)
    if model.trainer_spec.model_type not in (_UNIGRAM, _BPE):
        raise InputError(
            f"{name}: is a SentencePiece model of words or characters; only unigram and bpe can be imported"
        )
    names, pruned = vocabulary.names, {*vocabulary.subwords} if vocabulary.kept is not None else set()
    own = {piece.piece: piece for piece in model.pieces if piece.type not in (_UNKNOWN, _CONTROL)}
    lowest = min((piece.score for piece in own.values()), default=0.0) - 1.0

    def piece(text: str, kind: int) -> Any:
        return model.SentencePiece(piece=text, score=lowest if kind in (_UNUSED, _TAG) else 0.0, type=kind)

    tags = vocabulary.added | {symbol for symbol in vocabulary.symbols if symbol.startswith(SPACE)}
    for tag in tags:  # T5's have no space before them
        if (found := own.get(tag.removeprefix(SPACE))) is not None and found.type == _TAG:
            del own[found.piece]
    pieces = [own.pop(text, None) or piece(text, _TAG if text in tags else _UNUSED) for text in names[4:]]
    for sentinel in (each for each in pieces if is_sentinel(each.piece)):  # pieces of mT5's SentencePiece model
        sentinel.type = _UNUSED
    for text in own.keys() & pruned:
        own[text].type = _UNUSED
    if own or any(used.type == _UNUSED for used in pieces):
        pieces += [piece(END_OF_VOCABULARY, _CONTROL), *own.values()]
    return with_pieces(model, names[:4], pieces, name=name)


def describe_sentencepiece(model_bytes: bytes) -> dict[str, object]:
    """The settings of the config's section `tokenizer` that a model determines."""
    model = ModelProto.FromString(model_bytes)
    normalization = model.normalizer_spec.name
    known = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
    return {
        "type": "bpe" if model.trainer_spec.model_type == _BPE else "unigram",
        "byte_fallback": model.trainer_spec.byte_fallback,
        **({"normalization": normalization} if normalization in known else {}),
    }
