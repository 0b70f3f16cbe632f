"""Writes a folder of ONNX graphs for `optimum`, and checks them in ONNX Runtime."""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from translate.atomic import write_text
from translate.config.schema import Config
from translate.data.tokenizer import BOS_ID, PAD_ID, Tokenizers
from translate.decoding.agreement import check_agreement, probe
from translate.decoding.counterparts import COUNTERPARTS, TABLE_POSITIONS, position_limit, to_settings
from translate.errors import import_extra
from translate.exchange.huggingface import generation_settings, model_settings, write_marian_tokenizer
from translate.exchange.onnx_graph import Graph, build_decoder, build_encoder
from translate.model import Transformer

_ENCODER, _DECODER = "encoder_model.onnx", "decoder_model_merged.onnx"
_STEPS = 20  # of greedy search in the check


def write_onnx(model: Transformer, tokenizers: Tokenizers, config: Config, directory: Path) -> None:
    """Write both graphs and the configs and tokenizer that `optimum` reads, and check that they give our numbers.

    Raises:
        InputError: A package is not installed, or the graphs cannot express the model.
        RunError: The written model gives different logits.
    """
    to_settings(model.config, "onnx")
    onnx, _ = import_extra("onnx"), import_extra("onnxruntime")
    for build, name in ((build_encoder, _ENCODER), (build_decoder, _DECODER)):
        build(Graph(onnx, model)).save(directory / name)
    check_onnx(directory, model)
    limit = position_limit(model.config, "onnx")
    settings = {
        "model_type": "marian",  # a type that optimum knows; the graphs may compute anything
        "is_encoder_decoder": True,
        **model_settings(model, "marian_mt"),
        "d_model": model.config.attention_dim,  # divided by the number of heads, it is the width of the cache
        **(COUNTERPARTS["activation"][model.config.activation].marian_mt or {}),
        **(COUNTERPARTS["tie_embeddings"][model.config.tie_embeddings].marian_mt or {}),
        "max_position_embeddings": limit or TABLE_POSITIONS["onnx"],
    }
    generation = generation_settings(config, tokenizers, limit=limit, rows=range(tokenizers.target.vocab_size))
    for name, content in {"config": settings, "generation_config": generation}.items():
        write_text(directory / f"{name}.json", json.dumps(content, indent=2) + "\n")
    write_marian_tokenizer(tokenizers, config, directory, limit=limit)


def check_onnx(directory: Path, model: Transformer) -> None:
    """Run the written graphs and our model on the same sentences, whole translations at once and step by step.

    The steps are the graphs' greedy search with the cache. Our model then scores its output in one forward pass.

    Raises:
        RunError: A logit differs by more than the tolerance.
    """
    onnxruntime = import_extra("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    encoder, decoder = (
        onnxruntime.InferenceSession(os.fspath(directory / name), options, providers=["CPUExecutionProvider"])
        for name in (_ENCODER, _DECODER)
    )
    limit = position_limit(model.config, "onnx")
    _, batch, logits, noise = probe(model, position_limit=limit)
    mask = (batch.source_ids != PAD_ID).long().numpy()
    (hidden,) = encoder.run(None, {"input_ids": batch.source_ids.numpy(), "attention_mask": mask})
    shapes = {value.name: value.shape for value in decoder.get_inputs() if value.name.startswith("past")}
    cache = {name: np.zeros((len(mask), heads, 0, dim), np.float32) for name, (_, heads, _, dim) in shapes.items()}

    def decode(target_ids: Tensor, cache: dict[str, NDArray[Any]]) -> tuple[Tensor, dict[str, NDArray[Any]]]:
        inputs = {"input_ids": target_ids.numpy(), "encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        logits, *present = decoder.run(None, inputs | cache)
        return torch.from_numpy(logits), dict(zip(cache, present, strict=True))

    whole, _ = decode(batch.target_input_ids, cache)
    found, steps = batch.target_input_ids[:, :1], []
    for _ in range(min(_STEPS, limit or _STEPS)):
        step, cache = decode(found[:, -1:], cache)
        steps.append(step)
        allowed = step.index_fill(2, torch.tensor([PAD_ID, BOS_ID]), -math.inf)
        found = torch.cat((found, allowed.argmax(dim=2)), dim=1)
    with torch.inference_mode():
        found_logits = model(batch.source_ids, found[:, :-1])
    is_target = batch.target_output_ids != PAD_ID
    ours = torch.cat((logits[is_target], found_logits.flatten(0, 1)))
    theirs = torch.cat((whole[is_target], torch.cat(steps, dim=1).flatten(0, 1)))
    check_agreement(ours, theirs, noise=noise, what="logits")
