"""The batch that fits in memory and the step that the user asks for: by tables, by measuring, by memory refused."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from translate.config import Config, read_resolved_config
from translate.errors import InputError, RunError
from translate.training import batch_size, batch_trials
from translate.training.batch_size import settle_batch_size, settle_steps
from translate.training.batch_trials import Trial, batches_per_step, largest_proven, largest_that_fits
from translate.training.preparation import encode_corpora, make_tokenizers, read_corpora

Digits = Callable[..., Config]
RunTraining = Callable[..., list[str]]
CPU = torch.device("cpu")
AUTO = "training.batch_tokens=auto"
LINUX = sys.platform == "linux"


def settled(config: Config, device: torch.device = CPU) -> tuple[Config, list[str]]:
    said: list[str] = []
    corpora = read_corpora(config)
    tokenizers = make_tokenizers(config, corpora.train, lambda text: None)
    batches = encode_corpora(config, corpora.train, tokenizers, lambda text: None)
    config, batches = settle_batch_size(config, batches, tokenizers=tokenizers, device=device, say=said.append)
    pairs, *widths = batches.epoch(0).shapes.T
    assert (pairs * max(widths, key=max)).max() <= config.training.num_batch_tokens
    return config, said


@pytest.mark.parametrize(("batch_tokens", "step_tokens", "expected"), [
    (4096, 25_000, 6), (12_500, 25_000, 2), (25_000, 25_000, 1), (10_000, 14_000, 1), (10_000, 16_000, 2), (7, None, 1),
])  # fmt: skip
def test_batches_that_come_nearest_to_a_step(batch_tokens: int, step_tokens: int | None, expected: int) -> None:
    assert batches_per_step(batch_tokens, step_tokens=step_tokens) == expected


@pytest.mark.parametrize("limit", [*range(0, 60), 97, 1000, 1999, 2000, 2001])
def test_search_finds_the_largest_to_a_sixteenth(limit: int) -> None:
    tried: list[int] = []

    def fits(tokens: int) -> bool:
        tried.append(tokens)
        return tokens <= limit

    found = largest_that_fits(fits, first=7, most=2000)
    assert min(tried) >= 7 and max(tried) <= 2000 and max(tried) <= max(7, 2 * limit)
    assert len(tried) <= 14
    if limit < 7:
        assert found == 0 and tried == [7]
    elif limit >= 2000:
        assert found == 2000
    else:
        assert found <= limit < found + max(2, found / 16 + 1)


@pytest.mark.parametrize("share", [0.0, 0.8, 1.0])
@pytest.mark.parametrize(("fixed", "each"), [(0, 10), (5_000, 10), (9_000, 3), (9_500, 20), (10_100, 1), (0, 5_000)])
def test_what_is_measured_never_goes_over_the_room(fixed: int, each: int, share: float) -> None:
    """Memory is a fixed part, of which a share is known, and so many bytes a token. There are 10,000 bytes."""
    tried: list[int] = []

    def peak_of(tokens: int) -> int:
        tried.append(tokens)
        return fixed + each * tokens

    found = largest_proven(peak_of, room=10_000, fixed=int(share * fixed), first=7, most=2_000)
    largest = min((10_000 - fixed) // each, 2_000)
    assert found is not None and tried[0] == 7
    assert all(fixed + each * tokens <= 10_000 for tokens in tried[1:])
    assert found <= max(largest, 6)
    if share == 1.0 or fixed == 0:
        assert found == largest or largest < 7
    if share == 0.8:
        assert found >= largest / 2.5 or largest < 7


def test_memory_that_cannot_be_measured() -> None:
    assert largest_proven(lambda tokens: None, room=9, fixed=0, first=1, most=2) is None


def test_a_step_in_tokens_is_said_in_batches(digits: Digits) -> None:
    config = settle_steps(digits("training.batch_tokens=100", "training.step_tokens=330"))
    assert (config.training.accumulate_batches, config.training.step_tokens) == (3, None)
    assert config == digits("training.batch_tokens=100", "training.accumulate_batches=3")
    assert settle_steps(digits(AUTO, "training.step_tokens=330")).training.step_tokens == 330


def test_with_memory_to_spare_the_step_decides(digits: Digits) -> None:
    config, said = settled(digits(AUTO, "training.step_tokens=330"))
    assert (config.training.batch_tokens, config.training.accumulate_batches) == (330, 1)
    (line,) = said
    assert line == "training.batch_tokens = auto: 330 tokens, 1 batch a step (training.step_tokens asks for no more)"


def test_on_a_cpu_a_batch_is_no_larger_than_is_of_use(digits: Digits) -> None:
    config, (line,) = settled(digits(AUTO))
    assert config.training.batch_tokens == 4096
    assert line.endswith("4096 tokens, 1 batch a step (larger batches are no faster on cpu)")
    config, (line,) = settled(digits(AUTO, "training.step_tokens=25000"))
    assert (config.training.batch_tokens, config.training.accumulate_batches) == (25_000 // 7, 7)


def test_a_step_shorter_than_a_pair(digits: Digits) -> None:
    with pytest.raises(InputError, match=r"^training.step_tokens = 4 is less than the \d tokens that the longest pair"):
        settled(digits(AUTO, "training.step_tokens=4"))


@pytest.mark.skipif(not LINUX, reason="elsewhere the memory is not measured")
def test_with_little_memory_the_batch_is_small_and_the_step_as_large(
    digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of which each token takes about 1 MB, and 200 MB for it."""
    wide = ("model.d_ff=65536", "training.step_tokens=4000")
    monkeypatch.setattr(batch_trials, "available_bytes", lambda: 2 * 200 * 2**20)
    config, (line,) = settled(digits(AUTO, *wide))
    tokens, num_batches = config.training.num_batch_tokens, config.training.accumulate_batches
    assert 20 < tokens < 1000
    assert abs(tokens * num_batches - 4000) <= tokens / 2
    assert "the most that fit in what cpu has free, 0.2 GiB with a margin" in line


