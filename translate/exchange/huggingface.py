"""Exports to Hugging Face transformers: a MarianMT model where that is exact, else a model with a modelling file."""

import inspect
import json
import logging
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from translate.atomic import write_text
from translate.config.decoding import DecodingConfig
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizers
from translate.decoding.agreement import check_agreement, probe
from translate.decoding.counterparts import find_lacking, to_settings
from translate.decoding.engines.ctranslate2 import length_power
from translate.errors import RunError, import_extra
from translate.exchange.foreign import Vocabulary
from translate.exchange.weights import marian_mt_weights, split_weights
from translate.model import Transformer, log_probabilities

logger = logging.getLogger(__name__)

TABLE_POSITIONS = 1024
"""Positions of an export: the most tokens of a source or translation, including the special symbol."""
SYMBOLS = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": BOS_ID}
_NORM_EPSILON = 1e-5  # hard-coded in transformers, not a setting
SHAPE = {  # settings of `MarianConfig`, and ours; two for the same one must have the same value
    "d_model": "d_model",
    "encoder_attention_heads": "num_heads",
    "decoder_attention_heads": "num_heads",
    "encoder_ffn_dim": "d_ff",
    "decoder_ffn_dim": "d_ff",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "scale_embedding": "scale_embeddings",
}


def marian_lacks(config: ModelConfig) -> list[str]:
    """The settings of a model that MarianMT cannot express, as "model.key = value (it has …)"."""
    lacking = find_lacking(config, "marian_mt")
    if config.norm_epsilon != _NORM_EPSILON:
        lacking.append(f"model.norm_epsilon = {config.norm_epsilon!r} (it has {_NORM_EPSILON!r})")
    return lacking


def marian_settings(model: Transformer) -> dict[str, Any]:
    """Sizes and special symbols of our model as the settings of a `MarianConfig`."""
    return {
        "vocab_size": model.encoder.embedder.tokens.num_embeddings,
        "decoder_vocab_size": model.output.out_features,
        "max_position_embeddings": TABLE_POSITIONS,
        **{theirs: getattr(model.config, ours) for theirs, ours in SHAPE.items()},
        **SYMBOLS,
        "forced_eos_token_id": None,
    }


def generation_settings(config: DecodingConfig, *, limit: int | None) -> dict[str, Any]:
    """The run's search as the settings of a `GenerationConfig`, as far as it has them.

    `generate` divides the log-probability by length^length_penalty, as our kind `average` does. `limit` is the most
    tokens that the model takes, or None.
    """
    stopping = {1: True, 1000: "never"}.get(config.patience, False)
    longest = TABLE_POSITIONS // 2 if config.max_length_factor else config.max_length_constant + 1
    return {
        **SYMBOLS,
        "suppress_tokens": [PAD_ID, BOS_ID],
        "num_beams": config.beam_size,
        "early_stopping": stopping,
        "length_penalty": round(length_power(config), 9),  # 0 is a tiny number for CTranslate2
        "max_length": min(longest, limit or TABLE_POSITIONS),
        "min_new_tokens": config.min_length_constant or None,
        "no_repeat_ngram_size": config.no_repeat_ngram or None,
        "repetition_penalty": config.repetition_penalty if config.beam_size > 1 else None,
        "bad_words_ids": [*map(list, config.forbidden_ids)] or None,
    }


def write_huggingface(model: Transformer, tokenizers: Tokenizers, config: Config, directory: Path) -> None:
    """Write model, generation config and tokenizer into a folder, and check that they are equal to ours.

    Raises:
        InputError: The package is not installed.
        RunError: The written model gives different logits, or the written tokenizer different subwords.
    """
    transformers = import_extra("transformers")
    exported_class = _exported_class(model.config)
    if exported_class is transformers.MarianMTModel:
        limit: int | None = TABLE_POSITIONS
        settings = {**marian_settings(model), **to_settings(model.config, "marian_mt")}
        weights = marian_mt_weights(model)
    else:
        limit = model.config.max_positions if model.config.positions == "learned" else None
        file = Path(inspect.getfile(exported_class))
        shutil.copyfile(file, directory / file.name)
        classes = {"AutoConfig": "TranslateConfig", "AutoModelForSeq2SeqLM": "TranslateForConditionalGeneration"}
        settings = {
            **model.config.model_dump(exclude={"initialization"}),
            **to_settings(model.config, "modeling"),
            "source_vocab_size": model.encoder.embedder.tokens.num_embeddings,
            "vocab_size": model.output.out_features,
            "is_encoder_decoder": True,
            "auto_map": {key: f"{file.stem}.{name}" for key, name in classes.items()},
            **SYMBOLS,
        }
        weights = split_weights(model)
    exported = exported_class(exported_class.config_class(**settings))
    missing, unexpected = exported.load_state_dict(weights, strict=False)
    # MarianMT fills these two itself: its table of positions, and zeros.
    assert not unexpected and all(name.endswith(("embed_positions.weight", "final_logits_bias")) for name in missing)
    exported.generation_config = transformers.GenerationConfig(**generation_settings(config.decoding, limit=limit))
    transformers.utils.logging.disable_progress_bar()
    exported.save_pretrained(directory)
    write_marian_tokenizer(tokenizers, config, directory, limit=limit)
    check_huggingface(directory, model, tokenizers)


