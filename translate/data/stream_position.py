"""Where the next segment of a stream begins, as checkpoints keep it."""

from typing import Any, NamedTuple


class StreamPosition(NamedTuple):
    """Where a segment begins in a stream."""

    num_passes: int = 0  # over the whole stream, before this one
    num_pairs: int = 0  # of this pass, before the segment
    state: dict[str, Any] | None = None  # with which `datasets` finds a row shortly before; None: start of the pass
    num_skipped: int = 0  # pairs from that row to the segment
    sha256: str | None = None  # of the segment's text, if it has been read
