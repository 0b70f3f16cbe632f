"""What the last digits of a training depend on besides its settings: where they change, a resume is not bit-exact."""

from collections.abc import Mapping
from importlib import metadata

import torch

import translate
from translate.config import TrainingConfig
from translate.model.device import choose_precision

Circumstances = dict[str, str]


def circumstances(settings: TrainingConfig, device: torch.device, *, num_processes: int = 1) -> Circumstances:
    """The versions, the arithmetic and the hardware of this process, and how many train with it."""
    found = {"translate": translate.__version__}
    # numpy shuffles and draws, sentencepiece segments, torch computes.
    found |= {package: metadata.version(package) for package in ("torch", "numpy", "sentencepiece")}
    found["precision"] = choose_precision(settings.precision, device)
    found["processes"] = f"{num_processes} ({settings.parallel})" if num_processes > 1 else "1"
    match device.type:
        case "cpu":
            found["device"] = f"cpu ({torch.backends.cpu.get_cpu_capability()})"
            found["CPU threads"] = str(torch.get_num_threads())
        case "cuda":
            found["device"] = f"cuda ({torch.cuda.get_device_name(device)})"
        case other:
            found["device"] = other
    return found


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """What is different now, as a sentence that says what it means; None: nothing that is known of."""
    changes = [
        f"{name} {now.get(name, 'unknown')} (it was {value})"
        for name, value in before.items()
        if now.get(name) != value
    ]
    if not changes:
        return None
    return (
        f"continued under other circumstances: {', '.join(changes)}. The training is as good, but its numbers are not"
        " bit for bit those of a run that was never stopped"
    )
