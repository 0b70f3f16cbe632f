"""`translate score`: given translations under the model, the same numbers as decode's own."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Translate = Callable[..., Result]


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def test_records_and_sums(translate: Translate, learnt: Path, tmp_path: Path) -> None:
    source, target = (learnt.parent / f"new.{language}" for language in ("de", "en"))
    result = translate("score", learnt, source, target)
    assert result.exit_code == 0, result.stderr
    found = records(result.stdout)
    keys = ["line", "source", "target", "tokens", "log_prob", "score", "perplexity", "token_log_probs", "flags"]
    assert all(list(record) == keys for record in found)
    assert [record["line"] for record in found] == list(range(1, 13))
    for column, file in (("source", source), ("target", target)):
        assert [record[column] for record in found] == file.read_text(encoding="utf-8").splitlines()
    for record in found:
        length = len(record["tokens"])
        assert record["tokens"][-1] == "</s>"
        assert len(record["token_log_probs"]) == length and max(record["token_log_probs"]) < 0
        assert record["log_prob"] == pytest.approx(math.fsum(record["token_log_probs"]))
        assert record["perplexity"] == pytest.approx(math.exp(-record["log_prob"] / length))
        assert record["score"] == pytest.approx(record["log_prob"] / ((5 + length) / 6) ** 0.6, rel=1e-5)
    num_tokens = sum(len(record["tokens"]) for record in found)
    nats = math.fsum(record["log_prob"] for record in found)
    perplexity = math.exp(-nats / num_tokens)
    assert result.stderr == f"12 lines, {num_tokens} tokens, {nats:.2f} nats, perplexity {perplexity:.3f}\n"

    output = tmp_path / "scores.jsonl"
    again = translate("score", learnt, source, target, "-o", output, "--look-ahead-lines", "5", "--batch-tokens", "20")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", result.stderr)
    for one, other in zip(found, records(output.read_text(encoding="utf-8")), strict=True):
        assert one | {"log_prob": 0, "score": 0, "perplexity": 0, "token_log_probs": 0} == (
            other | {"log_prob": 0, "score": 0, "perplexity": 0, "token_log_probs": 0}
        )
        assert one["token_log_probs"] == pytest.approx(other["token_log_probs"], abs=1e-4)


@pytest.mark.parametrize("options", [[], ["--beam-size=1"], ["--length-penalty=1", "--length-penalty-kind=average"]])
def test_decodes_own_output_has_decodes_own_score(
    translate: Translate, learnt: Path, tmp_path: Path, options: list[str]
) -> None:
    """Forced decoding by the full forward pass; the search went by its cache."""
    source, output = learnt.parent / "new.de", tmp_path / "out.en"
    searched = records(translate("decode", learnt, source, "--format", "jsonl", *options).stdout)
    output.write_text("".join(f"{record['translation']}\n" for record in searched))
    forced = records(translate("score", learnt, source, output, *options).stdout)
    same = [(one, other) for one, other in zip(searched, forced, strict=True) if one["tokens"] == other["tokens"]]
    assert len(same) >= 10  # what the search spells in another way than the tokenizer has another score
    for one, other in same:
        assert other["log_prob"] == pytest.approx(one["log_prob"], abs=1e-4)
        assert other["score"] == pytest.approx(one["score"], abs=1e-4)
        assert other["token_log_probs"] == pytest.approx(one["token_log_probs"], abs=1e-4)


def test_what_is_right_is_more_probable(translate: Translate, learnt: Path, tmp_path: Path) -> None:
    (tmp_path / "de").write_text("Hund\nHund\n")
    (tmp_path / "en").write_text("dog\nhouse\n")
    right, wrong = records(translate("score", learnt, tmp_path / "de", tmp_path / "en").stdout)
    assert right["log_prob"] > wrong["log_prob"] + 1


def test_empty_lines_and_files(translate: Translate, learnt: Path, tmp_path: Path) -> None:
    """An empty translation is the end symbol alone; nothing has the perplexity 1."""
    source, target = tmp_path / "de", tmp_path / "en"
    source.write_text("Hund\n\n")
    target.write_text("\ndog\n")
    first, second = records(translate("score", learnt, source, target).stdout)
    assert (first["tokens"], len(first["token_log_probs"])) == (["</s>"], 1)
    assert first["perplexity"] == pytest.approx(math.exp(-first["log_prob"]))
    assert second["tokens"] and math.isfinite(second["log_prob"])
    source.write_text("")
    target.write_text("")
    result = translate("score", learnt, source, target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "0 lines, 0 tokens, 0.00 nats, perplexity 1.000\n"


def test_a_side_from_standard_input(translate: Translate, learnt: Path, tmp_path: Path) -> None:
    """Its number of lines is known at its end alone."""
    target = tmp_path / "en"
    target.write_text("dog\nhouse\n")
    result = translate("score", learnt, "-", target, stdin=b"Hund\nHaus\n")
    assert result.exit_code == 0 and [record["source"] for record in records(result.stdout)] == ["Hund", "Haus"]
    for stdin in (b"Hund\n", b"Hund\n" * 3):
        result = translate("score", learnt, "-", target, stdin=stdin)
        assert result.exit_code == 2
        assert f"standard input and {target} have different numbers of lines" in result.stderr


def test_wrong_input(translate: Translate, learnt: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "de", tmp_path / "en"
    source.write_text("Hund und Haus und Hund\ngrün\nHaus und grün Haus und\n")
    target.write_text("dog and house and dog\nhouse and green house\n")
    result = translate("score", learnt, source, target, "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "") and not (tmp_path / "out").exists()
    assert result.stderr == (
        f"translate: {source} has 3 lines and {target} has 2; line N of one must translate line N of the other. Judging"
        " by the lengths of the lines, they diverge near line 2\n"
    )
    result = translate("score", learnt, source, tmp_path / "none")
    assert (result.exit_code, result.stderr) == (2, f"translate: {tmp_path / 'none'}: no such file\n")
    result = translate("score", tmp_path / "none", source, source)
    assert (result.exit_code, result.stderr) == (2, f"translate: {tmp_path / 'none'}: no such run directory\n")
    result = translate("score", learnt, source, source, "--length-penalty", "-1")
    assert result.exit_code == 2 and result.stderr.startswith("translate: decoding.length_penalty = -1.0: ")
