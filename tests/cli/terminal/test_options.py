"""Each setting of `decoding` is an option of decode, eval and score, with the section's type and default."""

import typing
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from translate.cli.terminal.options import DECODING_OPTIONS
from translate.config.decoding import DecodingConfig
from translate.errors import InputError

Translate = Callable[..., Result]

GIVEN: dict[str, object] = {
    "search": "sample",
    "beam_size": 6,
    "n_best": 3,
    "length_penalty": 0.7,
    "length_penalty_kind": "average",
    "coverage_penalty": 0.2,
    "max_length_factor": 1.5,
    "max_length_constant": 7,
    "min_length_factor": 0.5,
    "min_length_constant": 2,
    "long": "truncate",
    "max_source_tokens": 99,
    "max_target_tokens": 98,
    "diversity_groups": 3,
    "diversity_strength": 0.75,
    "temperature": 0.8,
    "top_k": 11,
    "top_p": 0.9,
    "epsilon": 0.01,
    "seed": 13,
    "mbr": "none",
    "mbr_candidates": 17,
    "no_repeat_ngram": 3,
    "repetition_penalty": 1.2,
    "reverse_weight": 0.2,
    "alignment_layer": 0,
    "batch_tokens": 500,
    "look_ahead_lines": 19,
    "engine": "translate",
    "precision": "bf16",
    "workers": 1,
    "device": "cpu",
}
OUT_OF_BOUNDS: dict[str, list[object]] = {
    "beam_size": [0, 1001],
    "n_best": [0],
    "length_penalty": [-0.1, 10.1],
    "coverage_penalty": [-0.1],
    "max_length_factor": [-1.0],
    "max_length_constant": [0, 10_001],
    "min_length_factor": [-1.0],
    "min_length_constant": [-1, 10_001],
    "max_source_tokens": [0],
    "max_target_tokens": [-1],
    "diversity_groups": [0],
    "diversity_strength": [-0.5],
    "temperature": [0.0],
    "top_k": [-1],
    "top_p": [0.0, 1.5],
    "epsilon": [-0.1, 1.0],
    "seed": [-1],
    "mbr_candidates": [0],
    "no_repeat_ngram": [-1],
    "repetition_penalty": [0.5],
    "reverse_weight": [-0.1],
    "alignment_layer": [1, -2],  # the run has one layer
    "batch_tokens": [0],
    "look_ahead_lines": [0],
    "workers": [0],
}


def option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def flags(settings: dict[str, object]) -> list[str]:
    arguments = []
    for key, value in settings.items():
        arguments += [f"--{'' if value else 'no-'}{key}"] if isinstance(value, bool) else [option(key), str(value)]
    return arguments


def shown_notes(key: str) -> str:
    """The choices and the default of a setting, as the help shows them."""
    default = DecodingConfig.model_fields[key].default
    choices = ", ".join(map(str, typing.get_args(TYPES[key])))
    notes = "; ".join(filter(None, [choices, "" if default is None else f"default: {str(default).lower()}"]))
    return f" [{notes}]" if notes else ""


def plain_type(annotation: object) -> object:
    """The type behind bounds, help and None."""
    while typing.get_origin(annotation) is not typing.Literal and typing.get_args(annotation):
        annotation = typing.get_args(annotation)[0]
    return annotation


TYPES = {key: plain_type(annotation) for key, (annotation, _) in DECODING_OPTIONS.items()}


def test_options_and_section_are_the_same() -> None:
    assert list(DECODING_OPTIONS) == list(DecodingConfig.model_fields)
    for key, field in DecodingConfig.model_fields.items():
        annotation, default = DECODING_OPTIONS[key]
        assert (TYPES[key], default) == (plain_type(field.annotation), None), key
        (option,) = annotation.__metadata__
        unmarked = option.help.replace("[dim]\\[", "[").removesuffix("[/]")
        assert unmarked == " ".join((field.description or "").split()) + shown_notes(key)


