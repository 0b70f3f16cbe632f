"""Compiled layers, in processes of their own: in this one shapes are checked at each call, which cannot be compiled."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import in_order

_MODEL = """
import functools
import sys
import torch
from torch._dynamo.utils import counters
from translate.config.schema import ModelConfig
from translate.model import Transformer
from translate.training.setup import compile_layers

torch.set_num_threads(1)
torch.manual_seed(5)
positions, options = "sinusoidal", {}
if sys.argv[1:]:  # counted without a compiler
    positions, options = sys.argv[1], eval(sys.argv[2])
    torch.nn.Module.compile = functools.partialmethod(torch.nn.Module.compile, backend="eager")
sizes = {"d_model": 12, "num_heads": 2, "d_ff": 7, "num_encoder_layers": 3, "num_decoder_layers": 3, "dropout": 0.0}
model = Transformer(
    ModelConfig(**sizes, positions=positions),
    source_vocab_size=23, target_vocab_size=23, pad_id=0,
).train()
names = list(model.state_dict())

def ids(*shape):
    return torch.randint(1, 23, shape)

def num_programs():
    return counters["stats"]["unique_graphs"]
"""

_NUMBERS = """
pairs = [(ids(batch, source), ids(batch, target)) for batch, source, target in
         ((5, 7, 11), (3, 9, 9), (8, 4, 13), (2, 17, 3), (31, 2, 29))]
parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

def gradients(pair):
    logits = model(*pair)
    return [logits.detach(), *torch.autograd.grad(logits.square().mean(), parameters)]

