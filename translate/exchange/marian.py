"""Reads Marian's own files, as in OPUS-MT's archives: model.npz, decoder.yml, vocabularies, SentencePiece models.

CTranslate2 reads these files too, and computes the reference numbers for ours.
"""

import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from torch import Tensor

from translate.atomic import temporary_folder, write_text
from translate.config.yaml import parse_yaml
from translate.data.tokenizer import UNK_ID, Tokenizers
from translate.decoding.agreement import probe
from translate.decoding.counterparts import from_settings, known_settings
from translate.decoding.engines.ctranslate2_conversion import check_scores, load_in_fp32
from translate.errors import InputError, RunError, import_extra
from translate.exchange.foreign import ForeignModel, Vocabulary, read_mapping, reading, require, warn_of_lost
from translate.exchange.weights import OUTPUT_BIAS
from translate.files import open_input, read_input
from translate.model import Transformer
from translate.model.device import check_loading

_ALLOWED: dict[str, tuple[object, ...]] = {
    **known_settings("marian"),
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-no-projection": (False,),
    "transformer-postprocess-top": ("",),
    "transformer-postprocess-emb": ("", "d"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-tied-layers": ([],),
    "transformer-pool": (False,),
    "right-left": (False,),  # reverses the target's subwords, which a comparison of numbers does not show
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "factors-combine": ("sum",),
}
_KEPT = (  # of decoder.yml: what we read, and what changes no translation
    "models", "vocabs", "beam-size", "normalize", "max-length-factor", "relative-paths", "mini-batch*", "maxi-batch*",
    "workspace", "cpu-threads", "devices", "num-devices", "log*", "quiet*", "version",
)  # fmt: skip
_NORM_EPSILON = 1e-6  # hard-coded in Marian, not in its files
_SYMBOLS = ("<unk>", "</s>")
_TRANSPOSED, _EMBEDDINGS = ("W", "Wq", "Wk", "Wv", "Wo", "W1", "W2"), ("Wemb", "Wt")  # last parts of matrices' names


def read_marian(folder: Path) -> ForeignModel:
    """Read the model that a folder's `decoder.yml` names.

    Raises:
        InputError: A package is not installed, a file is missing or damaged, or the model has something that a run
            cannot hold.
    """
    ctranslate2 = import_extra("ctranslate2")
    decoder = read_mapping(folder / "decoder.yml")
    models, vocabularies = (_files(folder, decoder[key]) for key in ("models", "vocabs"))
    if len(models) != 1:
        raise InputError(f"{folder}/decoder.yml: names {len(models)} models; only a single model can be imported")
    arrays = _read_arrays(models[0])
    text, place = bytes(arrays.pop("special:model.yml")).rstrip(b"\0").decode(), models[0] / "special:model.yml"
    settings, _ = parse_yaml(text, path=place, dotted_keys=True)
    require(str(place), settings, _ALLOWED | {"transformer-decoder-dim-ffn": (0, settings["transformer-dim-ffn"])})
    warn_of_lost(folder / "decoder.yml", decoder, defaults={}, kept=_KEPT)
    sides = {"source": vocabularies[0], "target": vocabularies[-1]}
    source, target = map(_read_vocabulary, sides.values())
    weights, tying = _read_weights(arrays)
    spms = [path if path.suffix == ".spm" else folder / f"{side}.spm" for side, path in sides.items()]
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
        weight_names="marian",
        weights=weights,
        source=source,
        target=source if source == target else target,
        sentencepiece=(spms[0], spms[1]),
        files=[folder / "decoder.yml", *models, *dict.fromkeys([*vocabularies, *spms])],
        reader={"ctranslate2": ctranslate2.__version__},
        check=functools.partial(_check, models[0], spms),
    )


def _files(folder: Path, given: str | list[str]) -> list[Path]:
    names = [given] if isinstance(given, str) else given
    return [folder / PureWindowsPath(name).name for name in names]  # paths may come from another machine


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    with reading(path), open_input(path) as stream, np.load(stream, allow_pickle=False) as file:
        check_loading(path, sum(member.file_size for member in file.zip.infolist()))
        return dict(file)