def write_marian_tokenizer(tokenizers: Tokenizers, config: Config, directory: Path, *, limit: int | None) -> None:
    """Write the run's SentencePiece models as the files of a `MarianTokenizer`: the same subwords with the same ids."""
    symbols = {"unk_token": UNK_ID, "bos_token": BOS_ID, "eos_token": EOS_ID, "pad_token": PAD_ID}
    is_separate = tokenizers.vocabulary == "separate"
    sides = {"vocab.json": tokenizers.source} | ({"target_vocab.json": tokenizers.target} if is_separate else {})
    files: dict[str, dict[str, Any]] = {
        name: {piece: token_id for token_id, piece in enumerate(side.pieces(range(side.vocab_size)))}
        for name, side in sides.items()
    }
    files["tokenizer_config.json"] = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": is_separate,
        "source_lang": config.data.source_language,
        "target_lang": config.data.target_language,
        **dict(zip(symbols, tokenizers.source.pieces([*symbols.values()]), strict=True)),
        **({} if limit is None else {"model_max_length": limit}),
        "clean_up_tokenization_spaces": False,
    }
    for name, content in files.items():
        write_text(directory / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    (directory / "source.spm").write_bytes(tokenizers.source.model_bytes)
    (directory / "target.spm").write_bytes(tokenizers.target.model_bytes)


def load_marian_tokenizer(directory: Path) -> Any:
    """The `MarianTokenizer` of a folder."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # not used here
        return import_extra("transformers").MarianTokenizer.from_pretrained(directory, local_files_only=True)


def check_huggingface(directory: Path, model: Transformer, tokenizers: Tokenizers) -> None:
    """Run the written model and ours on the same sentences; raises the errors of `check_transformers`."""
    exported = _exported_class(model.config).from_pretrained(directory, local_files_only=True).eval()
    symbols = {"unk": UNK_ID, "eos": EOS_ID, "start": BOS_ID, "pad": PAD_ID}
    vocabularies = [Vocabulary(side.pieces(range(side.vocab_size)), **symbols) for side in tokenizers[:2]]
    check_transformers(exported, load_marian_tokenizer(directory), vocabularies, "exported", model, tokenizers)


def _exported_class(config: ModelConfig) -> Any:
    if marian_lacks(config):
        from translate.exchange.modeling_translate import TranslateForConditionalGeneration

        return TranslateForConditionalGeneration
    return import_extra("transformers").MarianMTModel


def check_transformers(
    theirs: Any,
    tokenizer: Any,
    vocabularies: Sequence[Vocabulary],
    made: Literal["exported", "imported"],
    model: Transformer,
    tokenizers: Tokenizers,
) -> None:
    """Compare logits, log-probabilities, and the ids and texts of sentences with transformers' results.

    Raises:
        RunError: A number differs by more than the tolerance, or a text has other tokens.
    """
    probes = probe(model, position_limit=tokenizer.model_max_length)
    source_rows, rows = (torch.tensor(vocabulary.rows) for vocabulary in vocabularies)
    with torch.inference_mode():
        logits = theirs(
            input_ids=source_rows[probes.batch.source_ids].clamp(min=0),  # padding is masked, whatever its id
            attention_mask=(probes.batch.source_ids != PAD_ID).long(),
            decoder_input_ids=rows[probes.batch.target_input_ids].clamp(min=0),
        ).logits
    is_target = probes.batch.target_output_ids != PAD_ID
    both = sorted({*range(len(rows))} - {*vocabularies[1].only_ours})
    for what, function in {"logits": lambda logits: logits, "log-probabilities": log_probabilities}.items():
        ours, expected = (function(each[is_target]) for each in (probes.logits, logits))
        check_agreement(ours[:, both], expected[:, rows[both]], what=what, made=made)
    source_ids = {row: token for token, row in enumerate(source_rows.tolist()) if token != BOS_ID}
    tags = [f"{name} " for name in vocabularies[0].subwords if name.startswith(">>")][:1]
    for pair in probes.pairs:
        texts = [tag + tokenizers.source.decode(pair.source) for tag in ("", *tags)]
        ids = [[source_ids.get(token) for token in tokenizer(text)["input_ids"]] for text in texts]
        text = tokenizer.decode(rows[torch.tensor(pair.target)].tolist(), skip_special_tokens=True)
        same_ids = ids == [[*tokenizers.source.encode(text), EOS_ID] for text in texts]
        if not same_ids or text != tokenizers.target.decode(pair.target).strip():
            raise RunError(
                f"the {made} tokenizer gives other tokens than the original one for {texts[0]!r}, or another text than"
                f" {text!r}; nothing was {made}"
            )
