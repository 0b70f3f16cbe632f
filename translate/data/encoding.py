"""The text of the training corpora becomes token ids: by several threads, or not at all if a cache has them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from translate.data.cache import DataCache, entry_name, text_digest
from translate.data.encoded import EncodedLines, write_ids
from translate.data.tokenizer import Tokenizer

# Lines that a thread encodes at once: the lists of Python integers that SentencePiece gives take ten times the room of
# the arrays, and while they are made, no other thread of Python does anything.
_CHUNK_LINES = 1_000


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, *, num_threads: int, cache: DataCache | None
) -> EncodedLines:
    """The ids of each line.

    Args:
        num_threads: The result does not depend on it.
        cache: Where they are read, or kept for the next time; None: they are not.

    Raises:
        RunError: There are many, and the file for them cannot be written.
    """
    size, content = tokenizer.vocab_size, "the token ids of the training corpora"
    if cache is not None:
        name = entry_name("ids", tokenizer.model_bytes, text_digest(texts))
        file = cache.find(name) or cache.make(
            name, lambda file: write_ids(encode_lines(texts, tokenizer, num_threads=num_threads), file, vocab_size=size)
        )
        if file is not None:
            return EncodedLines.read(
                file, num_bytes=file.num_bytes, num_lines=len(texts), vocab_size=size, content=content
            )
    return EncodedLines(encode_lines(texts, tokenizer, num_threads=num_threads), vocab_size=size, content=content)


def encode_lines(
    texts: Sequence[str], tokenizer: Tokenizer, *, num_threads: int, check: Callable[[], None] = lambda: None
) -> Iterator[list[int]]:
    """The ids of each line.

    Args:
        num_threads: The result does not depend on it.
        check: Called now and then; what it raises ends the encoding.
    """
    # Threads of Python's rather than of SentencePiece's: while one makes lists of its ids, the others encode.
    with ThreadPoolExecutor(num_threads) as pool:
        waiting: deque[Future[list[list[int]]]] = deque()
        for first in range(0, len(texts), _CHUNK_LINES):
            check()
            waiting.append(pool.submit(tokenizer.encode_lines, texts[first : first + _CHUNK_LINES], num_threads=1))
            if len(waiting) > num_threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
