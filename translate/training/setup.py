"""Where a training runs, its model, and the step that trains it, with everything that the device allows."""

import logging
import re
from importlib import metadata

import torch

from translate._version import __version__
from translate.config.schema import Config, ModelConfig, TrainingConfig
from translate.config.yaml import flatten_keys
from translate.data.batching import EncodedPair, collate
from translate.data.tokenizer import PAD_ID, Tokenizers
from translate.distributed.process_group import SINGLE_PROCESS, DistributedEnvironment, World
from translate.errors import InputError
from translate.model import Transformer
from translate.model.device import choose_device, explain_out_of_memory, is_asynchronous, threads_per_process
from translate.model.lora import add_lora
from translate.model.precision import MixedPrecision, choose_precision
from translate.model.transformer import product_weights
from translate.runs.initial import InitialWeights, related_tags
from translate.runs.weights import build_model, count_weights
from translate.training.data_parallel import DataParallel, RankParallel, ThreadParallel, choose_workers
from translate.training.footprint import check_training_fits
from translate.training.optimizer import build_optimizers
from translate.training.step import BatchLayout, TrainingForward, TrainStep, choose_batch_layout

logger = logging.getLogger(__name__)

_PARTS = {  # what `training.freeze` names, and patterns of the parameters' names
    "embeddings": r"(encoder|decoder)\.embedder\.",  # a tied output layer has this name too
    "encoder": r"encoder\.(?!embedder\.)",
    "decoder": r"decoder\.(?!embedder\.)|output\.",
}
# For `try_settings`. All sizes differ, also those of packed batches (293 and 421 tokens, 68 offsets; filled up 296, 424
# and 129), and no model has them: torch.compile takes sizes that are equal when it compiles for one size, and compiles
# again if they differ.
_TRIAL = collate([EncodedPair([5] * 28, [6] * 24), *[EncodedPair([6] * 3, [7] * 5)] * 66], range(67))
_TRIAL_BATCH_TOKENS = 128  # so that rows are filled up to a multiple of 8
# Files may move: the content of the training corpora is compared by fingerprint.
LOCATIONS = (
    *("data.train", "data.validation", "data.test", "data.root", "training.initialize_from"),
    *("tokenizer.source_model", "tokenizer.target_model"),
)


def choose_place(config: Config, world: World) -> torch.device:
    """Choose this process's device, give torch its threads, and check that all processes have the same settings.

    Raises:
        InputError: There is no such device, or the settings do not work with several processes or differ among them.
    """
    settings = config.training
    if settings.frozen_precision == "bf16" and world.size > 1:
        use = f"a single process (now {world.size}); use training.frozen_precision=fp32"
        raise InputError(f"training.frozen_precision = bf16 needs {use}")
    device = world.run_on_all_ranks(lambda: choose_training_device(settings.device, world.environment))
    if settings.threads or world.size > 1:  # otherwise torch chooses
        torch.set_num_threads(settings.threads or threads_per_process(world.environment.local_world_size))
    facts = flatten_keys(config.model_dump(mode="json"))
    facts |= describe_environment(settings, device, num_processes=world.size)
    may_differ = (*LOCATIONS, "training.threads", "CPU threads")
    same = {key: str(value) for key, value in facts.items() if not key.startswith(may_differ)}
    world.check_same_on_all_ranks(same | {"device": device.type})
    return device


def choose_training_device(name: str, environment: DistributedEnvironment) -> torch.device:
    """Choose the device that a config names; each of several processes on a machine takes its own GPU.

    Raises:
        InputError: There is no such device for this process.
    """
    device = choose_device(name, key="training.device")
    if environment.world_size == 1 or device.type == "cpu":
        return device
    count = torch.get_device_module(device).device_count() if is_asynchronous(device) else 1  # Apple's GPU is one
    if ":" in name or environment.local_rank >= count:
        own = f"each of {environment.local_world_size} processes takes a GPU of its own, and this machine has {count}"
        use = f"start with --nproc-per-node {count} and training.device={device.type}, or use training.device=cpu"
        raise InputError(f"training.device = {name}: {own}; {use}")
    return torch.device(device.type, environment.local_rank)


