"""An option for each setting of the section `decoding`, for every command that translates or scores.

In brackets each help names the key whose value in the run's config is the default, and the default of that. The
options are written out, so that `--help` needs neither pydantic nor torch; a test compares them with the section.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import typer


class Setting(NamedTuple):
    """One setting of `DecodingConfig`."""

    type: Any
    default: object  # the section's, where the run's config says nothing
    help: str


SETTINGS: dict[str, Setting] = {
    "search": Setting(
        Literal["beam", "sample"], "beam", "beam: the most probable translations; sample: random ones, by the model."
    ),
    "beam_size": Setting(int, 5, "Hypotheses kept for each sentence; 1 is greedy search."),
    "n_best": Setting(int, 1, "Translations for each line, the best first."),
    "length_penalty": Setting(float, 0.6, "Alpha of the length penalty; 0 is none, more favours the longer."),
    "length_penalty_kind": Setting(
        Literal["gnmt", "average", "none"],
        "gnmt",
        "score = log-probability / penalty, of gnmt ((5 + length) / 6)^alpha, of average length^alpha.",
    ),
    "coverage_penalty": Setting(
        float, 0.0, "Beta: score + beta * sum over source tokens of log(min(attention received, 1))."
    ),
    "max_length_factor": Setting(float, 2.0, "At most factor * source tokens + constant tokens."),
    "max_length_constant": Setting(int, 20, "See --max-length-factor."),
    "min_length_factor": Setting(float, 0.0, "At least factor * source tokens + constant tokens."),
    "min_length_constant": Setting(int, 0, "See --min-length-factor."),
    "long": Setting(
        Literal["error", "truncate", "split"],
        "split",
        "A source above --max-source-tokens: an error, cut, or translated in pieces; score cuts in place of splitting.",
    ),
    "max_source_tokens": Setting(int, None, "By default as many as the run was trained with: data.max_source_tokens."),
    "max_target_tokens": Setting(int, None, "The same for the translations that score is given."),
    "diversity_groups": Setting(int, 1, "Groups of the beam, each kept away from what earlier ones chose."),
    "diversity_strength": Setting(float, 0.5, "Nats that a token costs for each earlier group that chose it."),
    "temperature": Setting(float, 1.0, "Sampling: log-probabilities are divided by it."),
    "top_k": Setting(int, 0, "Sampling: from the k most probable tokens; 0: from all."),
    "top_p": Setting(float, 1.0, "Sampling: from the most probable tokens that have this probability together."),
    "epsilon": Setting(float, 0.0, "Sampling: never a token less probable than this."),
    "seed": Setting(int, 1, "Sampling: with a line's number it settles what is drawn, whatever the batch."),
    "mbr": Setting(
        Literal["none", "chrf", "bleu"],
        "none",
        "Minimum Bayes risk: of many translations the one most like the others by this metric.",
    ),
    "mbr_candidates": Setting(int, 32, "Samples for --mbr; with --search beam it takes the beam's hypotheses."),
    "no_repeat_ngram": Setting(int, 0, "No n tokens in a row twice in one translation; 0: no such rule."),
    "repetition_penalty": Setting(
        float, 1.0, "The log-probability of a token that occurred before is multiplied by it."
    ),
    "contrastive_weight": Setting(float, 0.5, "With --contrast: how much of its log-probabilities is taken away."),
    "contrastive_plausibility": Setting(
        float, 0.1, "With --contrast: only tokens at least so probable, in proportion to the best."
    ),
    "alignment_layer": Setting(int, -1, "Decoder layer whose cross-attention gives alignments; -1: the last."),
    "batch_tokens": Setting(int, 8192, "Source tokens at once, padding counted, times the beam size."),
    "look_ahead_lines": Setting(int, 2000, "Lines read ahead and sorted by length; the output keeps the order."),
    "precision": Setting(Literal["fp32", "bf16", "int8"], "fp32", "Arithmetic of the model."),
    "shortlist": Setting(bool, False, "Only words that the run's shortlist gives for the source."),
    "workers": Setting(int, None, "CPU threads that each search their own sentences; by default all."),
    "device": Setting(str, "auto", "auto, cpu, cuda, cuda:N or mps."),
}


def takes_decoding_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each setting; it gets those that were given as `options`, by the section's keys."""
    own = inspect.signature(command, eval_str=True)
    parameters = [parameter for parameter in own.parameters.values() if parameter.name != "options"]
    parameters += [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(key, setting))
        for key, setting in SETTINGS.items()
    ]

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        given = {key: arguments.pop(key) for key in SETTINGS}
        command(**arguments, options={key: value for key, value in given.items() if value is not None})

    with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _annotation(key: str, setting: Setting) -> Any:
    default = "" if setting.default is None else f" = {str(setting.default).lower()}"
    metavar = "N" if setting.type is int else "X" if setting.type is float else None
    option = typer.Option(help=f"{setting.help} [decoding.{key}{default}]", metavar=metavar, show_default=False)
    return Annotated[setting.type | None, option]
