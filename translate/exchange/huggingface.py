"""Exports to Hugging Face transformers: a MarianMT model where that is exact, else a model with a modelling file."""

import inspect
import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from translate.atomic import write_text
from translate.config.data import Direction
from translate.config.languages import UNKNOWN, Languages
from translate.config.schema import NEWER_MODEL_KEYS, Config
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPACE, UNK_ID, Tokenizers
from translate.decoding.agreement import check_agreement, probe
from translate.decoding.counterparts import TABLE_POSITIONS, Format, find_lacking, position_limit, to_settings
from translate.decoding.engines.ctranslate2 import length_power
from translate.errors import RunError, import_extra
from translate.exchange.foreign import Vocabulary
from translate.exchange.language_tokenizers import (
    FAIRSEQ_FORMATS,
    check_text,
    fairseq_vocabulary,
    load_tokenizer,
    t5_vocabulary,
    write_tokenizer,
)
from translate.exchange.weights import WEIGHT_NAMES, foreign_weights, split_weights
from translate.model import Transformer, log_probabilities

logger = logging.getLogger(__name__)

SYMBOLS = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": BOS_ID}
NO_LAYERDROP = {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}  # M2M100's default is 0.05
_MARIAN_SHAPE = {  # settings of `MarianConfig`, and ours; two for the same one must have the same value
    "d_model": "d_model", "encoder_attention_heads": "num_heads", "decoder_attention_heads": "num_heads",
    "encoder_ffn_dim": "d_ff", "decoder_ffn_dim": "d_ff", "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers", "dropout": "dropout", "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
}  # fmt: skip
_T5_SHAPE = {  # settings of `T5Config`, and ours; its rate of dropout is also that of attention and of activations
    "d_model": "d_model", "num_heads": "num_heads", "d_kv": "head_dim", "d_ff": "d_ff", "dropout_rate": "dropout",
    "num_layers": "num_encoder_layers", "num_decoder_layers": "num_decoder_layers",
    "relative_attention_num_buckets": "relative_buckets", "relative_attention_max_distance": "relative_max_distance",
    "layer_norm_epsilon": "norm_epsilon",
}  # fmt: skip
SHAPES: dict[Format, dict[str, str]] = {
    **dict.fromkeys(("marian_mt", "m2m_100"), _MARIAN_SHAPE),
    "mbart": _MARIAN_SHAPE | {"max_position_embeddings": "max_positions"},
    "t5": _T5_SHAPE,
}
_VOCABULARIES = dict.fromkeys(FAIRSEQ_FORMATS, fairseq_vocabulary) | {"t5": t5_vocabulary}
PATIENCE = {False: 0, True: 1, "never": 1000}
"""Our `decoding.patience` for each value of `early_stopping` in transformers."""


