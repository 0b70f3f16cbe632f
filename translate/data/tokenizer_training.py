"""Where tokenizers come from: trained on the corpus, or given ready. The same text and config give the same bytes."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import sentencepiece

from translate.config import TokenizerConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, Tokenizers, read_tokenizer
from translate.errors import InputError
from translate.memory import release_free_memory

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
