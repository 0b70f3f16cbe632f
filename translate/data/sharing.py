"""Lines tokenised by all processes of a training together: each encodes its part, and all get the ids of all."""

import contextlib
import datetime
import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch.distributed as dist

from translate.data.encoding import encode_lines
from translate.data.tokenizer import Tokenizer
from translate.errors import InputError, RunError

_LINES_EXCHANGED = 10_000  # of each process
# A process may still be reading from a slow network. One that dies breaks its connections, which ends the wait; so this
# is for a machine or a network that is gone.
_PATIENCE = datetime.timedelta(hours=1)


class SharedEncoding:
    """The processes of `torch.distributed`, if it is set up, else this one alone.

    All must make one at the same time, and then encode the same texts in the same order. It has connections of its own,
    so that this may be done in a thread while the training exchanges gradients.
    """

    def __init__(self) -> None:
        self._group: dist.ProcessGroup | None = None
        self._rank, self._size = 0, 1
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
            self._rank, self._size = dist.get_rank(), dist.get_world_size()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """For all that is done up to some encoding and with it: if it fails in one process, it does in all.

        Raises:
            InputError: It failed so in another process, and this is what that one says.
            RunError: The same.
        """
        try:
            yield
        except _AnotherFailed as failure:
            raise failure.told() from failure
        except BaseException as error:
            with contextlib.suppress(_AnotherFailed, RuntimeError):  # or it failed because the others are gone
                self._exchange(_Failure(isinstance(error, InputError), str(error), self._rank))
            raise
        try:
            self._exchange(None)
        except _AnotherFailed as failure:
            raise failure.told() from failure

    def encode(
        self,
        texts: Sequence[str],
        tokenizer: Tokenizer,
        *,
        num_threads: int,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[list[int]]:
        """The ids of each line; within `together`.

        Args:
            num_threads: Of this process; the result does not depend on it.
            check: Called now and then; what it raises ends the encoding.
        """
        encode = functools.partial(encode_lines, tokenizer=tokenizer, num_threads=num_threads, check=check)
        if self._group is None:
            yield from encode(texts)
            return
        num_lines = _LINES_EXCHANGED * self._size
        for first in range(0, len(texts), num_lines):
            start = min(first + self._rank * _LINES_EXCHANGED, len(texts))
            own = texts[start : min(start + _LINES_EXCHANGED, len(texts))]
            for part in self._exchange(_packed(list(encode(own)))):
                yield from _unpacked(*part)

    def _exchange(self, own: Any) -> list[Any]:
        """What each process gives, by rank."""
        if self._group is None:
            return [own]
        parts: list[Any] = [None] * self._size
        dist.all_gather_object(parts, own, group=self._group)
        for rank, part in enumerate(parts):
            if isinstance(part, _Failure) and rank != self._rank:
                raise _AnotherFailed(part)
        return parts


class _Failure(NamedTuple):
    """What a process gives that ends what all are doing."""

    is_of_input: bool
    text: str
    rank: int


class _AnotherFailed(Exception):
    def __init__(self, failure: _Failure) -> None:
        super().__init__(failure.text)
        self._failure = failure

    def told(self) -> InputError | RunError:
        """The error that the other process met."""
        kind = InputError if self._failure.is_of_input else RunError
        return kind(f"process {self._failure.rank + 1} of this training: {self._failure.text}")


def _packed(rows: list[list[int]]) -> tuple[Any, Any]:
    lengths = np.fromiter(map(len, rows), dtype=np.int32, count=len(rows))
    return lengths, np.fromiter((token for row in rows for token in row), dtype=np.int32, count=int(lengths.sum()))


def _unpacked(lengths: Any, ids: Any) -> Iterator[list[int]]:
    flat = ids.tolist()
    for start, end in pairwise([0, *np.cumsum(lengths).tolist()]):
        yield flat[start:end]
