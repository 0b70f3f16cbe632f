"""`translate score`: given translations under the model, with the numbers of decode."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from harness import in_order, succeed
from harness import run_command as translate


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def test_records_and_sums(learnt: Path, tmp_path: Path) -> None:
    source, target = (learnt.parent / f"new.{language}" for language in ("de", "en"))
    result = succeed("score", learnt, source, target)
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
    numbers = ["12 lines", f"{num_tokens} tokens", f"{nats:.2f} nats", f"{math.exp(-nats / num_tokens):.3f}"]
    assert in_order(result.stderr, *numbers)

    output = tmp_path / "scores.jsonl"
    again = translate("score", learnt, source, target, "-o", output)
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", result.stderr)
    assert output.read_text(encoding="utf-8") == result.stdout


def test_two_empty_files(learnt: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    result = translate("score", learnt, tmp_path / "empty", tmp_path / "empty")
    assert (result.exit_code, result.stdout) == (0, "")
    assert in_order(result.stderr, "0 lines", "0 tokens", "0.00 nats", "1.000")


def test_a_side_from_standard_input(learnt: Path, tmp_path: Path) -> None:
    """Its number of lines is known only at its end."""
    target = tmp_path / "en"
    target.write_text("dog\nhouse\n")
    result = succeed("score", learnt, "-", target, stdin=b"Hund\nHaus\n")
    assert [record["source"] for record in records(result.stdout)] == ["Hund", "Haus"]
    for stdin in (b"Hund\n", b"Hund\n" * 3):
        result = translate("score", learnt, "-", target, stdin=stdin)
        assert result.exit_code == 2 and in_order(result.stderr, "standard input", str(target))
