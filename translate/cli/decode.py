"""`decode` and `score`: translations, and the probability that a model gives them."""

import contextlib
import functools
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from typer import Argument, Option

from translate.bars import show_progress
from translate.cli.terminal.console import is_terminal
from translate.cli.terminal.conversation import converse, is_typed, typed_lines
from translate.cli.terminal.lines import (
    TextLines,
    check_outputs,
    open_line_output,
    open_lines,
    paired_lines,
    read_requests,
    warn_of_missed_terms,
    write_lines,
)
from translate.cli.terminal.options import (
    RUN,
    CheckpointOption,
    InputFile,
    OutputFile,
    RunArgument,
    SavedRun,
    is_alone,
    takes_decoding_options,
    takes_languages,
)
from translate.cli.terminal.parts import DecodingJob, decode_in_parts, load_for_parts
from translate.errors import InputError

if TYPE_CHECKING:
    from translate.decoding import Translation, Translator
    from translate.decoding.constraints.terminology import Terminology
    from translate.documents.document import DocumentFormat

logger = logging.getLogger(__name__)


_PARTS = "--resume (or torchrun)"
_BY_LINE = {"--prefix", "--require"}
_CTRANSLATE2 = "--engine ctranslate2 or --precision int8"  # which no other engine has
_EXCLUDED = {  # options that cannot be combined
    "--interactive": {"FILE", "--output", _PARTS, *_BY_LINE},
    _CTRANSLATE2: {"--terminology", "--forbid", _PARTS, *_BY_LINE},
    "--document": {"--interactive", "--alignments", "--format jsonl", "--n-best", _PARTS, *_BY_LINE},
}


