"""How fast this toolkit, a tutorial's loop on torch.nn.Transformer and Hugging Face's MarianMT train the same model.

    python benchmarks/train.py DIR --steps 20 --turns 5

DIR contains train.de and train.en of Multi30k (any pair of files with these names will do). Every engine has its own
process and sees the same batches in the same order. Their turns alternate, so that a noisy machine is noisy for all.
Target tokens are counted without padding. Shares of the peak refer to a large matrix product measured in the same run.

Needs the extra `huggingface`; an engine whose package is missing is reported and left out.
"""

import argparse
import math
import resource
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from engines import print_ratios, start_engines, stop_engines

Step = Callable[[Any], float]  # a batch to its loss, in nats per target token

D_MODEL, HEADS, D_FF, LAYERS, VOCABULARY = 256, 4, 1024, 3, 8000
DROPOUT, SMOOTHING, WARMUP_STEPS = 0.1, 0.1, 400
SETTINGS = {
    "tokenizer.vocab_size": VOCABULARY,
    "model.d_model": D_MODEL,
    "model.num_heads": HEADS,
    "model.d_ff": D_FF,
    "model.num_encoder_layers": LAYERS,
    "model.num_decoder_layers": LAYERS,
    "model.dropout": DROPOUT,
    "model.attention_dropout": DROPOUT,
    "model.activation_dropout": DROPOUT,
    "model.norm": "post",
    "model.positions": "sinusoidal",
    "training.label_smoothing": SMOOTHING,
    "training.warmup_steps": WARMUP_STEPS,
    "training.schedule": "noam",
    "training.device": "cpu",
}


class Corpus(NamedTuple):
    """What all engines train on."""

    batches: list[Any]  # of translate.data.batching.Batch
    vocab_size: int


def read_corpus(folder: Path, batch_tokens: int, num_batches: int) -> Corpus:
    """The first batches of the first epoch, as `translate train` would make them."""
    from translate.config.load import override_config
    from translate.config.schema import Config
    from translate.training.preparation import make_batches, make_tokenizers, read_corpora

    corpus = {"kind": "text", "source": str(folder / "train.de"), "target": str(folder / "train.en")}
    config = override_config(Config(), {**SETTINGS, "data.train": [corpus], "training.batch_tokens": batch_tokens})
    corpora = read_corpora(config)
    tokenizers = make_tokenizers(config, corpora)
    epoch = make_batches(config, corpora, tokenizers).epoch(0)
    padding = epoch.padding
    print(f"{len(epoch)} batches, padding {padding.share:.1%}")
    return Corpus([epoch[number % len(epoch)] for number in range(num_batches)], tokenizers.source.vocab_size)


def rate(step: int) -> float:
    """The paper's schedule, the same for all."""
    return D_MODEL**-0.5 * min(step**-0.5, step * WARMUP_STEPS**-1.5)


def build_ours(vocab_size: int, *, precision: str, compiled: bool = False) -> Step:
    """`translate train`: its model, loss and step, and its own choice of threads."""
    import torch

    from translate.config.load import override_config
    from translate.config.schema import Config
    from translate.data.tokenizer import PAD_ID
    from translate.memory import configure_memory
    from translate.model import Transformer
    from translate.training.setup import build_train_step

    configure_memory()
    config = override_config(Config(), {**SETTINGS, "training.precision": precision, "training.compile": compiled})
    model = Transformer(config.model, source_vocab_size=vocab_size, target_vocab_size=vocab_size, pad_id=PAD_ID).train()
    train_step = build_train_step(model, config.training, device=torch.device("cpu"))
    steps = iter(range(1, 10**9))

    def step(batch: Any) -> float:
        number = next(steps)
        result = train_step([batch], number=number, learning_rate=rate(number))
        return float(result.loss) / result.tokens

    return step


def position_table(length: int, width: int) -> Any:
    """Sines and cosines of positions, (length, width), as the tutorials compute them."""
    import torch

    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def run_transformer(transformer: Any, source_ids: Any, target_ids: Any, source: Any, target: Any) -> Any:
    """torch.nn.Transformer on embeddings of both sides, as the tutorials call it, with all masks."""
    import torch

    from translate.data.tokenizer import PAD_ID

    no_peek = torch.triu(torch.ones(target_ids.shape[1], target_ids.shape[1], dtype=torch.bool), diagonal=1)
    return transformer(
        source,
        target,
        tgt_mask=no_peek,
        src_key_padding_mask=source_ids == PAD_ID,
        tgt_key_padding_mask=target_ids == PAD_ID,
        memory_key_padding_mask=source_ids == PAD_ID,
    )


