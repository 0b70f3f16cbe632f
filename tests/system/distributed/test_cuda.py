"""DDP and FSDP on GPUs, with NCCL: `make test-gpu`. Without a GPU the world of one process is on the CPU, with gloo."""

from typing import Any

import pytest
import torch

pytestmark = pytest.mark.gpu

# NCCL wants a GPU for each process: with one GPU, a world of one process is compared with none.
_WORLD_OF_ONE = """
import os, random, torch, torch.distributed as dist
from translate.config.schema import ModelConfig, TrainingConfig
from translate.data.batching import EncodedPair, collate
from translate.model import Transformer
from translate.training.setup import build_train_step
from translate.training.step import TrainingForward, TrainStep
from translate.distributed.process_group import DistributedEnvironment, World
from translate.training.optimizer import build_optimizers
from translate.training.data_parallel import RankParallel
from translate.distributed.state import full_state_dict

dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
world = World(DistributedEnvironment(), dist.new_group(backend="gloo"))
device = torch.device(*(("cuda", 0) if torch.cuda.is_available() else ("cpu",)))
config = ModelConfig(d_model=32, num_heads=4, d_ff=48, num_encoder_layers=2, num_decoder_layers=2, dropout=0.1)
draw = random.Random(3)
def ids():
    return [draw.randrange(4, 37) for _ in range(draw.randint(2, 11))]
group = [collate([EncodedPair(ids(), ids()) for _ in range(13)], range(13)) for _ in range(3)]
for precision in ("fp32", "bf16", "fp16") if torch.cuda.is_available() else ("fp32",):
    settings = TrainingConfig(precision=precision, device=device.type, max_gradient_norm=0.5, tf32=False)
    results = []
    for kind in (None, "ddp", "fsdp"):
        torch.manual_seed(1)
        model = Transformer(config, source_vocab_size=37, target_vocab_size=37, pad_id=0).train()
        if kind != "fsdp":
            model.to(device)
        train_step = build_train_step(model, settings, device=device)
        if kind is not None:
            layers = (*model.encoder.layers, *model.decoder.layers)
            parallel = RankParallel(
                TrainingForward(model), world, kind=kind, layers=layers, device=device
            )
            precision, layout = train_step.precision, train_step.layout
            optimizers = build_optimizers(model, settings)
            train_step = TrainStep(
                model, optimizers, settings, precision=precision, parallel=parallel, layout=layout
            )
        steps = [train_step(group, number=number, learning_rate=0.001) for number in range(1, 5)]
        train_step.check_last_step()
        weights = full_state_dict({name: each.detach() for name, each in model.named_parameters()}, world)
        results.append(([(float(step.loss), float(step.gradient_norm)) for step in steps], weights))
    for steps, weights in results[1:]:
        torch.testing.assert_close(torch.tensor(steps), torch.tensor(results[0][0]), rtol=1e-2, atol=0.0)
        for name, tensor in weights.items():
            torch.testing.assert_close(tensor.cpu(), results[0][1][name].cpu(), rtol=0.0, atol=0.005, msg=name)
"""


def test_a_world_of_one_gpu(processes: Any) -> None:
    (ended,) = processes.run(1, _WORLD_OF_ONE)
    assert ended.code == 0, ended.said


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_gpus_train_as_one(trainings: Any, kind: str) -> None:
    overrides = ("device=cuda", "accumulate_batches=2", "tf32=false", "max_steps=6")
    trainings.run(1, "one", *overrides)
    said = trainings.run(2, "two", *overrides, f"parallel={kind}")
    assert f"in each of 2 processes ({kind})" in said
    from translate.runs.checkpoint import read_tensors
    from translate.runs.directory import RunDirectory

    one, two = (RunDirectory(trainings.directory / name).checkpoint("last") for name in ("one", "two"))
    expected = read_tensors(one).tensors
    for name, tensor in read_tensors(two).tensors.items():
        if name.startswith("model."):
            torch.testing.assert_close(tensor, expected[name], rtol=0.0, atol=1e-3, msg=name)
