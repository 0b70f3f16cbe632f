"""A run with a small model that has learnt a toy language, untrained models of every shape, and MarianMT folders.

The folders are those of OPUS-MT models on the Hub in a small size: random weights, real SentencePiece models.
"""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sentencepiece
import torch

from translate.config.data import TokenizerConfig
from translate.config.decoding import DecodingConfig
from translate.config.load import load_config
from translate.config.schema import Config, ModelConfig
from translate.data.tokenizer import PAD_ID, Tokenizers, prepare_tokenizers
from translate.model import Transformer
from translate.runs.checkpoint import add_prefix, write_tensors
from translate.runs.directory import create_run
from translate.runs.loading import build_model, get_parameters

DATA = Path(load_config("demo").config.data.train[0].source).parent  # type: ignore[union-attr]
TAGS = (">>deu<<", ">>eng<<")
Sentences = Callable[..., tuple[list[str], list[str]]]


class Toy(NamedTuple):
    """A run on the disk, its model, and sentences that the model has not seen."""

    path: Path
    config: Config
    model: Transformer
    tokenizers: Tokenizers
    sources: list[str]
    references: list[str]


def write_run(path: Path, config: Config, tokenizers: Tokenizers, model: Transformer) -> None:
    run = create_run(path, config=config, tokenizers=tokenizers, command=["translate", "train"])
    write_tensors(run.checkpoint("best"), add_prefix(get_parameters(model), "model."), {"step": "150"})


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory, toy_sentences: Sentences, teach: Callable[..., None]) -> Toy:
    sentences = toy_sentences(3000, longest=6, draw=random.Random(1))
    config = Config(
        tokenizer=TokenizerConfig(vocab_size=300),
        model=ModelConfig(
            d_model=32,
            num_heads=4,
            d_ff=64,
            num_encoder_layers=1,
            num_decoder_layers=1,
            dropout=0.0,
            initialization="xavier",
        ),
        decoding=DecodingConfig(device="cpu"),
    )
    tokenizers = prepare_tokenizers(config.tokenizer, *sentences)
    torch.manual_seed(1)
    model = build_model(config, tokenizers)

    def rate(step: int) -> float:
        return 5e-3 * min(step / 30, 1.0, (241 - step) / 120)

    teach(model, tokenizers, sentences, num_steps=240, batch_size=24, rate=rate)
    path = tmp_path_factory.mktemp("runs") / "toy"
    write_run(path, config, tokenizers, model)
    return Toy(path, config, model, tokenizers, *toy_sentences(37, longest=6, draw=random.Random(3)))


@pytest.fixture
def save_run() -> Callable[[Path, Config, Tokenizers, Transformer], None]:
    """Makes a run directory of a model."""
    return write_run


@pytest.fixture(scope="session")
def separate_tokenizers(toy_sentences: Sentences) -> Tokenizers:
    """A vocabulary for each side, of different sizes; without byte fallback they are small."""
    sources, targets = toy_sentences(100, longest=6, draw=random.Random(5))
    config = TokenizerConfig(vocabulary="separate", vocab_size=23, byte_fallback=False)
    return prepare_tokenizers(config, sources, targets)._replace(
        target=prepare_tokenizers(config.model_copy(update={"vocab_size": 27}), sources, targets).target
    )


@pytest.fixture
def build(toy: Toy, separate_tokenizers: Tokenizers) -> Callable[..., tuple[Transformer, Tokenizers]]:
    """Makes an untrained model with all its weights far from zero, biases and norms too, and its tokenizers."""

    def build_random(
        *, vocabulary: str = "joint", noise: float = 0.3, **shape: object
    ) -> tuple[Transformer, Tokenizers]:
        tokenizers = toy.tokenizers if vocabulary == "joint" else separate_tokenizers
        sizes = {"d_model": 20, "num_heads": 2, "d_ff": 28, "num_encoder_layers": 2, "num_decoder_layers": 3}
        model = Transformer(
            ModelConfig.model_validate(sizes | shape),
            source_vocab_size=tokenizers.source.vocab_size,
            target_vocab_size=tokenizers.target.vocab_size,
            pad_id=PAD_ID,
        )
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += noise * torch.randn_like(parameter)
        return model.eval(), tokenizers

    return build_random


def read_lines(name: str, count: int) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()[:count]


@pytest.fixture(scope="session")
def german() -> list[str]:
    return read_lines("test.de", 100)


@pytest.fixture(scope="session")
def english() -> list[str]:
    return read_lines("test.en", 100)