@takes_decoding_options(
    "search beam_size n_best to from_ length_penalty ensemble terminology output_format document batch_tokens precision"
    " device",
    unused="max_target_tokens",
)
@takes_languages
def decode(
    run: RunArgument,
    file: InputFile = None,
    output: OutputFile = None,
    checkpoint: CheckpointOption = "best",
    output_format: Annotated[
        Literal["text", "jsonl"],
        Option("--format", metavar="NAME", help="text, or jsonl: JSON lines with tokens, scores, alignment and flags."),
    ] = "text",
    alignments: Annotated[Path | None, Option(metavar="FILE", help="Also write word alignments, as 0-0 1-2.")] = None,
    interactive: Annotated[bool, Option("--interactive", help="Answer each line of a pipe immediately.")] = False,
    ensemble: Annotated[list[SavedRun] | None, Option(help="Average probabilities with another run's.", **RUN)] = None,
    reverse: Annotated[SavedRun | None, Option(help="Rerank the beam with a reverse-direction run.", **RUN)] = None,
    resume: Annotated[bool, Option("--resume", help="Keep finished parts in OUTPUT.parts, and reuse them.")] = False,
    document: Annotated[bool, Option("--document", help="Translate a document's text; keep the rest.")] = False,
    document_format: Annotated[
        Literal["text", "paragraphs", "markdown", "html", "srt", "vtt", "po", "xliff"] | None,
        Option(help="Format of the document. Default: by its extension; paragraphs joins lines of plain text."),
    ] = None,
    again: Annotated[bool, Option("--again", help="In PO and XLIFF, also replace what awaits review.")] = False,
    prefix: Annotated[Path | None, Option(metavar="FILE", help="Line N is the beginning of translation N.")] = None,
    require: Annotated[
        Path | None, Option(metavar="FILE", help="Line N has tab-separated phrases that translation N must contain.")
    ] = None,
    terminology: Annotated[
        Path | None,
        Option(metavar="FILE", help="Lines with source, tab, target: requires the target wherever the source occurs."),
    ] = None,
    terminology_forms: Annotated[
        bool, Option("--terminology-forms", help="A term's other forms (files for file) are translated like the term.")
    ] = False,
    forbid: Annotated[
        Path | None,
        Option(metavar="FILE", help="Words and phrases, one per line, that no translation contains in this spelling."),
    ] = None,
    *,
    languages: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Translate text line by line, in order; an empty line stays empty.

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
      translate decode runs/demo --document app.po --output app.en.po
      translate decode runs/both input.en --to de
      torchrun --nproc-per-node 8 -m translate decode runs/demo a.de -o a.en
    """
    named = {"prefix": prefix, "require": require, "terminology": terminology, "forbid": forbid}
    constraints = {name: path for name, path in named.items() if path is not None}
    in_parts = resume or "TORCHELASTIC_RUN_ID" in os.environ or not is_alone()
    given = {
        "FILE": file,
        "--output": output,
        **{f"--{name}": path for name, path in constraints.items()},
        "--interactive": interactive,
        _PARTS: in_parts,
        "--alignments": alignments,
        "--format jsonl": output_format == "jsonl",
        "--n-best": options.get("n_best", 1) > 1,
        _CTRANSLATE2: options.get("engine") == "ctranslate2" or options.get("precision") == "int8",
        "--document": document or document_format or again,
    }
    for option, excluded in _EXCLUDED.items():
        if given[option] and (wrong := sorted(name for name in excluded if given.get(name))):
            raise InputError(f"{wrong[0]} cannot be combined with {option}; leave out one of them")
    if interactive or is_typed(file):
        options["look_ahead_lines"] = 1
    runs = {"RUN": [run], "--ensemble": ensemble or [], "--reverse": [] if reverse is None else [reverse]}
    if terminology_forms and not terminology:
        raise InputError("--terminology-forms needs --terminology FILE")
    decoding = _Decoding(
        file, output, alignments, constraints, terminology_forms, output_format, runs, checkpoint, options, languages
    )
    if given["--document"]:
        decoding.translate_document(document_format, again=again)
    elif in_parts:
        decode_in_parts(decoding.prepare_parts)
    else:
        decoding.translate_lines(is_interactive=interactive)


class _Decoding(NamedTuple):
    """What a command line asks for: the text to translate, where the translation goes, and the runs."""

    file: Path | None
    output: Path | None
    alignments: Path | None
    constraints: dict[str, Path]  # files by option
    terminology_forms: bool
    output_format: Literal["text", "jsonl"]
    runs: dict[str, list[SavedRun]]  # by option
    checkpoint: str
    options: dict[str, Any]  # settings of the section `decoding`
    languages: dict[str, Any]  # of --to and --from

    def read_terminology(self) -> "Terminology | None":
        """Read the terminology, for the language of the text."""
        if "terminology" not in self.constraints:
            return None
        from translate.decoding.constraints.terminology import read_terminology

        (run,), file = self.runs["RUN"], self.constraints["terminology"]
        language = self.languages["from_"] or run.languages.usual.source
        return read_terminology(file, language=language, with_forms=self.terminology_forms)

    def load(self) -> "Translator":
        """Load the translator, perhaps with an ensemble and a reverse model."""
        from translate.data.text import read_lines
        from translate.decoding.loading import load_translator

        (run,) = self.runs["RUN"]
        with show_progress(f"Loading {run}"):
            phrases = read_lines(self.constraints["forbid"]) if "forbid" in self.constraints else []
            translator = load_translator(
                run,
                checkpoint=self.checkpoint,
                token_scores=self.output_format == "jsonl",
                ensemble=self.runs["--ensemble"],
                reverse=next(iter(self.runs["--reverse"]), None),
                forbidden=[phrase for phrase in phrases if phrase.strip()],
                options=self.options,
                **self.languages,
            ).translator
        if is_typed(self.file):
            typer.echo("Reading lines from the terminal. Ctrl-C cancels a line, Ctrl-D ends.", err=True)
        return translator

    def translate_lines(self, *, is_interactive: bool) -> None:
        """Translate line by line: a text, or what a person types on a terminal."""
        by_line = self.output or self.alignments or {"prefix", "require"} & self.constraints.keys()
        is_conversation = is_typed(self.file) and is_terminal(sys.stdout) and not by_line
        source = TextLines(typed_lines(), None, "the terminal") if is_conversation else open_lines(self.file)
        # Bad files are reported before the model is loaded.
        requests = read_requests(source, self.constraints, self.read_terminology())
        check_outputs({"--output": self.output, "--alignments": self.alignments})
        translator = self.load()
        from translate.decoding import ConditionCounts, count_conditions
        from translate.decoding.output.formats import format_translations

        if is_conversation:
            logger.info(str(count_conditions(converse(translator, requests, output_format=self.output_format))))
            return
        started, counts = time.perf_counter(), ConditionCounts()
        with contextlib.ExitStack() as stack:
            is_hidden = is_interactive or is_typed(self.file)  # a bar would get in the way of typing
            advance = stack.enter_context(show_progress("Translating", source.total, unit="lines", is_hidden=is_hidden))
            translations = counts.watch(translator.translate_stream(requests, on_finished=advance))
            write = stack.enter_context(open_line_output(self.alignments)) if self.alignments else None
            lines = format_translations(
                translations, translator, output_format=self.output_format, write_alignment=write
            )
            write_lines(lines, self.output)
        seconds = time.perf_counter() - started
        logger.info(f"{counts} in {seconds:.1f} s ({counts['lines'] / max(seconds, 1e-9):.1f} lines/s)")

    def prepare_parts(self) -> DecodingJob:
        """Check the files, load the translator, and collect the facts that must be the same on all ranks."""
        from translate.decoding.sharded import ShardedDecoder
        from translate.files import require_file
        from translate.fingerprint import fingerprint

        if self.file is None or str(self.file) == "-" or self.output is None:
            raise InputError("with --resume, or under torchrun, decode needs FILE and --output FILE")
        files = {"FILE": self.file, **{f"--{name}": path for name, path in self.constraints.items()}}
        for path in files.values():
            require_file(path)
        check_outputs({"--output": self.output, "--alignments": self.alignments})
        if self.output.exists() and not self.output.is_file():
            raise InputError(f"--output {self.output}: is not a file, and the parts are joined into one; name a file")
        by_line = {name: fingerprint(path) for name, path in files.items() if name in {"FILE", *_BY_LINE}}
        for_all_lines = {name: path for name, path in files.items() if name not in by_line}
        source = open_lines(self.file)
        requests = read_requests(source, self.constraints, self.read_terminology())
        translator, dependencies = load_for_parts(
            self.load, self.runs, for_all_lines, checkpoint=self.checkpoint, num_lines=source.total or 0
        )
        decoder = ShardedDecoder(translator, dependencies, self.output_format, self.output, self.alignments)
        forms = {"--terminology-forms": "yes"} if self.terminology_forms else {}
        return DecodingJob(decoder, {**dependencies, **by_line, **forms}, source.total, requests)

    def translate_document(self, document_format: "DocumentFormat | None", *, again: bool) -> None:
        """Translate a document, after checking the file and before loading the translator; report what it contained.

        Raises:
            InputError: A file cannot be used, or its name does not determine a format.
        """
        from translate.data.text import read_document
        from translate.decoding import Request
        from translate.documents.document import FORMATS, format_of_file, translate_documents, word_weights
        from translate.files import check_is_text

        document_format = document_format or format_of_file(self.file)
        if not FORMATS[document_format].is_bilingual:
            check_is_text(self.file)
        text = read_document(self.file)
        try:
            FORMATS[document_format].open(text.removeprefix("\ufeff"))
        except InputError as error:  # a damaged catalog, for example
            raise InputError(f"{self.file or 'standard input'}: {error}") from error.__cause__
        terms = self.read_terminology()
        check_outputs({"--output": self.output})
        translator = self.load()
        whole = translator.with_options(split_sentences="never")  # the document is divided into sentences
        started = time.perf_counter()

        def translate(sentences: Sequence[str]) -> list["Translation"]:
            with show_progress("Translating", len(sentences), unit="sentences") as advance:
                warn_of_missed_terms(map(terms.missed_forms, sentences) if terms else ())
                requests = (Request(sentence, terminology=terms) for sentence in sentences)
                return list(whole.translate_stream(requests, on_finished=advance))

        align = functools.partial(word_weights, translator)
        how = (document_format, translate, align, translator.direction)
        by_sentence = translator.config.split_sentences != "never"
        (document,) = translate_documents([text], *how, by_sentence=by_sentence, again=again)
        write_lines([document.text], self.output, end="")
        seconds = time.perf_counter() - started
        for problem in document.problems:
            logger.warning(problem)
        speed = document.counts["sentences"] / max(seconds, 1e-9)
        logger.info(f"{document} in {seconds:.1f} s ({speed:.1f} sentences/s)")


@takes_decoding_options(
    "to from_ length_penalty length_penalty_kind long max_source_tokens max_target_tokens batch_tokens look_ahead_lines"
    " precision device",
    unused=None,
)
@takes_languages
def score(
    run: RunArgument,
    source: Annotated[Path, Argument(metavar="SOURCE", help="Text with one sentence per line.")],
    target: Annotated[Path, Argument(metavar="TARGET", help="Translations, line by line.")],
    output: OutputFile = None,
    checkpoint: CheckpointOption = "best",
    *,
    languages: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Score given translations by forced decoding: one JSON object per line, and the overall perplexity.

    log_prob is in nats and includes the end symbol; score is log_prob divided by the length penalty. Given translations
    cannot be split: except with --long error, a side with more tokens than the limit is truncated, flagged and counted.

    Examples:
      translate score runs/demo news.de news.en
      translate score runs/demo news.de output.en --output scores.jsonl
    """
    if options.get("precision") == "int8":
        raise InputError("score cannot use --precision int8; leave it out")
    pairs = paired_lines(open_lines(source), open_lines(target))
    check_outputs({"--output": output})
    from translate.decoding.loading import load_own_translator
    from translate.decoding.output.flags import FLAGS
    from translate.decoding.output.formats import CorpusScore, score_records

    translator = load_own_translator(run, checkpoint=checkpoint, options=options).translator.toward(**languages)
    total = CorpusScore()
    with show_progress("Scoring", pairs.total, unit="lines") as advance:
        records = score_records(translator, pairs, total, on_finished=advance)
        write_lines((json.dumps(record, ensure_ascii=False) for record in records), output)
    cut = f", {total.cut} {FLAGS['source_truncated'].phrase}" if total.cut else ""
    logger.info(
        f"{total.lines} lines, {total.tokens} tokens, {total.log_prob:.2f} nats, perplexity {total.perplexity:.3f}{cut}"
    )
