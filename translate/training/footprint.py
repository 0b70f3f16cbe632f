"""How much memory a training run needs at least, known before any of it is allocated."""

import torch

from translate.config.schema import Config
from translate.distributed.process_group import World
from translate.memory import describe_memory
from translate.model.device import check_free_memory
from translate.model.precision import choose_precision

_FP32 = 4  # bytes of a weight, its gradient, and each of its moments


def check_training_fits(
    config: Config, num_weights: int, *, device: torch.device, batch_tokens: tuple[int, int], world: World
) -> None:
    """Refuse a training run that cannot fit in the free memory.

    The needed memory is a lower bound: the weights, their gradients, both of Adam's moments and the moving average, or
    only the weights if some are frozen; and what a batch keeps for the backward pass, without attention weights.

    Args:
        batch_tokens: The source and target tokens of the largest batch.

    Raises:
        OutOfMemory: It does not fit; the message has the numbers, and the keys to lower.
    """
    settings, sizes = config.training, config.model
    num_copies = 1 if settings.freeze or settings.lora_rank else 4 + (settings.ema_decay is not None)
    num_bytes_of_weights = (2 if settings.frozen_precision == "bf16" else _FP32) * num_weights * num_copies
    if settings.parallel == "fsdp":
        num_bytes_of_weights //= world.size
    source_tokens, target_tokens = (tokens // world.size for tokens in batch_tokens)  # a step is split among processes
    # Inputs of norms and products, in the decoder also of cross-attention, whose keys and values belong to the source.
    # Frozen layers may keep nothing.
    inner = (3 if sizes.is_gated else 2) * sizes.d_ff
    width, heads = sizes.d_model, sizes.attention_dim
    in_encoder = source_tokens * (4 * width + 4 * heads + inner)
    in_decoder = target_tokens * (6 * width + 6 * heads + inner) + source_tokens * 2 * heads
    kept = {"encoder": sizes.num_encoder_layers * in_encoder, "decoder": sizes.num_decoder_layers * in_decoder}
    values = sum(number for stack, number in kept.items() if stack not in " ".join(settings.freeze))
    if settings.lora_rank or settings.compile:  # frozen products keep no inputs; compiled layers compute some again
        values //= 2
    num_passes = 2 if settings.r_drop else 1
    value_bytes = _FP32 if choose_precision(settings.precision, device) == "fp32" else 2
    num_bytes_of_batch = num_passes * values * value_bytes
    num_processes = world.environment.local_world_size if device.type == "cpu" else 1  # that share the memory
    copies = " and their moments" if num_copies > 1 else ""
    weights = f"{describe_memory(num_bytes_of_weights)} for {num_weights:,} weights{copies}"
    batch = f"{describe_memory(num_bytes_of_batch)} for {source_tokens:,} source and {target_tokens:,} target tokens"
    lower = "training.batch_tokens"
    if num_bytes_of_weights > num_bytes_of_batch:
        lower = "model.d_model, model.d_ff, the numbers of layers or tokenizer.vocab_size"
    check_free_memory(
        (num_bytes_of_weights + num_bytes_of_batch) * num_processes,
        device,
        doing=f"training{f' with {num_processes} processes' if num_processes > 1 else ''} ({weights}, {batch})",
        hint=f"Lower {lower}, or use a machine with more memory.",
    )
