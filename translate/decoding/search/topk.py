"""The largest of very many numbers, in two passes: exactly what `torch.topk` gives, several times as fast on a CPU."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 256  # numbers that the first pass sees as one: its maximum is what the vector units find fast


class Largest(NamedTuple):
    """The largest numbers and where they stand."""

    values: Float[Tensor, "batch count"]  # descending
    indices: Int[Tensor, "batch count"]  # in the flattened (beam, vocab)


def largest(values: Float[Tensor, "batch beam vocab"], count: int, *, offsets: Float[Tensor, "batch beam"]) -> Largest:
    """The `count` largest of `values + offsets` in each sentence.

    The k largest numbers lie in the k chunks with the largest maxima: a chunk outside has k numbers, one in each of the
    others, that are at least as large as all of its own. So one pass for the maxima is enough, and k chunks to search.

    Returns:
        `count` columns, or all numbers if there are fewer.
    """
    batch, beam, vocab = values.shape
    num_chunks = vocab // CHUNK
    if beam * num_chunks <= count:
        totals = (values + offsets[:, :, None]).flatten(1)
        return Largest(*totals.topk(min(count, totals.shape[1]), dim=1))
    # What is left behind the last whole chunk makes one more, which overlaps its neighbour unless it is empty.
    starts = torch.arange(num_chunks, device=values.device) * CHUNK
    maxima = values[:, :, : num_chunks * CHUNK].unflatten(2, (num_chunks, CHUNK)).amax(dim=3)
    if vocab % CHUNK:
        starts = torch.cat((starts, starts.new_tensor([vocab - CHUNK])))
        maxima = torch.cat((maxima, values[:, :, num_chunks * CHUNK :].amax(dim=2, keepdim=True)), dim=2)
    maxima = maxima + offsets[:, :, None]
    chunks = maxima.flatten(1).topk(count, dim=1).indices
    slots, numbers = chunks // len(starts), chunks % len(starts)
    begin = slots * vocab + starts[numbers]
    indices = begin[:, :, None] + torch.arange(CHUNK, device=values.device)
    candidates = values.flatten(1).gather(1, indices.flatten(1)).view(batch, count, CHUNK)
    candidates = candidates + offsets.gather(1, slots)[:, :, None]
    if vocab % CHUNK:  # the overlap belongs to the chunk before
        overlap = torch.arange(CHUNK, device=values.device) < CHUNK - vocab % CHUNK
        is_last = (numbers == num_chunks)[:, :, None]
        candidates = candidates.masked_fill(is_last & overlap, -math.inf)
    best, chosen = candidates.flatten(1).topk(count, dim=1)
    return Largest(best, indices.flatten(1).gather(1, chosen))
