"""Arguments and options of several commands, their panels in the help, and what a shell completes on TAB.

The search settings of `decode`, `eval` and others come from the fields of the config section `decoding` and their
documentation, read from the source of that module, because importing it would make `--help` slow.
"""

import ast
import functools
import glob
import inspect
import itertools
import json
import os
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option

from translate.errors import InputError

if TYPE_CHECKING:
    from translate.runs.run import SavedRun as SavedRun
else:
    SavedRun = str  # Typer reads a path, which `as_runs` makes a run; importing the class would slow down `--help`

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


ReferenceOption = Annotated[
    list[Path] | None, Option(metavar="F", help="References of the given text; repeat for several of each line.")
]
MetricOption = Annotated[
    list[str] | None,
    Option(metavar="NAME=COMMAND", help="Also score with a program that reads {source}, {hypothesis} and {reference}."),
]
TokenizeOption = Annotated[
    Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200", "none"] | None,
    Option(metavar="NAME", help="BLEU's tokenizer, such as zh. Default: evaluation.bleu_tokenizer, which is 13a."),
]
JsonOption = Annotated[bool, Option("--json", help="Print one JSON document for programs.")]


def require_scores(metric: Sequence[str] | None, names: Iterable[str]) -> None:
    """Exit with code 1 if the score of a program that `--metric` names is missing; the log says why."""
    if {text.partition("=")[0] for text in metric or ()}.difference(names):
        raise Exit(1)


def find_runs(start: str) -> list[str]:
    """The runs whose paths, or whose folders' paths, begin like this. A shell completes paths to them on TAB."""
    found = [path for pattern in ("*/run.json", "*/*/run.json") for path in glob.glob(f"{glob.escape(start)}{pattern}")]
    return sorted(map(os.path.dirname, found))


def complete_config(incomplete: str) -> list[str]:
    """The presets, and the YAML files and the runs that `find_runs` would find."""
    from translate.config.yaml import preset_names

    start = glob.escape(incomplete)
    files = [path for pattern in ("*.yaml", "*.yml", "*/*.yaml") for path in glob.glob(f"{start}{pattern}")]
    files = [path for path in files if not os.path.exists(os.path.join(os.path.dirname(path), "run.json"))]
    runs = [run if os.sep in run else f"{run}{os.sep}" for run in find_runs(incomplete)]  # a bare name is a preset
    return [*preset_names(), *sorted(files), *runs]


def as_runs(paths: Any) -> Any:
    """The run of a path, or the runs of a list of paths.

    A path that is not a run is refused before the command imports torch. Several processes leave this to loading.
    """
    if isinstance(paths, list):
        return [*map(as_runs, paths)]
    if paths is None:
        return None
    from translate.runs.directory import check_holds_run
    from translate.runs.run import SavedRun

    run = SavedRun(paths)
    if is_alone():
        check_holds_run(run.path)
    return run


def is_alone() -> bool:
    """Whether the command runs in one process, and not in several that torchrun has started."""
    return os.environ.get("WORLD_SIZE", "1") == "1"


RUN: dict[str, Any] = {"metavar": "RUN", "autocompletion": find_runs, "callback": as_runs}
RunArgument = Annotated[SavedRun, Argument(help="A run directory, as written by `translate train`.", **RUN)]
ConfigArgument = Annotated[
    str,
    Argument(metavar="CONFIG", help="A config file, a preset such as demo, or a run.", autocompletion=complete_config),
]
IgnoreErrors = Annotated[bool, Option("--ignore-errors", help="Train even if the check before it finds errors.")]
Overrides = Annotated[
    list[str] | None,
    Argument(metavar="KEY=VALUE", help="Overrides, such as model.d_model=256."),
]
CheckpointOption = Annotated[
    str,
    Option(
        "--checkpoint",
        metavar="NAME",
        help="Weights to use: `best` on validation, `last`, or kept ones such as `step-4000`.",
        autocompletion=lambda incomplete: [name for name in ("best", "last") if name.startswith(incomplete)],
    ),
]
InputFile = Annotated[
    Path | None, Argument(metavar="FILE", help="Text with one sentence per line. Default: standard input.")
]
OutputFile = Annotated[
    Path | None, Option("--output", "-o", metavar="FILE", help="Write to this file instead of standard output.")
]

_PANELS = {  # panels of the help, in order, with the options in each
    "Search": "search beam_size patience n_best max_length_factor max_length_constant min_length_factor"
    " min_length_constant mbr mbr_candidates",
    "Languages": "to from_",
    "Scores": "ensemble reverse length_penalty length_penalty_kind no_repeat_ngram repetition_penalty reverse_weight",
    "Constraints": "prefix require terminology terminology_forms forbid keep_placeholders",
    "Sampling": "temperature top_k top_p epsilon seed",
    "Long lines": "split_sentences long max_source_tokens max_target_tokens",
    "Output": "output_format alignments alignment_layer interactive resume",
    "Documents": "document document_format again",
    "Speed": "engine batch_tokens look_ahead_lines precision workers device",
}


