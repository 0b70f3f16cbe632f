"""One step: how it is split and laid out, what it gives in fp16, and that the number of workers changes nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from translate.config.schema import ModelConfig, TrainingConfig
from translate.data.batching import Batch, EncodedPair, collate
from translate.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from translate.distributed.process_group import SINGLE_PROCESS, DistributedEnvironment, World
from translate.distributed.state import full_tensor
from translate.errors import RunError
from translate.model import PackedSequences, Transformer
from translate.training.data_parallel import MicroBatch, RankParallel, split_into_micro_batches
from translate.training.loss import label_smoothed_loss
from translate.training.optimizer import build_optimizers
from translate.training.setup import build_train_step
from translate.training.step import BatchLayout, StepResult, TrainingForward, TrainStep, move_to_device

CPU = torch.device("cpu")
VOCAB = 23


def batch(first: int, num_pairs: int) -> Batch:
    pairs = [EncodedPair([5] * (1 + number % 4), [6 + number] * (1 + number % 3)) for number in range(num_pairs)]
    return collate(pairs, range(first, first + num_pairs))


def indices(micro_batches: list[MicroBatch]) -> list[tuple[int, ...]]:
    return [micro_batch.batch.indices for micro_batch in micro_batches]


@pytest.mark.parametrize(
    ("num_batches", "num", "expected"), [(1, 1, 1), (3, 1, 3), (3, 2, 6), (3, 3, 3), (6, 8, 24), (2, 4, 4), (2, 5, 10)]
)
def test_all_workers_are_busy_and_nothing_is_lost(num_batches: int, num: int, expected: int) -> None:
    group = [batch(100 * number, 9) for number in range(num_batches)]
    cut = split_into_micro_batches(group, num, seed=1, step=1)
    assert len(cut) == expected >= num and expected % num == 0
    assert sorted(sum(indices(cut), ())) == sorted(index for each in group for index in each.indices)


def test_each_part_has_every_nth_pair_with_its_rows() -> None:
    """So parts have about as many tokens."""
    assert indices(split_into_micro_batches([batch(10, 5)], 2, seed=1, step=1)) == [(10, 12, 14), (11, 13)]
    assert indices(split_into_micro_batches([batch(0, 2)], 4, seed=1, step=1)) == [(0,), (1,)]
    whole = batch(0, 7)
    for micro_batch in split_into_micro_batches([whole], 3, seed=1, step=1):
        rows = list(micro_batch.batch.indices)
        assert all(
            torch.equal(part, all_rows[rows]) for part, all_rows in zip(micro_batch.batch[:3], whole[:3], strict=True)
        )


def test_each_micro_batch_of_each_step_has_its_own_seed() -> None:
    seeds = [
        micro_batch.seed
        for seed in (1, 2)
        for step in (1, 2)
        for micro_batch in split_into_micro_batches([batch(0, 4)], 2, seed=seed, step=step)
    ]
    assert len(set(seeds)) == len(seeds) == 8
    again = split_into_micro_batches([batch(0, 4)], 2, seed=1, step=1)
    assert [micro_batch.seed for micro_batch in again] == seeds[:2]


def build(**options: Any) -> Transformer:
    small: dict[str, Any] = {
        "d_model": 12, "num_heads": 3, "d_ff": 17, "num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.0,
    }  # fmt: skip
    return Transformer(
        ModelConfig(**small | options), source_vocab_size=VOCAB, target_vocab_size=VOCAB, pad_id=PAD_ID
    ).train()


def some_batch() -> Batch:
    lengths = [(2, 7), (11, 3), (5, 13), (0, 0)]
    pairs = [EncodedPair(*(torch.randint(4, VOCAB, (side,)).tolist() for side in pair)) for pair in lengths]
    return collate(pairs, range(4))


def test_what_a_padded_and_a_packed_batch_hold() -> None:
    batch = collate([EncodedPair([5, 6], [7, 8]), EncodedPair([9], [])], [0, 1])
    padded, packed = (move_to_device(batch, CPU, layout=layout, batch_tokens=128) for layout in ("padded", "flash"))
    assert padded.real is not None and padded.real.tolist() == [0, 1, 2, 3]
    assert padded.target_ids.tolist() == packed.target_ids.tolist() == [7, 8, EOS_ID, EOS_ID]
    assert isinstance(packed.source, PackedSequences) and isinstance(packed.target_input, PackedSequences)
    assert packed.source.is_flash and packed.source.ids.tolist() == [[5, 6, EOS_ID, 9, EOS_ID, *[PAD_ID] * 3]]
    assert packed.target_input.ids.tolist() == [[BOS_ID, 7, 8, BOS_ID, *[PAD_ID] * 4]]
    assert packed.source.cu_seqlens.tolist() == [0, 3, 5, 8, 8]
    assert packed.target_input.cu_seqlens.tolist() == [0, 3, 4, 8, 8]
    assert (packed.source.max_seqlen, packed.target_input.max_seqlen) == (3, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
def test_both_layouts_give_the_same_loss_and_gradients(positions: str, dtype: torch.dtype) -> None:
    model, batch = build(positions=positions), some_batch()

    def loss_and_gradients(layout: BatchLayout) -> tuple[Tensor, list[Tensor]]:
        on_device = move_to_device(batch, CPU, layout=layout, batch_tokens=512)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            loss = label_smoothed_loss(
                TrainingForward(model)(on_device), model.output.weight, on_device.target_ids, smoothing=0.1
            )
        assert loss.tokens == batch.num_target_tokens == 27
        return loss.loss.detach(), list(torch.autograd.grad(loss.loss, list(model.parameters())))

    (loss, gradients), (expected_loss, expected) = loss_and_gradients("packed"), loss_and_gradients("padded")
    rounding = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(loss, expected_loss, rtol=rounding, atol=0)
    for mine, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=rounding, atol=rounding * float(wanted.abs().max()))


@pytest.mark.parametrize("layout", ["padded", "flattened", "packed"])
def test_r_drop_without_dropout_is_the_plain_step(layout: BatchLayout) -> None:
    def step(r_drop: float) -> StepResult:
        torch.manual_seed(2)
        settings = TrainingConfig(device="cpu", precision="fp32", batch_tokens=512, r_drop=r_drop)
        train_step = build_train_step(build(), settings, device=CPU)
        train_step.layout = layout
        return train_step([some_batch()], number=1, learning_rate=0.0)

    plain, doubled = step(0.0), step(5.0)
    assert doubled.tokens == plain.tokens == 27
    for mine, expected in zip(doubled[:2] + doubled[3:], plain[:2] + plain[3:], strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=0)


FP16 = TrainingConfig(precision="fp16", device="cpu", batch_tokens=512)


@pytest.fixture
def world_of_one() -> Iterator[World]:
    """A world of one process that nevertheless computes as several do; no part of it is left behind."""
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield World(DistributedEnvironment(), dist.new_group(backend="gloo"))
    dist.destroy_process_group()


def check_overflow(world: World, settings: TrainingConfig) -> None:
    batch = collate([EncodedPair([5, 6, 7], [8, 9]), EncodedPair([10], [11, 12, 13, 14])], [0, 1])
    results = []
    for scale in (2.0**40, 2.0**8):
        torch.manual_seed(2)
        model = build(num_encoder_layers=1, num_decoder_layers=1, dropout=0.1)
        train_step = build_train_step(model, settings, device=CPU)
        if dist.is_initialized():
            layers = (*model.encoder.layers, *model.decoder.layers)
            parallel = RankParallel(TrainingForward(model), world, kind=settings.parallel, layers=layers, device=CPU)
            optimizers = build_optimizers(model, settings)  # of the shards
            options: dict[str, Any] = {"precision": train_step.precision, "parallel": parallel, "layout": "padded"}
            train_step = TrainStep(model, optimizers, settings, **options)
        train_step.loss_scale.scale = scale
        result = train_step([batch], number=1, learning_rate=1e-3)
        weights = [full_tensor(parameter.detach()) for parameter in model.parameters()]
        results.append((train_step.loss_scale, result, weights))
    (shrunk, again, weights), (kept, once, expected) = results
    assert 2.0**8 < shrunk.scale < 2.0**40 and kept.scale == 2.0**8
    assert shrunk.good_steps == kept.good_steps == 1
    assert float(again.loss) == float(once.loss)  # the same pairs, and the same is dropped
    assert float(again.gradient_norm) == pytest.approx(float(once.gradient_norm), rel=0.01)
    # Adam's first step is of the rate, up or down: rounding decides where a gradient is almost 0.
    far = torch.cat([(mine - wanted).abs().flatten() > 1e-4 for mine, wanted in zip(weights, expected, strict=True)])
    assert float(far.float().mean()) < 0.05


def test_a_step_whose_gradients_overflow_is_repeated() -> None:
    check_overflow(SINGLE_PROCESS, FP16)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_an_overflow_of_several_processes_leaves_no_gradients_for_the_next_try(
    world_of_one: World, parallel: str
) -> None:
    check_overflow(world_of_one, FP16.model_copy(update={"parallel": parallel}))


def test_gradients_that_no_scale_makes_finite_end_the_training() -> None:
    model = build()
    with torch.no_grad():
        model.output.weight[7, 3] = float("nan")
    before = [parameter.clone() for parameter in model.parameters()]
    batch = collate([EncodedPair([5, 6], [8, 9])], [0])
    train_step = build_train_step(model, FP16, device=CPU)
    with pytest.raises(RunError, match="^step 1: the loss is nan"):
        train_step([batch], number=1, learning_rate=1e-3)
    for mine, was in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(mine.detach(), was, rtol=0, atol=0, equal_nan=True)
