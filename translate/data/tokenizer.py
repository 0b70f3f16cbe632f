"""Text to token ids and back: SentencePiece models with one fixed set of special ids.

What a token is belongs to the model file; which ids are special belongs to the whole project, and is settled here.
"""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import sentencepiece

from translate.config import TokenizerConfig
from translate.data.subword_sampling import SubwordSampler
from translate.data.text import require_file
from translate.errors import InputError
from translate.memory import release_free_memory

PAD_ID = 0
"""Fills up the shorter sequences of a batch; never a token of a sentence."""
UNK_ID = 1
"""A character that the vocabulary cannot spell; not produced where byte_fallback is on."""
BOS_ID = 2
"""What the decoder sees before the first target token."""
EOS_ID = 3
"""Ends every source and every target."""


class Tokenizer:
    """One SentencePiece model. Ids never include BOS or EOS: whoever builds a batch adds them."""

    def __init__(self, model_bytes: bytes, *, name: str = "the SentencePiece model") -> None:
        """
        Args:
            model_bytes: The serialised model, the content of a `.model` file.
            name: What errors call it: its path, or the key that names it.

        Raises:
            InputError: The bytes are no SentencePiece model, or one with other special ids.
        """
        self.model_bytes = model_bytes
        self._name = name
        self._sampler: SubwordSampler | None = None  # made when first asked for
        self._processor = sentencepiece.SentencePieceProcessor()
        if not model_bytes:
            raise InputError(f"{name}: is empty, and so no SentencePiece model")
        try:
            self._processor.LoadFromSerializedProto(model_bytes)
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{name}: is no SentencePiece model ({len(model_bytes)} bytes)") from error
        sp = self._processor
        pad, unk, bos, eos = sp.pad_id(), sp.unk_id(), sp.bos_id(), sp.eos_id()
        if (pad, unk, bos, eos) != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise InputError(
                f"{name}: has the special ids pad {pad}, unk {unk}, bos {bos}, eos {eos} (-1: none), but"
                f" pad {PAD_ID}, unk {UNK_ID}, bos {BOS_ID}, eos {EOS_ID} are needed: train it with"
                f" spm_train --pad_id={PAD_ID} --unk_id={UNK_ID} --bos_id={BOS_ID} --eos_id={EOS_ID}"
            )

    @property
    def vocab_size(self) -> int:
        """Number of ids, the special ones included."""
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """The ids of one sentence; white space alone gives none."""
        ids: list[int] = self._processor.encode(text)
        return ids

    def encode_lines(self, lines: Sequence[str], *, num_threads: int) -> list[list[int]]:
        """The ids of many sentences; the result does not depend on `num_threads`."""
        ids: list[list[int]] = self._processor.encode(list(lines), num_threads=num_threads)
        return ids

    def sample_lines(self, lines: Sequence[str], *, amount: float, seed: int) -> list[list[int]]:
        """Draws one segmentation of each sentence: a pure function of the arguments, in every process.

        Args:
            amount: The probability of dropping a merge (BPE), or the exponent alpha on the probability of a
                segmentation (unigram; towards 0 all are alike).
            seed: Not negative.

        Source: Kudo 2018, https://arxiv.org/abs/1804.10959; Provilkov et al. 2020, https://arxiv.org/abs/1910.13267.
        """
        if self._sampler is None:
            self._sampler = SubwordSampler(self._processor, unk_id=UNK_ID)
        return self._sampler.sample(list(lines), amount=amount, seed=seed)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, without padding, BOS and EOS; UNK reads ` ⁇ `, and bytes that are no UTF-8 U+FFFD."""
        text: str = self._processor.decode([token for token in ids if token not in (PAD_ID, BOS_ID, EOS_ID)])
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subword of each id as the vocabulary writes it, `▁` for a space; for pictures and constraints."""
        return [str(self._processor.id_to_piece(int(token))) for token in ids]

    def parse(self, tokens: Sequence[str]) -> list[int]:
        """The ids of subwords as `pieces` writes them, or of ids written as numbers.

        Raises:
            InputError: A subword or number that is not of this vocabulary.
        """
        if all(token.isdecimal() for token in tokens):
            # Python reads no number of thousands of digits.
            ids = [int(token) if len(token) < 20 else self.vocab_size for token in tokens]
        else:
            ids = [int(self._processor.piece_to_id(token)) for token in tokens]
        for token, token_id in zip(tokens, ids, strict=True):
            is_unknown = token_id == UNK_ID and token not in (str(UNK_ID), self.pieces([UNK_ID])[0])
            if is_unknown or token_id >= self.vocab_size:
                raise InputError(f"{self._name}: {token[:40]!r} is not in its vocabulary of {self.vocab_size} subwords")
        return ids

    def num_unknown(self, ids: Sequence[int]) -> int:
        """How many of the ids stand for something that the vocabulary cannot spell."""
        return sum(token == UNK_ID for token in ids)


