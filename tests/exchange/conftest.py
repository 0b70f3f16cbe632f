"""MarianMT folders like those of OPUS-MT on the Hub, but small: random weights, real SentencePiece models."""

import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from harness import TINY_PRETRAINED, corpus_lines, train_spm


@pytest.fixture(scope="session")
def german() -> list[str]:
    return corpus_lines("test.de")[:100]


@pytest.fixture(scope="session")
def english() -> list[str]:
    return corpus_lines("test.en")[:100]


@pytest.fixture(scope="session")
def card_code() -> Callable[[Path], Callable[..., str]]:
    """Runs the code of the card in a folder, and returns its function `translate`."""

    def run(folder: Path) -> Callable[..., str]:
        card = (folder / "README.md").read_text(encoding="utf-8")
        [code] = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
        names: dict[str, Any] = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code.replace(f'"{folder.name}', f'"{folder}'), names)
        return lambda *arguments: names["translate"](*arguments).strip()

    return run


@pytest.fixture(scope="session")
def spms() -> tuple[bytes, bytes]:
    return train_spm(corpus_lines("train.de")[:1500]), train_spm(corpus_lines("train.en")[:1500])


@pytest.fixture(scope="session")
def make_opus(spms: tuple[bytes, bytes]) -> Callable[..., Path]:
    """Writes a folder with the files of `Helsinki-NLP/opus-mt-de-en`, in a small size.

    The last pieces of the source's SentencePiece model are not in the vocabulary, as in real ones.
    """

    def make(
        folder: Path,
        *,
        separate: bool = False,
        tags: tuple[str, ...] = (),
        end_bias: float = 2.6,
        start_bias: float | None = None,
        **settings: Any,
    ) -> Path:
        transformers = pytest.importorskip("transformers")
        folder.mkdir(parents=True)
        processors = [sentencepiece.SentencePieceProcessor(model_proto=model) for model in spms]
        sides = [[each.id_to_piece(token) for token in range(2, each.get_piece_size())] for each in processors]
        del sides[0][-9:]
        # Both sides have the same id for padding.
        sides = [side[: len(sides[0])] for side in sides] if separate else [sorted({*sides[0], *sides[1]})]
        vocabularies = [["</s>", "<unk>", *side, *tags, "<pad>"] for side in sides]
        for name, vocabulary in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
            (folder / name).write_text(json.dumps({piece: token for token, piece in enumerate(vocabulary)}))
        for name, model in zip(("source.spm", "target.spm"), spms, strict=True):
            (folder / name).write_bytes(model)
        tokenizer_config = {"source_lang": "de", "target_lang": "en", "separate_vocabs": separate}
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
        pad = len(vocabularies[0]) - 1
        config = transformers.MarianConfig(
            vocab_size=len(vocabularies[0]),
            decoder_vocab_size=len(vocabularies[-1]),
            **{
                **TINY_PRETRAINED, "activation_function": "swish", "scale_embedding": True,
                "static_position_embeddings": True, "normalize_embedding": False, "normalize_before": False,
                "add_final_layer_norm": False, "add_bias_logits": False, "pad_token_id": pad, "eos_token_id": 0,
                "decoder_start_token_id": pad, "bos_token_id": 0, "forced_eos_token_id": 0,
                "share_encoder_decoder_embeddings": not separate, **settings,
            },
        )  # fmt: skip
        torch.manual_seed(7)
        model = transformers.MarianMTModel(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():  # so that translations differ, and most of them end
                if "embed_positions" not in name:
                    parameter.normal_(std=0.15 if "embed" in name or "shared" in name else 0.3)
                if "layer_norm.weight" in name:
                    parameter.mul_(0.3).add_(1.0)
                elif "decoder" in name and "q_proj.weight" in name:
                    parameter.mul_(3.0)
                elif parameter.dim() == 1:
                    parameter.mul_(0.7)
            model.final_logits_bias.normal_(std=0.1)
            model.final_logits_bias[0, :2] = torch.tensor([end_bias, -9.0])  # <unk> is shown in different ways
            if start_bias is not None:
                model.final_logits_bias[0, pad] = start_bias
            for embedding in {model.model.encoder.embed_tokens, model.model.decoder.embed_tokens}:
                embedding.weight[pad] = 0.0
        model.generation_config = transformers.GenerationConfig(
            bad_words_ids=[[pad]], decoder_start_token_id=config.decoder_start_token_id, eos_token_id=0,
            forced_eos_token_id=0, max_length=40, num_beams=4, pad_token_id=pad,
        )  # fmt: skip
        transformers.utils.logging.disable_progress_bar()
        model.save_pretrained(folder)
        return folder

    return make
