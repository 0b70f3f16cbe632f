"""`translate decode` by other means: what sampling is limited to, CTranslate2."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Translate = Callable[..., Result]
Decode = Callable[..., Result]


@pytest.fixture
def decode(translate: Translate, learnt: Path) -> Decode:
    """Decodes 12 lines, which training has not seen."""

    def run(*arguments: object) -> Result:
        result = translate("decode", learnt, learnt.parent / "new.de", *arguments)
        assert result.exit_code == 0, result.stderr
        return result

    return run


# Sampling


def test_as_many_samples_as_are_asked_for(decode: Decode) -> None:
    lines = decode("--search=sample", "--n-best=7", "--temperature=1.2").stdout.split("\n")[:-1]
    assert [line.split(" ||| ")[0] for line in lines] == [str(number) for number in range(12) for _ in range(7)]


@pytest.mark.parametrize("options", ["--top-k=1", "--temperature=0.001", "--top-p=0.01", "--epsilon=0.9"])
def test_only_the_likeliest_is_greedy(decode: Decode, options: str) -> None:
    """Where no token has a probability of 0.9, --epsilon leaves the most probable one."""
    assert decode("--search=sample", options).stdout == decode("--beam-size=1").stdout


# CTranslate2


def test_ctranslate2_gives_our_lines(decode: Decode) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")
    assert decode("--engine=ctranslate2").stdout == decode().stdout
    assert decode("--engine=ctranslate2", "--beam-size=1").stdout == decode("--beam-size=1").stdout
    n_best = decode("--engine=ctranslate2", "--n-best=2").stdout.splitlines()
    assert [line.split(" ||| ")[0] for line in n_best] == [str(number) for number in range(12) for _ in range(2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prefix", "FILE"], "--prefix is not for --engine ctranslate2; leave one of them out"),
        (["--require", "FILE"], "--require is not for --engine ctranslate2"),
        (["--terminology", "FILE"], "--terminology is not for --engine ctranslate2"),
        (["--forbid", "FILE"], "--forbid is not for --engine ctranslate2"),
        (
            ["--ensemble", "FILE"],
            "the engine ctranslate2 cannot search with ensemble; use the engine auto or translate",
        ),
        (["--search", "sample"], "the engine ctranslate2 cannot search with decoding.search = 'sample'"),
    ],
)
def test_what_ctranslate2_lacks_is_refused(
    translate: Translate, run: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    real = [tmp_path / "file" if argument == "FILE" else argument for argument in arguments]
    result = translate("decode", run, "--engine", "ctranslate2", *real, stdin=b"Hund\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"translate: {message}")
    assert list(tmp_path.iterdir()) == []


def test_ctranslate2_that_is_not_installed(translate: Translate, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    result = translate("decode", run, "--engine", "ctranslate2", stdin=b"Hund\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pip install 'ctranslate2>=" in result.stderr


# Wishes that meet other settings


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_minimum_bayes_risk_chooses_among_those_with_the_phrase(
    translate: Translate, learnt: Path, tmp_path: Path, utility: str
) -> None:
    """Cut at 4 tokens, some hypotheses of the beam have the phrase and some have not."""
    (tmp_path / "required").write_text("dog\n")
    options = ["--mbr", utility, "--beam-size=8", "--max-length-factor=0", "--max-length-constant=4"]
    result = translate("decode", learnt, "--require", tmp_path / "required", *options, stdin="grün\n".encode())
    assert "dog" in result.stdout.split() and "without a required phrase" not in result.stderr


def test_a_line_whose_every_word_is_forbidden_is_named(translate: Translate, learnt: Path, tmp_path: Path) -> None:
    (tmp_path / "prefixes").write_text("\n\ndog runs\n")
    (tmp_path / "forbidden").write_text("dog\n")
    files = ["--prefix", tmp_path / "prefixes", "--forbid", tmp_path / "forbidden"]
    result = translate("decode", learnt, *files, stdin=b"Haus\n\nHund\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("translate: line 3: the model gives no probability to any word: ")
