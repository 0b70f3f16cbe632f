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


# By hand, with biases. Base: attention 4 · (512² + 512) = 1,050,624; feed-forward 2 · 512 · 2048 + 2048 + 512 =
# 2,099,712; a norm 1,024. So an encoder layer with two norms has 3,152,384, and a decoder layer with a second attention
# and a third norm 4,204,032. Six of each, and one embedding of 37,000 · 512. Big, with 1024 and 4096: 4,198,400,
# 8,393,728 and 2,048. (The paper says 65 and 213 million.)
@pytest.mark.parametrize(
    "preset, layers, d_model",
    [("transformer-base", 3_152_384 + 4_204_032, 512), ("transformer-big", 12_596_224 + 16_796_672, 1024)],
)
def test_the_papers_presets_have_its_sizes(preset: str, layers: int, d_model: int) -> None:
    assert build(preset).num_parameters == 6 * layers + 37_000 * d_model