@pytest.fixture(scope="session")
def train_spm() -> Callable[..., bytes]:
    """Trains a model with Marian's special ids."""

    def train(lines: list[str], **options: Any) -> bytes:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            minloglevel=2,
            num_threads=1,
            **{"vocab_size": 400, "unk_id": 1, "eos_id": 0, "bos_id": -1, "pad_id": -1, **options},
        )
        return model.getvalue()

    return train


@pytest.fixture(scope="session")
def spms(train_spm: Callable[..., bytes]) -> tuple[bytes, bytes]:
    return train_spm(read_lines("train.de", 1500)), train_spm(read_lines("train.en", 1500))


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(token) for token in range(processor.get_piece_size())]


@pytest.fixture(scope="session")
def make_opus(spms: tuple[bytes, bytes]) -> Callable[..., Path]:
    """Writes a folder with the files of `Helsinki-NLP/opus-mt-de-en`, in a small size.

    Some pieces of the source's SentencePiece model are not in the vocabulary, as in real ones.
    """

    def make(
        folder: Path,
        *,
        bin_file: bool = False,
        separate: bool = False,
        tags: tuple[str, ...] = (),
        models: tuple[bytes, bytes] = spms,
        generation: dict[str, Any] | None = None,
        end_bias: float = 2.6,
        spare: int = 9,
        **settings: Any,
    ) -> Path:
        transformers = pytest.importorskip("transformers")
        folder.mkdir(parents=True)
        sides = [[piece for piece in pieces_of(model) if piece not in ("</s>", "<unk>")] for model in models]
        sides[0] = [piece for piece in sides[0] if piece not in sides[0][len(sides[0]) - spare :]]
        shortest = len(sides[0])
        sides = [side[:shortest] for side in sides] if separate else [sorted({*sides[0], *sides[1]})]  # one pad id
        vocabularies = [["</s>", "<unk>", *side, *tags, "<pad>"] for side in sides]
        names = ["vocab.json", "target_vocab.json"]
        for name, vocabulary in zip(names, vocabularies, strict=False):
            (folder / name).write_text(json.dumps({piece: token for token, piece in enumerate(vocabulary)}))
        (folder / "source.spm").write_bytes(models[0])
        (folder / "target.spm").write_bytes(models[1])
        languages = {"source_lang": "de", "target_lang": "en"}
        tokenizer_config = languages | ({"separate_vocabs": True} if separate else {})
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
        pad = len(vocabularies[0]) - 1
        config = transformers.MarianConfig(
            vocab_size=len(vocabularies[0]),
            decoder_vocab_size=len(vocabularies[-1]),
            **{
                "d_model": 20, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2,
                "decoder_attention_heads": 2, "encoder_ffn_dim": 28, "decoder_ffn_dim": 28,
                "max_position_embeddings": 97, "activation_function": "swish", "scale_embedding": True,
                "static_position_embeddings": True,
                "normalize_embedding": False, "normalize_before": False, "add_final_layer_norm": False,
                "add_bias_logits": False, "pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad,
                "bos_token_id": 0, "forced_eos_token_id": 0,
                "share_encoder_decoder_embeddings": not separate, **settings,
            },
        )  # fmt: skip
        torch.manual_seed(7)
        model = transformers.MarianMTModel(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():  # so that translations differ, and most of them end
                if "embed_positions" not in name:
                    parameter.copy_(
                        torch.randn_like(parameter) * (0.15 if "embed" in name or "shared" in name else 0.3)
                    )
                if "layer_norm.weight" in name:
                    parameter.mul_(0.3).add_(1.0)
                elif "decoder" in name and "q_proj.weight" in name:
                    parameter.mul_(3.0)
                elif parameter.dim() == 1:
                    parameter.mul_(0.7)
            model.final_logits_bias.copy_(0.1 * torch.randn_like(model.final_logits_bias))
            model.final_logits_bias[0, :2] = torch.tensor([end_bias, -9.0])  # <unk> is shown in different ways
            for embedding in {model.model.encoder.embed_tokens, model.model.decoder.embed_tokens}:
                embedding.weight[config.pad_token_id] = 0.0
        model.generation_config = transformers.GenerationConfig(
            **{
                "bad_words_ids": [[pad]], "decoder_start_token_id": config.decoder_start_token_id, "eos_token_id": 0,
                "forced_eos_token_id": 0, "max_length": 40, "num_beams": 4, "pad_token_id": pad, **(generation or {}),
            }
        )  # fmt: skip
        transformers.utils.logging.disable_progress_bar()
        model.save_pretrained(folder)
        if bin_file:
            (folder / "model.safetensors").unlink()
            torch.save(model.state_dict(), folder / "pytorch_model.bin")
        return folder

    return make