@pytest.mark.parametrize("command", ["decode", "eval", "score"])
def test_every_option_comes_through(
    translate: Translate, run: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """As the section's type, and only what was given; values out of bounds are for the section to refuse."""
    seen = []

    def load(path: Path, *, options: dict[str, object], **others: object) -> None:
        seen.append(options)
        raise InputError("seen")

    monkeypatch.setattr("translate.decoding.loading.load_translator", load)
    monkeypatch.setattr("translate.decoding.loading.load_own_translator", load)
    files = {"score": [corpus / "train.de", corpus / "train.en"]}.get(command, [])
    assert GIVEN.keys() == DECODING_OPTIONS.keys()
    for settings in (GIVEN, {}):
        assert translate(command, run, *files, *flags(settings), stdin=b"").stderr == "translate: seen\n"
        assert seen.pop() == settings
    assert DecodingConfig.model_validate(GIVEN, strict=True).model_dump() == GIVEN


def panels(help_text: str) -> dict[str, str]:
    """The text of each panel of a help, without its frame, and with single spaces."""
    found: dict[str, str] = {}
    for line in help_text.splitlines():
        if line.startswith("╭─ "):
            title = line.strip("╭─╮ ")
            found[title] = ""
        elif line.startswith("│"):
            found[title] += f" {line.strip('│')}"
    return {title: " ".join(text.split()) for title, text in found.items()}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", ["decode", "eval", "score"])
def test_help_has_each_setting_in_a_panel(
    translate: Translate, monkeypatch: pytest.MonkeyPatch, command: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = panels(translate(command, "--help").stdout)
    assert [title for title in shown if title not in ("Arguments", "Options", "Constraints", "Documents")] == [
        "Search",
        "Scores",
        "Sampling",
        "Long lines",
        "Output",
        "Speed",
    ]
    settings = " ".join(text for title, text in shown.items() if title not in ("Arguments", "Options"))
    for key in DECODING_OPTIONS:
        assert f"{option(key)} " in settings or (f"{option(key)}, " in settings and f"--no-{key} " in settings)
    for key in ("beam_size", "long", "device"):
        assert shown_notes(key) in settings
    assert "--beam-size N Number of hypotheses" in shown["Search"]
    assert "--seed N Sampling depends on this seed and on the line's number." in shown["Sampling"]
    assert "[default: best]" in shown["Options"]


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in OUT_OF_BOUNDS.items() for value in values], ids=str
)
def test_bounds_are_kept_and_named(translate: Translate, run: Path, key: str, value: object) -> None:
    result = translate("decode", run, option(key), str(value), stdin=b"Hund\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"translate: decoding.{key} = {value}: ")


def test_every_number_has_bounds_here() -> None:
    assert {key for key, kind in TYPES.items() if kind in (int, float)} == OUT_OF_BOUNDS.keys()


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_what_is_no_finite_number_is_refused(translate: Translate, run: Path, value: str) -> None:
    result = translate("decode", run, f"--length-penalty={value}", stdin=b"Hund\n")
    assert result.exit_code == 2 and result.stderr.startswith("translate: decoding.length_penalty = ")


@pytest.mark.parametrize("key", [key for key, kind in TYPES.items() if typing.get_args(kind)])
def test_other_words_than_the_choices_are_wrong_usage(translate: Translate, run: Path, key: str) -> None:
    result = translate("decode", run, option(key), "other", stdin=b"Hund\n")
    assert result.exit_code == 2
    assert (
        f"translate: invalid value for '{option(key)}': 'other'" in result.stderr and " is not one of" in result.stderr
    )


def test_settings_of_the_run_hold_where_no_option_is_given(translate: Translate, run: Path) -> None:
    """The run's own beam size is 2, not the section's 5."""
    result = translate("decode", run, "--n-best", "3", stdin=b"Hund\n")
    assert result.exit_code == 2
    assert "decoding.n_best = 3 is more than decoding.beam_size = 2 hypotheses" in result.stderr
