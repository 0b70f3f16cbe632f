"""Each setting of `decoding` is an option of the commands that use it, with the section's type and default."""

import re
import typing
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from harness import run_command as translate
from harness import succeed

from translate.cli import app
from translate.cli.terminal.options import DECODING_OPTIONS
from translate.config.decoding import DecodingConfig
from translate.errors import InputError

pytestmark = pytest.mark.usefixtures("no_shape_checks")

FLAGS = ("--help", "--help-all")
FIELDS = {key: field for key, field in DecodingConfig.model_fields.items() if key != "forbidden_ids"}  # a list
GIVEN: dict[str, Any] = yaml.safe_load("""
{search: sample, beam_size: 6, patience: 3, n_best: 1, length_penalty: 0.7, length_penalty_kind: average,
max_length_factor: 1.5, max_length_constant: 7, min_length_factor: 0.5, min_length_constant: 2,
split_sentences: never, long: truncate, max_source_tokens: 99, max_target_tokens: 98,
temperature: 0.8, top_k: 11, top_p: 0.9, epsilon: 0.01, seed: 13, mbr: chrf, mbr_candidates: 17, no_repeat_ngram: 3,
keep_placeholders: "off",
repetition_penalty: 1.2, reverse_weight: 0.2, alignment_layer: 0, batch_tokens: 500, look_ahead_lines: 19, engine:
translate, precision: bf16, workers: 1, device: cpu}
""")

OF_A_BEAM = {"patience", "beam_size"}  # refused with --search sample
OF_SAMPLES = {"search", "temperature", "top_k", "top_p", "epsilon", "seed"}
SCORED_BY = {"length_penalty", "length_penalty_kind", "long", "max_source_tokens", "max_target_tokens"}
SCORED_BY |= {"batch_tokens", "look_ahead_lines", "precision", "device"}
UNUSED = {  # settings that mean nothing to a command
    "decode": {"max_target_tokens"},
    "eval": {"max_target_tokens", "reverse_weight"},
    "score": GIVEN.keys() - SCORED_BY,
}


def option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def flags(settings: dict[str, Any]) -> list[str]:
    return [part for key, value in settings.items() for part in (option(key), str(value))]


def plain_type(annotation: Any) -> Any:
    """The type without bounds, help and None."""
    while typing.get_origin(annotation) is not typing.Literal and typing.get_args(annotation):
        annotation = typing.get_args(annotation)[0]
    return annotation


TYPES = {key: plain_type(annotation) for key, annotation in DECODING_OPTIONS.items()}


def test_options_and_section_are_the_same() -> None:
    succeed("decode", "--help")  # the command sorts its options into panels
    assert list(DECODING_OPTIONS) == list(FIELDS)
    for key, field in FIELDS.items():
        assert TYPES[key] == plain_type(field.annotation), key
        (made,) = DECODING_OPTIONS[key].__metadata__
        assert made.rich_help_panel, f"{key} is in no panel of the help"
        assert made.help.startswith(" ".join((field.description or "").split()))
        notes = made.help.rpartition("[dim]")[2]
        assert all(str(choice) in notes for choice in typing.get_args(TYPES[key]))
        default = "null" if field.default is None else str(field.default).lower()
        assert f"default: {default}]" in notes


@pytest.mark.parametrize("command", UNUSED)
def test_every_option_comes_through(run: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """As the section's type, and only what was given; values out of bounds are for the section to refuse."""
    seen = []

    def load(path: Path, *, options: dict[str, object], **others: object) -> None:
        seen.append(options)
        raise InputError("seen")

    monkeypatch.setattr("translate.decoding.loading.load_translator", load)
    monkeypatch.setattr("translate.decoding.loading.load_own_translator", load)
    files = {"score": [corpus / "train.de", corpus / "train.en"], "decode": ["--reverse", run]}.get(command, [])
    assert GIVEN.keys() == DECODING_OPTIONS.keys()
    for left_out in (OF_A_BEAM, OF_SAMPLES, GIVEN.keys()):
        settings = {key: value for key, value in GIVEN.items() if key not in UNUSED[command] | left_out}
        assert translate(command, run, *files, *flags(settings), stdin=b"").stderr == "translate: seen\n"
        assert seen.pop() == settings
    for key in UNUSED[command]:
        (wrong, *_) = given = flags({key: GIVEN[key]})
        assert f"no such option: {wrong}" in translate(command, run, *files, *given).stderr
    assert DecodingConfig.model_validate(GIVEN, strict=True).model_dump(exclude={"forbidden_ids"}) == GIVEN


@pytest.mark.parametrize("command", ["decode", "eval", "serve", "score", "distill", "backtranslate"])
def test_help_shows_the_common_options_and_help_all_shows_all(command: str) -> None:
    made: Any = typer.main.get_command(app).get_command(None, command)  # type: ignore[attr-defined]
    known = {parameter.name for parameter in made.params}
    assert made.callback.common_options and known >= {*made.callback.common_options}
    options = {
        name
        for parameter in made.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    }
    short, whole = (set(re.findall(r"^│ [* ]*(--[\w-]+)", translate(command, flag).stdout, re.M)) for flag in FLAGS)
    assert whole == options | {"--help", "--help-all"}
    assert whole > short >= {"--help", "--help-all"} if command != "score" else whole == short
    assert 10 <= len(short) <= 18
