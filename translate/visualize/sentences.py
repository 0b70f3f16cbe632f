"""A sentence and its translation, decoded or forced, as the tokens that label the rows and columns of pictures."""

from collections.abc import Sequence
from typing import NamedTuple

from translate.data.batching import EncodedPair
from translate.data.tokenizer import BOS_ID, EOS_ID, Tokenizer
from translate.decoding import Translator
from translate.decoding.output.words import Word, group_words
from translate.errors import InputError

MERGED = (
    "Whole words: weights are summed over the pieces of a word attended to, and averaged over the attending word's."
)


class Tokens(NamedTuple):
    """The tokens of a sequence as the model sees it, and the words that they spell."""

    pieces: list[str]  # special symbols included
    words: list[Word]  # each special symbol is a word by itself


class SentencePair(NamedTuple):
    """A sentence and its translation as tokens."""

    source_text: str
    target_text: str
    text_ids: EncodedPair  # of the texts alone
    ids: EncodedPair  # of what the model sees: with the tags of languages before them
    source: Tokens  # what the encoder reads: these tokens, </s>
    target_input: Tokens  # what the decoder reads: <s>, these tokens
    target_output: Tokens  # what the decoder predicts, position by position: these tokens, </s>


def read_sentence(translator: Translator, text: str, *, target: str | None = None) -> SentencePair:
    """Tokenize a sentence and its translation.

    Args:
        target: The translation; None: the translator decodes one.

    Raises:
        InputError: A text is empty, not Unicode, or longer than the positions of the model.
    """
    tokenizers, (source_tag, target_tag) = translator.tokenizers, translator.tag_ids()
    source_ids = _encode(tokenizers.source, text, what="the sentence", translator=translator)
    if target is None:
        (translation,) = translator.translate([text], split_sentences="never")  # the picture shows a single pass
        target_ids = list(translation.ids)
        check_positions(target_ids, what="its translation", translator=translator)
    else:
        target_ids = _encode(tokenizers.target, target, what="the target", translator=translator)
    ids = EncodedPair(source_tag + source_ids, target_tag + target_ids)
    return SentencePair(
        source_text=text,
        target_text=tokenizers.target.decode(target_ids),
        text_ids=EncodedPair(source_ids, target_ids),
        ids=ids,
        source=tokens_of(tokenizers.source, ids.source),
        target_input=tokens_of(tokenizers.target, ids.target, is_input=True),
        target_output=tokens_of(tokenizers.target, ids.target),
    )


def _encode(tokenizer: Tokenizer, text: str, *, what: str, translator: Translator) -> list[int]:
    try:
        text.encode()
    except UnicodeEncodeError:  # of bytes that are not UTF-8
        raise InputError(f"{what} is not Unicode: {text!r}; set the terminal to UTF-8") from None
    ids = tokenizer.encode(text)
    if not ids:
        raise InputError(f"{what} is empty: {text!r} has no words to look at")
    check_positions(ids, what=what, translator=translator)
    return ids


def check_positions(ids: Sequence[int], *, what: str, translator: Translator) -> None:
    """Raise an InputError if a text, called `what`, has more tokens than the model has positions."""
    limit, size = translator.engine.position_limit, len(ids) + max(map(len, translator.tag_ids())) + 1
    if limit is not None and size > limit:
        raise InputError(
            f"{what} has {size} tokens with its special symbols, more than the {limit} positions that the model has"
            f" (model.max_positions = {limit}): give a shorter one"
        )


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int], *, is_input: bool = False) -> Tokens:
    """Tokens followed by </s>, or, as the decoder's input, preceded by <s>; each symbol is a word by itself."""
    pieces = tokenizer.pieces(ids)
    (symbol,) = tokenizer.pieces([BOS_ID if is_input else EOS_ID])
    if not is_input:
        return Tokens([*pieces, symbol], [*group_words(pieces), Word(symbol, [len(pieces)])])
    shifted = [Word(text, [position + 1 for position in positions]) for text, positions in group_words(pieces)]
    return Tokens([symbol, *pieces], [Word(symbol, [0]), *shifted])