def describe_environment(settings: TrainingConfig, device: torch.device, *, num_processes: int) -> dict[str, str]:
    """Everything apart from the settings that affects the last digits of a training run, by name."""
    environment = {"translate": __version__}
    # numpy shuffles and samples, sentencepiece segments, torch computes.
    environment |= {package: metadata.version(package) for package in ("torch", "numpy", "sentencepiece")}
    environment["precision"] = choose_precision(settings.precision, device)
    environment["processes"] = f"{num_processes} ({settings.parallel})" if num_processes > 1 else "1"
    environment["device"] = device.type
    if device.type == "cpu":
        environment["device"] += f" ({torch.backends.cpu.get_cpu_capability()})"
        environment["CPU threads"] = str(torch.get_num_threads())
    elif is_asynchronous(device):
        environment["device"] += f" ({torch.get_device_module(device).get_device_name(device)})"
    return environment


def setup_training(
    config: Config,
    tokenizers: Tokenizers,
    *,
    device: torch.device,
    batch_tokens: tuple[int, int],
    world: World = SINGLE_PROCESS,
    initial: InitialWeights | None = None,
) -> TrainStep:
    """Build a new model, with the initial weights or random ones, and the step that trains it.

    Args:
        batch_tokens: The source and target tokens of the largest batch; see `check_training_fits`.
        initial: None: random weights; or those of a checkpoint, which the caller restores, if
            `training.initialize_from` names a run.
    """
    settings = config.training
    on_cpu_first = settings.parallel == "fsdp" and world.size > 1
    torch.manual_seed(settings.seed)

    def build() -> Transformer:
        num_weights = count_weights(config.model, tokenizers)
        check_training_fits(config, num_weights, device=device, batch_tokens=batch_tokens, world=world)
        # Random weights decide what LoRA draws next. So a new run draws them, but with frozen_precision it never has.
        is_drawn = settings.initialize_from is None or (initial is not None and settings.frozen_precision == "fp32")
        doing = None if is_drawn else "loading the weights to start from"
        model = build_model(config, tokenizers, device=torch.device("cpu") if on_cpu_first else device, doing=doing)
        if initial is not None:
            initial.give_to(model, seed=settings.seed, related=related_tags(config, tokenizers))
        return model.train()

    return build_train_step(world.run_on_all_ranks(build), settings, device=device, world=world)


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
    precision, is_compiled, fallbacks = try_settings(settings, model.config, precision, layout, world)
    if is_compiled:
        compile_layers(model)
    forward = TrainingForward(model)
    num_workers, num_threads = choose_workers(settings, device, world_size=world.size)
    where = f"{num_threads} CPU thread{'s' * (num_threads > 1)}"
    data_parallel: DataParallel
    if world.size > 1:
        where = f"{where} in each of {world.size} processes ({settings.parallel})"
        layers = (*model.encoder.layers, *model.decoder.layers)
        data_parallel = RankParallel(forward, world, kind=settings.parallel, layers=layers, device=device)
    else:
        if num_workers > 1:
            where = f"{num_workers} micro-batches at once, each on {where}"
        threads = {"num_workers": num_workers, "num_threads": num_threads}
        data_parallel = ThreadParallel(forward, **threads, dtype=precision.dtype)
    return TrainStep(
        model,
        build_optimizers(model, settings),
        settings,
        precision=precision,
        parallel=data_parallel,
        layout=layout,
        description=f"{device}, {precision.name}, {where}{remark}",
        fallbacks=fallbacks,
    )


