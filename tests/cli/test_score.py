"""`translate score`: given translations under the model, with the numbers of decode."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from harness import in_order
from harness import run_command as translate


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def test_records_and_sums(learnt: Path, tmp_path: Path) -> None:
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
    numbers = ["12 lines", f"{num_tokens} tokens", f"{nats:.2f} nats", f"{math.exp(-nats / num_tokens):.3f}"]
    assert in_order(result.stderr, *numbers)

    output = tmp_path / "scores.jsonl"
    again = translate("score", learnt, source, target, "-o", output, "--look-ahead-lines", "5", "--batch-tokens", "20")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", result.stderr)
    rounded = dict.fromkeys(["log_prob", "score", "perplexity", "token_log_probs"], 0)
    for one, other in zip(found, records(output.read_text(encoding="utf-8")), strict=True):
        assert one | rounded == other | rounded
        assert one["token_log_probs"] == pytest.approx(other["token_log_probs"], abs=1e-4)


@pytest.mark.parametrize("options", [[], ["--length-penalty=1", "--length-penalty-kind=average"]])
def test_the_output_of_decode_has_the_scores_of_decode(learnt: Path, tmp_path: Path, options: list[str]) -> None:
    """Forced decoding by the full forward pass; the search used its cache."""
    source, output = learnt.parent / "new.de", tmp_path / "out.en"
    searched = records(translate("decode", learnt, source, "--format", "jsonl", *options).stdout)
    output.write_text("".join(f"{record['translation']}\n" for record in searched))
    forced = records(translate("score", learnt, source, output, *options).stdout)
    same = [(one, other) for one, other in zip(searched, forced, strict=True) if one["tokens"] == other["tokens"]]
    assert len(same) >= 10  # what the search spells differently from the tokenizer has another score
    for one, other in same:
        for key in ("log_prob", "score", "token_log_probs"):
            assert other[key] == pytest.approx(one[key], abs=1e-4)


def test_right_wrong_and_empty_translations(learnt: Path, tmp_path: Path) -> None:
    """An empty translation is the end symbol alone."""
    source, target = tmp_path / "de", tmp_path / "en"
    source.write_text("Hund\nHund\nHund\n\n")
    target.write_text("dog\nhouse\n\ndog\n")
    right, wrong, empty, of_nothing = records(translate("score", learnt, source, target).stdout)
    assert right["log_prob"] > wrong["log_prob"] + 1
    assert (empty["tokens"], len(empty["token_log_probs"])) == (["</s>"], 1)
    assert empty["perplexity"] == pytest.approx(math.exp(-empty["log_prob"]))
    assert of_nothing["tokens"] and math.isfinite(of_nothing["log_prob"])
    source.write_text("")
    target.write_text("")
    result = translate("score", learnt, source, target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert in_order(result.stderr, "0 lines", "0 tokens", "0.00 nats", "1.000")


def test_a_side_from_standard_input(learnt: Path, tmp_path: Path) -> None:
    """Its number of lines is known only at its end."""
    target = tmp_path / "en"
    target.write_text("dog\nhouse\n")
    result = translate("score", learnt, "-", target, stdin=b"Hund\nHaus\n")
    assert result.exit_code == 0 and [record["source"] for record in records(result.stdout)] == ["Hund", "Haus"]
    for stdin in (b"Hund\n", b"Hund\n" * 3):
        result = translate("score", learnt, "-", target, stdin=stdin)
        assert result.exit_code == 2 and in_order(result.stderr, "standard input", str(target))
