"""Which split a combination belongs to: a stable hash decides, so the splits share no combination."""

from __future__ import annotations

import hashlib

Combination = tuple[str, str, str]

SIZES = {"train": 12_000, "validation": 500, "test": 500}
HELD_OUT_PERCENT = 7


def assign_split(combination: Combination) -> str:
    """train, validation or test, from the SHA-256 of the words of the combination."""
    digest = hashlib.sha256("|".join(combination).encode("utf-8")).digest()
    bucket = int.from_bytes(digest[:4], "big") % 100
    if bucket < HELD_OUT_PERCENT:
        return "test"
    return "validation" if bucket < 2 * HELD_OUT_PERCENT else "train"