class Tokenizers(NamedTuple):
    """The two sides of a translation; of a joint vocabulary both are the same object."""

    source: Tokenizer
    target: Tokenizer
    vocabulary: Literal["joint", "separate"]

    def save(self, directory: Path) -> None:
        """Writes `joint.model`, or `source.model` and `target.model`, into a folder that exists.

        Raises:
            OSError: The folder cannot be written to.
        """
        if self.vocabulary == "joint":
            (directory / "joint.model").write_bytes(self.source.model_bytes)
        else:
            (directory / "source.model").write_bytes(self.source.model_bytes)
            (directory / "target.model").write_bytes(self.target.model_bytes)


def load_tokenizers(directory: Path) -> Tokenizers:
    """Reads what `Tokenizers.save` wrote.

    Raises:
        InputError: A file is missing or damaged, or both kinds of vocabulary are there.
    """
    joint, source, target = (directory / f"{name}.model" for name in ("joint", "source", "target"))
    if joint.exists() and (source.exists() or target.exists()):
        raise InputError(f"{directory}: has joint.model beside source.model or target.model; one kind must go")
    if joint.exists():
        tokenizer = read_tokenizer(joint)
        return Tokenizers(tokenizer, tokenizer, "joint")
    if source.exists() or target.exists():
        return Tokenizers(read_tokenizer(source), read_tokenizer(target), "separate")
    raise InputError(f"{directory}: has no tokenizer: neither joint.model nor source.model and target.model")


def read_tokenizer(path: Path) -> Tokenizer:
    """Reads one `.model` file.

    Raises:
        InputError: No file, or it cannot be read, or is no SentencePiece model with this project's special ids.
    """
    require_file(path)
    try:
        model_bytes = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: the SentencePiece model cannot be read ({error.strerror})") from error
    return Tokenizer(model_bytes, name=str(path))


# The model depends on the number of threads (sums of floats; the number is in the file), so it is no setting.
_TRAINER_THREADS = 4
# SentencePiece leaves out longer lines without a word; its own default is 4192 bytes.
_MAX_LINE_BYTES = 2**30
# Longer lines are trained on in parts, cut at spaces: a long line that occurs twice takes unigram's trainer minutes.
_PART_CHARACTERS = 4000


def prepare_tokenizers(config: TokenizerConfig, source_lines: Sequence[str], target_lines: Sequence[str]) -> Tokenizers:
    """The tokenizers a config asks for: the ready models that it names, else trained on these lines.

    Raises:
        InputError: A ready model does not serve, or the text does not allow `tokenizer.vocab_size`.
    """
    if config.source_model is not None:
        source = read_tokenizer(config.source_model)
        target = read_tokenizer(config.target_model) if config.target_model is not None else source
        return Tokenizers(source, target, config.vocabulary)
    sources, targets = (_evenly_spaced(lines, config.max_training_lines) for lines in (source_lines, target_lines))
    if config.vocabulary == "joint":
        tokenizer = train_tokenizer(chain(sources, targets), config, text_name="the training text")
        return Tokenizers(tokenizer, tokenizer, "joint")
    return Tokenizers(
        train_tokenizer(sources, config, text_name="the source side of the training text"),
        train_tokenizer(targets, config, text_name="the target side of the training text"),
        "separate",
    )


def train_tokenizer(
    lines: Iterable[str], config: TokenizerConfig, *, text_name: str = "the training text"
) -> Tokenizer:
    """Trains a SentencePiece model on all of `lines`, deterministically and without output.

    Args:
        text_name: What errors call the lines.

    Raises:
        InputError: There is no text, or `tokenizer.vocab_size` is too small or too large for it; the message names the
            smallest or the largest that works.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(part for line in lines for part in _parts(line)),
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
            max_sentence_length=_MAX_LINE_BYTES,
            num_threads=_TRAINER_THREADS,
            minloglevel=2,  # errors only; they are raised as well
        )
    except RuntimeError as error:
        raise InputError(_training_failure(str(error), config, text_name)) from error
    release_free_memory()  # the trainer held millions of sentences
    return Tokenizer(model.getvalue())


def _training_failure(message: str, config: TokenizerConfig, text_name: str) -> str:
    """Our words for SentencePiece's errors; the limits that it states are exact, as the tests try."""
    if too_large := re.search(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)", message):
        return (
            f"tokenizer.vocab_size = {config.vocab_size} is too large for {text_name}:"
            f" {too_large[1]} is the largest that works with type {config.type}"
        )
    if too_small := re.search(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)", message):
        holds = "special symbols, 256 bytes" if config.byte_fallback else "special symbols"
        return (
            f"tokenizer.vocab_size = {config.vocab_size} is too small for {text_name}:"
            f" {too_small[1]} is the smallest that works ({holds} and each character once);"
            " a lower tokenizer.character_coverage needs fewer"
        )
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return f"tokenizer: {text_name} is empty, and a tokenizer cannot be trained on it"
    return f"tokenizer: SentencePiece could not be trained on {text_name}: {message}"


def _parts(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > _PART_CHARACTERS:
        space = line.rfind(" ", start + 1, start + _PART_CHARACTERS)
        end = space if space > 0 else start + _PART_CHARACTERS
        yield line[start:end]
        start = end
    yield line[start:]


def _evenly_spaced(lines: Sequence[str], max_lines: int) -> Iterator[str]:
    """At most so many lines, one by one: the trainer keeps its own copy."""
    if len(lines) <= max_lines:
        return iter(lines)
    return (lines[number * len(lines) // max_lines] for number in range(max_lines))