def _read_options() -> dict[str, Any]:
    """Read the annotation of an option for each field of `DecodingConfig`, by name, from its source."""
    source = Path(__file__).resolve().parents[2] / "config" / "decoding.py"
    (section,) = (node for node in ast.parse(source.read_bytes()).body if isinstance(node, ast.ClassDef))
    options: dict[str, Any] = {}
    for field, documentation in itertools.pairwise(section.body):
        if isinstance(field, ast.AnnAssign) and isinstance(documentation, ast.Expr):
            assert isinstance(field.target, ast.Name) and field.value is not None
            if "tuple" in ast.unparse(field.annotation):
                continue  # only a config holds lists
            key, kind, default = field.target.id, _type(field.annotation), ast.literal_eval(field.value)
            text = " ".join(str(ast.literal_eval(documentation.value)).split())
            notes = f"{', '.join(typing.get_args(kind))}; default: ".removeprefix("; ") + json.dumps(default).strip('"')
            text += f" [dim]\\[{notes}][/]"  # in Rich's markup
            option = Option(help=text, metavar={int: "N", float: "X"}.get(kind, "NAME"))
            options[key] = Annotated[kind | None, option]  # None: the run's own setting applies
    return options


def _type(annotation: ast.expr) -> Any:
    text = ast.unparse(annotation)
    if text.startswith("Literal"):
        return Literal[tuple(ast.literal_eval(text.removeprefix("Literal")))]
    names = {"Int": int, "int": int, "Probability": float, "float": float}
    return next((kind for name, kind in names.items() if name in text), str)


DECODING_OPTIONS = _read_options()


_NEEDS: dict[str, tuple[str, Callable[[Any, dict[str, Any]], object]]] = {
    # Options, what they need, and whether the section `decoding` and the command's other arguments have it.
    "temperature top_k top_p epsilon seed": ("--search sample", lambda decoding, _: decoding.search == "sample"),
    "beam_size patience": ("--search beam", lambda decoding, _: decoding.search == "beam"),
    "mbr_candidates": ("--mbr", lambda decoding, _: decoding.mbr != "none"),
    "reverse_weight": ("--reverse", lambda _, arguments: arguments["reverse"]),
}


def takes_decoding_options(
    common: str, *, unused: str | None = "max_target_tokens reverse_weight", are_defaults: bool = False
) -> Decorator:
    """Give a command an option for each setting of `decoding`; it receives the given ones as `options`, by key.

    Options in panels that are not common appear only with `--help-all`. If `unused` is None, the command has no others.
    An option that the search would not use is refused, unless the options are defaults of requests.
    """
    without = DECODING_OPTIONS.keys() - common.split() if unused is None else unused.split()
    options = {name: option for name, option in DECODING_OPTIONS.items() if name not in without}
    gather = functools.partial(_check_settings, are_defaults)
    return lambda command: add_options(command, options, name="options", gather=gather, panels=_PANELS, common=common)


def takes_languages(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --to and --from; it receives both as `languages`, arguments of `load_translator`."""
    to = Option("--to", metavar="CODE", help="Translate to this language, if RUN has several.")
    from_ = Option("--from", metavar="CODE", help="The text's language, if RUN needs it.")
    options = {"to": Annotated[str | None, to], "from_": Annotated[str | None, from_]}
    return add_options(command, options, name="languages", gather=_check_languages)


def _check_languages(arguments: dict[str, Any], to: str | None = None, from_: str | None = None) -> dict[str, Any]:
    """Refuse unknown languages, and a missing one that the run needs, before the command imports torch."""
    run = arguments.get("run") or next(iter(arguments.get("runs", ())), None)
    if "reference" in arguments and arguments["source"] is None:  # the test sets of `eval` and `compare`
        if to or from_:
            raise InputError("--to and --from need --source and --reference: the config has a test set's languages")
    elif run is not None and is_alone():
        run.languages.choose(to, from_, names=("--to", "--from"))
    return {"to": to, "from_": from_}


def _check_settings(are_defaults: bool, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Check a command's decoding options with the config of its first run, before it imports torch; return them."""
    run = arguments["run"] if "run" in arguments else arguments["runs"][0]
    if run is not None and is_alone():
        from translate.config.load import override_decoding

        run.files.checkpoint(arguments["checkpoint"])
        decoding, _ = override_decoding(run.config, options).decoding, run.tokenizers
        for names, (needed, has_it) in _NEEDS.items() if not are_defaults else ():
            unused = [name for name in names.split() if name in options]
            if unused and not has_it(decoding, arguments):
                raise InputError(f"--{unused[0].replace('_', '-')} needs {needed}")
    return options


def add_options(
    command: Callable[..., None],
    options: dict[str, Any],
    *,
    name: str,
    gather: Callable[..., Any],
    panels: dict[str, str] | None = None,
    common: str = "",
) -> Callable[..., None]:
    """Add options to a command, which receives them all in one parameter.

    Args:
        options: Annotation of each option, by its name; the default is None.
        name: The command's parameter.
        gather: Makes the parameter's value from the command's other arguments and the options that are not None.
        panels: Panels of the help, and the options in each; None leaves all in one.
        common: The options in panels that `--help` shows.
    """
    own, keyword = inspect.signature(command), inspect.Parameter.KEYWORD_ONLY
    parameters = {each.name: each.replace(kind=keyword) for each in own.parameters.values() if each.name != name}
    for option, annotation in options.items():
        parameters[option] = inspect.Parameter(option, keyword, default=None, annotation=annotation)
    for panel, names in (panels or {}).items():
        for option in filter(parameters.__contains__, names.split()):
            parameters[option] = parameters.pop(option)  # after those of earlier panels
            parameters[option].annotation.__metadata__[0].rich_help_panel = panel

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        values = {option: arguments.pop(option) for option in options}
        given = {option: value for option, value in values.items() if value is not None}
        command(**arguments, **{name: gather(arguments, **given)})

    with_options.__signature__ = own.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
    with_options.common_options = common.split()  # type: ignore[attr-defined]
    with_options.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return with_options