def model_settings(model: Transformer, of: Format) -> dict[str, Any]:
    """Sizes and special symbols of our model as the settings of a config in transformers."""
    sizes = model.config.model_dump() | {"head_dim": model.config.attention_dim // model.config.num_heads}
    settings: dict[str, Any] = SYMBOLS | {"vocab_size": model.encoder.embedder.tokens.num_embeddings}
    if of != "t5":
        settings |= {**NO_LAYERDROP, "forced_eos_token_id": None, "decoder_vocab_size": model.output.out_features}
        settings["max_position_embeddings"] = position_limit(model.config, "marian_mt")
    return settings | {theirs: sizes[ours] for theirs, ours in SHAPES[of].items()}


def generation_settings(
    run_config: Config, tokenizers: Tokenizers, *, limit: int | None, rows: Sequence[int]
) -> dict[str, Any]:
    """The run's search as the settings of a `GenerationConfig`, as far as it has them.

    `generate` divides the log-probability by length^length_penalty, as our kind `average` does. The tag of the default
    target is forced as the first token. `generate` counts the start symbol and the tag in lengths, and also penalizes a
    repetition of the start symbol, which therefore must not be the end symbol.

    Args:
        limit: The most tokens that the model takes; None: no limit.
        rows: The exported id of each of our ids.
    """
    config, languages = run_config.decoding, Languages(run_config.data)
    never = dict.fromkeys(rows[token] for token in tokenizers.target.never_generated)
    most = TABLE_POSITIONS["marian_mt"]
    longest = most // 2 if config.max_length_factor else config.max_length_constant + 1
    has_start = rows[BOS_ID] != rows[EOS_ID]
    default = languages.default_target
    has_tag, tag = languages.tags in ("target", "both"), default and languages.tags_of(Direction(UNKNOWN, default))[1]
    return {
        **{key: rows[token] for key, token in SYMBOLS.items()},
        "suppress_tokens": [row for row in never if row not in (rows[EOS_ID], rows[UNK_ID])],  # which may begin targets
        "num_beams": config.beam_size,
        "early_stopping": {ours: theirs for theirs, ours in PATIENCE.items()}.get(config.patience, False),
        "length_penalty": round(length_power(config), 9),  # CTranslate2 has a tiny number for 0
        "max_length": min(longest + has_tag, limit or most),
        "forced_bos_token_id": rows[tokenizers.target.tag_ids(tag)[0]] if tag else None,
        "min_length": 1 + has_tag + config.min_length_constant if config.min_length_constant else None,
        "no_repeat_ngram_size": config.no_repeat_ngram or None,
        "repetition_penalty": config.repetition_penalty if config.beam_size > 1 and has_start else None,
        "bad_words_ids": [[rows[token] for token in ids] for ids in config.forbidden_ids] or None,
    }


def choose_format(model: Transformer, tokenizers: Tokenizers, config: Config) -> tuple[Format, Vocabulary | None]:
    """The format of an export to transformers, and its vocabulary if that is not ours.

    The format is that of the first family where it is exact, otherwise our modelling file.
    """
    exact = [of for of in SHAPES if not find_lacking(model.config, of)]
    for of, make_vocabulary in _VOCABULARIES.items():
        if of in exact and (vocabulary := make_vocabulary(model, tokenizers, config)):
            return of, vocabulary
    return "marian_mt" if "marian_mt" in exact else "modeling", None


def write_huggingface(model: Transformer, tokenizers: Tokenizers, config: Config, directory: Path) -> None:
    """Write model, generation config and tokenizer into a folder, and check that they are equal to ours.

    Raises:
        InputError: The package is not installed.
        RunError: The written model gives different logits, or the written tokenizer different subwords; or the disk is
            full.
    """
    transformers, (to, vocabulary) = import_extra("transformers"), choose_format(model, tokenizers, config)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # it warns of T5's tying, and of weights that it fills itself
    exported_class, limit = model_class(to), position_limit(model.config, to)
    rows: Sequence[int] = range(tokenizers.target.vocab_size)
    ids, settings = None, to_settings(model.config, to)
    if vocabulary is not None:
        assert vocabulary.pad is not None
        rows = [vocabulary.pad, *vocabulary.rows[1:]]  # T5's start symbol is padding too
        ids = sorted({*range(len(rows))} - {*vocabulary.only_ours}, key=rows.__getitem__)
        settings["vocab_size"] = len(ids)
    if to == "modeling":
        file = Path(inspect.getfile(exported_class))
        shutil.copyfile(file, directory / file.name)
        classes = {"AutoConfig": "TranslateConfig", "AutoModelForSeq2SeqLM": "TranslateForConditionalGeneration"}
        settings = {
            **model.config.model_dump(exclude={"initialization", *NEWER_MODEL_KEYS}),
            **model.config.model_dump(include=NEWER_MODEL_KEYS, exclude_defaults=True),
            **settings,
            "source_vocab_size": model.encoder.embedder.tokens.num_embeddings,
            "vocab_size": model.output.out_features,
            "is_encoder_decoder": True,
            "auto_map": {key: f"{file.stem}.{name}" for key, name in classes.items()},
        }
        weights = split_weights(model)
    else:
        settings = model_settings(model, to) | settings
        weights = foreign_weights(model, WEIGHT_NAMES[to], None if ids is None else torch.tensor(ids))
    if to == "t5" and vocabulary is not None:
        weights["shared.weight"][vocabulary.start] = model.decoder.embedder.tokens.weight[BOS_ID]
        if model.config.tie_embeddings == "all":  # T5 1.0 multiplies the decoder's output by d_model^-0.5
            name = "decoder.final_layer_norm.weight"
            weights[name] = weights[name] * model.config.d_model**0.5
    settings |= {key: rows[token] for key, token in SYMBOLS.items()}
    made = exported_class.config_class(**settings)
    # Unlike the class itself, this does not tie what differs.
    exported = exported_class.from_pretrained(None, config=made, state_dict=weights, dtype=torch.float32)
    generation = generation_settings(config, tokenizers, limit=limit, rows=rows)
    exported.generation_config = transformers.GenerationConfig(**generation)
    # The class of T5 has made this true, which means T5 1.0 to other versions of transformers.
    exported.config.tie_word_embeddings = model.config.tie_embeddings in ("all", "decoder")
    try:
        exported.save_pretrained(directory)
    except SafetensorError as error:
        raise RunError(f"{directory}: cannot be written: {error}") from error
    if vocabulary is None or to == "t5" or not write_tokenizer(vocabulary, tokenizers.source, config, directory):
        names = () if vocabulary is None else vocabulary.subwords
        write_marian_tokenizer(tokenizers, config, directory, limit=limit, names=names)
    written = exported_class.from_pretrained(directory, local_files_only=True).eval()
    ours = [Vocabulary(side.all_pieces, UNK_ID, EOS_ID, start=BOS_ID, pad=PAD_ID) for side in tokenizers[:2]]
    vocabularies = ours if vocabulary is None else [vocabulary] * 2
    check_transformers(written, load_tokenizer(directory), vocabularies, model, tokenizers)


def write_marian_tokenizer(
    tokenizers: Tokenizers, config: Config, directory: Path, *, limit: int | None, names: Sequence[str] = ()
) -> None:
    """Write the run's SentencePiece models as the files of a `MarianTokenizer`: the same subwords with the same ids.

    Args:
        names: The subwords of a joint vocabulary in another order; empty: ours.
    """
    symbols = {"unk_token": UNK_ID, "bos_token": BOS_ID, "eos_token": EOS_ID, "pad_token": PAD_ID}
    pieces = dict(zip(symbols, tokenizers.source.pieces([*symbols.values()]), strict=True))
    is_separate, languages = tokenizers.vocabulary == "separate", Languages(config.data)
    sides = {"vocab.json": tokenizers.source} | ({"target_vocab.json": tokenizers.target} if is_separate else {})
    files: dict[str, dict[str, Any]] = {
        name: {piece: token_id for token_id, piece in enumerate(names or side.all_pieces)}
        for name, side in sides.items()
    }
    files["tokenizer_config.json"] = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": is_separate,
        **dict(zip(("source_lang", "target_lang"), languages.direction, strict=True)),
        **{key: name for key, name in pieces.items() if name in files["vocab.json"]},
        **languages.settings,
        "additional_special_tokens": [*special_tags(tokenizers, languages)],
        **({} if limit is None else {"model_max_length": limit}),
        "clean_up_tokenization_spaces": False,
    }
    for name, content in files.items():
        write_text(directory / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    (directory / "source.spm").write_bytes(tokenizers.source.model_bytes)
    (directory / "target.spm").write_bytes(tokenizers.target.model_bytes)


def special_tags(tokenizers: Tokenizers, languages: Languages) -> dict[str, int]:
    """The tags that a `MarianTokenizer` leaves out of the text of ids, as pieces with their ids.

    It has one vocabulary of special tokens, so there are none if the sides have separate ones. A token such as
    `>>deu<<` is not special, because it is a token only at the beginning of a text.
    """
    ids = [] if tokenizers.vocabulary == "separate" else sorted(tokenizers.target.tag_tokens(languages.every_tag))
    pieces = zip(tokenizers.target.pieces(ids), ids, strict=True)
    return {piece: token for piece, token in pieces if piece.startswith(SPACE)}


def model_class(model_type: str) -> Any:
    """The class of a type's models in transformers, or our own; a format is the name of a type."""
    if model_type == "modeling":
        from translate.exchange.modeling_translate import TranslateForConditionalGeneration

        return TranslateForConditionalGeneration
    names = import_extra("transformers.models.auto.modeling_auto").MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    return getattr(import_extra("transformers"), names[model_type.removesuffix("_mt")])


def check_transformers(
    theirs: Any, tokenizer: Any, vocabularies: Sequence[Vocabulary], model: Transformer, tokenizers: Tokenizers
) -> None:
    """Compare logits and log-probabilities with transformers' results, and ids and texts; see `check_text`.

    Raises:
        RunError: A number differs too much, or a text has other tokens.
    """
    limit = getattr(theirs.config, "max_position_embeddings", model.config.max_positions)
    probes = probe(model, position_limit=None if model.config.positions == "relative" else limit)
    source_rows, rows = (torch.tensor(vocabulary.rows) for vocabulary in vocabularies)
    with torch.inference_mode():
        logits = theirs(
            input_ids=source_rows[probes.batch.source_ids].clamp(min=0),  # padding is masked, whatever its id
            attention_mask=(probes.batch.source_ids != PAD_ID).long(),
            decoder_input_ids=rows[probes.batch.target_input_ids].clamp(min=0),
        ).logits
    is_target = probes.batch.target_output_ids != PAD_ID
    both = sorted({*range(len(rows))} - {*vocabularies[1].only_ours})
    ours, expected = probes.logits[is_target], logits[is_target][:, rows[both]]  # what was pruned has no probability
    check_agreement(ours[:, both], expected, noise=probes.noise, what="logits")
    ours, expected = log_probabilities(ours)[:, both], log_probabilities(expected)
    check_agreement(ours, expected, noise=probes.noise, what="log-probabilities")
    check_text(tokenizer, vocabularies, probes.pairs, tokenizers)
