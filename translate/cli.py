"""Commands, flags, printing. Nothing is computed here, and nothing heavy imported before a command needs it."""

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, ParamSpec

import typer

from translate.errors import InputError, RunError

if TYPE_CHECKING:
    from translate.data.tokenizer import Tokenizer
    from translate.decoding import Translation, Translator
    from translate.evaluation import Metric

Parameters = ParamSpec("Parameters")

app = typer.Typer(name="translate", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
tokenizer_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Train a tokenizer, or look at what one does."
)
config_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at configs before they run.")
app.add_typer(tokenizer_app, name="tokenizer")
app.add_typer(config_app, name="config")

RunArgument = Annotated[
    Path, typer.Argument(help="A run directory, as `translate train` makes it.", show_default=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="key=value in place of the config's, such as model.d_model=256.", show_default=False),
]
BeamSize = Annotated[
    int | None,
    typer.Option(
        help="Hypotheses kept for each sentence; 1 is greedy. Default: the run's decoding.beam_size.",
        show_default=False,
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        metavar="A",
        help="Scores are log-probability / ((5 + length) / 6)^A. Default: the run's decoding.length_penalty.",
        show_default=False,
    ),
]
CheckpointOption = Annotated[
    Literal["best", "last"], typer.Option("--checkpoint", help="Weights: the best on validation, or the last.")
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:N or mps. Default: the run's decoding.device.", show_default=False)
]