def build_tutorial(vocab_size: int) -> Step:
    """The loop of the tutorials: torch.nn.Transformer, masks, cross-entropy, Adam."""
    import torch
    from torch import nn

    from translate.data.tokenizer import PAD_ID

    class Tutorial(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocab_size, D_MODEL, padding_idx=PAD_ID)
            self.transformer = nn.Transformer(D_MODEL, HEADS, LAYERS, LAYERS, D_FF, DROPOUT, batch_first=True)
            self.dropout = nn.Dropout(DROPOUT)
            self.output = nn.Linear(D_MODEL, vocab_size, bias=False)
            self.output.weight = self.embedding.weight
            nn.init.normal_(self.embedding.weight, std=D_MODEL**-0.5)
            self.register_buffer("table", position_table(1024, D_MODEL))

        def embed(self, ids: Any) -> Any:
            return self.dropout(self.embedding(ids) * math.sqrt(D_MODEL) + self.table[: ids.shape[1]])

        def forward(self, source: Any, target: Any) -> Any:
            hidden = run_transformer(self.transformer, source, target, self.embed(source), self.embed(target))
            return self.output(hidden)

    model = Tutorial().train()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=SMOOTHING)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    steps = iter(range(1, 10**9))

    def step(batch: Any) -> float:
        optimizer.param_groups[0]["lr"] = rate(next(steps))
        optimizer.zero_grad()
        logits = model(batch.source_ids, batch.target_input_ids)
        loss = criterion(logits.reshape(-1, vocab_size), batch.target_output_ids.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def marian_model(ours: Any, vocab_size: int) -> Any:
    """MarianMT in training mode, with SDPA, and with the sizes and dropout of a `ModelConfig` of ours."""
    from transformers import MarianConfig, MarianMTModel

    from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID

    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=ours.d_model,
        encoder_layers=ours.num_encoder_layers,
        decoder_layers=ours.num_decoder_layers,
        encoder_attention_heads=ours.num_heads,
        decoder_attention_heads=ours.num_heads,
        encoder_ffn_dim=ours.d_ff,
        decoder_ffn_dim=ours.d_ff,
        activation_function="relu",
        dropout=ours.dropout,
        attention_dropout=ours.attention_dropout,
        activation_dropout=ours.activation_dropout,
        scale_embedding=True,
        init_std=ours.d_model**-0.5,
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=BOS_ID,
        forced_eos_token_id=None,
        use_cache=False,
    )
    config._attn_implementation = "sdpa"
    return MarianMTModel(config).train()


def build_huggingface(vocab_size: int, *, precision: str, keeps_memory: bool = False) -> Step:
    """MarianMT in a good loop: SDPA, fused Adam, and if asked for, bf16 autocast and our memory settings."""
    import torch
    import torch.nn.functional as F

    from translate.config.load import override_config
    from translate.config.schema import Config
    from translate.data.tokenizer import PAD_ID
    from translate.memory import configure_memory

    if keeps_memory:
        configure_memory()
    model = marian_model(override_config(Config(), SETTINGS).model, vocab_size)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    steps = iter(range(1, 10**9))

    def step(batch: Any) -> float:
        optimizer.param_groups[0]["lr"] = rate(next(steps))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            logits = model(
                input_ids=batch.source_ids,
                attention_mask=(batch.source_ids != PAD_ID).long(),
                decoder_input_ids=batch.target_input_ids,
                use_cache=False,
            ).logits
            loss = F.cross_entropy(
                logits.flatten(0, 1), batch.target_output_ids.flatten(), ignore_index=PAD_ID, label_smoothing=SMOOTHING
            )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


ENGINES: dict[str, tuple[Callable[..., Step], dict[str, Any]]] = {
    "ours fp32": (build_ours, {"precision": "fp32"}),
    "ours bf16": (build_ours, {"precision": "bf16"}),
    "ours bf16 compiled": (build_ours, {"precision": "bf16", "compiled": True}),
    "tutorial fp32": (build_tutorial, {}),
    "huggingface fp32": (build_huggingface, {"precision": "fp32"}),
    "huggingface bf16": (build_huggingface, {"precision": "bf16"}),
    "huggingface bf16 malloc": (build_huggingface, {"precision": "bf16", "keeps_memory": True}),
}