expected = [gradients(pair) for pair in pairs]
compile_layers(model)
assert list(model.state_dict()) == names
compiled = [gradients(pairs[0])]
first = num_programs()
compiled += [gradients(pair) for pair in pairs[1:]]
assert first >= 2 and num_programs() == first, (first, num_programs())  # other sizes, the same programs
for mine, wanted in zip(compiled, expected):
    for one, other in zip(mine, wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

model.eval()
with torch.compiler.set_stance("force_eager"), torch.inference_mode():
    model(*pairs[0])
    cache = model.decoder.start(model.encoder(pairs[0][0]), beam_size=1, max_length=4)
    model.decoder.step(ids(5, 1), cache)
assert num_programs() == first
"""

_LORA = """
from translate.model.lora import add_lora
model.requires_grad_(False)
layers = [*model.encoder.layers, *model.decoder.layers]
add_lora(layers, targets=["query", "value", "feed_forward"], rank=3, alpha=6.0, dropout=0.0)
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.add_(0.1 * torch.randn_like(parameter))
names = list(model.state_dict())
"""

_TRAINED = """
from translate.config.schema import TrainingConfig
from translate.data.batching import EncodedPair, collate
from translate.training.setup import build_train_step

settings = TrainingConfig(compile=True, precision="fp32", **options)
device, before = torch.device("cpu"), torch.get_rng_state()
train_step = build_train_step(model, settings, device=device)
assert options or torch.equal(torch.get_rng_state(), before)  # LoRA draws its updates
tried = num_programs()
for number, lengths in enumerate(([(11, 12), (9, 4)], [(6, 5), (6, 5), (3, 1)], [(13, 2)] * 5, [(7, 7)] * 12), 1):
    pairs = [EncodedPair([5] * source, [6] * target) for source, target in lengths]
    train_step([collate(pairs, range(len(pairs)))] * 2, number=number, learning_rate=1e-3)
print(tried, num_programs(), *train_step.fallbacks)
"""

_COUNTED = """
import random
import sys
sys.path.append(sys.argv[1])
import torch
from torch._dynamo.utils import counters
from torch._inductor.async_compile import AsyncCompile
import test_operations as operations
import translate.model.attention
import translate.training.setup as setup
from translate.data.batching import EncodedPair, collate

compile_source, kernels = AsyncCompile.cpp_pybinding, []

def counted(self, argument_types, source):
    compiled = compile_source(self, argument_types, source)
    kernel = compiled.result() if hasattr(compiled, "result") else compiled
    return lambda *arguments: kernels.append(kernel(*arguments))

AsyncCompile.cpp_pybinding = counted
translate.model.attention.flash_attention = operations.flash_attention
operations.Dropout.forward = operations.dropout
setup.choose_batch_layout = lambda *_: ("flash", "")
model, settings, num_batches = eval(sys.argv[2])
settings |= {"compile": True, "threads": 1, "accumulate_batches": num_batches}
step = operations.build(model, settings, num_layers=6)
assert not step.fallbacks
assert counters["stats"]["unique_graphs"] == 2  # a layer of the encoder and one of the decoder
draw = random.Random(2)
for number, num_pairs in enumerate((7, 1, 60, 2, 90), start=1):  # up to 4,096 tokens: more have other C++
    lengths = [(draw.randint(1, 70), draw.randint(1, 70)) for _ in range(num_pairs)]
    pairs = [EncodedPair([5] * source, [6] * (target if number % 2 else source)) for source, target in lengths]
    step([collate(pairs, range(num_pairs))] * num_batches, number=number, learning_rate=1e-4)
kernels.clear()
with operations.Count() as count:
    step(operations.some_batches(num_batches), number=9, learning_rate=1e-4)
assert counters["stats"]["unique_graphs"] == 2
assert count.others["attention"] == 18 * num_batches
print(count.others.total(), len(kernels))
"""


def run(script: str, tmp_path: Path, *arguments: str, **environment: str) -> str:
    own = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # more are processes that import PyTorch too
    own["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.run(command, env=os.environ | own | environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tuning", ["", _LORA], ids=["whole", "lora"])
def test_compiled_layers_give_the_same_numbers_for_all_sizes(tmp_path: Path, tuning: str) -> None:
    run(_MODEL + tuning + _NUMBERS, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_training_has_the_programs_of_its_trial(tmp_path: Path) -> None:
    assert run(_MODEL + _TRAINED, tmp_path) == "2 2\n"


@pytest.mark.parametrize(
    "positions, settings",
    [
        ("rotary", {"batch_layout": "packed", "lora_rank": 2, "r_drop": 1.0}),
        pytest.param("relative", {"batch_layout": "packed", "freeze": ["embeddings"]}, marks=pytest.mark.slow),
        pytest.param("rotary", {"freeze": ["encoder"]}, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_compiled_after_the_trial(tmp_path: Path, positions: str, settings: dict[str, Any]) -> None:
    tried, used = run(_MODEL + _TRAINED, tmp_path, positions, repr(settings)).split()
    assert tried == used and int(used) >= 2


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("model", "settings", "num_batches", "most_others", "most_kernels"),
    [
        ({"positions": "sinusoidal"}, {"optimizer": "adam"}, 1, 336, 165),
        ({"positions": "rotary", "norm": "pre"}, {"optimizer": "adam", "max_gradient_norm": 1.0}, 2, 679, 480),
        ({"positions": "rotary", "norm": "pre"}, {"optimizer": "muon", "max_gradient_norm": 1.0}, 1, 431, 240),
    ],
    ids=["post-norm", "rotary-two-batches", "muon"],
)
def test_compiled_layers_dispatch_few_operations_and_are_compiled_once(
    tmp_path: Path,
    model: dict[str, Any],
    settings: dict[str, Any],
    num_batches: int,
    most_others: int,
    most_kernels: int,
) -> None:
    """As `tests/training/test_operations.py` counts, and the compiler's own kernels, of which it may write 6 more."""
    folder = Path(__file__).parents[1] / "training"
    others, kernels = map(int, run(_COUNTED, tmp_path, str(folder), repr((model, settings, num_batches))).split())
    assert others <= most_others and kernels <= most_kernels


def test_without_a_compiler_layers_are_not_compiled(tmp_path: Path) -> None:
    said = run(_MODEL + _TRAINED, tmp_path, CXX="no-such-compiler")
    assert in_order(said, "training.compile", "C++ compiler") and said.count("\n") == 1
