"""`decode --document`: translates the text of a whole file or stream, and leaves the rest unchanged."""

import functools
import io
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from translate.bars import show_progress
from translate.cli.terminal.lines import check_outputs, write_lines
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.decoding import Translation, Translator
    from translate.documents.document import DocumentFormat

logger = logging.getLogger(__name__)


def decode_document(
    file: Path | None,
    output: Path | None,
    *,
    document_format: "DocumentFormat | None",
    terminology: Path | None,
    load: Callable[[], "Translator"],
) -> None:
    """Translate a document, loading the translator only once the file has been checked, and report what it contained.

    Raises:
        InputError: A file cannot be used, or its name does not determine a format.
    """
    from translate.decoding import Request
    from translate.decoding.constraints.terminology import read_terminology
    from translate.documents.document import format_of_file, translate_document, word_weights

    document_format = document_format or format_of_file(file)
    text = read_document(file)
    terms = None if terminology is None else read_terminology(terminology)
    check_outputs({"--output": output})
    translator = load()
    started = time.perf_counter()

    def translate(sentences: Sequence[str]) -> list["Translation"]:
        with show_progress("Translating", len(sentences), unit="sentences") as advance:
            requests = (Request(sentence, terminology=terms) for sentence in sentences)
            return list(translator.translate_stream(requests, on_finished=advance))

    align = functools.partial(word_weights, translator)
    document = translate_document(text, document_format, translate, align, translator.direction)
    write_lines([document.text], output, end="")
    seconds = time.perf_counter() - started
    for problem in document.problems:
        logger.warning(problem)
    rate = document.sentences / max(seconds, 1e-9)
    logger.info(f"{document} in {seconds:.1f} s ({rate:.1f} sentences/s)")


def read_document(file: Path | None) -> str:
    """Read a whole file or standard input, with all of its characters.

    Raises:
        InputError: The file cannot be used.
    """
    from translate.data.text import iterate_lines
    from translate.files import read_input

    if file is None or str(file) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file")
        content, name = sys.stdin.buffer.read(), "standard input"
    else:
        content, name = read_input(file, at_most=2**31, may_be_pipe=True), str(file)
    for _ in iterate_lines(io.BytesIO(content), name):  # reports bytes that are not UTF-8
        pass
    return content.decode("utf-8")
