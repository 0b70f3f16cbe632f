"""The model of a training, and the step that trains it, with all that the device allows."""

import logging
import re
from collections.abc import Sequence

import torch

from translate.config.schema import Config, ModelConfig, TrainingConfig
from translate.data.batching import EncodedPair, collate
from translate.data.tokenizer import PAD_ID, Tokenizers
from translate.distributed.process_group import SINGLE_PROCESS, World
from translate.errors import InputError
from translate.model import Transformer
from translate.model.device import has_streams
from translate.model.lora import add_lora
from translate.model.varlen import why_no_flash_attention
from translate.runs.initial import InitialWeights
from translate.runs.loading import build_model
from translate.training.data_parallel import DataParallel, RankParallel, ThreadParallel
from translate.training.optimizer import build_optimizer
from translate.training.precision import MixedPrecision
from translate.training.step import BatchLayout, TrainingForward, TrainStep

logger = logging.getLogger(__name__)

_PARTS = {  # what `training.freeze` names, and patterns of the parameters' names
    "embeddings": r"(encoder|decoder)\.embedder\.",  # a tied output layer has this name too
    "encoder": r"encoder\.(?!embedder\.)",
    "decoder": r"decoder\.(?!embedder\.)|output\.",
}
_TRIAL = collate([EncodedPair([5] * 6, [6] * 5), EncodedPair([6] * 3, [7] * 4)], range(2))  # for `why_no_step`
_MIN_TOKENS = 512  # of a micro-batch on each side: with fewer, Python's own time weighs too much


def setup_training(
    config: Config,
    tokenizers: Tokenizers,
    *,
    device: torch.device,
    world: World = SINGLE_PROCESS,
    initial: InitialWeights | None = None,
) -> TrainStep:
    """Build a new model, the same on all ranks, and the step that trains it.

    Args:
        initial: The weights to begin with; None: random ones.

    Raises:
        InputError: This machine does not have what the settings ask for.
        RunError: The weights do not fit the model.
        OutOfMemory: The device's memory is not enough for the weights.
    """
    settings = config.training
    on_cpu_first = settings.parallel == "fsdp" and world.size > 1
    torch.manual_seed(settings.seed)

    def build() -> Transformer:
        model = build_model(config, tokenizers, device=torch.device("cpu") if on_cpu_first else device)
        if initial is not None:
            initial.give_to(model, seed=settings.seed)
        return model.train()

    model = world.run_on_all_ranks(build)
    return build_train_step(model, settings, device=device, world=world)


def build_train_step(
    model: Transformer, settings: TrainingConfig, *, device: torch.device, world: World = SINGLE_PROCESS
) -> TrainStep:
    """Build the step that trains a model.

    Args:
        model: The model in training mode, on the device or, for FSDP, on the CPU.

    Raises:
        InputError: The machine or the model does not have what the settings ask for, or nothing is left to train.
    """
    world.run_on_all_ranks(lambda: choose_trained_weights(model, settings))
    precision = MixedPrecision.choose(settings, device)
    layout, remark = choose_batch_layout(settings, model.config, precision)
    precision, is_compiled, fallbacks = try_settings(settings, model.config, precision, layout)
    if is_compiled:
        compile_layers(model)
    num_workers, num_threads = choose_workers(settings, device, world_size=world.size)
    threads = f"{num_threads} CPU thread{'s' * (num_threads > 1)}"
    forward, parallel = TrainingForward(model), settings.parallel
    data_parallel: DataParallel
    if world.size > 1:
        where = f"{threads} in each of {world.size} processes ({parallel})"
        layers = (*model.encoder.layers, *model.decoder.layers)
        data_parallel = RankParallel(forward, world, kind=parallel, layers=layers, device=device)
    else:
        where = threads if num_workers == 1 else f"{num_workers} micro-batches at once, each on {threads}"
        data_parallel = ThreadParallel(forward, num_workers=num_workers, num_threads=num_threads)
    what = f"{device}, {precision.name}, {where}"
    return TrainStep(
        model,
        build_optimizer(model, settings),
        settings,
        precision=precision,
        parallel=data_parallel,
        layout=layout,
        description=what if remark is None else f"{what}\n{remark}",
        fallbacks=fallbacks,
    )


def try_settings(
    settings: TrainingConfig, model: ModelConfig, precision: MixedPrecision, layout: BatchLayout
) -> tuple[MixedPrecision, bool, list[str]]:
    """Try deterministic kernels and `training.compile` where the settings ask for them, and drop those that fail.

    Returns:
        The precision, whether to compile the layers, and a warning for each of the two that fails.
    """
    fallbacks, is_compiled = [], settings.compile
    if precision.deterministic and has_streams(precision.device):
        reason = why_no_step(settings, model, precision, layout)
        if reason is not None and "determinis" in reason:  # the training itself reports all other errors
            precision = precision._replace(deterministic=False)
            fallbacks.append(
                f"training.deterministic = true does not work on {precision.device}: {reason}. The training goes on as"
                " with training.deterministic=false, so a resumed run will differ from one that was never stopped"
            )
    if is_compiled:
        reason = why_no_step(settings, model, precision, layout, is_compiled=True)
        if reason is not None:
            is_compiled = False
            needed = "a C++ compiler, such as g++" if precision.device.type == "cpu" else "triton and a C compiler"
            fallbacks.append(
                f"training.compile = true: torch cannot compile on this machine ({reason}). The training goes on as"
                f" with training.compile=false; to compile, install {needed}"
            )
    return precision, is_compiled, fallbacks