@pytest.mark.skipif(not LINUX, reason="elsewhere the memory is not measured")
def test_not_even_one_pair(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_trials, "available_bytes", lambda: 10_000)
    with pytest.raises(RunError) as error:
        settled(digits(AUTO))
    told = r"^training.batch_tokens = 'auto': not even a pair of \d tokens on each side fits in the memory that cpu has"
    assert re.match(told, str(error.value)) and "model.d_model" in str(error.value)


_REFUSED = """
import resource, sys
import torch
torch.set_num_threads(1)
from translate.config import load_config
from translate.training.batch_trials import Trial, largest_that_fits
from translate.training.preparation import make_tokenizers, read_corpora

config = load_config(sys.argv[1], sys.argv[2:], require_files=True).config
tokenizers = make_tokenizers(config, read_corpora(config).train, lambda text: None)
trial = Trial(config, longest=9, tokenizers=tokenizers, device=torch.device("cpu"))
assert trial.fits(9)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 120 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
tokens = largest_that_fits(trial.fits, first=9, most=2_000)
assert trial.fits(tokens // 2)  # what was refused was given back
print(tokens)
"""


@pytest.mark.skipif(not LINUX, reason="only Linux refuses memory to a process")
def test_search_where_memory_is_really_refused(digits: Digits, tmp_path: Path) -> None:
    """As on a GPU, by steps that fail; each token takes about 1 MB, so 120 MB hold some hundred."""
    digits()
    overrides = ["model.d_ff=65536", "training.threads=1"]
    command = [sys.executable, "-c", _REFUSED, str(tmp_path / "digits.yaml"), *overrides]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert 9 < int(told.stdout) < 500


@pytest.mark.parametrize("step_tokens", ["null", "500"])
def test_the_run_has_the_number_and_does_not_search_again(
    step_tokens: str, run_training: RunTraining, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = (AUTO, f"training.step_tokens={step_tokens}", "training.max_steps=2", "training.validate_every=2")
    said = run_training(digits(*wish), tmp_path / "run")
    assert sum(line.startswith("training.batch_tokens = auto: ") for line in said) == 1
    found = read_resolved_config(tmp_path / "run" / "config.yaml").training
    assert found.batch_tokens == (4096 if step_tokens == "null" else 500) and found.step_tokens is None

    def searches(*arguments: object, **options: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(batch_size, "find_batch_size", searches)
    said = run_training(digits(*wish, "training.max_steps=3"), tmp_path / "run", resume=True)
    assert "going on from step 2" in said
    number = f"training.batch_tokens={found.batch_tokens}"
    said = run_training(digits(*wish, number, "training.max_steps=4"), tmp_path / "run", resume=True)
    assert "going on from step 3" in said
    with pytest.raises(InputError, match=r"cannot go on with: training.step_tokens = 33$"):
        run_training(digits(AUTO, "training.step_tokens=33"), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match=r"cannot go on with: training.accumulate_batches = 4 \(the run has 1\)"):
        many = f"training.step_tokens={4 * found.num_batch_tokens}"
        run_training(digits(*wish, many), tmp_path / "run", resume=True)


def test_it_is_the_training_that_the_number_gives(run_training: RunTraining, digits: Digits, tmp_path: Path) -> None:
    """The search draws nothing and leaves nothing behind."""
    short = ("training.max_steps=3", "training.validate_every=3")
    run_training(digits(AUTO, "training.step_tokens=300", *short), tmp_path / "found")
    run_training(digits("training.batch_tokens=300", *short), tmp_path / "given")
    weights = [(tmp_path / name / "checkpoints" / "best.safetensors").read_bytes() for name in ("found", "given")]
    assert weights[0] == weights[1]
    assert yaml.safe_load((tmp_path / "found" / "config.yaml").read_text())["training"]["batch_tokens"] == 300


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu(digits: Digits) -> None:
    """With all but 4 GiB taken by others the search meets its end; afterwards the memory can be used."""
    gpu = torch.device("cuda")
    free, _ = torch.cuda.mem_get_info(gpu)
    keep = torch.empty(free - 4 * 2**30, dtype=torch.uint8, device=gpu)
    config, (line,) = settled(digits(AUTO, "model.d_ff=65536", "training.step_tokens=1000000"), gpu)
    assert "the most that fit" in line
    assert math.isclose(config.training.num_batch_tokens * config.training.accumulate_batches, 1e6, rel_tol=0.1)
    del keep
    torch.cuda.empty_cache()
    torch.empty(free // 2, dtype=torch.uint8, device=gpu)


def test_the_trial_takes_what_a_step_takes(digits: Digits) -> None:
    """With a moving average the weights are there once more; each batch is at least as large as is said."""
    config = digits("training.ema_decay=0.9", "training.step_tokens=900")
    tokenizers = make_tokenizers(config, read_corpora(config).train, lambda text: None)
    trial = Trial(config, longest=9, tokenizers=tokenizers, device=CPU)
    before = [weight.clone() for weight in trial._model.parameters()]
    trial.step(100)
    assert trial._average is not None
    assert all(map(torch.equal, before, trial._model.parameters()))  # a rate of zero
    assert len(trial._optimizer.state) == len(before)
