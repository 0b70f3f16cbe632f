"""Text to token ids and back: SentencePiece models with fixed special ids, trained here or given as files.

The model file defines the tokens; the special ids are the same in the whole project and are defined here. Training is
deterministic: the same text and config give the same bytes.
"""

import functools
import io
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal, NamedTuple

import sentencepiece

from translate.bars import show_progress
from translate.config.schema import TokenizerConfig
from translate.data.cache import DataCache, entry_name, text_digest
from translate.data.text import SpacedText
from translate.errors import InputError, RunError
from translate.files import read_input
from translate.memory import release_free_memory
from translate.placeholders import TAGS

SPACE = "▁"  # SentencePiece's symbol for the space before a word
BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")  # a piece of byte fallback
# The model depends on the number of threads (through sums of floats), so the number is not a setting.
_TRAINER_THREADS = 4
# SentencePiece silently leaves out longer lines; its own default is 4192 bytes.
_MAX_LINE_BYTES = 2**30
MAX_CHARACTERS = 1_000_000
"""Of a text that is segmented at once: SentencePiece takes minutes for a line of a hundred million, or all memory."""


def _parts(most: int) -> re.Pattern[str]:
    """The parts of a line: they end before a space, or after `most` characters without one."""
    return re.compile(rf".{{1,{most}}}\Z|.{{1,{most - 1}}}(?= )|.{{{most}}}", re.DOTALL)


WHOLE_PARTS = _parts(MAX_CHARACTERS)
"""Finds the parts of a line whose ids, one part after the other, are the ids of the whole line, however long it is."""
_TRAINED_PARTS = _parts(4000)  # a long line that occurs twice takes the unigram trainer minutes

PAD_ID = 0
"""Pads the shorter sequences of a batch; never a token of a sentence."""
UNK_ID = 1
"""A character that the vocabulary cannot spell; never produced with byte_fallback."""
BOS_ID = 2
"""The decoder's input before the first target token."""
EOS_ID = 3
"""Ends every source and every target."""
PLACEHOLDERS_NAME = "<placeholders>"
"""Stands for PLACEHOLDER_PIECES in `tokenizer.add_pieces`."""
_NUMBERED = ("%{}", "%L{}", "%{}$s", "%{}$d", "%{}$i", "%{}$u", "%{}$f", "%{}$@", "{{{}}}")
_DIRECTIVES = "d i u f g e x X c s p n @ Ln ld lu lld llu zu .0f .1f .2f"
PLACEHOLDER_PIECES = (
    *("%%", "{}", "{0}", "<br/>", "<hr/>"),
    *(f"%{directive}" for directive in _DIRECTIVES.split()),
    *(form.format(number) for form in _NUMBERED for number in range(1, 10)),
    *(tag for name in TAGS.split() for tag in (f"<{name}>", f"</{name}>")),
)
"""Directives of printf, Python, Qt and Apple's programs, one of each kind and number, and tags without attributes."""
END_OF_VOCABULARY = "<end of vocabulary>"
"""A control symbol of imported models. They segment with SentencePiece, and then look up each piece by its text: pieces
after this symbol are UNK, and characters that SentencePiece does not know may still be in the vocabulary."""


def is_sentinel(piece: str) -> bool:
    """Whether a piece stands for text that was left out in T5's pre-training, or has no name in the imported files.

    Version 0.13 gave pieces without a name the names that fairseq gives them, such as madeupword0000.
    """
    return re.fullmatch(r"▁?<extra_id_\d+>|<unnamed_\d+>|madeupword\d{4,}", piece) is not None