def _read_vocabulary(path: Path) -> Vocabulary:
    """Read a YAML file or a SentencePiece model. There is no start symbol: Marian's decoder starts with zeros."""
    content = read_input(path)  # refuses what is too large for CTranslate2 to read
    if path.suffix == ".spm":
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        subwords = [str(processor.id_to_piece(token)) for token in range(processor.get_piece_size())]
        unk, eos = processor.unk_id(), processor.eos_id()
    else:
        subwords = import_extra("ctranslate2.converters.marian").load_vocab(os.fspath(path))
        unk, eos = (subwords.index(symbol) if symbol in subwords else -1 for symbol in _SYMBOLS)
    if min(unk, eos) < 0:
        raise InputError(f"{path}: <unk> or </s> is missing")
    return Vocabulary(subwords, unk, eos)


def _read_weights(arrays: dict[str, NDArray[Any]]) -> tuple[dict[str, Tensor], str]:
    """The weights as in torch, and which embeddings are tied."""
    weights: dict[str, Tensor] = {}
    for key, array in arrays.items():
        if not key.startswith("special:"):
            tensor, kind = torch.from_numpy(array).float(), key.rpartition("_")[2]
            weights[key] = tensor.t() if kind in _TRANSPOSED else tensor if kind in _EMBEDDINGS else tensor.flatten()
    tying, output_name = "decoder", "decoder_ff_logit_out_Wt"
    if (shared := weights.pop("Wemb", None)) is not None:
        weights, tying = {"encoder_Wemb": shared, "decoder_Wemb": shared, **weights}, "all"
    target = weights["decoder_Wemb"]
    if "decoder_ff_logit_out_W" in weights:
        weights[output_name] = weights.pop("decoder_ff_logit_out_W")
    if output_name in weights:
        tying = "none"
    bias = weights.pop("decoder_ff_logit_out_b", torch.zeros(len(target)))
    return {output_name: target, OUTPUT_BIAS: bias, **weights}, tying


def _check(
    file: Path, spms: Sequence[Path], vocabularies: Sequence[Vocabulary], model: Transformer, tokenizers: Tokenizers
) -> None:
    """Compare log-probabilities with CTranslate2's, and subwords with the original SentencePiece models'."""
    probes = probe(model, position_limit=None)
    with temporary_folder() as temporary:
        converted, files, sides = temporary / "converted", [], []
        for side, vocabulary in enumerate(vocabularies):  # subwords are named by numbers, which YAML cannot misread
            names = [str(token) for token in range(len(vocabulary.subwords))]
            names[vocabulary.unk], names[vocabulary.eos] = _SYMBOLS
            files.append(temporary / f"{side}.yml")
            write_text(files[side], "".join(f"{name}: {token}\n" for token, name in enumerate(names)))
            sides.append([[names[vocabulary.rows[token]] for token in pair[side]] for pair in probes.pairs])
        converter = import_extra("ctranslate2").converters.MarianConverter(str(file), list(map(str, files)))
        converter.convert(str(converted))
        settings = converted / "config.json"
        write_text(settings, json.dumps(json.loads(settings.read_bytes()) | {"layer_norm_epsilon": _NORM_EPSILON}))
        check_scores(load_in_fp32(converted), probes, sides)
    for side, tokenizer in enumerate((tokenizers.source, tokenizers.target)):
        original = sentencepiece.SentencePieceProcessor(model_proto=read_input(spms[side]))
        ids = {name: token for token, name in enumerate(vocabularies[side].names)}
        for text in [tokenizer.decode(pair[side]) for pair in probes.pairs]:
            if tokenizer.encode(text) != [ids.get(piece, UNK_ID) for piece in original.encode(text, out_type=str)]:
                raise RunError(
                    f"the imported tokenizer gives different tokens for {text!r} than {spms[side]}; nothing is kept"
                )
