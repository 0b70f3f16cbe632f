"""What does not fit in the free memory is refused with its numbers before it is allocated, by every command."""

from pathlib import Path

import pytest
from harness import run_command

from translate.model import device

CALLS = [
    "train tiny.yaml --run new",
    "train RUN --resume training.max_steps=9",
    "decode RUN one.de",
    "decode RUN one.de --ensemble RUN",
    "eval RUN",
    "tune-decode RUN",
    "serve RUN",
    "export RUN new --to onnx",
    "show attention RUN Hund",
    "verify RUN",
]


@pytest.mark.parametrize("call", CALLS)
def test_a_model_that_does_not_fit(
    call: str, corpus: Path, copied: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(device, "free_memory", lambda: 1000)
    names = {"RUN": str(copied), "tiny.yaml": str(corpus / "tiny.yaml"), "one.de": str(corpus / "one.de")}
    result = run_command(*(names.get(word, word) for word in call.split()))
    assert result.exit_code == 1 and "of memory, and 0 MiB are free. " in result.stderr, result.output
    assert not (tmp_path / "new").exists()


def test_check_reports_it_with_everything_else(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "free_memory", lambda: 1000)
    result = run_command("check", str(corpus / "tiny.yaml"), "model.d_model=64")  # mostly weights
    assert result.exit_code == 1 and "Not ready: fix" in result.stdout
    assert "the numbers of layers or tokenizer.vocab_size" in " ".join(result.stdout.split())
