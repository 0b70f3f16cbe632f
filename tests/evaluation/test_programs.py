"""Scores by other programs: what is read from their output, versions, intervals, and what is refused."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from translate.config.schema import EvaluationConfig
from translate.errors import InputError, RunError
from translate.evaluation.compare import compare
from translate.evaluation.programs import MetricProgram, ProgramScores, score_with

SOURCES, REFERENCES = ["ein Hund", "zwei", "drei Hunde"], ["a dog", "two", "three dogs"]
HYPOTHESES = ["a dog", "two", "three cats"]
JIWER = Path(sys.executable).parent / "jiwer"  # a word error rate: a program of PyPI


def python(code: str) -> MetricProgram:
    """A program that runs this code with the paths of its files as arguments."""
    command = f"{shlex.join([sys.executable, '-c', code])} {{source}} {{hypothesis}} {{reference}}"
    return MetricProgram.parse(f"mine={command}", {})


def run(code: str) -> ProgramScores:
    return python(code).run(SOURCES, HYPOTHESES, REFERENCES)


def test_a_real_program() -> None:
    """One of PyPI; its number is computed by hand, and its package and version are beside it."""
    program = MetricProgram.parse(f"WER={JIWER} -r {{reference}} -h {{hypothesis}}", {})
    [found] = score_with([program], SOURCES, HYPOTHESES, REFERENCES, EvaluationConfig())
    assert (found.name, found.score, found.interval) == ("WER", pytest.approx(1 / 5), None)
    assert found.signature.startswith("jiwer -r '{reference}' -h '{hypothesis}'|jiwer:4")


@pytest.mark.parametrize(
    ("output", "score", "of_lines"),
    [
        ("0.5", 0.5, []),
        ("hyp.txt\tscore: 0.8352", 0.8352, []),  # comet-score --only_system
        ("a\tSegment 0\tscore: 1\na\tSegment 1\tscore: 2\na\tSegment 2\tscore: 6\na\tscore: 4", 4.0, [1.0, 2.0, 6.0]),
        ("1\n2\n6", 3.0, [1.0, 2.0, 6.0]),
        ("loading\n\n-1e-3", -0.001, []),
        ("1\n2", 2.0, []),
        ("Scored 1,000 lines.\nmodel-22 in 3s: F1=0.5.", 0.5, []),
        ("0,0.85", 0.85, []),  # a table with numbered lines
    ],
)
def test_the_numbers_that_a_program_prints(output: str, score: float, of_lines: list[float]) -> None:
    assert run(f"print({output!r})") == (pytest.approx(score), of_lines)


def test_the_files_that_a_program_reads() -> None:
    code = "import sys; print(*(open(name).read().count(chr(10)) for name in sys.argv[1:])); print(len(sys.argv))"
    assert run(code).score == 4.0


@pytest.mark.parametrize("broken", ["a\ndog", "a\rdog", "a\u2028dog"])
def test_a_line_break_in_a_text_does_not_shift_the_lines(broken: str) -> None:
    """A cell of a table may have one, and a program that pairs lines would compare others."""
    code = "a, b, c = (open(name).read().splitlines() for name in sys.argv[1:])"
    program = python(f"import sys; {code}; print(*(int(x == y == z) for x, y, z in zip(a, b, c)), sep=chr(10))")
    lines = [broken, "two", "three"]
    assert program.run(lines, ["a dog", "two", "four"], lines) == (pytest.approx(2 / 3), [1.0, 1.0, 0.0])


def test_intervals_and_tests_need_scores_of_lines() -> None:
    """They are sacreBLEU's, of the mean: the program gives each line its length."""
    program = python("import sys; print(*(len(line) for line in open(sys.argv[2])), sep=chr(10))")
    lengths = [len(line) + 1 for line in HYPOTHESES]
    [found] = score_with([program], SOURCES, HYPOTHESES, REFERENCES, EvaluationConfig())
    assert found.score == pytest.approx(np.mean(lengths)) and found.interval is not None
    assert found.interval.low < found.score < found.interval.high
    systems = {
        "short": HYPOTHESES * 40,
        "long": [f"{line} and more" for line in HYPOTHESES] * 40,
        "none": HYPOTHESES * 40,
    }
    config = EvaluationConfig(bootstrap_samples=100)
    compared = compare(systems, SOURCES * 40, REFERENCES * 40, config, programs=[program])
    first, longer, same = compared.metrics["mine"]
    assert first.value == pytest.approx(np.mean(lengths)) and longer.difference == pytest.approx(len(" and more"))
    assert longer.bootstrap_p is not None and longer.bootstrap_p < 0.05 and longer.randomization_p < 0.05
    assert same.difference == 0 and same.randomization_p == 1.0
    assert compared.signatures["mine"].endswith("version:unknown") and "BLEU" in compared.metrics


def test_without_scores_of_lines_there_is_no_test() -> None:
    systems = {"one": HYPOTHESES, "other": REFERENCES}
    program = python("print(0.5)")
    compared = compare(systems, SOURCES, REFERENCES, EvaluationConfig(bootstrap_samples=10), programs=[program])
    assert [score.bootstrap_p for score in compared.metrics["mine"]] == [None, None]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('no model')", "mine: .* failed with exit code 1: no model"),
        ("import os; os.abort()", "mine: .* was ended by a signal .Abort"),
        ("print('nothing')", "mine: .* printed no number, but: 'nothing"),
        ("print('score: 0,85')", "printed 'score: 0,85', which should end with a number like 0.85"),
        ("print('1\\nnan\\n3')", "printed 'nan'"),
        ("import sys; sys.stdout.buffer.write(bytes(range(128, 256)))", "printed no number"),
    ],
)
def test_a_program_that_fails(code: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        run(code)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("comet", "should be NAME=COMMAND"),
        ("BLEU=cat {hypothesis}", "BLEU is a score of sacreBLEU"),
        ("a=cat {hyp}", "needs {hypothesis}, .* {source}, {hypothesis}, {reference}"),
        ("a=cat {reference}", "needs {hypothesis}"),
        ("a=no-such-program {hypothesis}", "no-such-program is not an installed program"),
        ("a=cat '{hypothesis}", "is not a command"),
        ("a=cat {hypothesis};a=wc {hypothesis}", "a names two programs"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("{", r"\{")):
        MetricProgram.parse_all(text.split(";"), EvaluationConfig())
