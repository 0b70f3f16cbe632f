"""A process that draws segmentations for another: requests come on its standard input, and it ends when that ends.

Of the package it imports the tokenizer alone, and so no torch.
"""

import json
import os
import struct
import sys
from collections.abc import Sequence
from itertools import chain
from typing import IO

import numpy as np

from translate.data.tokenizer import Tokenizer

_NICENESS = 5  # those who train go first
_SIZE = struct.Struct("<Q")


def send_parts(file: IO[bytes], *parts: bytes) -> None:
    """Write what `receive_parts` reads.

    Raises:
        OSError: The other end is closed.
    """
    for part in parts:
        file.write(_SIZE.pack(len(part)))
        file.write(part)
    file.flush()


def receive_parts(file: IO[bytes], count: int) -> list[bytes]:
    """So many byte strings.

    Raises:
        EOFError: The other end is closed.
        OSError: They cannot be read.
    """
    return [_read(file, _SIZE.unpack(_read(file, _SIZE.size))[0]) for _ in range(count)]


def pack_lines(lines: Sequence[str]) -> tuple[bytes, bytes]:
    """Lines as the lengths of each, in characters, and all their text."""
    return np.fromiter(map(len, lines), dtype="<i4").tobytes(), "".join(lines).encode("utf-8", "surrogatepass")


def unpack_lines(lengths: bytes, text: bytes) -> list[str]:
    """The lines that `pack_lines` was given."""
    characters = text.decode("utf-8", "surrogatepass")
    ends = np.cumsum(np.frombuffer(lengths, dtype="<i4"), dtype=np.int64).tolist()
    return [characters[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)] if ends else []


def _read(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise EOFError
    return data


def main() -> None:
    """Answer requests: a model, the amount and the seed, and lines; with the lengths and the ids of all lines."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    tokenizers: dict[bytes, Tokenizer] = {}  # with what each remembers of words
    while True:
        try:
            model, arguments, lengths, text = receive_parts(sys.stdin.buffer, 4)
        except EOFError:
            return
        tokenizer = tokenizers[model] = tokenizers.get(model) or Tokenizer(model)
        lines = tokenizer.sample_lines(unpack_lines(lengths, text), **json.loads(arguments))
        num_ids = np.fromiter(map(len, lines), dtype="<i4", count=len(lines))
        ids = np.fromiter(chain.from_iterable(lines), dtype="<i4", count=int(num_ids.sum(dtype=np.int64)))
        send_parts(sys.stdout.buffer, num_ids.tobytes(), ids.tobytes())


if __name__ == "__main__":
    main()
