"""`translate tokenizer`: train, encode and decode."""

from pathlib import Path

import pytest
from harness import run_command as translate
from harness import succeed

from translate.data.tokenizer import read_tokenizer


@pytest.fixture(scope="module")
def model(corpus: Path) -> Path:
    path = corpus / "joint.model"
    arguments = [corpus / "train.de", corpus / "train.en", "--output", path, "--vocab-size", "330"]
    result = translate("tokenizer", "train", *arguments)
    assert (result.exit_code, result.stderr) == (0, f"{path}: 330 subwords learnt from 10 lines\n"), result.output
    return path


@pytest.mark.parametrize("options", [[], ["--ids"]])
def test_encode_and_decode(model: Path, corpus: Path, options: list[str]) -> None:
    text = (corpus / "train.de").read_bytes() + "\nEin 🦄 größer\n".encode()
    encoded = succeed("tokenizer", "encode", model, *options, stdin=text)
    tokenizer = read_tokenizer(model)
    for line, tokens in zip(text.decode().split("\n"), encoded.stdout.split("\n"), strict=True):
        ids = tokenizer.encode(line)
        assert tokens == " ".join(map(str, ids) if options else tokenizer.pieces(ids))
    decoded = translate("tokenizer", "decode", model, stdin=encoded.stdout_bytes)
    assert (decoded.exit_code, decoded.stdout_bytes) == (0, text)
    from_file = translate("tokenizer", "encode", model, corpus / "train.de", *options)
    assert encoded.stdout_bytes.startswith(from_file.stdout_bytes)


def test_decode_keeps_white_space_that_is_a_subword(tmp_path: Path) -> None:
    """Without normalisation a no-break space and a tab are characters like others, and `encode` prints them."""
    text = "ein\u00a0Hund und\teine Katze\n"
    (tmp_path / "text").write_text(20 * text, encoding="utf-8")
    arguments = [tmp_path / "text", "-o", tmp_path / "x.model", "--vocab-size", "290", "--normalization", "identity"]
    succeed("tokenizer", "train", *arguments)
    encoded = translate("tokenizer", "encode", tmp_path / "x.model", stdin=text.encode())
    decoded = translate("tokenizer", "decode", tmp_path / "x.model", stdin=encoded.stdout_bytes)
    assert decoded.stdout == text


@pytest.mark.parametrize("text, token", [("▁ quark", "quark"), ("5 330", "330"), ("5 ▁Ein", "5")])
def test_an_unknown_subword(model: Path, text: str, token: str) -> None:
    result = translate("tokenizer", "decode", model, stdin=f"{text}\n".encode())
    assert result.exit_code == 2
    assert result.stderr == f"translate: {model}: '{token}' is not in its vocabulary of 330 subwords\n"
