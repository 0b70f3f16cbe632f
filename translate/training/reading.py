"""Numbers read from a device without waiting for what it has been given to do since."""

import torch
from jaxtyping import Float
from torch import Tensor


class Reading:
    """A copy of some numbers, begun now. Reading a tensor itself waits for all that its GPU has been told to do."""

    def __init__(self, numbers: Float[Tensor, " number"]) -> None:
        self._copied: torch.cuda.Event | None = None
        if numbers.device.type != "cuda":
            self._numbers = numbers.clone()
            return
        self._numbers = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        self._numbers.copy_(numbers, non_blocking=True)
        self._copied = torch.cuda.Event()
        self._copied.record(torch.cuda.current_stream(numbers.device))

    def wait(self) -> list[float]:
        """The numbers, when their copy has come."""
        if self._copied is not None:
            self._copied.synchronize()
        numbers: list[float] = self._numbers.tolist()
        return numbers
