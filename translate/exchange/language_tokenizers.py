"""The tokenizers in transformers of M2M100, NLLB-200 and mBART-50, which put a tag before each text, and of T5."""

import dataclasses
import json
import logging
import re
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]  # made on import

from translate.atomic import write_text
from translate.config.data import LanguageCode, LanguageTag
from translate.config.languages import Languages
from translate.config.schema import Config
from translate.data.batching import EncodedPair
from translate.data.tokenizer import (
    BOS_ID,
    BYTE_PIECE,
    EOS_ID,
    PAD_ID,
    SPACE,
    UNK_ID,
    Tokenizer,
    Tokenizers,
    is_sentinel,
)
from translate.decoding.counterparts import Format
from translate.errors import InputError, RunError, import_extra
from translate.exchange.foreign import Vocabulary
from translate.files import read_json
from translate.model import Transformer

logger = logging.getLogger(__name__)

TAGS = {"M2M100Tokenizer": "__{}__", "NllbTokenizer": "{}", "MBart50Tokenizer": "{}", "T5Tokenizer": "<2{}>"}
"""The tag of a language, by the class of the tokenizer."""
FAIRSEQ_FORMATS: tuple[Format, ...] = ("m2m_100", "mbart")
"""The models with such a tokenizer. The end symbol also begins their targets."""
_T5_TAG = r"<2([a-z]{2,3}(?:_[A-Z][a-z]{3})?(?:_[A-Z]{2})?)>"  # of MADLAD-400, which also has tags of other kinds
FILES = {
    "MarianTokenizer": ("source.spm", "target.spm", "vocab.json"),
    "M2M100Tokenizer": ("sentencepiece.bpe.model", "vocab.json"),
    **dict.fromkeys(("NllbTokenizer", "MBart50Tokenizer"), ("sentencepiece.bpe.model",)),
    "T5Tokenizer": ("spiece.model",),
}
"""The files that each class of tokenizer needs."""
_CLASSES: dict[object, tuple[str, ...]] = {  # by the type of the model; the first one unless the files name another
    "m2m_100": ("M2M100Tokenizer", "NllbTokenizer"),
    "mbart": ("MBartTokenizer", "MBart50Tokenizer"),  # mBART-25 has the first one, which puts the tags elsewhere
    **dict.fromkeys(("t5", "mt5"), ("T5Tokenizer",)),
}
_T5_CLASSES = ("MT5Tokenizer", "PreTrainedTokenizer", "TokenizersBackend")  # other names of T5Tokenizer


@dataclasses.dataclass
class TokenizerSettings:
    """The keys of `tokenizer_config.json` that an import reads. Only our own exports name the languages."""

    tokenizer_class: str | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    languages: tuple[LanguageCode, ...] = ()
    language_tags: Literal["source", "target", "both"] | None = None
    language_tag: LanguageTag = "{}"