def try_settings(
    settings: TrainingConfig,
    model: ModelConfig,
    precision: MixedPrecision,
    layout: BatchLayout,
    world: World = SINGLE_PROCESS,
) -> tuple[MixedPrecision, bool, list[str]]:
    """Try deterministic kernels and `training.compile` where the settings ask for them, and drop those that fail.

    No query covers all versions and devices, so this tries a step on a model with at most two layers in each stack, as
    the first has another input if embeddings are frozen. Training reuses the programs that it compiles. Only layers
    that `training.freeze` names by number, and micro-batches of a single pair, need others.

    Returns:
        The precision, whether to compile the layers, and a warning for each that fails.
    """

    def explain_failure(*, is_compiled: bool) -> str:
        layers = {name: min(2, getattr(model, name)) for name in ("num_encoder_layers", "num_decoder_layers")}
        whole_parts = tuple(part for part in settings.freeze if "." not in part)
        try:
            with torch.random.fork_rng(devices=[]):
                sizes = model.model_copy(update={**layers, "max_positions": 64})  # as many as the trial needs
                tried = Transformer(sizes, source_vocab_size=8, target_vocab_size=8, pad_id=PAD_ID)
                choose_trained_weights(tried, settings.model_copy(update={"freeze": whole_parts}))
                tried.to(precision.device).train()
                if is_compiled:
                    compile_layers(tried)
                dtype = precision.dtype if world.size == 1 else torch.float32  # of the weights, as in the training
                forward = ThreadParallel(TrainingForward(tried), num_workers=1, num_threads=1, dtype=dtype)
                optimizers = build_optimizers(tried, settings)
                small = settings.model_copy(update={"batch_tokens": _TRIAL_BATCH_TOKENS})
                step = TrainStep(tried, optimizers, small, precision=precision, parallel=forward, layout=layout)
                step([_TRIAL], number=1, learning_rate=0.0)
                step.check_last_step()
        except Exception as error:  # from any library involved
            text = str(error.__cause__ or error).strip().split("\n")[0]
            return re.split(r", but you set|\. ", text)[0].rstrip(".") or repr(error)
        return ""

    fallbacks = []
    if precision.deterministic and is_asynchronous(precision.device):
        reason = explain_failure(is_compiled=False)
        if "determinis" in reason:  # training itself reports all other errors
            precision = precision._replace(deterministic=False)
            fallbacks.append(
                f"training.deterministic = true does not work on {precision.device}: {reason}. Training continues"
                " without it, so a resumed run will differ from one that was never stopped"
            )
    reason = explain_failure(is_compiled=True) if settings.compile else ""
    if reason:
        needed = "a C++ compiler, such as g++" if precision.device.type == "cpu" else "triton and a C compiler"
        fallbacks.append(
            f"training.compile = true: torch cannot compile on this machine ({reason}). Training continues"
            f" with training.compile=false; to compile, install {needed}"
        )
    return precision, settings.compile and not reason, fallbacks


def choose_trained_weights(model: Transformer, settings: TrainingConfig) -> None:
    """Freeze what is not trained; for LoRA, add updates to the layers that `training.freeze` does not name.

    Weights are fp32 from then on, except for those of frozen layers with `training.frozen_precision: bf16`.

    Embeddings do not belong to a stack, because both may share them; an output layer that is not tied, and its bias,
    belong to the decoder.

    Raises:
        InputError: Nothing is left to train.
    """
    for part in settings.freeze:
        stack, _, numbers = part.partition(".")
        pattern = _PARTS[stack]
        if numbers:
            first, last = int(numbers.split("-")[0]), int(numbers.split("-")[-1])
            pattern = rf"{stack}\.layers\.({'|'.join(map(str, range(first, last + 1)))})\."
        for name, parameter in model.named_parameters():
            if re.match(pattern, name):
                parameter.requires_grad_(False)
    if settings.lora_rank > 0:
        layers_of_both = (*model.encoder.layers, *model.decoder.layers)
        tuned = [layer for layer in layers_of_both if any(weight.requires_grad for weight in layer.parameters())]
        ends = (model.encoder.embedder.tokens.weight, model.decoder.embedder.tokens.weight, model.output.weight)
        whole = [weight for weight in ends if weight.requires_grad and "embeddings" in settings.lora_targets]
        model.requires_grad_(False)
        for weight in whole:
            weight.requires_grad_(True)
        rank, alpha, dropout = settings.lora_rank, settings.lora_alpha, settings.lora_dropout
        with explain_out_of_memory(f"adding LoRA with training.lora_rank = {rank}", hint="Lower it."):
            add_lora(tuned, targets=settings.lora_targets, rank=rank, alpha=alpha, dropout=dropout)
    if model.num_trained_parameters == 0:
        raise InputError(f"training.freeze = [{', '.join(settings.freeze)}] leaves nothing to train: freeze less")
    products = product_weights(model) if settings.frozen_precision == "bf16" else []
    narrow = {weight for weight in products if not weight.requires_grad}
    for weight in model.parameters():  # those of an imported model may be bf16
        weight.data = weight.data.to(torch.bfloat16 if weight in narrow else torch.float32)


def compile_layers(model: Transformer) -> None:
    """Make torch compile each layer when it is first computed, in place, so the weights keep their names.

    All layers of a kind share one program in which sizes are variables; only a size of one gets its own program.
    """
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.compile(dynamic=True)


def log_setup(train_step: TrainStep) -> None:
    """Log the size of the model, the device, and what does not work there."""
    num_all, num_trained = train_step.model.num_parameters, train_step.model.num_trained_parameters
    trained = "" if num_trained == num_all else f"{num_trained:,} of "
    logger.info(f"Model: {trained}{num_all:,} parameters{trained and ' are trained'}")
    logger.info(f"Device: {train_step.description}")
    for fallback in train_step.fallbacks:
        logger.warning(fallback)
