"""`decode` and `score`: translations, and the probability that a model gives them."""

import contextlib
import dataclasses
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from translate.cli.terminal.console import is_terminal, line_bar, showing_activity
from translate.cli.terminal.conversation import announce, converse, is_typed, typed_lines
from translate.cli.terminal.documents import decode_document
from translate.cli.terminal.lines import (
    STANDARD_OUTPUT,
    TextLines,
    check_outputs,
    open_line_output,
    open_lines,
    paired_lines,
    read_requests,
    takes_constraints,
    write_lines,
)
from translate.cli.terminal.options import (
    CheckpointOption,
    InputFile,
    OutputFile,
    RunArgument,
    complete_run,
    takes_decoding_options,
)
from translate.cli.terminal.parts import DecodingJob, decode_in_parts, runs_unchanged
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.decoding import Request, Translator
    from translate.distributed.process_group import World

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeCommand:
    """The arguments of `decode`."""

    run: Path
    file: Path | None
    output: Path | None
    alignments: Path | None
    output_format: Literal["text", "jsonl"]
    checkpoint: str
    constraints: dict[str, Path]
    ensemble: list[Path]
    reverse: Path | None
    options: dict[str, Any]
    is_interactive: bool
    is_document: bool
    in_parts: bool

    def check(self) -> None:
        """Raise an InputError if options exclude each other, or if an output is an input or a file of a run."""
        options = {
            "FILE": self.file,
            "--output": self.output,
            **{f"--{name}": file for name, file in self.constraints.items()},
            "--interactive": self.is_interactive,
            "--resume (or torchrun)": self.in_parts,
            "--alignments": self.alignments,
            "--format jsonl": self.output_format == "jsonl",
            "--n-best": self.options.get("n_best", 1) > 1,
        }
        given = {option for option, value in options.items() if value}
        by_line, in_parts = {"--prefix", "--require"}, {"--resume (or torchrun)"}
        of_lines = {"--interactive", "--alignments", "--format jsonl", "--n-best"}
        all_constraints = {f"--{name}" for name in self.constraints}
        for option, is_given, excluded in (
            ("--interactive", self.is_interactive, {"FILE", "--output"} | by_line | in_parts),
            ("--engine ctranslate2", self.options.get("engine") == "ctranslate2", all_constraints | in_parts),
            ("--document", self.is_document, by_line | in_parts | of_lines),
        ):
            if is_given and (wrong := sorted(given & excluded)):
                raise InputError(f"{wrong[0]} cannot be combined with {option}; leave out one of them")
        outputs = {"--output": self.output or STANDARD_OUTPUT, "--alignments": self.alignments}
        check_outputs(outputs, [self.file, *self.constraints.values()])

    @property
    def is_conversation(self) -> bool:
        """Whether a person types lines and reads their translations, on a terminal."""
        goes_elsewhere = self.output or self.alignments or {"prefix", "require"} & self.constraints.keys()
        return is_typed(self.file) and is_terminal(sys.stdout) and not goes_elsewhere

    def open(self) -> tuple[TextLines[str], Iterator["Request"], "Translator"]:
        """Open the input and its constraints, and load the translator."""
        source = TextLines(typed_lines(), None, "the terminal") if self.is_conversation else open_lines(self.file)
        requests = read_requests(source, self.constraints)  # a wrong file is reported before the model is loaded
        return source, requests, self.load()

    def load(self) -> "Translator":
        """Load the translator."""
        from translate.data.text import read_lines
        from translate.decoding.loading import load_translator

        with showing_activity() as show:
            show(f"Loading {self.run}")
            phrases = read_lines(self.constraints["forbid"]) if "forbid" in self.constraints else []
            loaded = load_translator(
                self.run,
                checkpoint=self.checkpoint,
                options=self.options,
                token_scores=self.output_format == "jsonl",
                ensemble=self.ensemble,
                reverse=self.reverse,
                forbidden=[phrase for phrase in phrases if phrase.strip()],
            )
        if is_typed(self.file):
            announce(loaded.run.config.data.source_language)
        return loaded.translator