class Turn(NamedTuple):
    """What an engine sends after a turn."""

    tokens_per_second: float
    losses: list[float]
    peak_mib: float


def serve(name: str, corpus: Corpus, threads: int, warmup: int, connection: Connection) -> None:
    """An engine's process: warms up, then trains on the batches whose numbers it receives."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    build, options = ENGINES[name]
    try:
        step = build(corpus.vocab_size, **options)
    except ImportError as error:
        connection.send(f"left out: {error}")
        return
    losses = [step(batch) for batch in corpus.batches[:warmup]]
    connection.send(losses)
    while (span := connection.recv()) is not None:
        batches = corpus.batches[slice(*span)]
        begin = time.perf_counter()
        losses = [step(batch) for batch in batches]
        seconds = time.perf_counter() - begin
        tokens = sum(batch.num_target_tokens for batch in batches)
        connection.send(Turn(tokens / seconds, losses, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def measure_peak(threads: int) -> dict[str, float]:
    """GFLOP/s of a large matrix product, in fp32 and bf16: the best of eight."""
    import torch

    torch.set_num_threads(threads)
    peaks = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for size in (256, 2048):
            one, other = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
            seconds = []
            for _ in range(8):
                begin = time.perf_counter()
                one @ other
                seconds.append(time.perf_counter() - begin)
            peaks[name] = 2 * size**3 / min(seconds) / 1e9
            if peaks[name] < 10.0:  # without a CPU's instructions for bf16 the larger product takes a minute
                break
    return peaks


def flops_per_target_token(corpus: Corpus) -> float:
    """FLOPs of the matrix products, forward and backward; those of source tokens are shared out over target tokens."""
    from translate.data.tokenizer import PAD_ID

    encoder_layer = 4 * D_MODEL**2 + 2 * D_MODEL * D_FF
    decoder_layer = 8 * D_MODEL**2 + 2 * D_MODEL * D_FF
    sources = sum(int((batch.source_ids != PAD_ID).sum()) for batch in corpus.batches)
    targets = sum(batch.num_target_tokens for batch in corpus.batches)
    cross_keys = 2 * D_MODEL**2 * LAYERS  # projected once per source token, not per target token
    source_weights = LAYERS * encoder_layer + cross_keys
    target_weights = LAYERS * decoder_layer - cross_keys + D_MODEL * corpus.vocab_size
    return 6 * (target_weights + source_weights * sources / targets)


def main() -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=10, help="per turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=5, help="steps before the first turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    arguments = parser.parse_args()

    peaks = measure_peak(arguments.threads)
    print(f"matrix product: {peaks['fp32']:.0f} GFLOP/s fp32, {peaks['bf16']:.0f} bf16, {arguments.threads} threads")
    corpus = read_corpus(arguments.folder, arguments.batch_tokens, arguments.warmup + arguments.steps * arguments.turns)
    flops = flops_per_target_token(corpus)
    engines = start_engines(serve, arguments.engines, corpus, arguments.threads, arguments.warmup)
    turns: dict[str, list[Turn]] = {name: [] for name in engines}
    for number in range(arguments.turns):
        first = arguments.warmup + number * arguments.steps
        for name, engine in engines.items():
            engine.connection.send((first, first + arguments.steps))
            turns[name].append(engine.connection.recv())
    print(f"\n{flops / 1e6:.1f} MFLOP per target token; medians of {arguments.turns} turns of {arguments.steps} steps")
    print(f"{'engine':<24}{'tokens/s':>9}{'(min':>8}{'max)':>8}{'of peak':>9}{'MiB':>7}{'last losses':>13}")
    rates = {name: [turn.tokens_per_second for turn in done] for name, done in turns.items()}
    for name, done in turns.items():
        ordered = sorted(rates[name])
        median = statistics.median(ordered)
        share = median * flops / 1e9 / peaks["bf16" if "bf16" in name else "fp32"]
        last = statistics.mean(done[-1].losses)
        least_and_most = f"{ordered[0]:8.0f}{ordered[-1]:8.0f}"
        print(f"{name:<24}{median:9.0f}{least_and_most}{share:9.1%}{done[-1].peak_mib:7.0f}{last:13.3f}")
    print_ratios(rates)
    stop_engines(engines)


if __name__ == "__main__":
    main()
