"""Does our training equal that of torch.nn.Transformer? Loss curves from the same weights, over the same batches.

    python benchmarks/curves.py DIR --steps 200

DIR contains train.de and train.en, as for benchmarks/train.py. There is no dropout, so all compute the same function:
our fp32 step should differ from the tutorial's loop only by rounding, and bf16 by its coarser rounding.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from train import D_FF, D_MODEL, HEADS, LAYERS, SETTINGS, SMOOTHING, rate, read_corpus, run_transformer

from translate.config.load import override_config
from translate.config.schema import Config
from translate.data.tokenizer import PAD_ID
from translate.model import Transformer
from translate.training.setup import build_train_step

EXACT = {**SETTINGS, "model.norm": "pre"} | {
    f"model.{place}": 0.0 for place in ("dropout", "attention_dropout", "activation_dropout")
}


def build_ours(vocab_size: int) -> Transformer:
    """The model of the benchmark, with the same weights each time."""
    torch.manual_seed(1)
    config = override_config(Config(), EXACT)
    return Transformer(config.model, source_vocab_size=vocab_size, target_vocab_size=vocab_size, pad_id=PAD_ID).train()


class Reference(nn.Module):
    """torch.nn.Transformer with our model's weights, and our model's embeddings."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        self.ours = ours  # its embeddings and output layer; its layers are not computed
        self.transformer = nn.Transformer(
            D_MODEL, HEADS, LAYERS, LAYERS, D_FF, 0.0, batch_first=True, norm_first=True, layer_norm_eps=1e-6
        )
        epsilon = ours.config.norm_epsilon
        for module in self.transformer.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = epsilon
        with torch.no_grad():
            for stack in ("encoder", "decoder"):
                mine, theirs = getattr(ours, stack), getattr(self.transformer, stack)
                for my_layer, their_layer in zip(mine.layers, theirs.layers, strict=True):
                    self._copy_layer(my_layer, their_layer)
                theirs.norm.load_state_dict(mine.final_norm.state_dict())

    @staticmethod
    def _copy_layer(mine: Any, theirs: Any) -> None:
        attentions = [(mine.self_attention, theirs.self_attn)]
        norms = [(mine.self_attention_add_and_norm, theirs.norm1), (mine.feed_forward_add_and_norm, theirs.norm2)]
        if hasattr(mine, "cross_attention"):
            attentions.append((mine.cross_attention, theirs.multihead_attn))
            norms[1:] = [(mine.cross_attention_add_and_norm, theirs.norm2), (norms[1][0], theirs.norm3)]
        for my_attention, their_attention in attentions:
            their_attention.in_proj_weight.copy_(my_attention.input_projection.weight)
            their_attention.in_proj_bias.copy_(my_attention.input_projection.bias)
            their_attention.out_proj.load_state_dict(my_attention.output_projection.state_dict())
        for my_norm, their_norm in norms:
            their_norm.load_state_dict(my_norm.norm.state_dict())
        theirs.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(mine.feed_forward.outer.state_dict())

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        embedded = self.ours.encoder.embedder(source).hidden, self.ours.decoder.embedder(target).hidden
        return self.ours.output(run_transformer(self.transformer, source, target, *embedded))


def train_ours(batches: list[Any], vocab_size: int, *, precision: str) -> list[float]:
    """Losses in nats per target token, by `translate train`'s own step."""
    model = build_ours(vocab_size)
    settings = override_config(Config(), {**EXACT, "training.precision": precision}).training
    train_step = build_train_step(model, settings, device=torch.device("cpu"))
    steps = enumerate(batches, start=1)
    results = (train_step([batch], number=number, learning_rate=rate(number)) for number, batch in steps)
    return [float(result.loss) / result.tokens for result in results]


def train_reference(batches: list[Any], vocab_size: int) -> list[float]:
    """Losses of the tutorials' loop."""
    model = Reference(build_ours(vocab_size)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for number, batch in enumerate(batches, start=1):
        optimizer.param_groups[0]["lr"] = rate(number)
        optimizer.zero_grad()
        logits = model(batch.source_ids, batch.target_input_ids)
        targets = batch.target_output_ids
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD_ID, label_smoothing=SMOOTHING)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    """Train three times and print the curves, and how far apart they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--every", type=int, default=20, help="steps between the lines that are printed")
    arguments = parser.parse_args()
    corpus = read_corpus(arguments.folder, arguments.batch_tokens, arguments.steps)
    curves = {
        "torch.nn.Transformer": train_reference(corpus.batches, corpus.vocab_size),
        "ours fp32": train_ours(corpus.batches, corpus.vocab_size, precision="fp32"),
        "ours bf16": train_ours(corpus.batches, corpus.vocab_size, precision="bf16"),
    }
    print(f"{'step':>5}", *(f"{name:>21}" for name in curves))
    for number in range(arguments.every - 1, arguments.steps, arguments.every):
        print(f"{number + 1:5d}", *(f"{curve[number]:21.5f}" for curve in curves.values()))
    reference = curves.pop("torch.nn.Transformer")
    for name, curve in curves.items():
        apart = [abs(mine - theirs) for mine, theirs in zip(curve, reference, strict=True)]
        print(f"{name}: {statistics.mean(apart):.1e} per step from torch.nn.Transformer, at most {max(apart):.1e}")


if __name__ == "__main__":
    main()