@takes_decoding_options
@takes_constraints
def decode(
    run: RunArgument,
    file: InputFile = None,
    output: OutputFile = None,
    checkpoint: CheckpointOption = "best",
    output_format: Annotated[
        Literal["text", "jsonl"],
        Option("--format", help="text, or jsonl: one JSON object per line, with tokens, scores, alignment and flags."),
    ] = "text",
    alignments: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Also write word alignments from cross-attention as Pharaoh does, such as 0-0 1-2."
        ),
    ] = None,
    interactive: Annotated[
        bool, Option("--interactive", help="Answer each line of a pipe immediately, as on a terminal.")
    ] = False,
    ensemble: Annotated[
        list[Path] | None,
        Option(metavar="RUN", help="Average the probabilities with another run's.", autocompletion=complete_run),
    ] = None,
    reverse: Annotated[
        Path | None,
        Option(
            metavar="RUN",
            help="Also rank the beam by the probability of the source under a run that translates in reverse.",
            autocompletion=complete_run,
        ),
    ] = None,
    resume: Annotated[
        bool, Option("--resume", help="Keep finished parts in OUTPUT.parts, and reuse them after an interruption.")
    ] = False,
    document: Annotated[
        bool, Option("--document", help="Translate the text of a document, and leave everything else unchanged.")
    ] = False,
    document_format: Annotated[
        Literal["text", "paragraphs", "markdown", "html", "srt", "vtt"] | None,
        Option(help="Format of the document, if its name does not tell; paragraphs joins lines of plain text."),
    ] = None,
    *,
    constraints: dict[str, Path],
    options: dict[str, Any],
) -> None:
    """Translate text line by line, in order; an empty line stays empty.

    The defaults below apply unless the run's config says otherwise.

    With --n-best N, text has N lines per sentence as Moses writes them: number ||| translation ||| log_prob ||| score.

    On a terminal each line is answered as you type it, with notes in brackets on possible problems. The arrow keys edit
    a line and recall earlier ones, Ctrl-C cancels a line, and Ctrl-D ends.

    Examples:
      echo "Ein Hund läuft durch den Schnee." | translate decode runs/demo
      translate decode runs/demo input.de --output output.en --length-penalty 0.6
      translate decode runs/demo input.de --format jsonl --n-best 3
      translate decode runs/demo input.de --search sample --epsilon 0.02 --mbr chrf
      translate decode runs/demo input.de --terminology a.tsv --forbid words.txt
      translate decode runs/demo large.de --output large.en --resume
      translate decode runs/demo --document report.md --output report.en.md
      torchrun --nproc-per-node 8 -m translate decode runs/demo a.de -o a.en
    """
    if interactive or is_typed(file):
        options["look_ahead_lines"] = 1
    command = DecodeCommand(
        run=run,
        file=file,
        output=output,
        alignments=alignments,
        output_format=output_format,
        checkpoint=checkpoint,
        constraints=constraints,
        ensemble=ensemble or [],
        reverse=reverse,
        options=options,
        is_interactive=interactive,
        is_document=document or document_format is not None,
        in_parts=resume or "TORCHELASTIC_RUN_ID" in os.environ or os.environ.get("WORLD_SIZE", "1") != "1",
    )
    command.check()
    if command.is_document:
        terminology = constraints.get("terminology")
        decode_document(file, output, document_format=document_format, terminology=terminology, load=command.load)
    elif command.in_parts:
        decode_in_parts(lambda world: _prepare_parts(command, world))
    else:
        _decode_at_once(command)