class Tokenizer:
    """One SentencePiece model. Its ids never include BOS or EOS, which are added when a batch is built."""

    def __init__(self, model_bytes: bytes, *, name: str = "the SentencePiece model") -> None:
        """Read the content of a `.model` file, which is called `name` in errors.

        Raises:
            InputError: It is not a SentencePiece model, or has different special ids.
        """
        self.model_bytes = model_bytes
        self.name = name
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model_bytes)
        except (RuntimeError, ValueError) as error:
            raise _not_a_model(model_bytes, name) from error
        sp = self._processor
        end = int(sp.piece_to_id(END_OF_VOCABULARY))
        self._is_looked_up = bool(sp.is_control(end))
        self.vocab_size = end if self._is_looked_up else int(sp.get_piece_size())
        """The number of ids, including the special ones."""
        ids, needed = (sp.pad_id(), sp.unk_id(), sp.bos_id(), sp.eos_id()), (PAD_ID, UNK_ID, BOS_ID, EOS_ID)
        if ids != needed:  # `read_tokenizer` gives a user's model ours
            raise InputError(f"{name}: has the special ids {ids}, not {needed}; copy it again from its source")

    def encode(self, text: str) -> list[int]:
        """The ids of one sentence; a sentence of white space has none. See `encode_lines`."""
        if not self._is_plain or len(text) > MAX_CHARACTERS:
            return self.encode_lines([text], num_threads=1)[0]
        ids: list[int] = self._processor.encode(text)  # for a list, SentencePiece would start a thread
        return ids

    def lacks(self, character: str) -> bool:
        """Whether a character has no separate entry: it is unknown, or spelt in bytes."""
        ids = self.encode(character)
        return UNK_ID in ids or any(BYTE_PIECE.fullmatch(piece) for piece in self.pieces(ids))

    def normalize(self, lines: Sequence[str]) -> list[str]:
        """The text that is segmented, with `▁` for spaces."""
        normalized: list[str] = self._processor.normalize(list(lines))
        return normalized

    def encode_lines(self, lines: Sequence[str], *, num_threads: int) -> list[list[int]]:
        """The ids of many sentences; the result does not depend on `num_threads`.

        A sentence of more than MAX_CHARACTERS has more ids than that, so it is over any limit: those of its beginning,
        and PAD for the rest.
        """
        encoded = self._encode_beginnings([line[:MAX_CHARACTERS] for line in lines], num_threads)
        for line, ids in zip(lines, encoded, strict=True):
            if len(line) > MAX_CHARACTERS:
                ids += [PAD_ID] * (MAX_CHARACTERS + 1 - len(ids))
        return encoded

    def _encode_beginnings(self, lines: list[str], num_threads: int) -> list[list[int]]:
        if self._is_plain:
            ids: list[list[int]] = self._processor.encode(lines, num_threads=num_threads)
            return ids
        split = [self.split_tag(line) for line in lines]
        texts = [text for _, text in split]
        if self._is_looked_up:
            encoded = self._processor.encode(texts, out_type=str, num_threads=num_threads)
            encoded = [[self._ids.get(piece, UNK_ID) for piece in pieces] for pieces in encoded]
        else:
            encoded = self._processor.encode(texts, num_threads=num_threads)
        return [tag + ids for (tag, _), ids in zip(split, encoded, strict=True)]

    def tag_id(self, tag: str) -> int | None:
        """The id of the tag of a language or a corpus; None: it is not in the vocabulary."""
        found = (int(self._processor.piece_to_id(piece)) for piece in (f"{SPACE}{tag}", tag))
        return next((token for token in found if UNK_ID != token < self.vocab_size), None)

    def tag_ids(self, tag: str | None) -> list[int]:
        """The ids that come before a text with this tag; None: the text has no tag.

        Raises:
            InputError: The tag is not in the vocabulary.
        """
        if tag is None:
            return []
        if (token := self.tag_id(tag)) is None:
            raise InputError(f"{self.name}: the tag {tag} is not in its vocabulary")
        has_space = self.all_pieces[token].startswith(SPACE)  # otherwise the space is a token of its own
        return [token] if has_space else [int(self._processor.piece_to_id(SPACE)), token]

    def tag_tokens(self, tags: Iterable[str]) -> frozenset[int]:
        """The ids of these tags, and of the language tokens: no translation has one of them in its text.

        A tag that is also a word, such as `de` where `data.language_tag` is "{}", is not among them.
        """
        found = {token for token in map(self.tag_id, tags) if token is not None}
        tokens = map(self._processor.piece_to_id, self.language_tokens)
        return frozenset(found & self._user_defined if found else ()).union(tokens)

    @functools.cached_property
    def _user_defined(self) -> set[int]:
        from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # made on import

        kind = ModelProto.SentencePiece.USER_DEFINED
        pieces = ModelProto.FromString(self.model_bytes).pieces
        return {token for token, piece in enumerate(pieces) if piece.type == kind}

    def split_tag(self, text: str) -> tuple[list[int], str]:
        """The id of the language token at the beginning of a text, such as `>>deu<<`, and the rest of the text.

        Only imported vocabularies have these tokens; a token that is missing there is UNK.
        """
        match = re.match(">>.*?<<", text) if self.language_tokens else None
        if match is None:
            return [], text
        return [int(self._processor.piece_to_id(match[0]))], text[match.end() :]

    @functools.cached_property
    def language_tokens(self) -> list[str]:
        """The language tokens of an imported vocabulary, such as `>>deu<<`; SentencePiece would split them."""
        found = [token for token, piece in enumerate(self.all_pieces) if re.fullmatch(">>.*<<", piece)]
        return self.pieces([token for token in found if self._processor.is_unused(token)])  # as in no trained model

    @functools.cached_property
    def _is_plain(self) -> bool:
        """Whether SentencePiece's ids are the ids, as in every vocabulary that is trained here."""
        return not (self.language_tokens or self._is_looked_up)

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: token for token, piece in enumerate(self.all_pieces) if token > EOS_ID}

    @functools.cached_property
    def never_generated(self) -> list[int]:
        """The ids that no translation has: PAD, BOS, and the sentinels of T5, which are unused pieces."""
        sentinels = [token for token, piece in enumerate(self.all_pieces) if is_sentinel(piece)]
        return [PAD_ID, BOS_ID, *filter(self._processor.is_unused, sentinels)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids without padding, BOS and EOS; UNK becomes ` ⁇ `, and bytes that are not UTF-8 U+FFFD."""
        text: str = self._processor.decode([token for token in ids if token not in (PAD_ID, BOS_ID, EOS_ID)])
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subword of each id as the vocabulary writes it, with `▁` for a space."""
        return [self.all_pieces[token] for token in ids]

    @functools.cached_property
    def all_pieces(self) -> list[str]:
        """The subword of each id."""
        return [str(self._processor.id_to_piece(token)) for token in range(self.vocab_size)]

    def parse(self, tokens: Sequence[str]) -> list[int]:
        """The ids of subwords, written as `pieces` writes them or as numbers.

        Raises:
            InputError: A subword or number is not in this vocabulary.
        """
        if all(token.isdecimal() for token in tokens):
            # Python refuses to read numbers with thousands of digits.
            ids = [int(token) if len(token) < 20 else self.vocab_size for token in tokens]
        else:
            ids = [int(self._processor.piece_to_id(token)) for token in tokens]
        for token, token_id in zip(tokens, ids, strict=True):
            is_unknown = token_id == UNK_ID and token not in (str(UNK_ID), self.pieces([UNK_ID])[0])
            if is_unknown or token_id >= self.vocab_size:
                raise InputError(f"{self.name}: {token[:40]!r} is not in its vocabulary of {self.vocab_size} subwords")
        return ids


class Tokenizers(NamedTuple):
    """The tokenizers of both sides; with a joint vocabulary trained here they are the same object.

    Imported models may have a joint vocabulary with a different segmentation model for each side.
    """

    source: Tokenizer
    target: Tokenizer
    vocabulary: Literal["joint", "separate"]

    def save(self, directory: Path) -> None:
        """Write `joint.model`, or `source.model` and `target.model`, into an existing folder."""
        names = ["joint"] if self.source is self.target else ["source", "target"]
        for name, tokenizer in zip(names, self[:2], strict=False):
            (directory / f"{name}.model").write_bytes(tokenizer.model_bytes)


def load_tokenizers(directory: Path, read: Callable[[Path], bytes] = read_input) -> Tokenizers:
    """Read what `Tokenizers.save` wrote.

    Args:
        read: Reads a file, and may check it.

    Raises:
        InputError: A file is missing or damaged.
    """
    joint, source, target = (directory / f"{name}.model" for name in ("joint", "source", "target"))
    if joint.exists():
        tokenizer = Tokenizer(read(joint), name=str(joint))
        return Tokenizers(tokenizer, tokenizer, "joint")
    if source.exists() or target.exists():
        sides = Tokenizer(read(source), name=str(source)), Tokenizer(read(target), name=str(target))
        return Tokenizers(*sides, "joint" if sides[0].all_pieces == sides[1].all_pieces else "separate")
    raise InputError(f"{directory}: has no tokenizer: neither joint.model nor source.model and target.model")


def read_tokenizer(path: Path) -> Tokenizer:
    """Read one `.model` file, perhaps of other ids, which become ours; see `Tokenizer` and `parse_model`."""
    content = read_input(path)
    model = parse_model(content, name=str(path))
    spec = model.trainer_spec
    if (spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id) == (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
        return Tokenizer(content, name=str(path))
    names = [spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece]
    return with_pieces(model, names, [piece for piece in model.pieces if piece.piece not in names], name=str(path))


def with_pieces(model: Any, symbols: Sequence[str], others: Iterable[Any], *, name: str) -> Tokenizer:
    """A parsed model with other pieces: the names of the special symbols, in the order of our ids, then others."""
    kinds, spec, others = model.SentencePiece, model.trainer_spec, [*others]
    del model.pieces[:]
    for token, symbol in enumerate(symbols):
        model.pieces.add(piece=symbol, type=kinds.UNKNOWN if token == UNK_ID else kinds.CONTROL)
    model.pieces.extend(others)
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = symbols
    spec.pad_id, spec.unk_id, spec.bos_id, spec.eos_id = PAD_ID, UNK_ID, BOS_ID, EOS_ID
    spec.vocab_size = len(model.pieces)
    return Tokenizer(model.SerializeToString(deterministic=True), name=name)


def parse_model(model_bytes: bytes, *, name: str) -> Any:
    """The content of a `.model` file, which is called `name` in errors.

    Raises:
        InputError: It is not a SentencePiece model, or puts the space after a word.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # not for a run's own models
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # made on import

    try:
        model = ModelProto.FromString(model_bytes)
    except DecodeError as error:
        raise _not_a_model(model_bytes, name) from error
    if model.trainer_spec.treat_whitespace_as_suffix:
        raise InputError(
            f"{name}: was trained with --treat_whitespace_as_suffix=true, and only false, the default, can be used"
        )
    return model


def _not_a_model(model_bytes: bytes, name: str) -> InputError:
    return InputError(f"{name}: is not a SentencePiece model ({len(model_bytes)} bytes); copy it again from its source")


def prepare_tokenizers(
    config: TokenizerConfig, source_lines: Sequence[str], target_lines: Sequence[str], *, cache: DataCache | None = None
) -> Tokenizers:
    """The tokenizers that a config asks for: the models that it names, or models trained on these lines, or cached.

    Raises:
        InputError: A given model cannot be used, or the text does not allow `tokenizer.vocab_size`.
    """
    if config.source_model is not None:
        source = read_tokenizer(config.source_model)
        target = read_tokenizer(config.target_model) if config.target_model is not None else source
        return Tokenizers(source, target, config.vocabulary)
    sides = {"joint": [source_lines, target_lines]}
    if config.vocabulary == "separate":
        sides = {"source": [source_lines], "target": [target_lines]}
    settings = config.model_dump_json(exclude={"subword_sampling", "source_model", "target_model"})
    models = []
    for side, texts in sides.items():
        pieces = expand_pieces(config.add_pieces)
        name = "" if cache is None else entry_name("model", settings, *map(text_digest, texts), *pieces)
        if cache is not None and (file := cache.find(name)) is not None:
            models.append(Tokenizer(file.file.read(file.num_bytes)))
            continue
        lines = chain.from_iterable(SpacedText(text, min(len(text), config.max_training_lines)) for text in texts)
        text_name = "the training text" if side == "joint" else f"the {side} side of the training text"
        with show_progress("Training the tokenizer"):
            # A longer line is over any limit, so its pair is left out, and all of it would take long.
            models.append(train_tokenizer((line[:MAX_CHARACTERS] for line in lines), config, text_name=text_name))
        if cache is not None:
            cache.make(name, methodcaller("write", models[-1].model_bytes))
    return Tokenizers(models[0], models[-1], config.vocabulary)


def expand_pieces(pieces: Iterable[str]) -> list[str]:
    """The pieces of `tokenizer.add_pieces`, each once, with PLACEHOLDER_PIECES for their name.

    Raises:
        InputError: One has a meaning of its own in every vocabulary.
    """
    for piece in pieces:
        if piece in ("<pad>", "<unk>", "<s>", "</s>") or BYTE_PIECE.fullmatch(piece):
            raise InputError(f"tokenizer.add_pieces: {piece} is a special symbol of every vocabulary; leave it out")
    expanded = (PLACEHOLDER_PIECES if piece == PLACEHOLDERS_NAME else (piece,) for piece in pieces)
    return list(dict.fromkeys(chain.from_iterable(expanded)))


def train_tokenizer(
    lines: Iterable[str], config: TokenizerConfig, *, text_name: str = "the training text"
) -> Tokenizer:
    """Train a SentencePiece model on all of `lines`, deterministically and without output.

    Raises:
        InputError: There is no text, or `tokenizer.vocab_size` is too small or too large for it; the message gives the
            smallest or largest size that works.
        RunError: SentencePiece fails for another reason.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(part for line in lines for part in _TRAINED_PARTS.findall(line)),
            model_writer=model,
            model_type=config.type,
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name=config.normalization,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            user_defined_symbols=expand_pieces(config.add_pieces),
            max_sentence_length=_MAX_LINE_BYTES,
            num_threads=_TRAINER_THREADS,
            minloglevel=2,  # errors only; they are raised as well
        )
    except RuntimeError as error:
        raise _training_failure(str(error), config, text_name) from error
    release_free_memory()  # the trainer held millions of sentences
    return Tokenizer(model.getvalue())


class VocabularyTooLarge(InputError):
    """The text allows fewer entries than tokenizer.vocab_size: at most `largest`."""

    def __init__(self, message: str, largest: int) -> None:
        super().__init__(message)
        self.largest = largest


def _training_failure(message: str, config: TokenizerConfig, text_name: str) -> InputError | RunError:
    """Explain SentencePiece's error in our own words; a test shows that its limits are exact."""
    size = f"tokenizer.vocab_size = {config.vocab_size}"
    if found := re.search(r"Please set it to a value <= (\d+)", message):
        problem = f"{size} is too large for {text_name}: {found[1]} is the largest that works with type {config.type}"
        return VocabularyTooLarge(problem, int(found[1]))
    if found := re.search(r"required_chars\. \d+ vs (\d+)", message):
        problem = f"{size} is too small for {text_name}: {found[1]} is the smallest that works"
        pieces = ", or give fewer tokenizer.add_pieces" * bool(config.add_pieces)
        return InputError(f"{problem}; lower tokenizer.character_coverage for fewer{pieces}")
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return InputError(f"tokenizer: {text_name} is empty")
    return RunError(f"tokenizer: SentencePiece could not be trained on {text_name}: {message}")
