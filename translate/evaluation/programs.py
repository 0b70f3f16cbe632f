"""Scores by other programs, such as neural metrics: any command that reads text files and prints numbers.

The program can keep its dependencies in its own environment. The last number of each line that it prints counts. If it
prints one number per translation, these are the scores of the lines, and their mean is the overall score. If it prints
one number more, the last one is the overall score. Otherwise only the last number is used, as the overall score.
"""

import functools
import importlib.metadata
import logging
import math
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from translate.atomic import temporary_folder, write_text
from translate.bars import show_progress
from translate.children import run_program
from translate.config.schema import EvaluationConfig
from translate.data.text import in_one_line
from translate.errors import InputError, RunError
from translate.evaluation.metrics import LineScores, find_score, score_corpus
from translate.runs.report import Metric

logger = logging.getLogger(__name__)

_FIELDS = ("source", "hypothesis", "reference")
_NUMBER = re.compile(
    r"(?<![\w.-])(?:\d+(?:,\d+)+|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf))(?!\.?\w)", re.IGNORECASE
)


class ProgramScores(NamedTuple):
    """The scores that a program gives to translations."""

    score: float  # of all
    of_lines: list[float]  # empty: the program does not score lines


class MetricProgram(NamedTuple):
    """A program that scores translations."""

    name: str  # of the score
    command: tuple[str, ...]  # with {source}, {hypothesis} and {reference} for the paths of files

    @classmethod
    def parse_all(
        cls, texts: Sequence[str] | None, config: EvaluationConfig, *, has_sources: bool = True, num_references: int = 1
    ) -> list["MetricProgram"]:
        """Read the values of `--metric`, which may need the sources and one reference; see `parse`."""
        programs = [cls.parse(text, config.programs) for text in texts or ()]
        names = [program.name for program in programs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"--metric: {twice[0]} names two programs; choose another name")
        words = " ".join(word for program in programs for word in program.command)
        if not has_sources and "{source}" in words:
            raise InputError("--metric: the program reads {source}: name the text with --source F")
        if num_references > 1 and "{reference}" in words:
            raise InputError("--metric: the program reads {reference}, one file: give one --reference")
        return programs

    @classmethod
    def parse(cls, text: str, named: Mapping[str, str]) -> "MetricProgram":
        """Read `NAME=COMMAND`, as `--metric` takes it, or the name of a program in the config.

        Raises:
            InputError: It is something else, a field is unknown, or the program is not there.
        """
        name, equals, command = text.partition("=")
        where, known = f"--metric {text}", ", ".join(f"{{{field}}}" for field in _FIELDS)
        if not equals and name in named:
            command = named[name]
        elif not equals or not re.fullmatch(r"[\w.+-]+", name):
            programs = f", or one of evaluation.programs: {', '.join(named)}" if named else ""
            raise InputError(f"{where}: should be NAME=COMMAND, such as comet='comet-score -s {{source}} …'{programs}")
        if find_score(name):
            raise InputError(f"{where}: {name} is a score of sacreBLEU; choose another name")
        try:
            words = tuple(map(os.path.expanduser, shlex.split(command)))
        except ValueError as error:
            raise InputError(f"{where}: is not a command: {error}") from error
        fields = set(re.findall(r"\{(\w*)\}", command))
        if "hypothesis" not in fields or not fields <= set(_FIELDS):
            raise InputError(f"{where}: needs {{hypothesis}}, and of other names in braces there are only {known}")
        if shutil.which(words[0]) is None:
            raise InputError(f"{where}: {words[0]} is not an installed program; install it, or give its path")
        return cls(name, words)

    def run(self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]) -> ProgramScores:
        """Score translations.

        Raises:
            RunError: The program fails, or prints no number.
        """
        who = f"--metric {self.name}"
        try:
            with temporary_folder() as folder, show_progress(f"Scoring with {self.name}"):
                files = {field: folder / f"{field}.txt" for field in _FIELDS}
                for file, lines in zip(files.values(), (sources, hypotheses, references), strict=True):
                    write_text(file, "".join(f"{in_one_line(line)}\n" for line in lines))
                command = [re.sub(r"\{(\w+)\}", lambda field: str(files[field[1]]), word) for word in self.command]
                output = run_program(command).decode(errors="replace")
        except RunError as error:
            raise RunError(f"{who}: {error}") from error
        lines = [line for line in output.splitlines() if _NUMBER.search(line)]
        if not lines:
            raise RunError(f"{who}: {command[0]} printed no number, but: {output[:200]!r}")
        last_numbers = (_NUMBER.findall(line)[-1] for line in lines)
        numbers = [math.nan if "," in number else float(number) for number in last_numbers]  # 0,85 may be two columns
        scores = ProgramScores(numbers[-1], numbers[:-1] if len(numbers) == len(hypotheses) + 1 else [])
        if len(numbers) == len(hypotheses) > 1:
            scores = ProgramScores(float(np.mean(numbers)), numbers)
        if not np.isfinite([scores.score, *scores.of_lines]).all():
            unreadable = [line for line, number in zip(lines, numbers, strict=True) if not math.isfinite(number)]
            raise RunError(f"{who}: {command[0]} printed {unreadable[-1]!r}, which should end with a number like 0.85")
        return scores

    @property
    def signature(self) -> str:
        """The command, and the package and version that the program belongs to, if it is Python's."""
        program, *arguments = self.command
        return f"{shlex.join([Path(program).name, *arguments])}|{find_version(self.command) or 'version:unknown'}"


@functools.cache  # reads the metadata of many packages, and `eval` asks for each test set
def find_version(command: tuple[str, ...]) -> str | None:
    """The Python package that installed a program, such as `unbabel-comet:2.2.7`, from the packages next to it."""
    program, module = Path(shutil.which(command[0]) or command[0]), re.search(r" -m (\w+)", " ".join(command))
    name = module[1] if module else program.stem
    folders = (path.parent.parent.glob("lib*/python*/*-packages") for path in (program, program.resolve()))
    for package in importlib.metadata.distributions(path=[*map(str, chain.from_iterable(folders))]):
        if name == package.name or package.entry_points.select(group="console_scripts", name=name):
            return f"{package.name}:{package.version}"
    return None


def run_programs(
    programs: Sequence[MetricProgram],
    systems: Sequence[Sequence[str]],
    *,
    sources: Sequence[str],
    references: Sequence[str],
) -> dict[MetricProgram, list[ProgramScores]]:
    """Each system's scores by each program. A program that fails is left out, and the log says why."""
    found = {}
    for program in programs:
        try:
            found[program] = [program.run(sources, translations, references) for translations in systems]
        except RunError as error:
            logger.error(error)
    return found


def score_with(
    programs: Sequence[MetricProgram],
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    config: EvaluationConfig,
) -> list[Metric]:
    """The scores of all programs that do not fail; see `run_programs`."""
    metrics, samples = list[Metric](), config.bootstrap_samples
    found = run_programs(programs, [hypotheses], sources=sources, references=references)
    for program, [(score, of_lines)] in found.items():
        mean = score_corpus(program.name, LineScores(program.name), of_lines, (), samples) if of_lines else None
        metrics.append(Metric(program.name, score, mean and mean.interval, program.signature))
    return metrics