def tells_errors(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """A command whose failures are a paragraph and an exit code: 2 for wrong input, 1 for what failed while running."""

    @functools.wraps(command)
    def told(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except InputError as error:
            _fail(str(error), 2)
        except RunError as error:
            _fail(str(error), 1)
        except KeyboardInterrupt:
            _fail("interrupted", 130)
        except BrokenPipeError:  # the reader, such as `head`, has what it wanted
            _abandon_output()
            raise typer.Exit(141) from None
        except OSError as error:
            if error.filename is None:  # such as a full disk behind standard output
                _abandon_output()
            _fail(str(error), 1)

    return told


def _abandon_output() -> None:
    """Lead standard output nowhere, else Python fails once more when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> None:
    typer.echo(f"translate: {message}", err=True)
    raise typer.Exit(code)


def _print_version(wanted: bool) -> None:
    if wanted:
        from translate.versions import package_versions

        for package, version in package_versions().items():
            typer.echo(f"{package} {version}")
        raise typer.Exit


@app.callback()
def translate(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    """Train, decode and score translation models, from raw text to a detokenised BLEU.

    \b
    A first run, on the embedded German-English corpus:
      translate train demo
      echo "Der Hund schläft, weil er müde ist." | translate decode runs/demo
      translate eval runs/demo
    """


@app.command()
@tells_errors
def train(
    config: Annotated[str, typer.Argument(help="A config file, or a preset's name such as demo.", show_default=False)],
    overrides: Overrides = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of the run. Default: runs/NAME.", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")] = False,
) -> None:
    """Train a tokenizer and a model, as a config says, into a run directory.

    \b
    Examples:
      translate train demo
      translate train configs/multi30k.yaml model.d_model=512 training.max_steps=2000 --run runs/wide
      translate train configs/multi30k.yaml --resume
    """
    from translate.config import load_config

    loaded = load_config(config, overrides or [], require_files=True).config
    directory = run or Path("runs") / loaded.name
    from translate.training import train as train_run

    try:
        progress = train_run(loaded, directory, resume=resume, command=["translate", *sys.argv[1:]], say=_say)
    except KeyboardInterrupt:
        _fail(f"stopped; go on with --resume --run {directory}, from its last checkpoint", 130)
    best = "" if progress.best_step is None else f"; the best checkpoint is of step {progress.best_step}"
    _say(f"done after {progress.step} steps{best}. Next: translate eval {directory}")


@app.command()
@tells_errors
def decode(
    run: RunArgument,
    file: Annotated[
        Path | None, typer.Argument(help="Text, one sentence a line; standard input without it.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write; else standard output.", show_default=False
        ),
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    checkpoint: CheckpointOption = "best",
    device: Device = None,
) -> None:
    """Translate text, a line of output for each line of input, in order; an empty line for an empty line.

    \b
    Examples:
      echo "Ein Hund läuft durch den Schnee." | translate decode runs/demo
      translate decode runs/demo input.de --output output.en --beam-size 4 --length-penalty 0.6
    """
    lines = _open_lines(file)
    translator, _ = _load_translator(run, checkpoint, beam_size=beam_size, length_penalty=length_penalty, device=device)
    started = time.perf_counter()
    counts = _Counts()
    total = len(lines) if isinstance(lines, list) else None
    stream = counts.watch(_with_bar(translator.translate_stream(lines), total=total))
    _write_lines((translation.text for translation in stream), output)
    seconds = time.perf_counter() - started
    _say(f"{counts} in {seconds:.1f} s ({counts.lines / max(seconds, 1e-9):.1f} lines/s)")


@app.command("eval")
@tells_errors
def evaluate(
    run: Annotated[
        Path | None, typer.Argument(help="A run directory; not needed with --hypotheses.", show_default=False)
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Text to translate, in place of the run's test sets.", show_default=False),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(metavar="F", help="Its reference translations.", show_default=False)
    ] = None,
    hypotheses: Annotated[
        Path | None, typer.Option(metavar="F", help="Ready translations to score, without a run.", show_default=False)
    ] = None,
    set_name: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="NAME",
            help="One of the run's test sets, or `validation`. Default: all test sets.",
            show_default=False,
        ),
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    checkpoint: CheckpointOption = "best",
    device: Device = None,
    samples: Annotated[int, typer.Option(metavar="N", min=0, help="Also print N translations.")] = 0,
) -> None:
    """Translate test sets and print BLEU, chrF and TER with sacreBLEU's signatures and 95 % bootstrap intervals.

    Hypotheses and a JSON report are kept in RUN/evaluation/NAME.

    \b
    Examples:
      translate eval runs/demo --samples 10
      translate eval runs/demo --source news.de --reference news.en
      translate eval --hypotheses output.en --reference news.en
    """
    if hypotheses is not None:
        if run is not None or source is not None or set_name is not None or reference is None:
            raise InputError("--hypotheses goes with --reference alone: translate eval --hypotheses F --reference F")
        _score_files(hypotheses, reference)
        return
    if run is None:
        raise InputError("name a run directory, or --hypotheses F --reference F")
    if (source is None) != (reference is None) or (source is not None and set_name is not None):
        raise InputError("--source and --reference go together, and not with --set")
    from translate.config import read_resolved_config
    from translate.evaluation import spread_samples
    from translate.evaluation.testsets import choose_test_sets, evaluate_test_set
    from translate.run import open_run

    directory = open_run(run)
    config = read_resolved_config(directory.config)
    test_sets = choose_test_sets(config, source=source, reference=reference, name=set_name)
    translator, step = _load_translator(
        run, checkpoint, beam_size=beam_size, length_penalty=length_penalty, device=device
    )
    for test_set in test_sets:
        evaluation = evaluate_test_set(
            translator,
            test_set,
            config.evaluation,
            run=directory,
            step=step,
            watch=functools.partial(_with_bar, total=len(test_set.sources)),
        )
        counts = _Counts()
        for translation in evaluation.translations:
            counts.add(translation)
        typer.echo(
            f"{test_set.name}, {checkpoint} checkpoint (step {step}), beam {translator.config.beam_size}: {counts}"
        )
        _print_metrics(evaluation.metrics)
        for index in spread_samples(len(test_set.sources), samples):
            translation = evaluation.translations[index]
            typer.echo(
                f"\n  source:      {translation.source}\n  reference:   {test_set.references[index]}"
                f"\n  translation: {translation.text}"
            )


def _score_files(hypotheses: Path, reference: Path) -> None:
    from translate.config import EvaluationConfig
    from translate.data.corpora import read_lines
    from translate.evaluation import score_translations

    translated, references = read_lines(hypotheses), read_lines(reference)
    if len(translated) != len(references):
        raise InputError(
            f"{hypotheses} has {len(translated)} lines and {reference} has {len(references)}:"
            " they must pair line by line"
        )
    _print_metrics(score_translations(translated, references, EvaluationConfig()))


def _print_metrics(metrics: Iterable["Metric"]) -> None:
    for metric in metrics:
        interval = f"  [{metric.interval.low:5.2f}, {metric.interval.high:5.2f}]" if metric.interval else ""
        typer.echo(f"  {metric.name:<8}{metric.score:6.2f}{interval}  {metric.signature}")


@tokenizer_app.command("train")
@tells_errors
def train_tokenizer(
    corpora: Annotated[
        list[Path], typer.Argument(help="Text files, one sentence a line; also gzipped.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.", show_default=False)
    ],
    kind: Annotated[Literal["bpe", "unigram"], typer.Option("--type", help="Segmentation model.")] = "bpe",
    vocab_size: Annotated[int, typer.Option(min=8, help="Subwords, special symbols and bytes included.")] = 8000,
    character_coverage: Annotated[
        float, typer.Option(help="Share of characters with a subword of their own, above 0, at most 1.")
    ] = 1.0,
    byte_fallback: Annotated[bool, typer.Option(help="Spell unknown characters in bytes.")] = True,
    normalization: Annotated[
        Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"], typer.Option(help="Unicode normalisation.")
    ] = "nmt_nfkc",
) -> None:
    """Train a SentencePiece model on text files, for tokenizer.source_model in a config.

    \b
    Example:
      translate tokenizer train train.de train.en --output joint.model --vocab-size 8000
    """
    from translate.config import Config, override_config
    from translate.data.corpora import read_lines
    from translate.data.tokenizer_training import train_tokenizer as train_model

    options = {
        "tokenizer.type": kind,
        "tokenizer.vocab_size": vocab_size,
        "tokenizer.character_coverage": character_coverage,
        "tokenizer.byte_fallback": byte_fallback,
        "tokenizer.normalization": normalization,
    }
    config = override_config(Config(), options).tokenizer
    lines = [line for path in corpora for line in read_lines(path)]
    model = train_model(lines, config)
    try:
        output.write_bytes(model.model_bytes)
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from error
    _say(f"{output}: {model.vocab_size} subwords from {len(lines)} lines")


ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A SentencePiece model file, or a run directory.", show_default=False)
]
Side = Annotated[Literal["source", "target"], typer.Option(help="Which tokenizer of a run with separate vocabularies.")]
InputFile = Annotated[Path | None, typer.Argument(help="Standard input without it.", show_default=False)]


@tokenizer_app.command("encode")
@tells_errors
def encode_text(
    model: ModelArgument,
    file: InputFile = None,
    side: Side = "source",
    ids: Annotated[bool, typer.Option("--ids", help="Print numbers instead of subwords.")] = False,
) -> None:
    """Print the subwords of each line, with a space between them.

    \b
    Example:
      echo "Ein Hund läuft." | translate tokenizer encode runs/demo
    """
    tokenizer = _load_tokenizer(model, side)

    def encoded() -> Iterator[str]:
        for line in _open_lines(file):
            line_ids = tokenizer.encode(line)
            yield " ".join(map(str, line_ids) if ids else tokenizer.pieces(line_ids))

    _write_lines(encoded(), None)


@tokenizer_app.command("decode")
@tells_errors
def decode_ids(model: ModelArgument, file: InputFile = None, side: Side = "source") -> None:
    """Print the text of each line of subwords or of numbers: what `encode` printed, turned back.

    \b
    Example:
      echo "Ein Hund läuft." | translate tokenizer encode runs/demo | translate tokenizer decode runs/demo
    """
    tokenizer = _load_tokenizer(model, side)
    _write_lines((tokenizer.decode(tokenizer.parse(line.split())) for line in _open_lines(file)), None)


@config_app.command("show")
@tells_errors
def show_config(
    config: Annotated[str, typer.Argument(help="A config file, or a preset's name.", show_default=False)],
    overrides: Overrides = None,
) -> None:
    """Print the resolved config with the source of each value.

    \b
    Example:
      translate config show multi30k model.d_model=512
    """
    from translate.config import load_config
    from translate.config.show import annotated_yaml

    typer.echo(annotated_yaml(load_config(config, overrides or [])), nl=False)


@config_app.command("schema")
@tells_errors
def print_schema() -> None:
    """Print the JSON Schema of configs, so that an editor completes and checks them.

    \b
    Example:
      translate config schema > translate.schema.json
    """
    from translate.config.show import json_schema

    typer.echo(json_schema(), nl=False)


@config_app.command("presets")
@tells_errors
def list_presets() -> None:
    """Print the names of the configs that come with the toolkit.

    \b
    Example:
      translate config presets
    """
    from translate.config.presets import preset_names

    for name in preset_names():
        typer.echo(name)


class _Counts:
    """Lines translated, and those whose condition the user must know."""

    def __init__(self) -> None:
        self.lines = 0
        self.empty = 0
        self.truncated = 0
        self.source_truncated = 0

    def add(self, translation: "Translation") -> None:
        self.lines += 1
        self.empty += not translation.text
        self.truncated += translation.truncated
        self.source_truncated += translation.source_truncated

    def watch(self, translations: Iterable["Translation"]) -> Iterator["Translation"]:
        for translation in translations:
            self.add(translation)
            yield translation

    def __str__(self) -> str:
        text = f"{self.lines} lines, {self.empty} empty, {self.truncated} cut at the maximum length"
        return text + (
            f", {self.source_truncated} sources cut to the model's positions" if self.source_truncated else ""
        )


def _load_translator(
    run: Path,
    checkpoint: Literal["best", "last"],
    *,
    beam_size: int | None,
    length_penalty: float | None,
    device: str | None,
) -> tuple["Translator", int]:
    """The translator of a run with the command's options in place of its own, and the step of its checkpoint."""
    from translate.config import override_config
    from translate.decoding import Translator
    from translate.model.device import choose_device
    from translate.run import load_run

    loaded = load_run(run, checkpoint=checkpoint)
    options = {
        "decoding.beam_size": beam_size,
        "decoding.length_penalty": length_penalty,
        "decoding.device": device,
    }
    config = override_config(loaded.config, options).decoding
    return Translator(loaded.model.to(choose_device(config.device)), loaded.tokenizers, config), loaded.step


def _load_tokenizer(model: Path, side: Literal["source", "target"]) -> "Tokenizer":
    from translate.data.tokenizer import load_tokenizers, read_tokenizer

    if not model.is_dir():
        return read_tokenizer(model)
    return getattr(load_tokenizers(model / "tokenizer"), side)


def _open_lines(file: Path | None) -> Iterable[str]:
    """The lines of a file, read whole so that it is known to be good; or of standard input, as they come."""
    from translate.data.corpora import iterate_lines, read_lines

    if file is None or str(file) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file")
        return iterate_lines(sys.stdin.buffer, "standard input")
    return read_lines(file)


def _write_lines(lines: Iterable[str], output: Path | None) -> None:
    """Write lines as UTF-8 with `\\n`, whatever the locale; a file appears only when it is whole."""
    if output is None:
        if sys.stdout is None:
            raise RunError("standard output is closed: nowhere to write to")
        sys.stdout.flush()
        for line in lines:
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
            sys.stdout.buffer.flush()
        return
    temporary = output.with_name(output.name + ".part")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        temporary.replace(output)
    except OSError as error:
        raise RunError(f"{output}: cannot be written: {error.strerror}") from error
    finally:  # whatever failed, also the reading; after a success there is none
        with contextlib.suppress(OSError):
            temporary.unlink()


def _with_bar(translations: Iterable["Translation"], *, total: int | None) -> Iterable["Translation"]:
    """A progress bar on a terminal's stderr, unless the translations themselves go to the terminal."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        return translations
    from tqdm import tqdm

    return tqdm(translations, total=total, unit="line", file=sys.stderr, dynamic_ncols=True)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def main() -> None:
    """The `translate` command."""
    app(prog_name="translate")
