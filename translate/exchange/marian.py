"""Marian's own files, as OPUS-MT's archives have them: model.npz, decoder.yml, vocabularies, SentencePiece models.

CTranslate2 has a reader of its own for these files; it computes the numbers that ours are compared with.
"""

import functools
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
import yaml
from numpy.typing import NDArray
from torch import Tensor

from translate.data.tokenizer import UNK_ID, Tokenizers
from translate.decoding.agreement import check_agreement, probe
from translate.decoding.counterparts import from_settings, known_settings
from translate.errors import InputError, RunError, import_extra
from translate.exchange.conversion import ForeignModel, read_mapping, require
from translate.exchange.vocabulary import Vocabulary
from translate.exchange.weights import OUTPUT_BIAS
from translate.model import Transformer, log_probabilities

_ALLOWED: dict[str, tuple[object, ...]] = {
    **known_settings("marian"),
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-no-projection": (False,),
    "transformer-postprocess-top": ("",),
    "transformer-postprocess-emb": ("", "d"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-decoder-dim-ffn": (0,),
    "transformer-tied-layers": ([],),
    "transformer-pool": (False,),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "factors-combine": ("sum",),
}
_NORM_EPSILON = 1e-6  # in Marian's code, not in its files
_SYMBOLS = ("<unk>", "</s>")
_TRANSPOSED, _EMBEDDINGS = ("W", "Wq", "Wk", "Wv", "Wo", "W1", "W2"), ("Wemb", "Wt")  # ends of the matrices' names


def is_marian(folder: Path) -> bool:
    """Whether a folder has Marian's own files."""
    return (folder / "decoder.yml").is_file() and not (folder / "config.json").is_file()


def read_marian(folder: Path) -> ForeignModel:
    """Read the model that a folder's `decoder.yml` names.

    Raises:
        InputError: A package is not installed, a file is missing or damaged, or the model has something that a run
            cannot hold; the message names it.
    """
    import_extra("ctranslate2")  # before anything is read: its numbers are needed in the end
    decoder = read_mapping(folder / "decoder.yml")
    models, vocabularies = (_files(folder, decoder, key) for key in ("models", "vocabs"))
    if len(models) != 1:
        raise InputError(f"{folder}/decoder.yml: names {len(models)} models; one can be imported")
    arrays = _read_arrays(models[0])
    settings = yaml.safe_load(bytes(arrays.pop("special:model.yml")).rstrip(b"\0"))
    name = f"{models[0]}, special:model.yml"
    same = {"transformer-decoder-dim-ffn": (0, settings["transformer-dim-ffn"])}
    require(name, settings, _ALLOWED | same)
    source, target = (_read_vocabulary(file) for file in (vocabularies[0], vocabularies[-1]))
    weights, tying = _read_weights(arrays, name=str(models[0]))
    sides = {"source": vocabularies[0], "target": vocabularies[-1]}
    spms = [path if path.suffix == ".spm" else folder / f"{side}.spm" for side, path in sides.items()]
    if missing := [str(path) for path in spms if not path.is_file()]:
        raise InputError(f"{folder}: {', '.join(missing)} is missing")
    return ForeignModel(
        sections={
            "data": {"source_language": "und", "target_language": "und"},
            "model": {
                "d_model": settings["dim-emb"],
                "num_heads": settings["transformer-heads"],
                "d_ff": settings["transformer-dim-ffn"],
                "num_encoder_layers": settings["enc-depth"],
                "num_decoder_layers": settings["dec-depth"],
                **from_settings(settings, "marian"),
                "norm_epsilon": _NORM_EPSILON,
                "tie_embeddings": tying,
                "scale_embeddings": True,
            },
            "decoding": {
                "beam_size": decoder.get("beam-size", 12),
                "length_penalty_kind": "average",
                "length_penalty": float(decoder.get("normalize", 0.0)),
                "max_length_factor": float(decoder.get("max-length-factor", 3.0)),
                "max_length_constant": 1,
            },
        },
        format="marian",
        weights=weights,
        source=source,
        target=source if source == target else target,
        sentencepiece=(spms[0], spms[1]),
        files=[folder / "decoder.yml", *models, *dict.fromkeys([*vocabularies, *spms])],
        licence=None,
        reader={"ctranslate2": import_extra("ctranslate2").__version__},
        check=functools.partial(_check, models[0], (source, target), spms),
    )


def _files(folder: Path, decoder: dict[str, Any], key: str) -> list[Path]:
    files = [folder / Path(str(name)).name for name in decoder.get(key) or ()]  # paths may be of another machine
    if missing := [path.name for path in files if not path.is_file()]:
        raise InputError(f"{folder}: {', '.join(missing)} is missing, which decoder.yml names")
    if not files:
        raise InputError(f"{folder}/decoder.yml: names no {key}")
    return files


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise InputError(f"{path}: is damaged, or not a model of Marian: {error}") from error
    if "special:model.yml" not in arrays:
        raise InputError(f"{path}: has no special:model.yml, so it is not a model of Marian")
    return arrays


def _read_vocabulary(path: Path) -> Vocabulary:
    """A vocabulary of Marian, which is a YAML file or a SentencePiece model. Its decoder starts with zeros."""
    if path.suffix == ".spm":
        processor = sentencepiece.SentencePieceProcessor(model_file=os.fspath(path))
        subwords = [str(processor.id_to_piece(token)) for token in range(processor.get_piece_size())]
        unk, eos = processor.unk_id(), processor.eos_id()
    else:
        subwords = import_extra("ctranslate2.converters.marian").load_vocab(os.fspath(path))
        unk, eos = (subwords.index(symbol) if symbol in subwords else -1 for symbol in _SYMBOLS)
    if min(unk, eos) < 0:
        raise InputError(f"{path}: <unk> or </s> is missing")
    return Vocabulary(subwords, unk, eos)


def _read_weights(arrays: dict[str, NDArray[Any]], *, name: str) -> tuple[dict[str, Tensor], str]:
    """The weights as torch has them, and which embeddings are tied.

    Raises:
        InputError: The embeddings are missing.
    """
    weights: dict[str, Tensor] = {}
    for key, array in arrays.items():
        if not key.startswith("special:"):
            tensor, kind = torch.from_numpy(array).float(), key.rpartition("_")[2]
            weights[key] = tensor.t() if kind in _TRANSPOSED else tensor if kind in _EMBEDDINGS else tensor.flatten()
    source_name, target_name, output_name = "encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt"
    tying = "decoder"
    if (shared := weights.pop("Wemb", None)) is not None:
        weights, tying = {source_name: shared, target_name: shared, **weights}, "all"
    if source_name not in weights or target_name not in weights:
        raise InputError(f"{name}: the weight Wemb is missing")
    if "decoder_ff_logit_out_W" in weights:
        weights[output_name] = weights.pop("decoder_ff_logit_out_W")
    if output_name in weights:
        tying = "none"
    target = weights[target_name]
    return {output_name: target, OUTPUT_BIAS["marian"]: torch.zeros(len(target)), **weights}, tying


def _check(
    file: Path,
    vocabularies: Sequence[Vocabulary],
    spms: Sequence[Path],
    model: Transformer,
    tokenizers: Tokenizers,
) -> None:
    """Compare log-probabilities with CTranslate2's, and subwords with those of the original SentencePiece models.

    Raises:
        RunError: A number differs by more than the tolerance, or a text has other subwords.
    """
    ctranslate2 = import_extra("ctranslate2")
    probes = probe(model, position_limit=None)
    with tempfile.TemporaryDirectory() as temporary:
        converted = os.path.join(temporary, "converted")
        files, sides = [], []
        for side, vocabulary in enumerate(vocabularies):  # whose subwords are numbers, which YAML cannot misread
            names = [str(token) for token in range(len(vocabulary.subwords))]
            names[vocabulary.unk], names[vocabulary.eos] = _SYMBOLS
            files.append(os.path.join(temporary, f"{side}.yml"))
            Path(files[side]).write_text("".join(f"{name}: {token}\n" for token, name in enumerate(names)))
            sides.append([[names[vocabulary.rows[token]] for token in pair[side]] for pair in probes.pairs])
        ctranslate2.converters.MarianConverter(os.fspath(file), files).convert(converted)
        settings = Path(converted, "config.json")
        settings.write_text(json.dumps(json.loads(settings.read_bytes()) | {"layer_norm_epsilon": _NORM_EPSILON}))
        translator = ctranslate2.Translator(converted, compute_type="float32", intra_threads=1)
        scored = translator.score_batch(*sides, max_input_length=0)
    ours = log_probabilities(probes.logits).gather(2, probes.batch.target_output_ids[:, :, None])[:, :, 0]
    theirs = [torch.tensor(result.log_probs) for result in scored]
    check_agreement(probes.pairs, ours, theirs, what="log-probabilities", made="imported")
    for side, tokenizer in enumerate((tokenizers.source, tokenizers.target)):
        original = sentencepiece.SentencePieceProcessor(model_file=str(spms[side]))
        ids = {name: token for token, name in enumerate(vocabularies[side].names)}
        for text in [tokenizer.decode(pair[side]) for pair in probes.pairs]:
            pieces = original.encode(text, out_type=str)
            if tokenizer.encode(text) != [ids.get(piece, UNK_ID) for piece in pieces]:
                raise RunError(
                    f"the imported tokenizer gives other tokens for {text!r} than {spms[side]}; nothing is kept"
                )
