"""How much memory a piece of work needs at its peak, whatever was needed before it."""

import gc
import sys
from pathlib import Path

import torch

from translate.memory import release_free_memory

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_CLEAR_PEAK = "5"  # what makes Linux forget the peak of the resident memory: man 5 proc


class MemoryWatch:
    """Follows the memory that is needed above what is in use when the watch is made.

    On CUDA it is what PyTorch has allocated on the device. Elsewhere it is the resident memory of the process: on Linux
    its peak is reset; where that is not possible, a peak is only known if it is higher than any before.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            self._before = torch.cuda.memory_allocated(device)
        else:
            _give_back()
            self._before = _resident_bytes() or 0
        self.restart()

    def restart(self) -> None:
        """Forget the peak so far."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            return
        _give_back()
        self._is_reset = False
        try:
            _CLEAR.write_text(_CLEAR_PEAK)
            self._is_reset = True
        except OSError:
            pass
        self._highest_before = _peak_resident_bytes()

    def peak_bytes(self) -> int | None:
        """The most that was in use at once since the last restart, above what was in use at first; None: not known."""
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device)) - self._before
        if self._device.type != "cpu":  # Apple's GPU shares the memory, and nothing tells the peak
            return None
        peak = _peak_resident_bytes()
        if peak is None or self._before == 0 or not (self._is_reset or peak > (self._highest_before or 0)):
            return None
        return max(0, peak - self._before)


def _give_back() -> None:
    """What is free, else it would be used again and not be seen."""
    gc.collect()
    release_free_memory()


def _resident_bytes() -> int | None:
    """Memory of the process now; where it is not known, the most that it ever had, which is too much."""
    return _from_status("VmRSS") or _peak_resident_bytes()


def _peak_resident_bytes() -> int | None:
    if (peak := _from_status("VmHWM")) is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _from_status(field: str) -> int | None:
    """A line such as `VmHWM:  1024 kB` of Linux's account of this process."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)
