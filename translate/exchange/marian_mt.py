"""MarianMT models of Hugging Face transformers, and so all of OPUS-MT: a folder, or the name of one on the Hub."""

import functools
import json
import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizers
from translate.decoding.agreement import check_agreement, probe
from translate.errors import InputError, RunError, import_extra
from translate.exchange.conversion import ForeignModel, require
from translate.exchange.huggingface import marian_order
from translate.exchange.vocabulary import Vocabulary
from translate.model import Transformer, log_probabilities
from translate.model.positions import sinusoidal_table

logger = logging.getLogger(__name__)

_ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
_ALLOWED: dict[str, tuple[object, ...]] = {
    "activation_function": tuple(_ACTIVATIONS),
    "static_position_embeddings": (True,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "extra_pos_embeddings": (0,),
}
_FILES = ("config.json", "vocab.json", "source.spm", "target.spm")
_OPTIONAL_FILES = ("generation_config.json", "tokenizer_config.json", "target_vocab.json")
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_SEARCHES = (  # settings of `generate` that our search does not have, or has with another definition
    "do_sample", "num_beam_groups", "diversity_penalty", "repetition_penalty", "encoder_repetition_penalty",
    "encoder_no_repeat_ngram_size", "min_length", "min_new_tokens", "forced_bos_token_id", "begin_suppress_tokens",
)  # fmt: skip


def download(name: str) -> Path:
    """Download a model of the Hub by its name, or find it in the local cache.

    Returns:
        The folder with its files, which is named by the commit.

    Raises:
        InputError: There is neither a folder nor a model of this name, or it cannot be reached.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise InputError(
            f"{name}: no such folder, and no name on the Hugging Face Hub, such as Helsinki-NLP/opus-mt-de-en"
        )
    import_extra("transformers")
    patterns = ["*.json", "*.spm", "*.safetensors", "pytorch_model*.bin"]
    try:
        return Path(import_extra("huggingface_hub").snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: no such folder, and the Hugging Face Hub does not give it: {error}") from error


def read_huggingface(folder: Path) -> ForeignModel:
    """Read a folder as `save_pretrained` writes it.

    Raises:
        InputError: The package is not installed, the folder is damaged or incomplete, or its model is no MarianMT model
            or has something that a run cannot hold; the message names it.
    """
    if missing := [name for name in _FILES if not (folder / name).is_file()]:
        raise InputError(f"{folder}: lacks {', '.join(missing)}; a MarianMT model has {', '.join(_FILES)} and weights")
    transformers = import_extra("transformers")
    settings = _read_json(folder / "config.json")
    if settings.get("model_type") != "marian":
        raise InputError(
            f"{folder}/config.json: model_type = {settings.get('model_type')!r}; MarianMT models ('marian'), such as"
            " those of OPUS-MT, can be imported, and Marian's own files"
        )
    sides = [
        settings.get(f"{stack}_{key}") for key in ("attention_heads", "ffn_dim") for stack in ("encoder", "decoder")
    ]
    same = {"decoder_attention_heads": (sides[0],), "decoder_ffn_dim": (sides[2],)}
    require(f"{folder}/config.json", settings, _ALLOWED | same)
    with _quietly(transformers, folder):
        model, loading = transformers.MarianMTModel.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder, local_files_only=True)
    if damage := [
        f"{kind.replace('_', ' ')}: {', '.join(map(str, sorted(loading[kind])[:5]))}"
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
        if loading.get(kind)
    ]:
        raise InputError(f"{folder}: the weights are not those of the model of config.json: {'; '.join(damage)}")
    weights = dict(model.eval().state_dict())
    for name in _POSITIONS:
        _check_sines(folder, name, weights.pop(name))
    if (tying := _tying(weights)) != "all":
        weights.pop("model.shared.weight", None)  # not used
    source, target = _read_vocabularies(folder, model, tokenizer)
    config = model.config
    files = [folder / name for name in (*_FILES, *_OPTIONAL_FILES) if (folder / name).is_file()]
    return ForeignModel(
        sections={
            "data": {
                "source_language": tokenizer.source_lang or "und",
                "target_language": tokenizer.target_lang or "und",
                "max_source_tokens": config.max_position_embeddings - 1,
                "max_target_tokens": config.max_position_embeddings - 1,
            },
            "model": {
                "d_model": config.d_model,
                "num_heads": config.encoder_attention_heads,
                "d_ff": config.encoder_ffn_dim,
                "num_encoder_layers": config.encoder_layers,
                "num_decoder_layers": config.decoder_layers,
                "dropout": config.dropout,
                "attention_dropout": config.attention_dropout,
                "activation_dropout": config.activation_dropout,
                "activation": _ACTIVATIONS[config.activation_function],
                "tie_embeddings": tying,
                "scale_embeddings": bool(config.scale_embedding),
            },
            "decoding": search_settings(model.generation_config, config.max_position_embeddings),
        },
        weights=weights,
        source=source,
        target=target,
        sentencepiece=(folder / "source.spm", folder / "target.spm"),
        files=files + sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]),
        reader={"transformers": transformers.__version__},
        check=functools.partial(_check, model, tokenizer, source, target),
    )


def search_settings(generation: Any, max_positions: int) -> dict[str, Any]:
    """The section `decoding` for a `GenerationConfig`; a warning names the settings that ours does not have."""
    given = generation.to_dict()
    lost = [f"{key} = {given[key]}" for key in _SEARCHES if given.get(key) not in (None, False, 0, 1, 1.0)]
    penalty = given.get("length_penalty")
    penalty = 1.0 if penalty is None else penalty
    longest = min(given.get("max_length") or max_positions, max_positions)
    if penalty < 0:
        lost.append(f"length_penalty = {penalty}")
    if lost:
        logger.warning(f"generation_config.json: {', '.join(lost)} has no exact counterpart here, and is left out")
    return {
        "beam_size": given.get("num_beams") or 1,
        "length_penalty_kind": "average",
        "length_penalty": max(0.0, penalty),
        "no_repeat_ngram": given.get("no_repeat_ngram_size") or 0,
        "max_length_factor": 0.0,
        # Theirs counts the start symbol, and the end symbol where it is forced there.
        "max_length_constant": longest - 1 - (given.get("forced_eos_token_id") is not None),
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: is no JSON object")
    return values


@contextmanager
def _quietly(transformers: Any, folder: Path) -> Iterator[None]:
    """Let transformers load without its own messages; what it raises becomes one sentence."""
    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # not used here
            yield
    except Exception as error:  # of many libraries
        raise InputError(
            f"{folder}: transformers cannot load it: {str(error).strip() or type(error).__name__}"
        ) from error
    finally:
        transformers.utils.logging.set_verbosity(level)


def _check_sines(folder: Path, name: str, table: Tensor) -> None:
    num_positions, d_model = table.shape
    sines = sinusoidal_table(num_positions, d_model)[:, marian_order(d_model)]
    if not torch.allclose(table, sines, rtol=0.0, atol=1e-5):
        raise InputError(f"{folder}: {name} is no table of sines, and a run has no other table beside token embeddings")


def _tying(weights: Mapping[str, Tensor]) -> str:
    source, target, output = (
        weights[f"{name}.weight"].data_ptr()
        for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    )
    return "none" if target != output else "all" if source == target else "decoder"


def _read_vocabularies(folder: Path, model: Any, tokenizer: Any) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of both sides; of a joint one, the same object twice."""
    config, sides = model.config, {"vocab.json": (tokenizer.encoder, model.get_encoder().embed_tokens)}
    if tokenizer.separate_vocabs:
        sides["target_vocab.json"] = (tokenizer.target_encoder, model.get_decoder().embed_tokens)
    made = []
    for name, (ids, embeddings) in sides.items():
        subwords, num_rows = {token: subword for subword, token in ids.items()}, embeddings.num_embeddings
        if subwords.keys() != set(range(num_rows)) or len(ids) != num_rows:
            raise InputError(
                f"{folder}/{name}: has {len(ids)} subwords, and the model {num_rows} embeddings: each needs one"
            )
        symbols = tokenizer.unk_token, tokenizer.eos_token
        if lacking := [symbol for symbol in symbols if symbol not in ids]:
            raise InputError(f"{folder}/{name}: lacks the symbol {', '.join(lacking)}")
        unk, eos = (ids[symbol] for symbol in symbols)
        if eos != config.eos_token_id:
            raise InputError(f"{folder}/config.json: eos_token_id = {config.eos_token_id}, and in {name} it is {eos}")
        ordered = [subwords[token] for token in range(num_rows)]
        made.append(Vocabulary(ordered, unk, eos, start=config.decoder_start_token_id, pad=config.pad_token_id))
    return made[0], made[-1]


def _check(
    marian: Any, tokenizer: Any, source: Vocabulary, target: Vocabulary, model: Transformer, tokenizers: Tokenizers
) -> None:
    """Compare logits, log-probabilities, and the ids and the text of sentences with those of transformers.

    Raises:
        RunError: A number differs by more than the tolerance, or a text has other tokens.
    """
    probes = probe(model, max_positions=marian.config.max_position_embeddings)
    source_rows, rows = torch.tensor(source.rows), torch.tensor(target.rows)
    with torch.inference_mode():
        theirs = marian(
            input_ids=source_rows[probes.batch.source_ids].clamp(min=0),  # padding is masked, whatever its id
            attention_mask=(probes.batch.source_ids != PAD_ID).long(),
            decoder_input_ids=rows[probes.batch.target_input_ids].clamp(min=0),
        ).logits
    both = sorted({*range(len(rows))} - {*target.only_ours})
    for what, function in {"logits": lambda logits: logits, "log-probabilities": log_probabilities}.items():
        ours = function(probes.logits)[..., both]
        check_agreement(probes.pairs, ours, function(theirs)[..., rows[both]], what=what, made="imported")
    source_ids = {row: token for token, row in enumerate(source.rows) if token != BOS_ID}
    tags = [name for name in tokenizers.source.pieces(range(tokenizers.source.vocab_size)) if name.startswith(">>")][:1]
    for pair in probes.pairs:
        decoded = tokenizers.source.decode(pair.source)
        for text in (decoded, *(f"{tag} {decoded}" for tag in tags)):
            their_ids = [source_ids.get(token) for token in tokenizer(text)["input_ids"]]
            if their_ids != [*tokenizers.source.encode(text), EOS_ID]:
                raise RunError(
                    f"the imported tokenizer gives other tokens for {text!r} than transformers; nothing is kept"
                )
        text = tokenizer.decode(rows[torch.tensor(pair.target)].tolist(), skip_special_tokens=True)
        if text != tokenizers.target.decode(pair.target).strip():
            raise RunError(
                f"the imported tokenizer does not give the text {text!r}, as transformers does; nothing is kept"
            )
