"""Every shipped preset builds its model; on the meta device, so that it costs no memory."""

import pytest
import torch

from translate.config.load import load_config, preset_names
from translate.data.tokenizer import PAD_ID
from translate.model import Transformer


def build(preset: str) -> Transformer:
    config = load_config(preset).config
    with torch.device("meta"):
        return Transformer(
            config.model,
            source_vocab_size=config.tokenizer.vocab_size,
            target_vocab_size=config.tokenizer.vocab_size,
            pad_id=PAD_ID,
        )


@pytest.mark.parametrize("preset", preset_names())
def test_preset_builds_and_runs(preset: str) -> None:
    model = build(preset)
    ids = torch.ones(2, 7, dtype=torch.long, device="meta")
    assert model(ids, ids[:, :5]).shape == (2, 5, load_config(preset).config.tokenizer.vocab_size)


def test_transformer_base_has_the_papers_size() -> None:
    # By hand, with biases. Attention: 4 · (512² + 512) = 1,050,624; feed-forward: 2 · 512 · 2048 + 2048 + 512 =
    # 2,099,712; a norm: 1,024. So an encoder layer with two norms has 3,152,384, and a decoder layer with a second
    # attention and a third norm 4,204,032. Six of each, and one embedding of 37,000 · 512. (The paper says 65 million.)
    assert build("transformer-base").num_parameters == 6 * (3_152_384 + 4_204_032) + 37_000 * 512


def test_transformer_big_has_the_papers_size() -> None:
    # In the same way: 4 · (1024² + 1024) = 4,198,400; 2 · 1024 · 4096 + 4096 + 1024 = 8,393,728; a norm: 2,048. An
    # encoder layer has 12,596,224, a decoder layer 16,796,672. (The paper says 213 million.)
    assert build("transformer-big").num_parameters == 6 * (12_596_224 + 16_796_672) + 37_000 * 1024