def why_no_step(
    settings: TrainingConfig,
    config: ModelConfig,
    precision: MixedPrecision,
    layout: BatchLayout,
    *,
    is_compiled: bool = False,
) -> str | None:
    """The reason why a training step fails on its device; None if it works.

    No query covers all versions and devices, so this makes a step on a model with one layer in each stack. The training
    reuses the programs that it compiles.
    """
    one_layer = config.model_copy(update={"num_encoder_layers": 1, "num_decoder_layers": 1})
    try:
        with torch.random.fork_rng(devices=[]):
            model = Transformer(one_layer, source_vocab_size=8, target_vocab_size=8, pad_id=PAD_ID)
            model.to(precision.device).train()
            if is_compiled:
                compile_layers(model)
            forward = ThreadParallel(TrainingForward(model), num_workers=1, num_threads=1)
            optimizer = build_optimizer(model, settings)
            step = TrainStep(model, optimizer, settings, precision=precision, parallel=forward, layout=layout)
            step([_TRIAL], number=1, learning_rate=0.0)
            step.check_last_step()
    except Exception as error:  # of any library involved
        text = str(error.__cause__ or error).strip().split("\n")[0]
        return re.split(r", but you set|\. ", text)[0].rstrip(".")
    return None


def choose_trained_weights(model: Transformer, settings: TrainingConfig) -> None:
    """Freeze what is not trained; for LoRA, add updates to the layers that `training.freeze` does not name.

    Raises:
        InputError: The model does not have such a layer, or nothing is left to train.
    """
    freeze_parts(model, settings.freeze)
    if settings.lora_rank > 0:
        layers = (*model.encoder.layers, *model.decoder.layers)
        tuned = [layer for layer in layers if any(parameter.requires_grad for parameter in layer.parameters())]
        model.requires_grad_(False)
        rank, alpha, dropout = settings.lora_rank, settings.lora_alpha, settings.lora_dropout
        add_lora(tuned, targets=settings.lora_targets, rank=rank, alpha=alpha, dropout=dropout)
    if model.num_trained_parameters == 0:
        raise InputError(f"training.freeze = [{', '.join(settings.freeze)}] leaves nothing to train: freeze less")


def freeze_parts(model: Transformer, parts: Sequence[str]) -> None:
    """Freeze parts of a model, as `training.freeze` names them.

    Embeddings do not belong to a stack, because both may share them; an output layer that is not tied, and its bias,
    belong to the decoder.

    Raises:
        InputError: The model does not have such a layer.
    """
    for part in parts:
        stack, _, numbers = part.partition(".")
        pattern = _PARTS[stack]
        if numbers:
            first, last = int(numbers.split("-")[0]), int(numbers.split("-")[-1])
            count = len((model.encoder if stack == "encoder" else model.decoder).layers)
            if not first <= last < count:
                layers = f"layer 0 (model.num_{stack}_layers = 1)"
                if count > 1:
                    layers = f"layers 0 to {count - 1} (model.num_{stack}_layers = {count})"
                raise InputError(f"training.freeze = {part}: the {stack} has {layers}")
            pattern = rf"{stack}\.layers\.({'|'.join(map(str, range(first, last + 1)))})\."
        for name, parameter in model.named_parameters():
            if re.match(pattern, name):
                parameter.requires_grad_(False)


def choose_workers(settings: TrainingConfig, device: torch.device, *, world_size: int = 1) -> tuple[int, int]:
    """Choose how many micro-batches this process computes at once, and torch's threads for each.

    On a CPU each thread has its own micro-batch if the batches are large enough; elsewhere, and with several ranks,
    there is one at a time.
    """
    threads = torch.get_num_threads()
    if world_size > 1 or device.type != "cpu" or settings.compile:  # a compiled program has its own threads
        return 1, threads
    workers = max(1, min(threads, settings.num_batch_tokens * settings.accumulate_batches // _MIN_TOKENS))
    return workers, max(1, threads // workers)


def choose_batch_layout(
    settings: TrainingConfig, model: ModelConfig, precision: MixedPrecision
) -> tuple[BatchLayout, str | None]:
    """Choose the layout that `training.batch_layout` means on this device, and explain it in a remark for the log."""
    requested, device = settings.batch_layout, precision.device
    if requested == "padded" or (requested == "auto" and not has_streams(device)):
        return "padded", None
    is_supported = model.attention_dropout == 0.0 and model.positions != "relative"
    reason: str | None = "it needs CUDA, bf16 or fp16, model.attention_dropout=0 and no relative positions"
    if has_streams(device) and precision.name != "fp32" and is_supported:
        head_dim = model.d_model // model.num_heads
        reason = why_no_flash_attention(device, dtype=precision.dtype, num_heads=model.num_heads, head_dim=head_dim)
    if reason is None:
        return "flash", "Batches are packed without padding; flash attention keeps the sentences apart"
    reason = f"flash attention for variable lengths: {reason}"
    if requested == "packed":
        return "packed", f"Batches are packed, but attention pads for itself: {reason}"
    return "padded", f"Batches are padded: {reason}"


def compile_layers(model: Transformer) -> None:
    """Make torch compile each layer when it is first computed, in place, so that the weights keep their names.

    All layers of a kind share one program in which sizes are variables; only a size of one gets its own program.
    """
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.compile(dynamic=True)


def log_setup(train_step: TrainStep) -> None:
    """Log the size of the model, the device, and what does not work there."""
    num_all, num_trained = train_step.model.num_parameters, train_step.model.num_trained_parameters
    if num_trained == num_all:
        logger.info(f"Model: {num_all:,} parameters")
    else:
        logger.info(f"Model: {num_trained:,} of {num_all:,} parameters are trained")
    logger.info(f"Device: {train_step.description}")
    for fallback in train_step.fallbacks:
        logger.warning(fallback)
