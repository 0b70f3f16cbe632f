"""Reads what is special in MarianMT models of Hugging Face transformers: positions, tying and two vocabularies."""

from pathlib import Path
from typing import Any

import torch

from translate.config.languages import UNKNOWN
from translate.data.tokenizer import SPACE
from translate.decoding.agreement import TOLERANCE
from translate.errors import InputError
from translate.exchange.foreign import PretrainedParts, Vocabulary
from translate.exchange.language_tokenizers import added_tokens, read_tokenizer_settings


def describe_marian_mt(folder: Path, model: Any, tokenizer: Any) -> PretrainedParts:
    """What only MarianMT has. Its tables of positions become exact sines.

    Raises:
        InputError: The positions are not sines, or a vocabulary does not match the model.
    """
    _set_positions(folder, model)
    embeddings = [model.get_encoder().embed_tokens, model.get_decoder().embed_tokens, model.lm_head]
    source_table, target_table, output_table = (module.weight for module in embeddings)
    tying = "none" if target_table is not output_table else "all" if source_table is target_table else "decoder"
    source, target = _read_vocabularies(folder, model, tokenizer)
    own = read_tokenizer_settings(folder)
    keys = ("languages", "language_tags", "language_tag") if own.languages else ()  # of an export of ours with tags
    told: dict[str, Any] = {key: getattr(own, key) for key in keys}
    told |= {"target_language": own.target_lang} if own.target_lang in own.languages else {}
    languages = {"source_language": own.source_lang, "target_language": own.target_lang}
    data = {key: (not told and code) or UNKNOWN for key, code in languages.items()} | told
    codes = {f"{SPACE}{told['language_tag'].format(code)}": code for code in told.get("languages", ())}
    tags = {codes[name]: row for row, name in enumerate(target.subwords) if name in codes}
    return PretrainedParts(source, target, tying, data, tags)


def _set_positions(folder: Path, model: Any) -> None:
    """Replace stored tables of positions, which are sines rounded to the type of the stored weights, by exact sines."""
    for side in ("encoder", "decoder"):
        embedding = model.get_submodule(f"model.{side}.embed_positions")
        table, exact = embedding.weight.detach(), embedding.create_weight()
        types = (torch.bfloat16, torch.float16)
        stored = next((dtype for dtype in types if torch.equal(table, table.to(dtype).float())), torch.float32)
        allowed, difference = max(TOLERANCE, torch.finfo(stored).eps), float((table - exact).abs().max())
        if not difference <= allowed:
            raise InputError(
                f"{folder}: model.{side}.embed_positions.weight is not sinusoidal: it differs from sines by up to"
                f" {difference:.2g}, and {allowed:.2g} is allowed in {str(stored).removeprefix('torch.')}"
            )
        table.copy_(exact)


def _read_vocabularies(folder: Path, model: Any, tokenizer: Any) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of both sides; a joint one is returned twice."""
    config, sides = model.config, {"vocab.json": (tokenizer.encoder, model.get_encoder().embed_tokens)}
    added = added_tokens(tokenizer)
    if tokenizer.separate_vocabs:
        sides["target_vocab.json"] = (tokenizer.target_encoder, model.get_decoder().embed_tokens)
    made = []
    for name, (ids, embeddings) in sides.items():
        num_rows = embeddings.num_embeddings
        ids = ids | added if num_rows > len(ids) else ids
        subwords = sorted(ids, key=ids.__getitem__)
        if sorted(ids.values()) != [*range(num_rows)]:
            raise InputError(
                f"{folder}/{name}: has {len(ids)} subwords, but the model has {num_rows} embeddings: ids must be 0 to"
                f" {num_rows - 1}, each once, and they are {ids[subwords[0]]} to {ids[subwords[-1]]}"
            )
        unk, eos = ids.get(tokenizer.unk_token), ids.get(tokenizer.eos_token)
        if unk is None:
            raise InputError(f"{folder}/{name}: the symbol {tokenizer.unk_token} is missing")
        if eos != config.eos_token_id:
            raise InputError(f"{folder}/config.json: eos_token_id = {config.eos_token_id}, and in {name} it is {eos}")
        symbols = {"start": config.decoder_start_token_id, "pad": config.pad_token_id, "added": frozenset(added)}
        made.append(Vocabulary(subwords, unk, eos, **symbols))
    return made[0], made[-1]
