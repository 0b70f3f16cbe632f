"""Exports to Hugging Face transformers: a MarianMT model where that is exact, else a model with a modelling file."""

import inspect
import shutil
from pathlib import Path
from typing import Any

from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizers
from translate.decoding.counterparts import to_settings
from translate.errors import import_extra
from translate.exchange.foreign import Vocabulary
from translate.exchange.marian_mt import (
    SYMBOLS,
    TABLE_POSITIONS,
    check_transformers,
    generation_settings,
    load_marian_tokenizer,
    marian_lacks,
    marian_settings,
    write_marian_tokenizer,
)
from translate.exchange.weights import marian_mt_weights, split_weights
from translate.model import Transformer


def write_huggingface(model: Transformer, tokenizers: Tokenizers, config: Config, directory: Path) -> None:
    """Write model, generation config and tokenizer into a folder, and check that they are equal to ours.

    Raises:
        InputError: The package is not installed.
        RunError: The written model gives other logits, or the written tokenizer other subwords.
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


def check_huggingface(directory: Path, model: Transformer, tokenizers: Tokenizers) -> None:
    """Run the written model and ours on the same sentences; the errors are those of `check_transformers`."""
    exported = _exported_class(model.config).from_pretrained(directory, local_files_only=True).eval()
    symbols = {"unk": UNK_ID, "eos": EOS_ID, "start": BOS_ID, "pad": PAD_ID}
    vocabularies = [Vocabulary(side.pieces(range(side.vocab_size)), **symbols) for side in tokenizers[:2]]
    check_transformers(exported, load_marian_tokenizer(directory), vocabularies, "exported", model, tokenizers)


def _exported_class(config: ModelConfig) -> Any:
    if marian_lacks(config):
        from translate.exchange.modeling_translate import TranslateForConditionalGeneration

        return TranslateForConditionalGeneration
    return import_extra("transformers").MarianMTModel