def _decode_at_once(command: DecodeCommand) -> None:
    """Translate the input as it is read, and write each translation as it comes."""
    source, requests, translator = command.open()
    from translate.decoding import ConditionCounts, count_conditions
    from translate.decoding.output.formats import format_translations

    if command.is_conversation:
        logger.info(str(count_conditions(converse(translator, requests, output_format=command.output_format))))
        return
    started = time.perf_counter()
    counts = ConditionCounts()
    with contextlib.ExitStack() as stack:
        is_hidden = command.is_interactive or is_typed(command.file)  # a bar would be next to what is typed
        advance = stack.enter_context(line_bar(source.total, is_hidden=is_hidden))
        translations = translator.translate_stream(requests, on_finished=advance)
        write = stack.enter_context(open_line_output(command.alignments)) if command.alignments else None
        lines = format_translations(
            counts.watch(translations), translator, output_format=command.output_format, write_alignment=write
        )
        write_lines(lines, command.output)
    seconds = time.perf_counter() - started
    logger.info(f"{counts} in {seconds:.1f} s ({counts['lines'] / max(seconds, 1e-9):.1f} lines/s)")


def _prepare_parts(command: DecodeCommand, world: "World") -> DecodingJob:
    """Check the files, load the translator, and collect what must be the same on all ranks."""
    from translate.data.text import require_file
    from translate.decoding.sharded import ShardedDecoder, collect_dependencies, share_machine
    from translate.fingerprint import fingerprint

    if command.file is None or str(command.file) == "-" or command.output is None:
        raise InputError(
            "with --resume, or under torchrun, decode needs FILE and --output FILE: several processes cannot share"
            " standard input and output, and a later start could not read them again"
        )
    files = {"FILE": command.file, **{f"--{name}": file for name, file in command.constraints.items()}}
    for file in files.values():
        require_file(file)
    if command.output.exists() and not command.output.is_file():
        raise InputError(f"--output {command.output}: is not a file, but the parts are joined into one; name a file")
    share_machine(world.environment)
    runs = {
        "RUN": [command.run],
        "--ensemble": command.ensemble,
        "--reverse": [] if command.reverse is None else [command.reverse],
    }
    by_line = {name: fingerprint(file) for name, file in files.items() if name in {"FILE", "--prefix", "--require"}}
    with runs_unchanged(runs, command.checkpoint):
        source, requests, translator = command.open()
        for_all_lines = {name: [file] for name, file in files.items() if name not in by_line}
        dependencies = collect_dependencies(translator, {**runs, **for_all_lines}, checkpoint=command.checkpoint)
    decoder = ShardedDecoder(
        translator, dependencies, command.output_format, output=command.output, alignments=command.alignments
    )
    return DecodingJob(decoder, {**dependencies, **by_line}, source.total, requests)


@takes_decoding_options
def score(
    run: RunArgument,
    source: Annotated[Path, Argument(metavar="SOURCE", help="Text with one sentence per line.")],
    target: Annotated[Path, Argument(metavar="TARGET", help="Translations, line by line.")],
    output: OutputFile = None,
    checkpoint: CheckpointOption = "best",
    *,
    options: dict[str, Any],
) -> None:
    """Score given translations by forced decoding: one JSON object per line, and the perplexity of all.

    The defaults below apply unless the run's config says otherwise.

    log_prob is in nats and includes the end symbol; score is log_prob divided by the length penalty. Given translations
    cannot be split: unless --long is error, a side with more tokens than the limit is truncated, flagged and counted.

    Examples:
      translate score runs/demo news.de news.en
      translate score runs/demo news.de output.en --output scores.jsonl
    """
    from translate.decoding.loading import load_own_translator
    from translate.decoding.output.formats import CorpusScore, describe_scores

    for key, value in {"engine": "ctranslate2", "precision": "int8"}.items():
        if options.get(key) == value:
            raise InputError(f"score cannot use --{key} {value}; leave it out")
    check_outputs({"--output": output or STANDARD_OUTPUT}, [source, target])
    pairs = paired_lines(source, target)
    translator = load_own_translator(run, checkpoint=checkpoint, options=options).translator
    total = CorpusScore()
    with line_bar(pairs.total) as advance:
        records = describe_scores(translator, pairs, total, on_finished=advance)
        write_lines((json.dumps(record, ensure_ascii=False) for record in records), output)
    cut = f", {total.cut} too long and cut" if total.cut else ""
    logger.info(
        f"{total.lines} lines, {total.tokens} tokens, {total.log_prob:.2f} nats, perplexity {total.perplexity:.3f}{cut}"
    )