def read_tokenizer_settings(folder: Path) -> TokenizerSettings:
    """The settings of the tokenizer in a folder, with its class, which `config.json` may name instead.

    Raises:
        InputError: They are damaged, or name a class of tokenizer that cannot be imported.
    """
    file, model = folder / "tokenizer_config.json", read_json(folder / "config.json", dict[str, Any])
    settings = read_json(file, TokenizerSettings) if file.is_file() else TokenizerSettings()
    usual, *others = _CLASSES.get(str(model.get("model_type")), ("MarianTokenizer",))
    name = str(settings.tokenizer_class or model.get("tokenizer_class") or usual).removesuffix("Fast")
    if usual == "MarianTokenizer" or (usual == "T5Tokenizer" and name in _T5_CLASSES):
        name = usual
    settings.tokenizer_class = name = "MarianTokenizer" if (folder / "source.spm").is_file() else name
    known = [each for each in (usual, *others) if each in FILES]
    if name not in ("MarianTokenizer", *known):
        raise InputError(f"{folder}: has a tokenizer of the class {name}; only {' or '.join(known)} can be imported")
    return settings


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder; see `read_tokenizer_settings`. Code in the folder is never run."""
    name = read_tokenizer_settings(folder).tokenizer_class
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # not used here
        return getattr(import_extra("transformers"), str(name)).from_pretrained(
            folder, local_files_only=True, sp_model_kwargs={}
        )


def language_tags(tokenizer: Any, settings: TokenizerSettings) -> tuple[str, dict[str, int]]:
    """The tag of a language with {} for its code, and the ids of all tags by code; our exports name both."""
    name, codes = type(tokenizer).__name__, settings.languages
    tag = TAGS.get(name, settings.language_tag)
    if name in ("M2M100Tokenizer", "MBart50Tokenizer"):
        return tag, dict(tokenizer.lang_code_to_id)
    if name == "T5Tokenizer":
        found = sorted((row, re.fullmatch(_T5_TAG, piece)) for piece, row in tokenizer.get_vocab().items())
        return tag, {match[1]: row for row, match in found if match}
    if name == "NllbTokenizer":
        codes = tuple(code for code in map(str, tokenizer.extra_special_tokens) if not code.startswith("<"))
    words = list(map(tag.format, codes))
    if name == "MarianTokenizer":  # of an export, where the space before a tag may be a token of its own
        words = [word if word in tokenizer.encoder else f"{SPACE}{word}" for word in words]
    return tag, dict(zip(codes, tokenizer.convert_tokens_to_ids(words), strict=True))


def added_tokens(tokenizer: Any, tags: Collection[str] = ()) -> dict[str, int]:
    """Our pieces for the tokens that were added to a vocabulary, with their ids; no segmentation divides them.

    The tokenizers of NLLB and mBART read the space before such a token as a token of its own. The others leave it out.

    Args:
        tags: The pieces of languages, which are not among them.
    """
    is_fairseq = type(tokenizer).__name__ in ("NllbTokenizer", "MBart50Tokenizer")
    known = ("<s>", "<pad>", "</s>", "<unk>", "<mask>") if is_fairseq else getattr(tokenizer, "encoder", None)
    if known is None:  # T5's
        known = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False)
    added = {name: row for name, row in tokenizer.added_tokens_encoder.items() if name not in known}
    space = "" if is_fairseq else SPACE
    return {f"{space}{name}": row for name, row in added.items() if f"{SPACE}{name}" not in tags}


def is_symbol(subword: str) -> bool:
    """Whether this entry of the vocabulary never comes from text."""
    return subword in ("<s>", "<mask>") or is_sentinel(subword)


def read_vocabulary(folder: Path, model: Any, tokenizer: Any, tags: dict[str, int]) -> Vocabulary:
    """The subwords of a tokenizer and its tags; a row of the embeddings that has no name in the files gets one.

    Sentinels for which there are no rows are left out.

    Args:
        tags: The ids of the tags of languages, by our pieces for them.

    Raises:
        InputError: The tokenizer does not match the model.
    """
    config, num_rows = model.config, model.config.vocab_size
    ids = tokenizer.encoder if hasattr(tokenizer, "encoder") else tokenizer.get_vocab()
    ids = {piece: row for piece, row in ids.items() if row < num_rows or not is_sentinel(piece)}
    added = added_tokens(tokenizer, tags)
    plain = added | {piece: row for piece, row in ids.items() if row not in {*tags.values(), *added.values()}}
    rows = {row: piece for piece, row in (plain | tags).items()}
    if len(rows) < len(plain) + len(tags) or not 0 <= min(rows) <= max(rows) < num_rows:
        raise InputError(
            f"{folder}: the tokenizer has {len(plain) + len(tags)} subwords with the ids {min(rows)} to {max(rows)},"
            f" and the model has {num_rows} embeddings: each subword needs its own"
        )
    subwords = [rows.get(row, f"<unnamed_{row}>") for row in range(num_rows)]
    special = {"start": config.decoder_start_token_id, "pad": config.pad_token_id}
    vocabulary = Vocabulary(subwords, tokenizer.unk_token_id, config.eos_token_id, **special)
    return vocabulary._replace(added=frozenset(added), symbols=frozenset([*tags, *filter(is_symbol, subwords)]))


def check_text(
    tokenizer: Any, vocabularies: Sequence[Vocabulary], pairs: Sequence[EncodedPair], tokenizers: Tokenizers
) -> None:
    """Compare our ids of sources, and our texts of targets, with those of a tokenizer of transformers.

    T5 was trained with the ids of its SentencePiece model. The tokenizer of transformers normalises some characters in
    other ways; a warning says so. Another warning names a text with an added word, beside which the tokens are others.

    Raises:
        RunError: A text has other tokens, or most of T5's texts have.
    """
    source_rows, rows = (vocabulary.rows for vocabulary in vocabularies)
    source_ids = {row: token for token, row in enumerate(source_rows) if token != BOS_ID}
    names = (name.removeprefix(SPACE) for name in vocabularies[0].names)
    tags = [f"{name} " for name in names if re.fullmatch(">>.*|<2[a-z]{2,3}>", name)][:1]
    before = choose_language(tokenizer, tokenizers.source)
    unread = [vocabulary.symbols | vocabulary.added | {*tokenizer.all_special_tokens} for vocabulary in vocabularies]
    if tokenizer.is_fast:  # without bytes
        unread = [names | {*filter(BYTE_PIECE.fullmatch, vocabularies[0].subwords)} for names in unread]
    is_text = [[name not in unread[side] for name in vocabulary.names] for side, vocabulary in enumerate(vocabularies)]

    def split(text: str) -> tuple[list[int | None], list[int]]:
        theirs = [source_ids.get(row) for row in tokenizer(text)["input_ids"]]
        return theirs, [*before, *tokenizers.source.encode(text), EOS_ID]

    different = []  # texts that transformers splits in another way than T5's model of SentencePiece
    for pair in pairs:
        words = [[token for token in ids if is_text[side][token]] for side, ids in enumerate(pair)]
        source, text = tokenizers.source.decode(words[0]), tokenizers.target.decode(words[1]).strip()
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}  # some folders ask to clean up
        is_same = text == tokenizer.decode([rows[token] for token in words[1]], **options).strip()
        for tag in ("", *tags):
            theirs, ours = split(tag + source)
            if theirs != ours and type(tokenizer).__name__ == "T5Tokenizer":
                pieces = SentencePieceProcessor(model_file=tokenizer.vocab_file).encode(source, out_type=str)
                own = [*tokenizer(tag)["input_ids"][:-1], *tokenizer.convert_tokens_to_ids(pieces)]
                own = [*map(source_ids.get, own), theirs[-1]]
                different += [source] if theirs != own else []
                theirs = own
            # Their tokenizer may join our subwords into one that was pruned.
            is_same = is_same and (None in theirs or theirs == ours)
        if not is_same:
            problem = f"does not split {source!r} into the original's tokens, or does not decode to {text!r}"
            raise RunError(f"the tokenizer of transformers {problem}; nothing is kept")
    if different:
        share = f"{len({*different})} of {len(pairs)} texts, such as {different[0]!r}"
        problem = f"transformers splits {share} differently from {tokenizer.vocab_file}"
        if 2 * len({*different}) > len(pairs):
            raise RunError(f"{problem}; copy the model's own tokenizer.json and SentencePiece model; nothing is kept")
        logger.warning(f"{problem}, which T5 was trained with; the run follows that file")
    source = tokenizers.source.decode([token for token in pairs[1].source if is_text[0][token]])
    for word in sorted(name.removeprefix(SPACE) for name in vocabularies[0].added)[:3]:
        texts = (f"{word} {source}", f"{source} {word}", f"{source} {word}, {source}")
        if lost := [text for text in texts for theirs, ours in [split(text)] if None not in theirs and theirs != ours]:
            logger.warning(f"transformers splits {lost[0]!r} differently: {word!r} was added to its tokenizer")


def choose_language(theirs: Any, ours: Tokenizer) -> list[int]:
    """Our ids of what a tokenizer puts before a text; it gets another language if we do not know its own."""
    if not hasattr(theirs, "src_lang"):
        return []
    tag, languages = language_tags(theirs, TokenizerSettings())
    codes = (theirs.src_lang, *languages)
    theirs.src_lang = next(code for code in codes if ours.tag_id(tag.format(code)) is not None)
    return ours.tag_ids(tag.format(theirs.src_lang))


def fairseq_vocabulary(model: Transformer, tokenizers: Tokenizers, config: Config) -> Vocabulary | None:
    """The vocabulary of our model as an M2M100 or mBART model; None: it cannot be one.

    An imported model can be one again as long as `<s>` has the embedding of `</s>`, with which targets begin there: as
    imported, or while embeddings are frozen. M2M100 has no bias, so ours may only exclude `<s>`.
    """
    bias, table, pieces, data = model.output.bias, model.output.weight, tokenizers.source.all_pieces, config.data
    is_joint = tokenizers.source is tokenizers.target
    if data.language_tags != "both" or not is_joint:
        return None
    others, start = pieces[EOS_ID + 1 :], 2
    if not model.config.output_bias:
        others, start = [pieces[BOS_ID], *others], 0
    elif not torch.equal(table[BOS_ID], table[EOS_ID]) or (
        model.config.positions == "fairseq" and bias.nonzero().flatten().tolist() != [BOS_ID]
    ):
        return None
    subwords = [others[0], *(pieces[token] for token in (PAD_ID, EOS_ID, UNK_ID)), *others[1:]]
    symbols = frozenset([*_tags(config), *filter(is_symbol, subwords)])
    return Vocabulary(subwords, unk=3, eos=2, start=start, pad=1, symbols=symbols)


def t5_vocabulary(model: Transformer, tokenizers: Tokenizers, config: Config) -> Vocabulary | None:
    """The vocabulary of our model as a T5 model; None: it cannot be one.

    T5 has no bias, so ours may only exclude one symbol, which has no row there: padding, because T5 begins with it; or
    the start symbol, because MADLAD-400 begins with `<unk>`. Fine-tuning makes these two different. Then the row of the
    input is that of the start symbol, as long as nothing is unknown in a source because there are bytes.
    """
    bias, table, pieces = model.output.bias, model.decoder.embedder.tokens.weight, tokenizers.source.all_pieces
    excluded = [] if bias is None else bias.nonzero().flatten().tolist()
    has_bytes = any(map(BYTE_PIECE.fullmatch, pieces)) and model.config.tie_embeddings == "inputs"
    if tokenizers.source is not tokenizers.target:
        return None
    order: tuple[int, ...]
    if not excluded:
        order, start, pad = (PAD_ID, UNK_ID, BOS_ID, EOS_ID), 2, 0
    elif excluded == [PAD_ID]:
        order, start, pad = (BOS_ID, EOS_ID, UNK_ID), 0, 0
    elif excluded == [BOS_ID] and (has_bytes or torch.equal(table[BOS_ID], table[UNK_ID])):
        order, start, pad = (UNK_ID, PAD_ID, EOS_ID), 0, 1
    else:
        return None
    subwords = [*(pieces[token] for token in order), *pieces[EOS_ID + 1 :]]
    if start == pad:
        subwords[pad] = pieces[PAD_ID]
    tags = (tokenizers.source.tag_id(tag) for tag in Languages(config.data).every_tag)
    symbols = frozenset([*(pieces[tag] for tag in tags if tag is not None), *filter(is_symbol, subwords)])
    return Vocabulary(subwords, order.index(UNK_ID), order.index(EOS_ID), start=start, pad=pad, symbols=symbols)


def _tags(config: Config) -> list[str]:
    data = config.data
    return [f"{SPACE}{data.language_tag.format(code)}" for code in Languages(data).settings["languages"]]


def write_tokenizer(vocabulary: Vocabulary, tokenizer: Tokenizer, config: Config, directory: Path) -> bool:
    """Write an `M2M100Tokenizer`, `NllbTokenizer` or `MBart50Tokenizer`, unless the vocabulary cannot be that of one.

    All have text, then tags, then unused entries. NLLB's and mBART's have `<mask>` and no unused pieces. The languages
    are fixed, except for NLLB's, whose SentencePiece model has the type bpe and mBART's unigram.
    """
    data, names, kinds = config.data, vocabulary.subwords, ModelProto.SentencePiece
    languages, tags = Languages(data).settings["languages"], _tags(config)
    model = ModelProto.FromString(tokenizer.model_bytes)
    pieces, after = {piece.piece: piece for piece in model.pieces}, model.pieces[tokenizer.vocab_size + 1 :]
    end = names.index(tags[0]) if {*tags} & {*names} else len(names)
    last, is_unused = end + len(tags), [pieces[name].type == kinds.UNUSED for name in names]
    if names[end:last] != tags or not all(is_unused[last:]):
        return False
    known = import_extra("transformers.models.m2m_100.tokenization_m2m_100").FAIRSEQ_LANGUAGE_CODES
    sets = [key for key, codes in known.items() if codes == languages]
    if data.language_tag == TAGS["M2M100Tokenizer"] and sets:
        settings: dict[str, Any] = {"tokenizer_class": "M2M100Tokenizer", "language_codes": sets[0]}
        settings["additional_special_tokens"] = [tag.removeprefix(SPACE) for tag in tags]  # `decode` skips them
        ids = {name: row for row, name in enumerate(names[:end])}
        write_text(directory / "vocab.json", json.dumps(ids, indent=2, ensure_ascii=False) + "\n")
    elif data.language_tag != "{}" or "<mask>" not in names or any(is_unused[4:end]) or after:
        return False
    elif model.trainer_spec.model_type == model.trainer_spec.BPE:
        special = {row: name.removeprefix(SPACE) for row, name in enumerate(names) if row < 4 or end <= row < last}
        special |= {row: name for row, name in enumerate(names) if name == "<mask>"}
        added = {str(row): {"content": name, "special": True, "normalized": False} for row, name in special.items()}
        settings = {"tokenizer_class": "NllbTokenizer", "extra_special_tokens": languages}
        settings |= {"added_tokens_decoder": added}
    elif languages == import_extra("transformers.models.mbart50.tokenization_mbart50").FAIRSEQ_LANGUAGE_CODES:
        settings = {"tokenizer_class": "MBart50Tokenizer"}
    else:
        return False
    has_english = {"en", "eng_Latn", "en_XX"} & {*languages}  # transformers' default
    if Languages(data).directions or not has_english:
        settings |= zip(("src_lang", "tgt_lang"), Languages(data).usual, strict=True)
    del model.pieces[:]
    symbols = {"<unk>": kinds.UNKNOWN, "<s>": kinds.CONTROL, "</s>": kinds.CONTROL}  # as fairseq's models have them
    model.pieces.extend([kinds(piece=symbol, type=kind) for symbol, kind in symbols.items()])
    model.pieces.extend([*(pieces[name] for name in names[4:end]), *after])
    spec = model.trainer_spec
    spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id = 0, 1, 2, -1
    spec.unk_piece, spec.bos_piece, spec.eos_piece = symbols
    (directory / "sentencepiece.bpe.model").write_bytes(model.SerializeToString(deterministic=True))
    write_text(directory / "tokenizer_config.json", json.dumps(settings, ensure_ascii=False) + "\n")
    return True
